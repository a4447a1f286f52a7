//! Sans-IO interposition of one client connection and its server connection.

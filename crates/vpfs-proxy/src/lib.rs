//! The tokio data plane: listeners, sessions, gates.

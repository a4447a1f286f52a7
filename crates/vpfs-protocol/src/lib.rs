//! The protocols of storage, without I/O.
//!
//! [`wire`] has the codecs, [`session`] interposes one client connection and the server connection behind it.
#![forbid(unsafe_code)]

pub mod session;
pub mod wire;

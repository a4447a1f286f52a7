//! Codecs: BMI framing and OrangeFS messages, and views of RPC and NFS; bytes in and bytes out.
//!
//! Nothing here does I/O, and nothing panics on bytes from outside: a decoder answers with a value or a
//! [`DecodeError`], which distinguishes *incomplete* (read more) from *malformed* (close the connection).
//!
//! Two levels, for two users:
//! - [`pvfs2::RequestView`] and [`pvfs2::ReplyHead`] borrow and decode only what gating needs; a proxy forwards the
//!   original bytes.
//! - [`pvfs2::Request`] and [`pvfs2::Reply`] own every field, for servers and clients that speak the protocol.
//!
//! NFS has views only: [`nfs`].
//!
//! The protocol (OrangeFS 2.10, protocol version 7000, BMI over TCP) is described in docs/protocols/orangefs.md.

pub mod bmi;
mod error;
pub mod nfs;
pub mod pvfs2;

pub use error::DecodeError;

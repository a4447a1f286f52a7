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
pub mod nfs;
pub mod pvfs2;

use pvfs2::Op;

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum DecodeError {
    /// The bytes are valid so far, but more are needed. Only framing returns this: once the header is read, the length
    /// of the payload is known.
    #[error("incomplete, at least {needed} more bytes follow")]
    Incomplete { needed: usize },
    /// The bytes break the protocol, and more bytes would not help.
    #[error("malformed at byte {offset}: {what}")]
    Malformed { offset: usize, what: &'static str },
    /// A known operation whose body layout is not documented; its bytes can be forwarded but not decoded.
    #[error("the body of {0} has no known layout")]
    UnknownBody(Op),
}

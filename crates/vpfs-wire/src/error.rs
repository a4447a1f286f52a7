//! Why bytes could not be decoded.

use crate::pvfs2::Op;

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

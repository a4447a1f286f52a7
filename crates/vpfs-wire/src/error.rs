//! Why bytes could not be decoded.

use crate::pvfs2::Op;

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// What is there is fine so far; only framing says this, as a message's length is known before its payload.
    #[error("incomplete, at least {needed} more bytes follow")]
    Incomplete {
        /// Bytes that are missing at least.
        needed: usize,
    },
    /// The bytes break the protocol, and more bytes would not help.
    #[error("malformed at byte {offset}: {what}")]
    Malformed {
        /// Offset of the offending field from the start of the decoded bytes.
        offset: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A known operation whose body nobody has described; its bytes can be forwarded but not decoded.
    #[error("the body of {0} has no known layout")]
    UnknownBody(Op),
}

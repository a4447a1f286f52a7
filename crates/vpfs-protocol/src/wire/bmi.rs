//! BMI over TCP: the 24-byte header in front of every message (docs/protocols/orangefs.md, transport).
//!
//! A connection carries whole messages one after another: header, payload, next header. Requests are unexpected
//! messages; everything else is eager or rendezvous, by size alone.

use std::fmt;

use crate::wire::DecodeError;

/// Bytes in a header.
pub const LEN: usize = 24;
/// The largest payload of an unexpected message (a request) and of an eager message, in bytes.
pub const MAX_UNEXPECTED: u64 = 16384;
/// The largest payload of any message, in bytes.
pub const MAX_MESSAGE: u64 = 16 << 20;

const MAGIC: u32 = 51903;

/// Whether the receiver expects the message, and how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A request; the receiver has not posted a receive for it.
    Unexpected = 2,
    /// A reply or data of at most [`MAX_UNEXPECTED`] bytes.
    Eager = 4,
    /// A larger reply or data message; a receiver without a posted receive stops reading the connection.
    Rendezvous = 8,
}

impl Mode {
    /// The mode of a reply or data message with `size` payload bytes.
    pub const fn for_reply(size: u64) -> Self {
        if size > MAX_UNEXPECTED { Self::Rendezvous } else { Self::Eager }
    }

    /// Payload bytes that a message of this mode may carry.
    pub const fn limit(self) -> u64 {
        match self {
            Self::Unexpected | Self::Eager => MAX_UNEXPECTED,
            Self::Rendezvous => MAX_MESSAGE,
        }
    }
}

/// The number that ties a request to its replies and data; unique per client connection and attempt.
///
/// Kept as the raw 64 bits so that it can be sent back unchanged; peers put a sign-extended `i32` there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

impl From<i32> for Tag {
    fn from(tag: i32) -> Self {
        Self(i64::from(tag).cast_unsigned())
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A payload too large for any message of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a payload of {size} bytes exceeds the limit of {limit}")]
pub struct TooLong {
    /// Size of the payload in bytes.
    pub size: u64,
    /// Largest payload of this kind of message, in bytes.
    pub limit: u64,
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Request, eager or rendezvous.
    pub mode: Mode,
    /// The operation this belongs to.
    pub tag: Tag,
    /// Payload bytes that follow.
    pub size: u64,
}

impl Header {
    /// Bytes in a header, same as [`LEN`].
    pub const LEN: usize = LEN;

    /// The header of a request with `size` payload bytes.
    pub const fn request(tag: Tag, size: u64) -> Result<Self, TooLong> {
        Self::checked(Mode::Unexpected, tag, size)
    }

    /// The header of a reply or data message with `size` payload bytes.
    pub const fn reply(tag: Tag, size: u64) -> Result<Self, TooLong> {
        Self::checked(Mode::for_reply(size), tag, size)
    }

    const fn checked(mode: Mode, tag: Tag, size: u64) -> Result<Self, TooLong> {
        let limit = mode.limit();
        if size > limit { Err(TooLong { size, limit }) } else { Ok(Self { mode, tag, size }) }
    }

    /// Decodes the header at the start of `bytes`; what follows it is ignored.
    ///
    /// Returns *incomplete* for fewer than 24 bytes, unless the first four already show that this is not BMI. Returns
    /// *malformed* for a wrong magic number, the immediate mode (never used over TCP), and a size beyond the mode's
    /// limit.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if let Some(magic) = bytes.first_chunk()
            && u32::from_le_bytes(*magic) != MAGIC
        {
            return Err(malformed(0, "not a BMI message (wrong magic)"));
        }
        let Some(bytes) = bytes.first_chunk::<LEN>() else {
            return Err(DecodeError::Incomplete { needed: LEN - bytes.len() });
        };
        let [_, _, _, _, m0, m1, m2, m3, t0, t1, t2, t3, t4, t5, t6, t7, s0, s1, s2, s3, s4, s5, s6, s7] = *bytes;
        let mode = match u32::from_le_bytes([m0, m1, m2, m3]) {
            2 => Mode::Unexpected,
            4 => Mode::Eager,
            8 => Mode::Rendezvous,
            _ => return Err(malformed(4, "unknown BMI mode")),
        };
        let tag = Tag(u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]));
        let size = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        Self::checked(mode, tag, size).map_err(|_| {
            malformed(
                16,
                match mode {
                    Mode::Unexpected => "a request of more than 16384 bytes",
                    Mode::Eager => "an eager message of more than 16384 bytes",
                    Mode::Rendezvous => "a message of more than 16 MiB",
                },
            )
        })
    }

    /// The 24 bytes of this header.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.mode as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.tag.0.to_le_bytes());
        bytes[16..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }
}

fn malformed(offset: usize, what: &'static str) -> DecodeError {
    DecodeError::Malformed { offset, what }
}

/// A complete request message: header and payload.
pub fn request_message(tag: Tag, payload: &[u8]) -> Result<Vec<u8>, TooLong> {
    Ok(message(Header::request(tag, payload.len() as u64)?, payload))
}

/// A complete reply or data message: header and payload. The mode follows from the payload's size.
pub fn reply_message(tag: Tag, payload: &[u8]) -> Result<Vec<u8>, TooLong> {
    Ok(message(Header::reply(tag, payload.len() as u64)?, payload))
}

fn message(header: Header, payload: &[u8]) -> Vec<u8> {
    assert_eq!(header.size, payload.len() as u64, "a header announces its own payload");
    let mut bytes = Vec::with_capacity(LEN + payload.len());
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: Header = Header { mode: Mode::Eager, tag: Tag(12), size: 24 };

    #[test]
    fn every_strict_prefix_is_incomplete() {
        let bytes = HEADER.encode();
        for len in 0..LEN {
            assert_eq!(Header::decode(&bytes[..len]), Err(DecodeError::Incomplete { needed: LEN - len }));
        }
        assert_eq!(Header::decode(&bytes), Ok(HEADER));
    }

    #[test]
    fn limits() {
        let tag = Tag::from(-1);
        assert_eq!(tag, Tag(u64::MAX));
        assert!(Header::request(tag, 16384).is_ok());
        assert_eq!(Header::request(tag, 16385), Err(TooLong { size: 16385, limit: 16384 }));
        assert_eq!(Header::reply(tag, 16384).unwrap().mode, Mode::Eager);
        assert_eq!(Header::reply(tag, 16385).unwrap().mode, Mode::Rendezvous);
        assert!(Header::reply(tag, MAX_MESSAGE).is_ok());
        assert!(Header::reply(tag, MAX_MESSAGE + 1).is_err());
        for mode in [Mode::Unexpected, Mode::Eager, Mode::Rendezvous] {
            let over = Header { mode, tag, size: mode.limit() + 1 }.encode();
            assert!(matches!(Header::decode(&over), Err(DecodeError::Malformed { offset: 16, .. })));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Header::decode(&bytes);
        }

        #[test]
        fn decode_inverts_encode(tag: u64, size in 0..=MAX_MESSAGE) {
            let header = Header::reply(Tag(tag), size).unwrap();
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }

        #[test]
        fn a_flipped_mode_or_magic_is_malformed(at in 0usize..8, bit in 0u8..8) {
            let mut bytes = HEADER.encode();
            bytes[at] ^= 1 << bit;
            let is_malformed = matches!(Header::decode(&bytes), Err(DecodeError::Malformed { .. }));
            prop_assert!(is_malformed);
        }
    }
}

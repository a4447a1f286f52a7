//! The format of frames between processes: version 4 of `docs/protocols/peers.md`.
//!
//! A frame is the length of the rest (4 bytes), its kind (1 byte) and its body. All numbers are big-endian. Lengths are
//! checked before anything is allocated, and bytes from outside never panic.

mod fields;
mod hello;
mod message;
mod pace;

use thiserror::Error;
use vpfs_core::Time;
use vpfs_node::PeerMessage;

use fields::{Fields, put_u16, put_u64};

pub use hello::{Hello, NAME_LEN, SERVERS};

/// The version of this format. Processes with different versions do not talk to each other.
pub const VERSION: u16 = 4;

/// Bytes in front of a frame's body: length and kind.
pub const HEADER_LEN: usize = 5;

/// The longest kind and body: a [`Hello`] with [`SERVERS`] long names. The largest report has half of that.
pub const FRAME_LEN: usize = 72 << 10;

/// What one process sends to another.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Frame {
    /// Who the sender is; the first frame in each direction, and only that.
    Hello(Hello),
    /// A message of one server's node to another's; two kinds of frame.
    Report(Report),
    /// Asks for the receiver's time; the answer repeats the sender's.
    Ping { sent: Time },
    /// The answer to [`Frame::Ping`]: the time in the question, and when it arrived and was answered, by the clock of
    /// the process that answers.
    Pong { sent: Time, received: Time, answered: Time },
    /// The sender's configuration lacks a server that the receiver speaks for; the last frame.
    Unlisted,
}

/// A node's message with its sender and receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The index of the sending server in the sender's [`Hello::servers`].
    pub from: u16,
    /// The index of the receiving server in the receiver's [`Hello::servers`].
    pub to: u16,
    /// What it says.
    pub message: PeerMessage,
}

/// Why bytes are not a frame. The connection cannot be used any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// A frame that is longer than any frame may be, or has no kind.
    #[error("frame of {0} bytes, the limit is {FRAME_LEN}")]
    Length(u32),
    /// A kind that this version does not have.
    #[error("frame of the unknown kind {0}")]
    Kind(u8),
    /// The sender does not speak this protocol at all.
    #[error("the first bytes are not those of a vpfs peer")]
    Magic,
    /// The sender speaks another version.
    #[error("version {0} of the protocol, this process has {VERSION}: run the same version of vpfs on all servers")]
    Version(u16),
    /// A body that ends early or late.
    #[error("a body does not have the length that its content requires")]
    BodyLength,
    /// A value that is not allowed.
    #[error("{0}")]
    Value(&'static str),
}

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const REPORT: u8 = 2;
    pub(super) const PING: u8 = 3;
    pub(super) const PONG: u8 = 4;
    pub(super) const UNLISTED: u8 = 5;
    pub(super) const PACE: u8 = 6;
}

impl Frame {
    /// Appends the frame to `out`. O(its length).
    ///
    /// # Panics
    /// If the frame is longer than [`FRAME_LEN`]. No [`Hello`] is, and no message of a coordinator.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match self {
            Self::Hello(hello) => {
                out.push(kind::HELLO);
                hello.encode(out);
            }
            Self::Report(Report { from, to, message }) => {
                out.push(if matches!(message, PeerMessage::Service(_)) { kind::REPORT } else { kind::PACE });
                put_u16(out, *from);
                put_u16(out, *to);
                match message {
                    PeerMessage::Service(message) => message::encode(message, out),
                    PeerMessage::Pace(message) => pace::encode(message, out),
                }
            }
            Self::Ping { sent } => {
                out.push(kind::PING);
                put_u64(out, sent.as_nanos());
            }
            Self::Pong { sent, received, answered } => {
                out.push(kind::PONG);
                [sent, received, answered].into_iter().for_each(|time| put_u64(out, time.as_nanos()));
            }
            Self::Unlisted => out.push(kind::UNLISTED),
        }
        let length = out.len() - start - 4;
        assert!(length <= FRAME_LEN, "a frame of {length} bytes");
        let length = u32::try_from(length).expect("at most FRAME_LEN");
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// The first frame of `bytes` and its length, or `None` if it has not arrived completely. O(its length).
    ///
    /// # Errors
    /// If `bytes` do not start with a frame. A frame that is too long is refused as soon as its length has arrived.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length);
        let len = length as usize;
        if len == 0 || len > FRAME_LEN {
            return Err(WireError::Length(length));
        }
        let Some(([kind], body)) = rest.get(..len).and_then(|frame| frame.split_first_chunk()) else { return Ok(None) };
        let mut fields = Fields::new(body);
        let frame = Self::body(*kind, &mut fields)?;
        fields.end()?;
        Ok(Some((frame, 4 + len)))
    }

    fn body(kind: u8, fields: &mut Fields<'_>) -> Result<Self, WireError> {
        Ok(match kind {
            kind::HELLO => Self::Hello(Hello::decode(fields)?),
            kind::REPORT => {
                let (from, to) = (fields.u16()?, fields.u16()?);
                Self::Report(Report { from, to, message: PeerMessage::Service(message::decode(fields)?) })
            }
            kind::PACE => {
                let (from, to) = (fields.u16()?, fields.u16()?);
                Self::Report(Report { from, to, message: PeerMessage::Pace(pace::decode(fields)?) })
            }
            kind::PING => Self::Ping { sent: fields.time()? },
            kind::PONG => Self::Pong { sent: fields.time()?, received: fields.time()?, answered: fields.time()? },
            kind::UNLISTED => Self::Unlisted,
            other => return Err(WireError::Kind(other)),
        })
    }
}

//! Hints: typed values that clients and servers attach to requests (docs/protocols/orangefs.md, hints).

use super::codec::{Reader, Wire, Writer};
use super::types::{Handle, Text};
use crate::DecodeError;

/// One hint. Hints are packed without alignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Type 0: a name unknown to the client library, with its text. Programs can mark their requests this way.
    Named {
        /// The hint's name.
        name: Text,
        /// The hint's value.
        value: Text,
    },
    /// Type 1.
    RequestId(u32),
    /// Type 2.
    ClientId(u32),
    /// Type 3: the metafile or parent directory; the client library adds it to most requests.
    Handle(Handle),
    /// Type 4; not sent by 2.10.
    OpId(u32),
    /// Type 5: the rank of an MPI process.
    Rank(u32),
    /// Type 6: a server made this request on behalf of another.
    ServerId(u32),
    /// Type 12; not sent by 2.10.
    LocalUid(u32),
    /// Type 13.
    OwnerGid(u32),
}

impl Wire for Hint {
    const MIN_LEN: usize = 8;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match HintView::read(r)? {
            HintView::Named { name, value } => Self::Named { name: name.into(), value: value.into() },
            HintView::Handle(handle) => Self::Handle(handle),
            HintView::Number { kind: 1, value } => Self::RequestId(value),
            HintView::Number { kind: 2, value } => Self::ClientId(value),
            HintView::Number { kind: 4, value } => Self::OpId(value),
            HintView::Number { kind: 5, value } => Self::Rank(value),
            HintView::Number { kind: 6, value } => Self::ServerId(value),
            HintView::Number { kind: 12, value } => Self::LocalUid(value),
            HintView::Number { value, .. } => Self::OwnerGid(value),
        })
    }
    fn write(&self, w: &mut Writer) {
        let (kind, number) = match self {
            Self::Named { name, value } => {
                w.u32(0);
                name.write(w);
                value.write(w);
                return;
            }
            Self::Handle(handle) => {
                w.u32(3);
                handle.write(w);
                return;
            }
            Self::RequestId(value) => (1, value),
            Self::ClientId(value) => (2, value),
            Self::OpId(value) => (4, value),
            Self::Rank(value) => (5, value),
            Self::ServerId(value) => (6, value),
            Self::LocalUid(value) => (12, value),
            Self::OwnerGid(value) => (13, value),
        };
        w.u32(kind);
        number.write(w);
    }
}

/// A hint borrowed from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintView<'a> {
    /// Type 0, see [`Hint::Named`].
    Named {
        /// The hint's name.
        name: &'a [u8],
        /// The hint's value.
        value: &'a [u8],
    },
    /// Type 3.
    Handle(Handle),
    /// Any other type.
    Number {
        /// The type on the wire: 1 request, 2 client, 4 operation, 5 rank, 6 server, 12 local user, 13 owner group.
        kind: u32,
        /// The value.
        value: u32,
    },
}

impl<'a> HintView<'a> {
    pub(crate) fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = *r;
        Ok(match r.u32()? {
            0 => Self::Named { name: r.str()?, value: r.str()? },
            3 => Self::Handle(r.read()?),
            kind @ (1 | 2 | 4 | 5 | 6 | 12 | 13) => Self::Number { kind, value: r.u32()? },
            _ => return Err(start.malformed("a hint of a type that is never sent")),
        })
    }
}

//! Replies: status and, on success, a body for each operation (docs/protocols/orangefs.md, reply header).

mod bodies;

pub use bodies::*;

use super::codec::{Reader, Wire, Writer};
use super::head;
use super::op::Op;
use super::status::Status;
use crate::DecodeError;

/// A reply with all its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's operation; [`Op::WriteCompletion`] for the second reply of a write, [`Op::ProtoError`] for
    /// protocol errors.
    pub op: Op,
    /// Success or error.
    pub status: Status,
    /// [`ReplyBody::Empty`] for every error, and for operations whose reply has no fields.
    pub body: ReplyBody,
}

impl Reply {
    /// A successful reply without fields.
    pub fn done(op: Op) -> Self {
        Self { op, status: Status::OK, body: ReplyBody::Empty }
    }

    /// An error.
    pub fn error(op: Op, status: Status) -> Self {
        Self { op, status, body: ReplyBody::Empty }
    }

    /// Decodes the payload of a reply, which must not be file data. Never returns *incomplete*.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        let op = head::read(&mut r)?;
        let status = Status(r.i32()?);
        let body = if status.is_ok() { ReplyBody::read(op, &mut r)? } else { ReplyBody::Empty };
        r.finish()?;
        Ok(Self { op, status, body })
    }

    /// The payload; [`crate::bmi::reply_message`] frames it. Error replies have no body.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        head::write(self.op, &mut w);
        self.status.0.write(&mut w);
        if self.status.is_ok() {
            self.body.write(&mut w);
        }
        w.into_payload()
    }
}

/// Declares the enum from operations whose reply has fields and those whose reply has none.
macro_rules! reply_bodies {
    (fields: $($with:ident)*; empty: $($without:ident)*;) => {
        /// The fields of a reply.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each carries the struct of the same name")]
        pub enum ReplyBody {
            $( $with($with), )*
            /// No fields.
            Empty,
        }

        impl ReplyBody {
            fn read(op: Op, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match op {
                    $( Op::$with => r.read().map(Self::$with), )*
                    $( Op::$without )|* => Ok(Self::Empty),
                    _ => Err(DecodeError::UnknownBody(op)),
                }
            }

            fn write(&self, w: &mut Writer) {
                match self {
                    $( Self::$with(body) => body.write(w), )*
                    Self::Empty => {}
                }
            }
        }

        $(
            impl From<$with> for Reply {
                fn from(body: $with) -> Self {
                    Self { op: Op::$with, status: Status::OK, body: ReplyBody::$with(body) }
                }
            }

            /// Refuses, with what it is, the reply to another operation.
            impl TryFrom<ReplyBody> for $with {
                type Error = ReplyBody;
                fn try_from(body: ReplyBody) -> Result<Self, ReplyBody> {
                    match body {
                        ReplyBody::$with(body) => Ok(body),
                        other => Err(other),
                    }
                }
            }
        )*
    };
}

reply_bodies! {
    fields:
        Create Io GetAttr LookupPath RmDirent ChDirent MkDir ReadDir GetConfig WriteCompletion StatFs MgmtPerfMon
        MgmtIterateHandles MgmtGetDirdataHandle GetEattr ListEattr SmallIo ListAttr BatchCreate Unstuff Mirror
        TreeRemove TreeGetFileSize MgmtGetUid TreeSetAttr MgmtGetDirent AtomicEattr TreeGetAttr;
    empty:
        Remove SetAttr CrDirent Truncate Flush MgmtSetParam MgmtNoop MgmtRemoveObject MgmtRemoveDirent ProtoError
        SetEattr DelEattr BatchRemove MgmtCreateRootDir MgmtSplitDirent;
}

//! Requests: capability, hints and a body for each operation (docs/protocols/orangefs.md, request header).

mod bodies;

pub use bodies::*;

use super::auth::{Capability, Credential};
use super::codec::{Reader, Wire, Writer};
use super::head;
use super::hints::Hint;
use super::op::Op;
use crate::DecodeError;

/// A request with all its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the request is allowed to do; the null capability for GETCONFIG and others.
    pub capability: Capability,
    /// Hints added by the client and by servers.
    pub hints: Vec<Hint>,
    /// The operation and its fields.
    pub body: RequestBody,
}

impl Request {
    /// A request with the null capability and no hints.
    pub fn bare(body: RequestBody) -> Self {
        Self { capability: Capability::default(), hints: Vec::new(), body }
    }

    /// Decodes the payload of an unexpected message. Never returns *incomplete*: the payload must be whole.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        let op = head::read(&mut r)?;
        r.pad4()?;
        let (capability, hints) = (r.read()?, r.read()?);
        let body = RequestBody::read(op, &mut r)?;
        r.finish()?;
        Ok(Self { capability, hints, body })
    }

    /// The payload; [`crate::bmi::request_message`] frames it and refuses more than 16384 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        head::write(self.body.op(), &mut w);
        w.pad4();
        self.capability.write(&mut w);
        self.hints.write(&mut w);
        self.body.write(&mut w);
        w.into_payload()
    }
}

/// Declares the enum from operations with and without fields; names are those of [`Op`].
macro_rules! request_bodies {
    (fields: $($with:ident)*; empty: $($without:ident)*;) => {
        /// The operation and its fields.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each carries the struct of the same name")]
        pub enum RequestBody {
            $( $with($with), )*
            $( $without, )*
        }

        impl RequestBody {
            /// The operation.
            pub fn op(&self) -> Op {
                match self {
                    $( Self::$with(_) => Op::$with, )*
                    $( Self::$without => Op::$without, )*
                }
            }

            fn read(op: Op, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match op {
                    $( Op::$with => r.read().map(Self::$with), )*
                    $( Op::$without => Ok(Self::$without), )*
                    _ => Err(DecodeError::UnknownBody(op)),
                }
            }

            fn write(&self, w: &mut Writer) {
                match self {
                    $( Self::$with(body) => body.write(w), )*
                    $( Self::$without => {} )*
                }
            }
        }

        $(
            impl From<$with> for RequestBody {
                fn from(body: $with) -> Self {
                    Self::$with(body)
                }
            }
        )*
    };
}

impl RequestBody {
    /// On whose behalf the request is made, for operations that carry a credential.
    pub fn credential(&self) -> Option<&Credential> {
        match self {
            Self::Create(body) => Some(&body.credential),
            Self::Remove(body) => Some(&body.credential),
            Self::GetAttr(body) => Some(&body.credential),
            Self::SetAttr(body) => Some(&body.credential),
            Self::LookupPath(body) => Some(&body.credential),
            Self::CrDirent(body) => Some(&body.credential),
            Self::MkDir(body) => Some(&body.credential),
            Self::Unstuff(body) => Some(&body.credential),
            Self::TreeRemove(body) => Some(&body.credential),
            Self::TreeGetFileSize(body) => Some(&body.credential),
            Self::TreeSetAttr(body) => Some(&body.credential),
            Self::TreeGetAttr(body) => Some(&body.credential),
            _ => None,
        }
    }
}

request_bodies! {
    fields:
        Create Remove Io GetAttr SetAttr LookupPath CrDirent RmDirent ChDirent Truncate MkDir ReadDir Flush
        MgmtSetParam StatFs MgmtPerfMon MgmtIterateHandles MgmtRemoveObject MgmtRemoveDirent MgmtGetDirdataHandle
        GetEattr SetEattr DelEattr ListEattr SmallIo ListAttr BatchCreate BatchRemove Unstuff Mirror TreeRemove
        TreeGetFileSize MgmtGetUid TreeSetAttr MgmtGetDirent MgmtCreateRootDir MgmtSplitDirent AtomicEattr
        TreeGetAttr;
    empty: GetConfig MgmtNoop;
}

//! Replies: status and, on success, a body for each operation (docs/protocols/orangefs.md, reply header).
#![expect(missing_docs, reason = "every field is named after the protocol's")]

use super::attr::Attr;
use super::codec::{Reader, Wire, Writer, wire_structs};
use super::request;
use super::types::{Capability, Columns, FsId, Handle, IoType, KeyVal, Op, Status, Text};
use crate::wire::DecodeError;

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
        let op = request::read_head(&mut r)?;
        let status = Status(r.i32()?);
        let body = if status.is_ok() { ReplyBody::read(op, &mut r)? } else { ReplyBody::Empty };
        r.finish()?;
        Ok(Self { op, status, body })
    }

    /// The payload; [`crate::wire::bmi::reply_message`] frames it. Error replies have no body.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        request::write_head(self.op, &mut w);
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

// The bodies of all replies, field by field in wire order (docs/protocols/orangefs.md, bodies).
//
// Fields keep the protocol's names. `fs` is a file system id, offsets and sizes are bytes.

wire_structs! {
    pub struct Create {
        pub metafile: Handle,
        pub stuffed: u32,
        pub attr: Attr,
    }
    /// The acknowledgement of an I/O; data follows.
    pub struct Io {
        /// Bytes in this server's datafile.
        pub bstream_size: i64,
    }
    pub struct GetAttr {
        pub attr: Attr,
    }
    pub struct LookupPath {
        /// One for each component that the server resolved.
        [pad4] pub handles: Vec<Handle>,
        [pad4] pub attrs: Vec<Attr>,
    }
    pub struct RmDirent {
        /// The object that the entry named.
        pub handle: Handle,
    }
    pub struct ChDirent {
        /// The object that the entry named before.
        pub old_handle: Handle,
    }
    pub struct MkDir {
        pub handle: Handle,
        pub capability: Capability,
    }
    pub struct ReadDir {
        pub token: u64,
        pub directory_version: u64,
        [pad4] pub entries: Vec<(Text, Handle)>,
    }
    /// The second reply of a write.
    pub struct WriteCompletion {
        pub total_completed: i64,
    }
    pub struct StatFs {
        [pad4] pub fs: FsId,
        pub bytes_available: i64,
        pub bytes_total: i64,
        pub ram_total: u64,
        pub ram_free: u64,
        pub load_1: u64,
        pub load_5: u64,
        pub load_15: u64,
        pub uptime_seconds: u64,
        pub handles_available: u64,
        pub handles_total: u64,
    }
    pub struct MgmtPerfMon {
        pub key_count: u32,
        pub next_id: u32,
        pub end_ms: u64,
        pub now_ms: u64,
        pub samples: u32,
        pub values: Vec<i64>,
    }
    pub struct MgmtIterateHandles {
        pub position: u64,
        [pad4] pub handles: Vec<Handle>,
    }
    pub struct MgmtGetDirdataHandle {
        pub handle: Handle,
    }
    pub struct GetEattr {
        /// Values, and an error for each.
        [pad4] pub values: Columns<KeyVal, i32>,
    }
    pub struct ListEattr {
        pub token: u64,
        [pad4] pub keys: Vec<KeyVal>,
    }
    pub struct ListAttr {
        /// An error and the attributes for each handle in the request.
        [pad4] pub attrs: Columns<i32, Attr>,
    }
    pub struct BatchCreate {
        [pad4] pub handles: Vec<Handle>,
    }
    pub struct Unstuff {
        pub attr: Attr,
    }
    pub struct Mirror {
        pub source: Handle,
        pub source_server_nr: u32,
        /// Bytes copied and status for each target.
        pub targets: Vec<(u32, u32)>,
    }
    pub struct TreeRemove {
        [pad4] pub caller_index: u32,
        pub statuses: Vec<i32>,
    }
    pub struct TreeGetFileSize {
        pub caller_index: u32,
        /// Size in bytes and error for each handle.
        pub sizes: Columns<i64, i32>,
    }
    pub struct MgmtGetUid {
        [pad4] pub users: Vec<UidRecord>,
    }
    /// Requests of one user.
    pub struct UidRecord {
        pub uid: u32,
        pub count: u64,
        pub first_seconds: u64,
        pub first_micros: u32,
        pub last_seconds: u64,
        pub last_micros: u32,
    }
    pub struct TreeSetAttr {
        [pad4] pub caller_index: u32,
        pub statuses: Vec<i32>,
    }
    pub struct MgmtGetDirent {
        pub handle: Handle,
        pub error: i32,
    }
    pub struct AtomicEattr {
        /// Old values, and an error for each.
        [pad4] pub values: Columns<KeyVal, i32>,
    }
    pub struct TreeGetAttr {
        pub caller_index: u32,
        /// The attributes and an error for each handle.
        pub attrs: Columns<Attr, i32>,
    }
}

/// The server's configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetConfig {
    /// At most 65536 bytes.
    pub text: Text,
}

impl Wire for GetConfig {
    const MIN_LEN: usize = 16;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = *r;
        let buf_size = r.u32()? as usize;
        r.pad4()?;
        let text: Text = r.read()?;
        if buf_size != text.0.len() + 1 {
            return Err(start.malformed("the buffer size is not the length of the text plus its NUL"));
        }
        Ok(Self { text })
    }
    fn write(&self, w: &mut Writer) {
        w.count(self.text.0.len() + 1);
        w.pad4();
        self.text.write(w);
    }
}

/// The only reply of a small I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallIo {
    /// Bytes in this server's datafile.
    pub bstream_size: i64,
    /// The outcome.
    pub result: SmallIoResult,
}

/// The outcome of a small I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmallIoResult {
    /// The data read; empty at the end of the file.
    Read(Vec<u8>),
    /// Bytes written.
    Written(i64),
}

impl Wire for SmallIo {
    const MIN_LEN: usize = 24;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let io_type = r.read()?;
        r.pad4()?;
        let bstream_size = r.i64()?;
        let start = *r;
        let result_size = r.i64()?;
        let result = match io_type {
            IoType::Write => SmallIoResult::Written(result_size),
            IoType::Read => {
                let size = u64::try_from(result_size).ok().and_then(|size| r.fits(size, 1));
                let data = r.take(size.ok_or_else(|| start.malformed("more data than the message holds"))?)?;
                SmallIoResult::Read(data.to_vec())
            }
        };
        Ok(Self { bstream_size, result })
    }
    fn write(&self, w: &mut Writer) {
        let (io_type, size, data) = match &self.result {
            SmallIoResult::Read(data) => (IoType::Read, data.len() as i64, &data[..]),
            SmallIoResult::Written(size) => (IoType::Write, *size, &[][..]),
        };
        io_type.write(w);
        w.pad4();
        self.bstream_size.write(w);
        size.write(w);
        w.put(data);
    }
}

//! Requests: capability, hints and a body for each operation (docs/protocols/orangefs.md, request header).
#![expect(missing_docs, reason = "every field is named after the protocol's")]

use super::attr::{Attr, Dist, HandleRanges, Layout};
use super::codec::{Reader, Wire, Writer, wire_structs};
use super::transfer::{Preq, Transfer, TransferError};
use super::types::{Capability, Columns, Columns3, Credential, FsId, Handle, IoType, KeyVal, ObjType, Op, Text};
use crate::wire::DecodeError;

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
        let op = read_head(&mut r)?;
        r.pad4()?;
        let (capability, hints) = (r.read()?, r.read()?);
        let body = RequestBody::read(op, &mut r)?;
        r.finish()?;
        Ok(Self { capability, hints, body })
    }

    /// The payload; [`crate::wire::bmi::request_message`] frames it and refuses more than 16384 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        write_head(self.body.op(), &mut w);
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

/// Major version times 1000 plus minor: 2.9 and 2.10.
pub const PROTOCOL_VERSION: u32 = 7000;

/// The little-endian bytefield, the only encoding in use.
pub const ENCODING: u32 = 2;

pub(super) fn read_head(r: &mut Reader<'_>) -> Result<Op, DecodeError> {
    let start = *r;
    if r.u32()? / 1000 != PROTOCOL_VERSION / 1000 {
        return Err(start.malformed("a protocol version other than 7"));
    }
    let start = *r;
    if r.u32()? != ENCODING {
        return Err(start.malformed("an encoding other than the little-endian bytefield"));
    }
    let start = *r;
    Op::from_code(r.i32()?).ok_or_else(|| start.malformed("not an operation of version 2.10"))
}

pub(super) fn write_head(op: Op, w: &mut Writer) {
    w.u32(PROTOCOL_VERSION);
    w.u32(ENCODING);
    op.code().write(w);
}

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

// The bodies of all requests, field by field in wire order (docs/protocols/orangefs.md, bodies).
//
// Fields keep the protocol's names. `fs` is a file system id, offsets and sizes are bytes, `mask` is an attribute
// mask (see [`crate::wire::pvfs2::attr::mask`]).

/// The first token of a [`ReadDir`] or [`ListEattr`] listing.
pub const TOKEN_START: u64 = 0x7fff_fffe;

/// The token after the last entry.
pub const TOKEN_END: u64 = 0x7fff_fffd;

wire_structs! {
    pub struct Create {
        pub fs: FsId,
        [pad4] pub credential: Credential,
        pub attr: Attr,
        pub num_dfiles: i32,
        pub layout: Layout,
    }
    pub struct Remove {
        pub handle: Handle,
        pub fs: FsId,
        pub credential: Credential,
    }
    /// A read or write that moves its data in further messages.
    pub struct Io {
        /// The datafile.
        pub handle: Handle,
        pub fs: FsId,
        [pad4] pub io_type: IoType,
        /// Always 3.
        pub flow_type: i32,
        /// The receiver's index among the file's datafiles.
        pub server_nr: u32,
        /// Number of datafiles.
        pub server_ct: u32,
        pub dist: Dist,
        pub preq: Preq,
        /// Position in the access description's data, in bytes.
        pub file_req_offset: i64,
        /// Bytes of the whole access over all servers, usually more than this server moves.
        pub aggregate_size: i64,
    }
    pub struct GetAttr {
        pub handle: Handle,
        pub fs: FsId,
        pub mask: u32,
        pub credential: Credential,
    }
    pub struct SetAttr {
        pub handle: Handle,
        pub fs: FsId,
        [pad4] pub attr: Attr,
        pub credential: Credential,
    }
    pub struct LookupPath {
        /// Relative to `parent`.
        pub path: Text,
        pub fs: FsId,
        [pad4] pub parent: Handle,
        pub mask: u32,
        pub credential: Credential,
    }
    pub struct CrDirent {
        pub credential: Credential,
        pub name: Text,
        pub new_handle: Handle,
        pub parent: Handle,
        pub dirdata: Handle,
        pub fs: FsId,
    }
    pub struct RmDirent {
        pub name: Text,
        pub dirdata: Handle,
        pub fs: FsId,
    }
    pub struct ChDirent {
        pub name: Text,
        pub new_handle: Handle,
        pub dirdata: Handle,
        pub fs: FsId,
    }
    pub struct Truncate {
        pub handle: Handle,
        pub fs: FsId,
        /// The new size of this datafile, in bytes.
        [pad4] pub size: i64,
        pub flags: i32,
    }
    pub struct MkDir {
        pub fs: FsId,
        [pad4] pub credential: Credential,
        pub attr: Attr,
        pub extents: HandleRanges,
        pub servers_initial: i32,
        pub servers_max: i32,
        pub split_size: i32,
        pub layout: Layout,
    }
    pub struct ReadDir {
        pub dirdata: Handle,
        pub fs: FsId,
        /// At most 512.
        pub count: u32,
        /// [`TOKEN_START`] for the first page, then the token of the last reply.
        [pad4] pub token: u64,
    }
    pub struct Flush {
        pub handle: Handle,
        pub fs: FsId,
        pub flags: i32,
    }
    pub struct MgmtSetParam {
        pub fs: FsId,
        pub param: i32,
        pub value: ParamValue,
    }
    pub struct StatFs {
        pub fs: FsId,
    }
    pub struct MgmtPerfMon {
        pub cnt_type: u32,
        pub next_id: u32,
        pub key_count: u32,
        pub count: u32,
    }
    pub struct MgmtIterateHandles {
        pub fs: FsId,
        pub count: i32,
        pub flags: i32,
        pub position: u64,
    }
    pub struct MgmtRemoveObject {
        pub handle: Handle,
        pub fs: FsId,
    }
    pub struct MgmtRemoveDirent {
        pub dirdata: Handle,
        pub fs: FsId,
        [pad4] pub name: Text,
    }
    pub struct MgmtGetDirdataHandle {
        pub handle: Handle,
        pub fs: FsId,
    }
    pub struct GetEattr {
        pub handle: Handle,
        pub fs: FsId,
        /// Keys, and the sender's buffer size for each value in bytes.
        pub keys: Columns<KeyVal, i64>,
    }
    pub struct SetEattr {
        pub handle: Handle,
        pub fs: FsId,
        /// 1 create, 2 replace.
        pub flags: i32,
        [pad4] pub entries: Columns<KeyVal, KeyVal>,
    }
    pub struct DelEattr {
        pub handle: Handle,
        pub fs: FsId,
        pub key: KeyVal,
    }
    pub struct ListEattr {
        pub handle: Handle,
        pub fs: FsId,
        [pad4] pub token: u64,
        /// The sender's buffer size for each key in bytes.
        pub key_sizes: Vec<i64>,
    }
    pub struct ListAttr {
        pub fs: FsId,
        pub mask: u32,
        [pad4] pub handles: Vec<Handle>,
    }
    pub struct BatchCreate {
        pub fs: FsId,
        pub objtype: ObjType,
        pub count: u32,
        [pad4] pub extents: HandleRanges,
    }
    pub struct BatchRemove {
        pub fs: FsId,
        pub handles: Vec<Handle>,
    }
    pub struct Unstuff {
        pub handle: Handle,
        pub fs: FsId,
        pub mask: u32,
        pub credential: Credential,
    }
    pub struct TreeRemove {
        pub fs: FsId,
        pub credential: Credential,
        pub caller_index: u32,
        pub handles: Vec<Handle>,
    }
    pub struct TreeGetFileSize {
        pub fs: FsId,
        pub caller_index: u32,
        pub retry_at_leaf: u32,
        pub credential: Credential,
        pub handles: Vec<Handle>,
    }
    pub struct MgmtGetUid {
        pub seconds_back: u32,
    }
    pub struct TreeSetAttr {
        pub fs: FsId,
        pub credential: Credential,
        pub objtype: ObjType,
        pub attr: Attr,
        pub caller_index: u32,
        pub handles: Vec<Handle>,
    }
    pub struct MgmtGetDirent {
        pub dirdata: Handle,
        pub fs: FsId,
        pub name: Text,
    }
    pub struct MgmtCreateRootDir {
        pub handle: Handle,
        pub fs: FsId,
    }
    pub struct MgmtSplitDirent {
        pub fs: FsId,
        pub dirdata: Handle,
        pub dist: Dist,
        [pad4] pub undo: i32,
        pub entries: Columns<Handle, Text>,
    }
    pub struct AtomicEattr {
        pub handle: Handle,
        pub fs: FsId,
        pub flags: i32,
        pub opcode: i32,
        /// Keys, values, and the sender's buffer size for each old value in bytes.
        pub entries: Columns3<KeyVal, KeyVal, i64>,
    }
    pub struct TreeGetAttr {
        pub fs: FsId,
        pub caller_index: u32,
        pub retry_at_leaf: u32,
        pub credential: Credential,
        pub mask: u32,
        pub handles: Vec<Handle>,
    }
}

impl Io {
    /// An access to `len` bytes from `offset` of a file that lies on one server.
    pub fn contiguous(handle: Handle, fs: FsId, io_type: IoType, offset: i64, len: i64) -> Self {
        Self {
            handle,
            fs,
            io_type,
            flow_type: 3,
            server_nr: 0,
            server_ct: 1,
            dist: Dist::Basic,
            preq: Preq::contiguous(),
            file_req_offset: offset,
            aggregate_size: len,
        }
    }

    /// The same access with its data in the message.
    pub fn small(self, data: Vec<u8>) -> SmallIo {
        let Self { handle, fs, io_type, server_nr, server_ct, dist, preq, file_req_offset, aggregate_size, .. } = self;
        SmallIo { handle, fs, io_type, server_nr, server_ct, dist, preq, file_req_offset, aggregate_size, data }
    }

    /// The share of the access that this server moves.
    pub fn transfer(&self) -> Result<Transfer, TransferError> {
        let Self { server_nr, server_ct, file_req_offset, aggregate_size, .. } = *self;
        Transfer::new(&self.dist, server_nr, server_ct, &self.preq, file_req_offset, aggregate_size)
    }
}

impl SmallIo {
    /// The share of the access that this server moves.
    pub fn transfer(&self) -> Result<Transfer, TransferError> {
        let Self { server_nr, server_ct, file_req_offset, aggregate_size, .. } = *self;
        Transfer::new(&self.dist, server_nr, server_ct, &self.preq, file_req_offset, aggregate_size)
    }
}

/// The value of a [`MgmtSetParam`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamValue {
    Number(u64),
    Text(Text),
}

impl Wire for ParamValue {
    const MIN_LEN: usize = 12;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = *r;
        match r.i32()? {
            0 => r.u64().map(Self::Number),
            1 => r.read().map(Self::Text),
            _ => Err(start.malformed("a parameter that is neither a number nor a string")),
        }
    }
    fn write(&self, w: &mut Writer) {
        match self {
            Self::Number(number) => {
                w.u32(0);
                number.write(w);
            }
            Self::Text(text) => {
                w.u32(1);
                text.write(w);
            }
        }
    }
}

/// A read or write with its data in the same message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallIo {
    /// The datafile.
    pub handle: Handle,
    pub fs: FsId,
    pub io_type: IoType,
    /// The receiver's index among the file's datafiles.
    pub server_nr: u32,
    /// Number of datafiles.
    pub server_ct: u32,
    pub dist: Dist,
    pub preq: Preq,
    /// Position in the access description's data, in bytes.
    pub file_req_offset: i64,
    /// Bytes of the whole access over all servers.
    pub aggregate_size: i64,
    /// This server's data for a write; empty for a read.
    pub data: Vec<u8>,
}

impl Wire for SmallIo {
    const MIN_LEN: usize = 56;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (handle, fs, io_type) = (r.read()?, r.read()?, r.read()?);
        let (server_nr, server_ct, dist, preq) = (r.read()?, r.read()?, r.read()?, r.read()?);
        let (file_req_offset, aggregate_size) = (r.i64()?, r.i64()?);
        let start = *r;
        let total = r.size()?;
        r.pad4()?;
        let data = match io_type {
            IoType::Read => Vec::new(),
            IoType::Write => {
                let total = r.fits(total, 1);
                r.take(total.ok_or_else(|| start.malformed("more data than the message holds"))?)?.to_vec()
            }
        };
        Ok(Self { handle, fs, io_type, server_nr, server_ct, dist, preq, file_req_offset, aggregate_size, data })
    }
    fn write(&self, w: &mut Writer) {
        self.handle.write(w);
        self.fs.write(w);
        self.io_type.write(w);
        self.server_nr.write(w);
        self.server_ct.write(w);
        self.dist.write(w);
        self.preq.write(w);
        self.file_req_offset.write(w);
        self.aggregate_size.write(w);
        (self.data.len() as u64).write(w);
        w.pad4();
        w.put(&self.data);
    }
}

/// Copies a datafile to other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    pub source: Handle,
    pub fs: FsId,
    pub dist: Dist,
    pub bsize: u32,
    pub source_server_nr: u32,
    pub flow_type: i32,
    pub encoding: i32,
    /// Where to copy, and the index of each copy's server.
    pub targets: Vec<(Handle, u32)>,
}

impl Wire for Mirror {
    const MIN_LEN: usize = 48;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (source, fs, dist, bsize, source_server_nr) = (r.read()?, r.read()?, r.read()?, r.read()?, r.read()?);
        let count = r.count(12)?;
        let (flow_type, encoding) = (r.i32()?, r.i32()?);
        let targets = r.elements(count)?;
        Ok(Self { source, fs, dist, bsize, source_server_nr, flow_type, encoding, targets })
    }
    fn write(&self, w: &mut Writer) {
        self.source.write(w);
        self.fs.write(w);
        self.dist.write(w);
        self.bsize.write(w);
        self.source_server_nr.write(w);
        w.count(self.targets.len());
        self.flow_type.write(w);
        self.encoding.write(w);
        w.elements(&self.targets);
    }
}

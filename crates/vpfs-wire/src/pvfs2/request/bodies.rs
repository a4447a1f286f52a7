//! The bodies of all requests, field by field in wire order (docs/protocols/orangefs.md, bodies).
//!
//! Fields keep the protocol's names. `fs` is a file system id, offsets and sizes are bytes, `mask` is an attribute
//! mask (see [`crate::pvfs2::attr::mask`]).
#![expect(missing_docs, reason = "every field is named after the protocol's, as the module says")]

use crate::DecodeError;
use crate::pvfs2::attr::Attr;
use crate::pvfs2::auth::Credential;
use crate::pvfs2::codec::{Reader, Wire, Writer, wire_structs};
use crate::pvfs2::dist::Dist;
use crate::pvfs2::layout::{HandleRanges, Layout};
use crate::pvfs2::preq::Preq;
use crate::pvfs2::transfer::{Transfer, TransferError};
use crate::pvfs2::types::{Columns, Columns3, FsId, Handle, IoType, KeyVal, ObjType, Text};

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

//! The bodies of all replies, field by field in wire order (docs/protocols/orangefs.md, bodies).
//!
//! Fields keep the protocol's names. `fs` is a file system id, offsets and sizes are bytes.
#![expect(missing_docs, reason = "every field is named after the protocol's, as the module says")]

use crate::DecodeError;
use crate::pvfs2::attr::Attr;
use crate::pvfs2::auth::Capability;
use crate::pvfs2::codec::{Reader, Wire, Writer, wire_structs};
use crate::pvfs2::types::{Columns, FsId, Handle, IoType, KeyVal, Text};

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

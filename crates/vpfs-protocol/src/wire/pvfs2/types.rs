//! Small types that many messages share: handles, texts, status codes.

use std::fmt;

use super::codec::{Reader, Wire, Writer, wire_structs};
use crate::wire::DecodeError;

/// The number of an object in one file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Wire for Handle {
    const MIN_LEN: usize = 8;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.u64().map(Self)
    }
    fn write(&self, w: &mut Writer) {
        self.0.write(w);
    }
}

/// The number of a file system, as given in the configuration.
pub type FsId = i32;

macro_rules! byte_text {
    ($(#[$meta:meta])* $name:ident, $codec:ident, $min:expr) => {
        $(#[$meta])*
        #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Vec<u8>);

        impl $name {
            /// The text with anything that is not UTF-8 replaced.
            pub fn to_string_lossy(&self) -> std::borrow::Cow<'_, str> {
                String::from_utf8_lossy(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.as_bytes().to_vec())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into_bytes())
            }
        }

        impl From<&[u8]> for $name {
            fn from(bytes: &[u8]) -> Self {
                Self(bytes.to_vec())
            }
        }

        impl Wire for $name {
            const MIN_LEN: usize = $min;
            fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                r.$codec().map(Self::from)
            }
            fn write(&self, w: &mut Writer) {
                w.$codec(&self.0);
            }
        }
    };
}

byte_text! {
    /// A name, path or address: bytes without their final NUL, not necessarily UTF-8.
    Text, str, 8
}

byte_text! {
    /// A key or value of an extended attribute; keys and textual values usually end in a NUL of their own.
    KeyVal, kv, 8
}

/// Rows of a table that is sent column by column: the count, all first items, all second items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns<A, B>(pub Vec<(A, B)>);

impl<A: Wire, B: Wire> Wire for Columns<A, B> {
    const MIN_LEN: usize = 4;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(A::MIN_LEN + B::MIN_LEN)?;
        let first = r.elements::<A>(count)?;
        let second = r.elements::<B>(count)?;
        Ok(Self(first.into_iter().zip(second).collect()))
    }
    fn write(&self, w: &mut Writer) {
        w.count(self.0.len());
        self.0.iter().for_each(|row| row.0.write(w));
        self.0.iter().for_each(|row| row.1.write(w));
    }
}

/// Like [`Columns`] with three columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns3<A, B, C>(pub Vec<(A, B, C)>);

impl<A: Wire, B: Wire, C: Wire> Wire for Columns3<A, B, C> {
    const MIN_LEN: usize = 4;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(A::MIN_LEN + B::MIN_LEN + C::MIN_LEN)?;
        let first = r.elements::<A>(count)?;
        let second = r.elements::<B>(count)?;
        let third = r.elements::<C>(count)?;
        Ok(Self(first.into_iter().zip(second).zip(third).map(|((a, b), c)| (a, b, c)).collect()))
    }
    fn write(&self, w: &mut Writer) {
        w.count(self.0.len());
        self.0.iter().for_each(|row| row.0.write(w));
        self.0.iter().for_each(|row| row.1.write(w));
        self.0.iter().for_each(|row| row.2.write(w));
    }
}

/// An array with padding between its count and its elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Padded<T>(pub Vec<T>);

impl<T: Wire> Wire for Padded<T> {
    const MIN_LEN: usize = 8;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(T::MIN_LEN)?;
        r.pad4()?;
        r.elements(count).map(Self)
    }
    fn write(&self, w: &mut Writer) {
        w.count(self.0.len());
        w.pad4();
        w.elements(&self.0);
    }
}

/// The kind of an object; one of the constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjType(pub i32);

impl ObjType {
    /// Not specified.
    pub const NONE: Self = Self(0);
    /// Metadata of a file.
    pub const METAFILE: Self = Self(1);
    /// One server's share of a file's data.
    pub const DATAFILE: Self = Self(2);
    /// A directory.
    pub const DIRECTORY: Self = Self(4);
    /// A symbolic link.
    pub const SYMLINK: Self = Self(8);
    /// One server's share of a directory's entries.
    pub const DIRDATA: Self = Self(16);
    /// Internal to servers.
    pub const INTERNAL: Self = Self(32);
}

impl Wire for ObjType {
    const MIN_LEN: usize = 4;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.i32().map(Self)
    }
    fn write(&self, w: &mut Writer) {
        self.0.write(w);
    }
}

/// The direction of a data operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoType {
    /// Data from the server.
    Read = 1,
    /// Data to the server.
    Write = 2,
}

impl Wire for IoType {
    const MIN_LEN: usize = 4;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = *r;
        match r.i32()? {
            1 => Ok(Self::Read),
            2 => Ok(Self::Write),
            _ => Err(start.malformed("an I/O that is neither a read nor a write")),
        }
    }
    fn write(&self, w: &mut Writer) {
        w.u32(*self as u32);
    }
}

/// The kind of work an operation is, for scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpClass {
    /// Moves file data: IO and SMALL_IO, nothing else.
    Data,
    /// Names and attributes: one request and one reply.
    Metadata,
    /// Configuration and administration; must never be queued.
    Management,
    /// Sent by servers only. A client operation waits for it inside a server, so it must never be queued.
    ServerToServer,
    /// Appears in replies only.
    ReplyOnly,
    /// Never on the wire.
    Internal,
}

macro_rules! ops {
    ($($(#[$meta:meta])* $variant:ident = $code:literal $name:literal $class:ident),* $(,)?) => {
        /// An operation of protocol version 7000.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the names are those of the protocol")]
        pub enum Op {
            $( $(#[$meta])* $variant = $code ),*
        }

        impl Op {
            /// All operations, in order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The operation with this code on the wire.
            pub const fn from_code(code: i32) -> Option<Self> {
                match code {
                    $( $code => Some(Self::$variant), )*
                    _ => None,
                }
            }

            /// The name as the OrangeFS sources write it.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )*
                }
            }

            /// The kind of work it is.
            pub const fn class(self) -> OpClass {
                match self {
                    $( Self::$variant => OpClass::$class, )*
                }
            }
        }
    };
}

ops! {
    Create = 1 "CREATE" Metadata,
    Remove = 2 "REMOVE" Metadata,
    Io = 3 "IO" Data,
    GetAttr = 4 "GETATTR" Metadata,
    SetAttr = 5 "SETATTR" Metadata,
    LookupPath = 6 "LOOKUP_PATH" Metadata,
    CrDirent = 7 "CRDIRENT" Metadata,
    RmDirent = 8 "RMDIRENT" Metadata,
    ChDirent = 9 "CHDIRENT" Metadata,
    Truncate = 10 "TRUNCATE" Metadata,
    MkDir = 11 "MKDIR" Metadata,
    ReadDir = 12 "READDIR" Metadata,
    GetConfig = 13 "GETCONFIG" Management,
    WriteCompletion = 14 "WRITE_COMPLETION" ReplyOnly,
    Flush = 15 "FLUSH" Metadata,
    MgmtSetParam = 16 "MGMT_SETPARAM" Management,
    MgmtNoop = 17 "MGMT_NOOP" Management,
    StatFs = 18 "STATFS" Metadata,
    PerfUpdate = 19 "PERF_UPDATE" Internal,
    MgmtPerfMon = 20 "MGMT_PERF_MON" Management,
    MgmtIterateHandles = 21 "MGMT_ITERATE_HANDLES" Management,
    MgmtDspaceInfoList = 22 "MGMT_DSPACE_INFO_LIST" Management,
    MgmtEventMon = 23 "MGMT_EVENT_MON" Management,
    MgmtRemoveObject = 24 "MGMT_REMOVE_OBJECT" Management,
    MgmtRemoveDirent = 25 "MGMT_REMOVE_DIRENT" Management,
    MgmtGetDirdataHandle = 26 "MGMT_GET_DIRDATA_HANDLE" Management,
    JobTimer = 27 "JOB_TIMER" Internal,
    ProtoError = 28 "PROTO_ERROR" ReplyOnly,
    GetEattr = 29 "GETEATTR" Metadata,
    SetEattr = 30 "SETEATTR" Metadata,
    DelEattr = 31 "DELEATTR" Metadata,
    ListEattr = 32 "LISTEATTR" Metadata,
    SmallIo = 33 "SMALL_IO" Data,
    ListAttr = 34 "LISTATTR" Metadata,
    BatchCreate = 35 "BATCH_CREATE" Metadata,
    BatchRemove = 36 "BATCH_REMOVE" ServerToServer,
    PrecreatePoolRefiller = 37 "PRECREATE_POOL_REFILLER" Internal,
    Unstuff = 38 "UNSTUFF" Metadata,
    Mirror = 39 "MIRROR" ServerToServer,
    ImmCopies = 40 "IMM_COPIES" Internal,
    TreeRemove = 41 "TREE_REMOVE" Metadata,
    TreeGetFileSize = 42 "TREE_GET_FILE_SIZE" Metadata,
    MgmtGetUid = 43 "MGMT_GET_UID" Management,
    TreeSetAttr = 44 "TREE_SETATTR" Metadata,
    MgmtGetDirent = 45 "MGMT_GET_DIRENT" ServerToServer,
    MgmtCreateRootDir = 46 "MGMT_CREATE_ROOT_DIR" Internal,
    MgmtSplitDirent = 47 "MGMT_SPLIT_DIRENT" ServerToServer,
    AtomicEattr = 48 "ATOMICEATTR" Metadata,
    TreeGetAttr = 49 "TREE_GETATTR" Metadata,
    MgmtGetUserCert = 50 "MGMT_GET_USER_CERT" Management,
    MgmtGetUserCertKeyReq = 51 "MGMT_GET_USER_CERT_KEYREQ" Management,
}

impl Op {
    /// The code on the wire.
    pub const fn code(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The status of a reply: zero, or a negative OrangeFS error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

/// Marks an OrangeFS error code; the second bit, one that is not an errno.
const ERROR_BIT: i32 = 1 << 30;
const NON_ERRNO_BIT: i32 = 1 << 29;

impl Status {
    /// Success.
    pub const OK: Self = Self(0);

    /// The status that reports `errno` (class 0).
    pub const fn error(errno: Errno) -> Self {
        Self(-(ERROR_BIT | errno.0))
    }

    /// Whether the status is zero. Only such replies have a body.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// The errno of an error; `None` for success and for codes that are not an errno.
    pub const fn errno(self) -> Option<Errno> {
        match self.0.checked_neg() {
            Some(code) if code > 0 && code & ERROR_BIT != 0 && code & NON_ERRNO_BIT == 0 => Some(Errno(code & 0x7f)),
            _ => None,
        }
    }

    /// The error class (bits 7 to 9); 1 is the transport, the only class that generic client code retries.
    pub const fn class(self) -> i32 {
        self.0.wrapping_neg() >> 7 & 7
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_ok(), self.errno().and_then(Errno::name)) {
            (true, _) => f.write_str("OK"),
            (_, Some(name)) => f.write_str(name),
            _ => write!(f, "status {}", self.0),
        }
    }
}

/// An OrangeFS error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $code:expr),* $(,)?) => {
        #[expect(missing_docs, reason = "the names are those of POSIX")]
        impl Errno {
            $( pub const $name: Self = Self($code); )*

            /// The POSIX name, if the number is one of the constants here.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $code => Some(stringify!($name)), )*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, ENOENT = 2, EINTR = 3, EIO = 4, EBADF = 6, EAGAIN = 7, ENOMEM = 8, EBUSY = 10, EEXIST = 11,
    ENOTDIR = 13, EISDIR = 14, EINVAL = 15, EFBIG = 17, ENOSPC = 18, EROFS = 19, ENAMETOOLONG = 23, ENOSYS = 25,
    ENOTEMPTY = 26, EPROTO = 38, EOVERFLOW = 40, EOPNOTSUPP = 46, ETIMEDOUT = 53, ECONNREFUSED = 54, EACCES = 58,
    ECONNRESET = 59,
}

/// Bits of [`Capability::op_mask`].
#[expect(missing_docs, reason = "each allows the operation it names")]
pub mod op_mask {
    pub const EXEC: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const READ: u32 = 4;
    pub const SETATTR: u32 = 8;
    pub const CREATE: u32 = 16;
    pub const ADMIN: u32 = 32;
    pub const REMOVE: u32 = 64;
    pub const BATCH_CREATE: u32 = 128;
    pub const BATCH_REMOVE: u32 = 256;
}

wire_structs! {
    /// What a request is allowed to do, and to which objects. The default is the null capability, which GETCONFIG and
    /// others carry.
    #[derive(Default)]
    pub struct Capability {
        /// `S:` and the alias of the server that issued it; empty in the null capability.
        pub issuer: Text,
        /// The file system it is for.
        pub fs: FsId,
        /// Empty in builds without key or certificate security.
        [pad4] pub signature: Vec<u8>,
        /// When it expires, in seconds since 1970.
        pub timeout: u64,
        /// What it allows, see [`op_mask`].
        pub op_mask: u32,
        /// The object first, then its datafile or directory data handles.
        pub handles: Vec<Handle>;
        align8
    }

    /// On whose behalf a request is made.
    #[derive(Default)]
    pub struct Credential {
        /// The user.
        [pad4] [pad4] pub uid: u32,
        /// The user's groups, the primary one first.
        pub gids: Vec<u32>,
        /// `C:` and a client's host name, or `S:` and a server's alias.
        [align8] pub issuer: Text,
        /// When it expires, in seconds since 1970.
        pub timeout: u64,
        /// Empty in builds without key or certificate security.
        pub signature: Vec<u8>,
        /// Empty in builds without certificate security.
        [pad4] pub certificate: Vec<u8>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_dense_and_invert() {
        assert_eq!(Op::ALL.len(), 51);
        for (at, op) in (1..).zip(Op::ALL) {
            assert_eq!(op.code(), at);
            assert_eq!(Op::from_code(at), Some(*op));
        }
        assert_eq!(Op::from_code(0), None);
        assert_eq!(Op::from_code(52), None);
    }

    #[test]
    fn numbers_are_those_of_the_wire() {
        let enoent = Status::error(Errno::ENOENT);
        assert_eq!(enoent.0, -1_073_741_826);
        assert_eq!(enoent.errno(), Some(Errno::ENOENT));
        assert_eq!(enoent.class(), 0);
        assert_eq!(enoent.to_string(), "ENOENT");
        assert_eq!(Status::OK.errno(), None);
        assert_eq!(Status(i32::MIN).errno(), None);
        assert_eq!(Status(-(ERROR_BIT | NON_ERRNO_BIT | 3)).errno(), None);
        assert_eq!(Status(-(ERROR_BIT | 1 << 7 | 53)).class(), 1);
    }
}

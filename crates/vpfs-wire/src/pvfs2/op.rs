//! The operations and what kind of work each is (docs/protocols/orangefs.md, operations).

use std::fmt;

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

    /// IO and SMALL_IO.
    pub const fn moves_data(self) -> bool {
        matches!(self.class(), OpClass::Data)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
}

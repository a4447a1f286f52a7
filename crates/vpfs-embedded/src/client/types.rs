//! What a client returns.

use std::time::SystemTime;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// Attributes of a file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The object's handle.
    pub handle: u64,
    /// What it is.
    pub kind: FileKind,
    /// Size in bytes: of the data, of a link's target; 0 for a directory.
    pub size: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Last access, in whole seconds.
    pub accessed: SystemTime,
    /// Last change of the data, in whole seconds.
    pub modified: SystemTime,
    /// Last change of the attributes, in whole seconds.
    pub changed: SystemTime,
    /// Datafiles the file is spread over; 0 for what is no file.
    pub datafiles: usize,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name inside the directory.
    pub name: String,
    /// Handle of the object.
    pub handle: u64,
}

/// How full the servers are, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes that may still be written.
    pub bytes_available: u64,
    /// Bytes in all.
    pub bytes_total: u64,
    /// Objects that may still be created.
    pub handles_available: u64,
    /// Objects in all.
    pub handles_total: u64,
}

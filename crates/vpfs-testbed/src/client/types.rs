//! Results of client operations.

use std::time::SystemTime;

/// The kind of an object.
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
    /// Its kind.
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
    /// Datafiles the file is striped over; 0 for other objects.
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

/// Space used and available, summed over the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes that may still be written.
    pub bytes_available: u64,
    /// Total bytes.
    pub bytes_total: u64,
    /// Objects that may still be created.
    pub handles_available: u64,
    /// Total objects.
    pub handles_total: u64,
}

//! Which names are names of one file.
//!
//! Inode numbers do not tell: file systems that put several others together pass on the numbers of those, and network
//! file systems use them again. Two names are merged only if the file system gives both the same file handle, which is
//! for that. Where there are no handles, or if a handle goes by name (libfuse's paths), each name is a file of its own.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::Path;

use name_to_handle_at::{AT_EMPTY_PATH, FileHandle, MountId, name_to_handle_at};
use rustix::fs::{FileType, Stat};

/// What two names of one file have in common, and no other file has while this one is open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// Handles are for one file system, and access may depend on the mount.
    Handle { mount: u64, kind: i32, handle: Vec<u8> },
    /// The serial number of the directory, and the name.
    Name { directory: u64, name: OsString },
}

/// A name in a directory.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) directory: u64,
    pub(crate) name: &'a OsStr,
}

/// What the source says about a file, which is necessary, but not enough, for being the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) device: u64,
    pub(crate) ino: u64,
    kind: FileType,
}

impl Source {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, ino: stat.st_ino, kind: FileType::from_raw_mode(stat.st_mode) }
    }
}

impl Identity {
    pub(crate) fn of(fd: &impl AsFd, place: Place) -> Self {
        Self::proven(fd).unwrap_or_else(|| Self::named(place))
    }

    /// Whether names that have it are names of one file.
    pub(crate) fn is_proof(&self) -> bool {
        matches!(self, Self::Handle { .. })
    }

    /// If the file system proves it.
    pub(crate) fn proven(fd: &impl AsFd) -> Option<Self> {
        let (FileHandle { handle_type, handle }, mount) = name_to_handle_at(fd, Path::new(""), AT_EMPTY_PATH).ok()?;
        let mount = match mount {
            MountId::Reusable(id) => id.into(),
            MountId::Unique(id) => id,
        };
        Some(Self::Handle { mount, kind: handle_type, handle })
    }

    pub(crate) fn named(Place { directory, name }: Place) -> Self {
        Self::Name { directory, name: name.to_owned() }
    }
}

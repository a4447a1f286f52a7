//! Classes of servers, as directories.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Result;

use crate::fd::flocked;

/// A class of servers: a directory, whose file system spreads what lies in it over them.
#[derive(Debug)]
pub struct Class {
    /// Its name in maps.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    pub(crate) directory: Arc<OwnedFd>,
}

impl Class {
    /// Opens the directory.
    ///
    /// # Errors
    /// If it is none.
    pub fn open(name: String, path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = Arc::new(openat(CWD, path, flags, Mode::empty())?);
        Ok(Self { name, path: path.to_owned(), directory })
    }

    /// Locks the directory until the class is dropped: mounts share it, repairs do not. False if others have it.
    pub(crate) fn lock(&self, alone: bool) -> Result<bool> {
        flocked(&self.directory, alone)
    }
}

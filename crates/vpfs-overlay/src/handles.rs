//! What is open.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use fuser::BackingId;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fdatasync, fsync, ftruncate, seek};
use rustix::io::{Errno, Result, dup, pread, pwrite};

use crate::caller::{Caller, Credentials, User};
use crate::fd::close;
use crate::inodes::{Inode, lock};
use crate::shares::Asker;
use crate::stored::Opened;

/// What is open, by handle.
#[derive(Debug)]
pub(crate) struct Table<T> {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<T>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { next: AtomicU64::new(1), open: Mutex::default() }
    }
}

impl<T> Table<T> {
    pub(crate) fn add(&self, open: T) -> u64 {
        let handle = self.next.fetch_add(1, Relaxed);
        lock(&self.open).insert(handle, Arc::new(open));
        handle
    }

    pub(crate) fn get(&self, handle: u64) -> Result<Arc<T>> {
        lock(&self.open).get(&handle).cloned().ok_or(Errno::BADF)
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        lock(&self.open).remove(&handle)
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) inode: Arc<Inode>,
    pub(crate) content: Content,
    /// The program that opened it, and its rights: what the kernel writes by itself is written with these.
    pub(crate) opened_by: Caller,
    pub(crate) rights: Option<Credentials>,
    /// Kept while the file is open, as the kernel needs it.
    pub(crate) backing: Option<Arc<BackingId>>,
    /// The path that programs know, if requests are recorded.
    pub(crate) label: Option<Arc<str>>,
    /// Whose turns its requests take, if there are any.
    pub(crate) opener: Option<Arc<Asker>>,
}

#[derive(Debug)]
pub(crate) enum Content {
    Plain(OwnedFd),
    Regions(Opened),
}

impl Content {
    pub(crate) fn read(&self, user: User, at: u64, size: usize) -> Result<Vec<u8>> {
        match self {
            Self::Regions(opened) => opened.read(at, size),
            Self::Plain(file) => user.run(|| read(file, at, size)),
        }
    }

    pub(crate) fn write(&self, user: User, at: u64, data: &[u8]) -> Result<usize> {
        match self {
            Self::Regions(opened) => opened.write(user, at, data),
            Self::Plain(file) => user.run(|| pwrite(file, data, at)),
        }
    }

    pub(crate) fn sync(&self, is_data_only: bool) -> Result<()> {
        match self {
            Self::Regions(opened) => opened.sync(is_data_only),
            Self::Plain(file) if is_data_only => fdatasync(file),
            Self::Plain(file) => fsync(file),
        }
    }

    /// Closes it for one of those who have it open: network file systems write what is cached then, and say if they
    /// can't.
    pub(crate) fn flush(&self) -> Result<()> {
        match self {
            Self::Regions(opened) => opened.flush(),
            Self::Plain(file) => close(dup(file)?),
        }
    }

    pub(crate) fn allocate(&self, user: User, mode: FallocateFlags, at: u64, size: u64) -> Result<()> {
        match self {
            Self::Regions(opened) => opened.allocate(user, mode, at, size),
            Self::Plain(file) => user.run(|| fallocate(file, mode, at, size)),
        }
    }

    pub(crate) fn seek(&self, at: u64, is_data: bool) -> Result<u64> {
        match self {
            Self::Regions(opened) => opened.seek(at, is_data),
            Self::Plain(file) => seek(file, if is_data { SeekFrom::Data(at) } else { SeekFrom::Hole(at) }),
        }
    }

    pub(crate) fn truncate(&self, size: u64) -> Result<()> {
        match self {
            Self::Regions(opened) => opened.truncate(size),
            Self::Plain(file) => ftruncate(file, size),
        }
    }
}

fn read(file: &OwnedFd, at: u64, size: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(size);
    // Fewer bytes than asked for mean the end of the file to the kernel.
    while buffer.len() < size {
        let from = at + buffer.len() as u64;
        let mut rest = std::mem::take(&mut buffer);
        let read = pread(file, rustix::buffer::spare_capacity(&mut rest), from);
        buffer = rest;
        match read {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(size);
    Ok(buffer)
}

//! Objects in a directory, one sparse file each.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{ObjectStore, StoreError, Usage, checked_end};

/// Objects in a directory: object 0xabc is the file `bc/0000000000000abc`. The data outlives the process.
///
/// Used bytes are the sum of the objects' sizes; holes count, so the limit holds whatever the underlying file system
/// does.
#[derive(Debug)]
pub struct DirectoryStore {
    root: PathBuf,
    capacity: u64,
    sizes: Mutex<Sizes>,
}

#[derive(Debug, Default)]
struct Sizes {
    by_object: HashMap<u64, u64>,
    total: u64,
}

impl Sizes {
    fn get(&self, object: u64) -> u64 {
        self.by_object.get(&object).copied().unwrap_or(0)
    }

    fn set(&mut self, object: u64, size: u64) {
        let before = self.by_object.insert(object, size).unwrap_or(0);
        self.total = self.total - before + size;
    }

    fn forget(&mut self, object: u64) {
        self.total -= self.by_object.remove(&object).unwrap_or(0);
    }
}

impl DirectoryStore {
    /// Opens or creates the store in `root`; it holds at most `capacity` bytes.
    pub fn open(root: impl Into<PathBuf>, capacity: u64) -> io::Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root)?;
        let mut sizes = Sizes::default();
        for directory in fs::read_dir(&root)? {
            let directory = directory?;
            if directory.file_type()?.is_dir() {
                scan(&directory.path(), &mut sizes)?;
            }
        }
        Ok(Self { root, capacity, sizes: Mutex::new(sizes) })
    }

    fn path(&self, object: u64) -> PathBuf {
        self.root.join(format!("{:02x}", object & 0xff)).join(format!("{object:016x}"))
    }

    fn open_to_write(&self, object: u64) -> io::Result<File> {
        let path = self.path(object);
        let open = || OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(path.parent().unwrap_or(&self.root))?;
                open()
            }
            opened => opened,
        }
    }

    /// Reserves a new size, computed from the old one, before the file has it, so that two writers cannot both take the
    /// last bytes.
    fn book(&self, object: u64, resize: impl FnOnce(u64) -> u64) -> Result<(), StoreError> {
        let mut sizes = self.sizes();
        let before = sizes.get(object);
        let size = resize(before);
        let wanted = size.saturating_sub(before);
        if wanted > self.capacity.saturating_sub(sizes.total) {
            return Err(StoreError::Full { wanted, used: sizes.total, capacity: self.capacity });
        }
        sizes.set(object, size);
        Ok(())
    }

    /// After a failed write the size is taken from the file.
    fn book_real_size(&self, object: u64) {
        let real = fs::metadata(self.path(object)).map_or(0, |metadata| metadata.len());
        self.sizes().set(object, real);
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectStore for DirectoryStore {
    fn read(&self, object: u64, offset: u64, len: usize) -> Result<Bytes, StoreError> {
        let available = self.size(object).saturating_sub(offset);
        let wanted = usize::try_from(available).unwrap_or(usize::MAX).min(len);
        if wanted == 0 {
            return Ok(Bytes::new());
        }
        let file = match File::open(self.path(object)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Bytes::new()),
            Err(error) => return Err(error.into()),
        };
        let mut data = vec![0; wanted];
        let mut filled = 0;
        while filled < wanted {
            match file.read_at(&mut data[filled..], offset + filled as u64)? {
                0 => break,
                n => filled += n,
            }
        }
        data.truncate(filled);
        Ok(data.into())
    }

    fn write(&self, object: u64, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let end = checked_end(offset, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        self.book(object, |size| size.max(end))?;
        let written = self.open_to_write(object).and_then(|file| file.write_all_at(data, offset));
        written.map_err(|error| {
            self.book_real_size(object);
            error.into()
        })
    }

    fn truncate(&self, object: u64, size: u64) -> Result<(), StoreError> {
        checked_end(size, 0)?;
        self.book(object, |_| size)?;
        let cut = self.open_to_write(object).and_then(|file| file.set_len(size));
        cut.map_err(|error| {
            self.book_real_size(object);
            error.into()
        })
    }

    fn size(&self, object: u64) -> u64 {
        self.sizes().get(object)
    }

    fn remove(&self, object: u64) -> Result<(), StoreError> {
        self.sizes().forget(object);
        match fs::remove_file(self.path(object)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn flush(&self, object: u64) -> Result<(), StoreError> {
        match File::open(self.path(object)) {
            Ok(file) => Ok(file.sync_data()?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn usage(&self) -> Usage {
        Usage { used: self.sizes().total, capacity: self.capacity }
    }

    fn may_block(&self) -> bool {
        true
    }
}

/// Counts the objects of one subdirectory; files whose name is not an object number are not ours and are left alone.
fn scan(directory: &Path, sizes: &mut Sizes) -> io::Result<()> {
    for file in fs::read_dir(directory)? {
        let file = file?;
        if let Some(object) = file.file_name().to_str().and_then(|name| u64::from_str_radix(name, 16).ok()) {
            sizes.set(object, file.metadata()?.len());
        }
    }
    Ok(())
}

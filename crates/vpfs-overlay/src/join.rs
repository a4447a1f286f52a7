//! Makes a plain file of a file of regions.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, futimens};
use rustix::io::Errno;

use crate::class::Class;
use crate::fd::sync_directory;
use crate::names::unfinished;
use crate::owner::{source_of, verify};
use crate::stored::{Opened, Stored};

/// Bytes that are copied at once.
const PIECE: u64 = 4 << 20;

/// Replaces the map `path`, in the source, by a plain file with its bytes, in one step; then removes the region files.
/// Holes stay holes. `attributes` gives the second file what the first one has: owner, mode, and so on.
///
/// # Errors
/// If it has no regions, the directories are not those of its source and classes, it is open in a mount of this host,
/// or cannot be copied. Then all is as before.
pub fn join(path: &Path, classes: &[Class], attributes: impl Fn(&File, &File) -> io::Result<()>) -> io::Result<u64> {
    let no_regions = || io::Error::other("it has no regions");
    let source = source_of(path)?.ok_or_else(no_regions)?;
    for class in classes {
        verify(&source, class).map_err(|error| io::Error::other(format!("{}: {error}", class.path.display())))?;
    }
    let map = File::open(path)?;
    let stored = Stored::load(&map, classes)?.ok_or_else(no_regions)?;
    let stored = Arc::new(stored);
    let opened = Opened::new(Arc::clone(&stored), &map)?;
    if !opened.lock_alone()? {
        return Err(io::Error::other("it is open in a mount; close it there first"));
    }
    let new: PathBuf = path.with_file_name(unfinished(stored.map().id()));
    // The directory may be anybody's: what has the name already is not followed, and nobody reads the copy before it
    // has the file's rights.
    let to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let copied = copy(&opened, &stored, &map, &to, attributes).and_then(|size| {
        fs::rename(&new, path)?;
        Ok(size)
    });
    let size = copied.inspect_err(|_| drop(fs::remove_file(&new)))?;
    let directory =
        File::open(path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    sync_directory(&directory.into())?;
    stored.remove()?;
    Ok(size)
}

fn copy(
    opened: &Opened,
    stored: &Stored,
    map: &File,
    to: &File,
    attributes: impl Fn(&File, &File) -> io::Result<()>,
) -> io::Result<u64> {
    let usage = stored.usage()?;
    let mut at = 0;
    while let Some(data) = next(opened, at, true)? {
        let end = next(opened, data, false)?.unwrap_or(usage.size);
        at = data;
        while at < end {
            let size = usize::try_from(PIECE.min(end - at)).map_err(|_| Errno::INVAL)?;
            let bytes = opened.read(at, size)?;
            if bytes.is_empty() {
                return Err(io::Error::other("it became shorter meanwhile"));
            }
            to.write_all_at(&bytes, at)?;
            at += bytes.len() as u64;
        }
    }
    to.set_len(usage.size)?;
    attributes(map, to)?;
    let (seconds, nanoseconds) = usage.modified.max((map.metadata()?.mtime(), map.metadata()?.mtime_nsec()));
    let last_modification = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    futimens(to, &Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification })?;
    to.sync_all()?;
    Ok(usage.size)
}

fn next(opened: &Opened, at: u64, is_data: bool) -> io::Result<Option<u64>> {
    match opened.seek(at, is_data) {
        Err(Errno::NXIO) => Ok(None),
        place => Ok(Some(place?)),
    }
}

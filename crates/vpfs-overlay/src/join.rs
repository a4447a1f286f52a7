//! Makes a plain file of a file of regions.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, XattrFlags, fstat, futimens, getxattr, setxattr};
use rustix::io::Errno;

use crate::fd::sync_directory;
use crate::map::unfinished;
use crate::stored::{ATTRIBUTE, Class, Opened, Stored, new_id};

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

/// The file in a class's directory that has the id of its source, and the name of the class.
const NAME: &str = "vpfs-source";

const TEXT_MAX: usize = 4096;

/// What the root of a source has as an attribute: its id, and the classes that may have region files.
struct Source {
    id: String,
    classes: Vec<String>,
}

impl Source {
    fn of(root: &Path) -> io::Result<Option<Self>> {
        let mut text = [0_u8; TEXT_MAX];
        match getxattr(root, ATTRIBUTE, &mut text[..]) {
            Err(Errno::NODATA) => Ok(None),
            size => {
                let text = String::from_utf8_lossy(&text[..size?]).into_owned();
                let mut words = text.split_ascii_whitespace().map(str::to_owned);
                Ok(Some(Self { id: words.next().unwrap_or_default(), classes: words.collect() }))
            }
        }
    }

    fn write(&self, root: &Path) -> io::Result<()> {
        let text = format!("{} {}", self.id, self.classes.join(" "));
        Ok(setxattr(root, ATTRIBUTE, text.as_bytes(), XattrFlags::empty())?)
    }

    /// Whether the directory has region files of this source and class; if not, nobody's.
    fn has(source: Option<&Self>, class: &Class) -> io::Result<bool> {
        let mut text = String::new();
        match File::open(class.path.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_missing = source.is_some_and(|source| source.classes.contains(&class.name));
                return if is_missing { Err(missing()) } else { Ok(false) };
            }
            file => file?.take(TEXT_MAX as u64).read_to_string(&mut text)?,
        };
        let mut words = text.split_ascii_whitespace();
        let (id, name) = (words.next(), words.next());
        if id.is_none() || id != source.map(|source| source.id.as_str()) {
            return Err(io::Error::other("it has region files of another source; give each source its own"));
        }
        if name != Some(&class.name) {
            let name = name.unwrap_or_default();
            return Err(io::Error::other(format!("it has the region files of class {name:?}")));
        }
        Ok(true)
    }
}

fn missing() -> io::Error {
    io::Error::other("the class has region files, but they are not there; is its file system mounted?")
}

/// Makes sure that the directory has the region files of this source and class.
pub(crate) fn verify(source: &Path, class: &Class) -> io::Result<()> {
    match Source::has(Source::of(source)?.as_ref(), class)? {
        true => Ok(()),
        false => Err(io::Error::other("it has no region files of this source")),
    }
}

/// The root of the source that a file is in.
pub(crate) fn source_of(file: &Path) -> io::Result<Option<std::path::PathBuf>> {
    let file = file.canonicalize()?;
    for directory in file.ancestors().skip(1) {
        if Source::of(directory)?.is_some() {
            return Ok(Some(directory.to_owned()));
        }
    }
    Ok(None)
}

/// Makes sure that the directory belongs to this source and class, and that nobody else can put files into it. A
/// directory that belongs to nobody is taken.
pub(crate) fn claim(root: &Path, class: &Class) -> io::Result<()> {
    if fstat(&class.directory)?.st_mode & 0o022 != 0 {
        return Err(io::Error::other("others may write to it, and so to region files; chmod it to 700"));
    }
    let mut source = match Source::of(root)? {
        Some(source) => source,
        None => Source { id: new_id()?, classes: Vec::new() },
    };
    if !Source::has(Some(&source), class)? {
        // The id first, so that what a crash leaves is not another source's.
        source.write(root)?;
        let path = class.path.join(NAME);
        let mut file = File::create_new(&path)?;
        let written = writeln!(file, "{} {}", source.id, class.name).and_then(|()| file.sync_all());
        written.inspect_err(|_| drop(fs::remove_file(&path)))?;
        sync_directory(&class.directory)?;
    }
    if !source.classes.contains(&class.name) {
        source.classes.push(class.name.clone());
        source.write(root)?;
    }
    Ok(())
}

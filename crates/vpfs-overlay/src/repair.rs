//! Region files outside of a mount: whether maps and they belong together, repair of what a crash left, plain files of
//! files of regions, and whose a directory is.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs, io};

use rustix::fs::{Gid, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, fstat, futimens, getxattr, setxattr};
use rustix::io::Errno;

use crate::inodes::Identity;
use crate::map::{is_reserved, unfinished};
use crate::stored::{ATTRIBUTE, Class, Opened, Stored, is_map, new_id, read_map};
use crate::system::sync_directory;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A map that never got its name. It has no region files.
    Unfinished(PathBuf),
    /// A region file whose map is gone: of a file that was deleted. Removed, unless some map cannot be read.
    Orphan(PathBuf),
    /// Region files of another owner than the file's, which the owner's quota does not count. The owner gets them.
    Owner(PathBuf),
    /// Two maps of the same region files. A write to one changes the other.
    Twice(PathBuf, PathBuf),
    /// A map that cannot be used.
    Damaged(PathBuf, String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfinished(path) => write!(f, "{path:?} is a map that was not completed"),
            Self::Orphan(path) => write!(f, "{path:?} is a region of a file that was deleted"),
            Self::Owner(path) => write!(f, "regions of {path:?} belong to another user or group"),
            Self::Twice(one, other) => {
                write!(f, "{one:?} and {other:?} have the same regions; one of them was copied without a mount")
            }
            Self::Damaged(path, problem) => write!(f, "{path:?} cannot be used: {problem}"),
        }
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Files with regions, each once.
    pub maps: u64,
    /// In the order of the search, each with whether it was fixed.
    pub findings: Vec<(Finding, bool)>,
}

/// Looks at all files of a source, and at all region files; with `fix`, fixes what can be fixed, for which nobody may
/// have it mounted. Needs 200 bytes of memory for each region file.
///
/// # Errors
/// If something cannot be read, the class directories belong to another source, or, with `fix`, are in use.
pub fn check(source: &Path, classes: &[Class], fix: bool) -> io::Result<Report> {
    for class in classes {
        verify(source, class).map_err(|error| io::Error::other(format!("{}: {error}", class.path.display())))?;
        if fix && !class.lock(true)? {
            return Err(io::Error::other(format!(
                "{} is in use; unmount it first, on all hosts",
                class.path.display()
            )));
        }
    }
    // Region files first: a file that is created meanwhile has its map before.
    let mut check =
        Check { classes, fix, regions: regions(classes)?, maps: BTreeMap::new(), report: Report::default() };
    check.walk(source)?;
    let orphans: Vec<PathBuf> =
        check.regions.values().flatten().map(|(class, name)| classes[*class].path.join(name)).collect();
    // They may be all that is left of a file whose map cannot be read.
    check.fix &= !check.report.findings.iter().any(|(finding, _)| matches!(finding, Finding::Damaged(..)));
    for path in orphans {
        check.found(Finding::Orphan(path.clone()), || fs::remove_file(&path))?;
    }
    Ok(check.report)
}

type Regions = BTreeMap<String, Vec<(usize, String)>>;

struct Named {
    proof: Option<Identity>,
    inode: (u64, u64),
}

impl Named {
    /// As far as the file system can tell: where there is no proof, two links are not two copies.
    fn is_same(&self, other: &Self) -> bool {
        match (&self.proof, &other.proof) {
            (Some(one), Some(other)) => one == other,
            _ => self.inode == other.inode,
        }
    }
}

struct Check<'a> {
    classes: &'a [Class],
    fix: bool,
    regions: Regions,
    maps: BTreeMap<String, (PathBuf, Named)>,
    report: Report,
}

fn regions(classes: &[Class]) -> io::Result<Regions> {
    let mut regions = Regions::new();
    for (number, class) in classes.iter().enumerate() {
        for entry in fs::read_dir(&class.path)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if let Some((id, _)) = name.split_once(".region-") {
                regions.entry(id.to_owned()).or_default().push((number, name));
            }
        }
    }
    Ok(regions)
}

impl Check<'_> {
    fn found(&mut self, finding: Finding, fix: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.report.findings.push((finding, self.fix));
        if self.fix { fix() } else { Ok(()) }
    }

    fn note(&mut self, finding: Finding) {
        self.report.findings.push((finding, false));
    }

    fn walk(&mut self, source: &Path) -> io::Result<()> {
        let mut directories = vec![source.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                let (path, kind) = (entry.path(), entry.file_type()?);
                if kind.is_dir() {
                    directories.push(path);
                } else if kind.is_file() {
                    match self.file(&path, is_reserved(entry.file_name().as_bytes())) {
                        // It was deleted meanwhile.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        checked => checked?,
                    }
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, is_unfinished: bool) -> io::Result<()> {
        if is_unfinished {
            return self.found(Finding::Unfinished(path.to_owned()), || fs::remove_file(path));
        }
        let file = File::open(path)?;
        if !is_map(&file) {
            return Ok(());
        }
        let metadata = file.metadata()?;
        let damaged = |problem| Finding::Damaged(path.to_owned(), problem);
        let map = match read_map(&file) {
            Ok(map) => map,
            Err(problem) => {
                self.note(damaged(problem));
                return Ok(());
            }
        };
        let inode = Named { proof: Identity::proven(&file), inode: (metadata.dev(), metadata.ino()) };
        if let Some((first, known)) = self.maps.get(map.id()) {
            // Else it is another name of the same file.
            if !known.is_same(&inode) {
                self.note(Finding::Twice(first.clone(), path.to_owned()));
            }
            return Ok(());
        }
        self.maps.insert(map.id().to_owned(), (path.to_owned(), inode));
        self.report.maps += 1;
        let Ok(stored) = Stored::of(map, self.classes) else {
            self.note(damaged("it has a class without a directory".to_owned()));
            return Ok(());
        };
        self.stored(path, &stored, &metadata)
    }

    fn stored(&mut self, path: &Path, stored: &Stored, metadata: &fs::Metadata) -> io::Result<()> {
        let class = |number: usize| self.classes.iter().position(|class| class.name == stored.map().classes()[number]);
        let expected: Vec<_> = stored.map().files().iter().map(|file| (class(file.class), file.name.clone())).collect();
        if let Some(mine) = self.regions.get_mut(stored.map().id()) {
            mine.retain(|(class, name)| !expected.contains(&(Some(*class), name.clone())));
        }
        let (mut is_foreign, mut is_long) = (false, false);
        for number in 0..expected.len() {
            let Some(stat) = stored.stat(number)? else { continue };
            is_foreign |= (stat.st_uid, stat.st_gid) != (metadata.uid(), metadata.gid());
            is_long |= stat.st_size.cast_unsigned() > stored.map().share(number, 1 << 62);
        }
        if is_long {
            self.note(Finding::Damaged(path.to_owned(), "a region file is longer than its region".to_owned()));
        }
        let (user, group) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        if is_foreign {
            self.found(Finding::Owner(path.to_owned()), || Ok(stored.give(user, group)?))?;
        }
        Ok(())
    }
}

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

pub(crate) fn verify(source: &Path, class: &Class) -> io::Result<()> {
    match Source::has(Source::of(source)?.as_ref(), class)? {
        true => Ok(()),
        false => Err(io::Error::other("it has no region files of this source")),
    }
}

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

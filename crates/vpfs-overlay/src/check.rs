//! Whether maps and region files belong together, and repair of what a crash left.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use rustix::fs::{Gid, Uid};

use crate::inodes::Identity;
use crate::join::verify;
use crate::map::is_reserved;
use crate::stored::{Class, Stored, is_map, read_map};

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

/// Region files by the id of their map: class and name.
type Regions = BTreeMap<String, Vec<(usize, String)>>;

/// What a name stands for.
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
    /// By id: where it was found, and its inode.
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

    /// It can only be fixed by hand.
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

    /// Takes the region files that belong to the map away from those that are left.
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

//! Executes the steps of a copy on a file system.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use crate::job::{Done, Found, Job, Step};
use crate::record::{Record, Stage, Version};
use crate::{RelayoutError, attributes, files, writers};

/// How to copy.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The new file takes the source's name, and the old one is deleted. Otherwise both remain.
    pub replace: bool,
    /// The target is an empty file that has the new layout.
    pub fill: bool,
    /// Forget an earlier copy that did not end.
    pub restart: bool,
    /// Write zeros where the source has holes.
    pub fill_holes: bool,
    /// Go on if the file system refuses owner, mode, times or extended attributes.
    pub allow_loss: bool,
    /// The state is saved each time after so many bytes.
    pub piece: u64,
}

impl Default for Options {
    /// Nothing that needs to be asked for, and pieces of 64 MiB.
    fn default() -> Self {
        let (replace, fill, restart) = (false, false, false);
        Self { replace, fill, restart, fill_holes: false, allow_loss: false, piece: 64 << 20 }
    }
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Whether both files are being compared, after all is copied.
    pub verifying: bool,
    /// Bytes copied or compared.
    pub done: u64,
    /// Bytes of the file.
    pub all: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The new file.
    pub destination: PathBuf,
    /// Its bytes.
    pub size: u64,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// A copy of a file into a new layout.
#[derive(Debug)]
pub struct Relayout {
    job: Job,
    options: Options,
    source: Option<Source>,
    partial_path: PathBuf,
    partial: Option<File>,
    state: PathBuf,
    summary: Summary,
}

/// The open source, and its metadata before it was read.
#[derive(Debug)]
struct Source {
    file: File,
    metadata: Metadata,
}

impl Relayout {
    /// Prepares a copy of `source` to `target`, or goes on with one that did not end. `target` is the new file, or a
    /// directory in which it gets the source's name.
    ///
    /// The partial file and the state are beside the target: `.NAME.vpfs-partial` and `.NAME.vpfs-copy.json`.
    ///
    /// # Errors
    /// If something would be overwritten, or the copy could not take its name later.
    pub fn open(source: &Path, target: &Path, options: Options) -> Result<Self, RelayoutError> {
        let source_path = absolute(source)?;
        let target = target_file(&source_path, target)?;
        let name = target.file_name().ok_or_else(|| RelayoutError::Exists(target.clone()))?;
        let state = target.with_file_name(hidden(name, ".vpfs-copy.json"));
        let partial_path = target.with_file_name(hidden(name, ".vpfs-partial"));
        let destination = if options.replace { source_path.clone() } else { target.clone() };
        let opened = Source::open(&source_path)?;
        let version = opened.as_ref().map(|source| version(&source.metadata)).transpose()?;
        let partial_size = size_of(&partial_path)?;
        let earlier = read_state(&state)?;
        if let Some(earlier) = &earlier
            && (earlier.source != source_path || earlier.destination != destination)
        {
            let (source_file, destination) = (earlier.source.clone(), earlier.destination.clone());
            return Err(RelayoutError::OtherCopy { path: state, source_file, destination });
        }
        let fresh = |fill| -> Result<Job, RelayoutError> {
            let missing = || RelayoutError::io("open", &source_path)(ErrorKind::NotFound.into());
            let (format, stage) = (Record::FORMAT, Stage::Reserving);
            let (source, version) = (source_path.clone(), version.ok_or_else(missing)?);
            Ok(Job::new(
                Record { format, source, destination: destination.clone(), fill, version, stage },
                options.piece,
            ))
        };
        let job = match earlier {
            // A partial file that had a layout of its own keeps it.
            Some(earlier) if options.restart => fresh(earlier.fill)?,
            Some(earlier) => Job::resume(earlier, Found { source: version, partial: partial_size }, options.piece)
                .map_err(|why| RelayoutError::Resume { path: state.clone(), why })?,
            None if partial_size.is_some() => return Err(RelayoutError::ForeignPartial(partial_path)),
            None => {
                check_target(&target, options)?;
                fresh(options.fill)?
            }
        };
        let summary = Summary { destination, ..Summary::default() };
        let mut this = Self { job, options, source: opened, partial_path, partial: None, state, summary };
        this.check_source()?;
        // Before anything is written, so that a second process changes nothing.
        if partial_size.is_some() {
            this.partial(false)?;
        }
        Ok(this)
    }

    /// The step that [`Relayout::advance`] executes next, `None` when all is done.
    pub fn step(&self) -> Option<&Step> {
        self.job.step()
    }

    /// Executes one step.
    ///
    /// # Errors
    /// If it fails; then the source has its name and content still. The same copy can be opened again.
    pub fn advance(&mut self, on_progress: &mut dyn FnMut(Progress)) -> Result<(), RelayoutError> {
        let Some(step) = self.job.step().cloned() else { return Ok(()) };
        let done = self.execute(&step, on_progress)?;
        self.job.done(done);
        Ok(())
    }

    /// Executes all steps.
    ///
    /// # Errors
    /// As [`Relayout::advance`].
    pub fn run(mut self, mut on_progress: impl FnMut(Progress)) -> Result<Summary, RelayoutError> {
        while self.job.step().is_some() {
            self.advance(&mut on_progress)?;
        }
        Ok(self.summary)
    }

    fn execute(&mut self, step: &Step, on_progress: &mut dyn FnMut(Progress)) -> Result<Done, RelayoutError> {
        match step {
            Step::Save => self.save()?,
            Step::Reserve => self.reserve()?,
            Step::Copy { begin, end } => self.copy(*begin, *end, on_progress)?,
            Step::Sync(size) => self.sync(*size)?,
            Step::Verify => return self.verify(on_progress),
            Step::Attributes => self.attributes()?,
            Step::Check => self.check_unchanged()?,
            Step::Switch => self.switch()?,
            Step::Confirm(sha256) => self.confirm(sha256)?,
            Step::SyncDirectory => {
                sync_directory(&self.summary.destination)?;
                sync_directory(&self.partial_path)?;
            }
            Step::Forget => fs::remove_file(&self.state).map_err(RelayoutError::io("remove", &self.state))?,
        }
        Ok(Done::Ok)
    }

    fn save(&self) -> Result<(), RelayoutError> {
        let mut name = self.state.clone().into_os_string();
        name.push(".new");
        let new = PathBuf::from(name);
        let text = serde_json::to_vec_pretty(self.job.record())
            .map_err(|why| RelayoutError::BadState { path: self.state.clone(), why: why.to_string() })?;
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &self.state)
        };
        write().map_err(RelayoutError::io("write", &self.state))?;
        sync_directory(&self.state)
    }

    /// A restart finds a partial file with data of its own, which it empties.
    fn reserve(&mut self) -> Result<(), RelayoutError> {
        let target = self.target();
        if self.job.record().fill && size_of(&self.partial_path)?.is_none() {
            check_target(&target, Options { fill: true, ..self.options })?;
            rename_to_new(&target, &self.partial_path)?;
        }
        let partial = self.partial(true)?;
        partial.set_len(0).map_err(RelayoutError::io("empty", &self.partial_path))?;
        sync_directory(&self.partial_path)
    }

    fn copy(&mut self, begin: u64, end: u64, on_progress: &mut dyn FnMut(Progress)) -> Result<(), RelayoutError> {
        let all = self.job.record().version.size;
        let (fill_holes, path) = (self.options.fill_holes, self.partial_path.clone());
        self.partial(false)?;
        let (from, to) = self.both()?;
        let mut done = begin;
        let copied = files::copy(from, to, (begin, end), fill_holes, |bytes| {
            done += bytes;
            on_progress(Progress { verifying: false, done, all });
        });
        copied.map_err(RelayoutError::io("copy to", &path))
    }

    fn sync(&mut self, size: u64) -> Result<(), RelayoutError> {
        let path = self.partial_path.clone();
        let wanted = self.job.record().version.size;
        let partial = self.partial(false)?;
        let len = || partial.metadata().map(|metadata| metadata.len()).map_err(RelayoutError::io("look at", &path));
        // Only for a hole at the end: OrangeFS loses data if a file with varstrip_dist is set to the size that it has.
        if size == wanted && len()? != wanted {
            partial.set_len(wanted).map_err(RelayoutError::io("set the size of", &path))?;
        }
        partial.sync_all().map_err(RelayoutError::io("write", &path))?;
        let has = len()?;
        if size == wanted && has != wanted {
            return Err(RelayoutError::WrongSize { path, has, wanted });
        }
        Ok(())
    }

    fn verify(&mut self, on_progress: &mut dyn FnMut(Progress)) -> Result<Done, RelayoutError> {
        let all = self.job.record().version.size;
        let (partial_path, source_file) = (self.partial_path.clone(), self.job.record().source.clone());
        self.partial(false)?;
        let (from, to) = self.both()?;
        files::drop_cache(from);
        files::drop_cache(to);
        let mut done = 0;
        let equal = files::compare(from, to, all, |bytes| {
            done += bytes;
            on_progress(Progress { verifying: true, done, all });
        });
        let equal = equal.map_err(RelayoutError::io("read again", &partial_path))?;
        // A difference is no surprise if somebody wrote to the source.
        self.check_version()?;
        let sha256 = equal.map_err(|at| RelayoutError::Differs { partial: partial_path, source_file, at })?;
        (self.summary.size, self.summary.sha256) = (all, sha256.clone());
        Ok(Done::Equal(sha256))
    }

    fn attributes(&mut self) -> Result<(), RelayoutError> {
        let path = self.partial_path.clone();
        let metadata = self.source()?.metadata.clone();
        self.partial(false)?;
        let (from, to) = self.both()?;
        let refused =
            attributes::copy(from, to, &metadata).map_err(RelayoutError::io("read the attributes of", &path))?;
        let synced = to.sync_all();
        for (attribute, why) in refused {
            if !self.options.allow_loss {
                return Err(RelayoutError::Attribute { path, attribute, why });
            }
            self.summary.warnings.push(format!("the new file did not get the {attribute} ({why})"));
        }
        synced.map_err(RelayoutError::io("write", &path))
    }

    /// Nobody may write to a source that is replaced; if it remains, a writer is worth a warning.
    fn check_source(&mut self) -> Result<(), RelayoutError> {
        let Some(source) = &self.source else { return Ok(()) };
        let now = source.file.metadata().map_err(RelayoutError::io("look at", &self.job.record().source))?;
        let path = self.job.record().source.clone();
        if self.options.replace {
            let directory = parent(&self.partial_path);
            let device = fs::metadata(directory).map_err(RelayoutError::io("look at", directory))?.dev();
            if device != now.dev() {
                return Err(RelayoutError::OtherFileSystem(directory.to_owned()));
            }
            if now.nlink() > 1 {
                return Err(RelayoutError::HardLinks { path, links: now.nlink() });
            }
        } else if now.nlink() > 1 {
            self.warn(format!(
                "{} has {} names (hard links); the new file gets only its own",
                path.display(),
                now.nlink()
            ));
        }
        let writers = writers::of(now.dev(), now.ino()).join(", ");
        match (writers.is_empty(), self.options.replace) {
            (true, _) => Ok(()),
            (false, true) => Err(RelayoutError::Writers { path, writers }),
            (false, false) => {
                self.warn(format!("{} is open for writing in {writers}", path.display()));
                Ok(())
            }
        }
    }

    fn warn(&mut self, warning: String) {
        if !self.summary.warnings.contains(&warning) {
            self.summary.warnings.push(warning);
        }
    }

    fn check_unchanged(&mut self) -> Result<(), RelayoutError> {
        self.check_source()?;
        self.check_version()
    }

    /// The file that has the source's name now must be the one that was copied.
    fn check_version(&self) -> Result<(), RelayoutError> {
        let record = self.job.record();
        let now = fs::metadata(&record.source).map_err(RelayoutError::io("look at", &record.source))?;
        let open = self.source()?.file.metadata().map_err(RelayoutError::io("look at", &record.source))?;
        let same = version(&now)? == record.version && version(&open)? == record.version && now.ino() == open.ino();
        if same { Ok(()) } else { Err(RelayoutError::Changed(record.source.clone())) }
    }

    fn switch(&self) -> Result<(), RelayoutError> {
        let to = &self.summary.destination;
        if self.options.replace {
            return fs::rename(&self.partial_path, to).map_err(RelayoutError::io("give the new file the name", to));
        }
        rename_to_new(&self.partial_path, to)
    }

    fn confirm(&mut self, sha256: &str) -> Result<(), RelayoutError> {
        let path = self.summary.destination.clone();
        let file = File::open(&path).map_err(RelayoutError::io("open", &path))?;
        if files::sha256(&file).map_err(RelayoutError::io("read", &path))? != sha256 {
            return Err(RelayoutError::NotConfirmed(path));
        }
        (self.summary.size, self.summary.sha256) = (self.job.record().version.size, sha256.to_owned());
        Ok(())
    }

    /// The name that the new file is built beside.
    fn target(&self) -> PathBuf {
        let name = self.partial_path.file_name().unwrap_or_default().as_encoded_bytes();
        let name = name.strip_prefix(b".").and_then(|name| name.strip_suffix(b".vpfs-partial")).unwrap_or(name);
        self.partial_path.with_file_name(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name))
    }

    /// The partial file, opened and locked against other processes.
    fn partial(&mut self, create: bool) -> Result<&File, RelayoutError> {
        if self.partial.is_none() {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(create).mode(0o600);
            let opened = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&self.partial_path);
            let file = opened.map_err(RelayoutError::io("open", &self.partial_path))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Err(RelayoutError::Locked(self.partial_path.clone())),
                // Not every file system has locks.
                _ => self.partial = Some(file),
            }
        }
        Ok(self.partial.as_ref().expect("it was opened above"))
    }

    fn source(&self) -> Result<&Source, RelayoutError> {
        let path = &self.job.record().source;
        self.source.as_ref().ok_or_else(|| RelayoutError::io("open", path)(ErrorKind::NotFound.into()))
    }

    fn both(&self) -> Result<(&File, &File), RelayoutError> {
        let missing = || RelayoutError::io("open", &self.partial_path)(ErrorKind::NotFound.into());
        Ok((&self.source()?.file, self.partial.as_ref().ok_or_else(missing)?))
    }
}

impl Source {
    fn open(path: &Path) -> Result<Option<Self>, RelayoutError> {
        let metadata = match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            metadata => metadata.map_err(RelayoutError::io("look at", path))?,
        };
        if !metadata.is_file() {
            return Err(RelayoutError::NotRegular(path.to_owned()));
        }
        let file = File::open(path).map_err(RelayoutError::io("open", path))?;
        Ok(Some(Self { file, metadata }))
    }
}

fn version(metadata: &Metadata) -> Result<Version, RelayoutError> {
    let mtime_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    Ok(Version { size: metadata.len(), mtime_ns })
}

/// Without symbolic links: it is the file itself that is replaced, not a link to it.
fn absolute(path: &Path) -> Result<PathBuf, RelayoutError> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let directory = fs::canonicalize(parent(path)).map_err(RelayoutError::io("open", path))?;
            Ok(directory.join(path.file_name().unwrap_or_default()))
        }
        path_or_error => path_or_error.map_err(RelayoutError::io("open", path)),
    }
}

fn target_file(source: &Path, target: &Path) -> Result<PathBuf, RelayoutError> {
    let target = absolute(target)?;
    if target.is_dir() { Ok(target.join(source.file_name().unwrap_or_default())) } else { Ok(target) }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn hidden(name: &OsStr, suffix: &str) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(suffix);
    hidden
}

fn size_of(path: &Path) -> Result<Option<u64>, RelayoutError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Ok(metadata) if !metadata.is_file() => Err(RelayoutError::NotRegular(path.to_owned())),
        metadata => Ok(Some(metadata.map_err(RelayoutError::io("look at", path))?.len())),
    }
}

/// The target must be free, or be an empty file if one is to be filled.
fn check_target(target: &Path, options: Options) -> Result<(), RelayoutError> {
    match (size_of(target)?, options.fill) {
        (None, false) | (Some(0), true) => Ok(()),
        (_, true) => Err(RelayoutError::NotEmpty(target.to_owned())),
        (Some(_), false) => Err(RelayoutError::Exists(target.to_owned())),
    }
}

/// Renames, but never over an existing file, as far as the file system can guarantee that.
fn rename_to_new(from: &Path, to: &Path) -> Result<(), RelayoutError> {
    let renamed = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => return Err(RelayoutError::Exists(to.to_owned())),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if size_of(to)?.is_none() => fs::rename(from, to),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => return Err(RelayoutError::Exists(to.to_owned())),
        renamed => renamed.map_err(io::Error::from),
    };
    renamed.map_err(RelayoutError::io("give the new file the name", to))
}

/// Not every file system lets directories be synchronised; those order changes of names by themselves.
fn sync_directory(file: &Path) -> Result<(), RelayoutError> {
    let directory = parent(file);
    match File::open(directory).and_then(|directory| directory.sync_all()) {
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)) => {
            Ok(())
        }
        synced => synced.map_err(RelayoutError::io("write", directory)),
    }
}

fn read_state(path: &Path) -> Result<Option<Record>, RelayoutError> {
    let bad = |why: String| RelayoutError::BadState { path: path.to_owned(), why };
    match size_of(path)? {
        None => return Ok(None),
        Some(size) if size > 1 << 20 => return Err(bad("it is too large".to_owned())),
        Some(_) => {}
    }
    let text = fs::read(path).map_err(RelayoutError::io("read", path))?;
    let record: Record = serde_json::from_slice(&text).map_err(|why| bad(why.to_string()))?;
    if record.format != Record::FORMAT {
        return Err(bad(format!("format {} of another version", record.format)));
    }
    Ok(Some(record))
}

//! Executes the steps of a copy on a mounted file system.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{File, FileTimes, Metadata, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use ring::digest::{Context, SHA256};
use rustix::fs::{
    Advice, CWD, FlockOperation, Gid, Mode, OFlags, RenameFlags, SeekFrom, Uid, XattrFlags, fadvise, fchmod, fchown,
    fgetxattr, flistxattr, flock, fsetxattr, renameat_with, seek,
};
use rustix::io::Errno;

use crate::client::ClientError;
use crate::relayout::{Done, Found, Job, Record, ResumeError, Stage, Step, Version};

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
        let copied = copy(from, to, (begin, end), fill_holes, |bytes| {
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
        drop_cache(from);
        drop_cache(to);
        let mut done = 0;
        let equal = compare(from, to, all, |bytes| {
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
            give_attributes(from, to, &metadata).map_err(RelayoutError::io("read the attributes of", &path))?;
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
        let writers = writers_of(now.dev(), now.ino()).join(", ");
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
        if sha256_of(&file).map_err(RelayoutError::io("read", &path))? != sha256 {
            return Err(RelayoutError::NotConfirmed(path));
        }
        (self.summary.size, self.summary.sha256) = (self.job.record().version.size, sha256.to_owned());
        Ok(())
    }

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

const BUFFER: usize = 4 << 20;

/// Copies the bytes from `begin` to `end`. Holes are left out, so they must be holes or zeros in `to`, unless
/// `fill_holes` is set.
pub(crate) fn copy(
    from: &File,
    to: &File,
    (begin, end): (u64, u64),
    fill_holes: bool,
    mut on_bytes: impl FnMut(u64),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut at = begin;
    while at < end {
        let (data, data_end) = if fill_holes { (at, end) } else { next_data(from, at)?.unwrap_or((end, end)) };
        on_bytes(data.min(end) - at);
        at = data.min(end);
        while at < data_end.min(end) {
            let piece = &mut buffer[..fit(data_end.min(end) - at)];
            let len = read_at(from, piece, at)?;
            if len == 0 {
                return Ok(()); // it became shorter, which is noticed later
            }
            to.write_all_at(&piece[..len], at)?;
            on_bytes(len as u64);
            at += len as u64;
        }
    }
    Ok(())
}

/// The first byte at which both differ, or the SHA-256 of both.
pub(crate) fn compare(
    left: &File,
    right: &File,
    size: u64,
    mut on_bytes: impl FnMut(u64),
) -> io::Result<Result<String, u64>> {
    let (mut one, mut other) = (vec![0; BUFFER], vec![0; BUFFER]);
    let mut digest = Context::new(&SHA256);
    let mut at = 0;
    while at < size {
        let len = fit(size - at);
        let (read, written) = (read_at(left, &mut one[..len], at)?, read_at(right, &mut other[..len], at)?);
        if let Some(index) = (0..len).find(|&i| i >= read || i >= written || one[i] != other[i]) {
            return Ok(Err(at + index as u64));
        }
        digest.update(&one[..len]);
        at += len as u64;
        on_bytes(len as u64);
    }
    Ok(Ok(hex(digest)))
}

pub(crate) fn sha256_of(file: &File) -> io::Result<String> {
    let mut buffer = vec![0; BUFFER];
    let mut digest = Context::new(&SHA256);
    let mut at = 0;
    loop {
        let len = read_at(file, &mut buffer, at)?;
        if len == 0 {
            return Ok(hex(digest));
        }
        digest.update(&buffer[..len]);
        at += len as u64;
    }
}

/// Has the next reads come from storage, as far as the file system can.
pub(crate) fn drop_cache(file: &File) {
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

pub(crate) fn hex(digest: Context) -> String {
    digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fit(bytes: u64) -> usize {
    usize::try_from(bytes).map_or(BUFFER, |bytes| bytes.min(BUFFER))
}

fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Begin and end of the next data at or after `at`; everything is data if the file system does not know.
fn next_data(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    let begin = match seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => return Ok(Some((at, u64::MAX))),
        begin => begin?,
    };
    let end = seek(file, SeekFrom::Hole(begin))?;
    Ok(Some((begin, end)))
}

/// Processes of this host, as far as the caller may look at them, that have the file open for writing: "name (pid)".
/// O(open files of all processes).
pub(crate) fn writers_of(device: u64, inode: u64) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbered = processes.flatten().filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let writing = numbered.filter(|process| has_open(&process.path(), device, inode));
    writing
        .map(|process| {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            format!("{} ({})", name.trim(), process.file_name().to_string_lossy())
        })
        .collect()
}

fn has_open(process: &Path, device: u64, inode: u64) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    files.flatten().any(|file| {
        let same = fs::metadata(file.path()).is_ok_and(|data| (data.dev(), data.ino()) == (device, inode));
        same && is_writable(&process.join("fdinfo").join(file.file_name()))
    })
}

/// The access mode is in the last two bits of the octal flags: 1 to write, 2 to read and write.
fn is_writable(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| matches!(flags & 3, 1 | 2))
}

/// Attributes that describe the old layout or belong to the file system's implementation.
const OF_LAYOUTS: [&str; 10] = [
    "lustre.",
    "trusted.lov",
    "trusted.lma",
    "trusted.link",
    "trusted.fid",
    "ceph.",
    "user.pvfs2.",
    "system.pvfs2.",
    "user.beegfs.",
    "trusted.vpfs.",
];

/// The kernel's limit for a list of names and for a value.
const LARGEST: usize = 64 << 10;

/// Gives `to` what `from` has: owner, mode, times, and extended attributes that are not of the layout.
pub fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let refused = give_attributes(from, to, &from.metadata()?)?.into_iter().next();
    refused.map_or(Ok(()), |(what, why)| Err(io::Error::new(why.kind(), format!("{what}: {why}"))))
}

/// Gives `to` what `from` has; `old` is the source's metadata when it was opened, before it was read. Returns what the
/// file system refuses, and its error.
pub(crate) fn give_attributes(from: &File, to: &File, old: &Metadata) -> io::Result<Vec<(String, io::Error)>> {
    let mut lost = Vec::new();
    let mut keep = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            lost.push((what.to_owned(), error));
        }
    };
    let now = from.metadata()?;
    let own = to.metadata()?;
    if (own.uid(), own.gid()) != (now.uid(), now.gid()) {
        let owner = fchown(to, Some(Uid::from_raw(now.uid())), Some(Gid::from_raw(now.gid())));
        keep("owner", owner.map_err(io::Error::from));
    }
    for name in names(from)? {
        keep(&format!("extended attribute {}", name.to_string_lossy()), attribute(from, to, &name));
    }
    // After the owner, whose change clears the set-user-ID bit, and after access lists, which change the mode.
    keep("mode", fchmod(to, Mode::from_raw_mode(now.mode() & 0o7777)).map_err(io::Error::from));
    let times = FileTimes::new().set_accessed(old.accessed()?).set_modified(now.modified()?);
    keep("times", to.set_times(times));
    Ok(lost)
}

fn names(file: &File) -> io::Result<Vec<CString>> {
    let mut list = vec![0; LARGEST];
    let len = match flistxattr(file, &mut list[..]) {
        Err(Errno::NOTSUP | Errno::NOSYS) => 0,
        result => result?,
    };
    let names = list[..len].split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    let of_layout = |name: &CStr| OF_LAYOUTS.iter().any(|prefix| name.to_bytes().starts_with(prefix.as_bytes()));
    Ok(names.filter(|name| !of_layout(name)).map(CStr::to_owned).collect())
}

fn attribute(from: &File, to: &File, name: &CStr) -> io::Result<()> {
    let mut value = vec![0; LARGEST];
    let len = fgetxattr(from, name, &mut value[..])?;
    let mut own = vec![0; LARGEST];
    if fgetxattr(to, name, &mut own[..]).is_ok_and(|own_len| own[..own_len] == value[..len]) {
        return Ok(()); // such as a security label that the new file got by itself
    }
    Ok(fsetxattr(to, name, &value[..len], XattrFlags::empty())?)
}

/// Why a copy ended before its end, and what would help. The source has its name and content in each case.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum RelayoutError {
    #[error("cannot {action} {}: {source}", .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot {action} {}: {source}", .path.display())]
    Orangefs { action: &'static str, path: PathBuf, source: Box<ClientError> },
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// Nothing is overwritten.
    #[error("{} exists; name a new file, or an empty one that has the layout, with --fill", .0.display())]
    Exists(PathBuf),
    #[error("--fill needs an empty file, and {} is none; create it with the layout that is wanted", .0.display())]
    NotEmpty(PathBuf),
    /// Only a rename within a file system is atomic.
    #[error(
        "--replace needs a target on the source's file system, and {} is on another one; copy without --replace",
        .0.display()
    )]
    OtherFileSystem(PathBuf),
    /// The other names would keep the old layout and diverge.
    #[error(
        "{} has {links} names (hard links), and the others would stay with the old file; remove them, or copy without \
         --replace",
        .path.display()
    )]
    HardLinks { path: PathBuf, links: u64 },
    /// What they write after the switch would be lost.
    #[error("{} is open for writing in {writers}; end these programs first", .path.display())]
    Writers { path: PathBuf, writers: String },
    #[error("{}: {why}", .path.display())]
    Resume { path: PathBuf, why: ResumeError },
    #[error("{} exists, but the state of its copy does not; move it away", .0.display())]
    ForeignPartial(PathBuf),
    #[error("{} cannot be read ({why}); remove it and the partial file beside it, and start again", .path.display())]
    BadState { path: PathBuf, why: String },
    #[error("{} is the state of a copy from {} to {}; finish that one first", .path.display(), .source_file.display(), .destination.display())]
    OtherCopy { path: PathBuf, source_file: PathBuf, destination: PathBuf },
    #[error("another process copies to {} at the moment", .0.display())]
    Locked(PathBuf),
    #[error("{} changed during the copy, so the new file was not renamed; start again with --restart", .0.display())]
    Changed(PathBuf),
    #[error(
        "{} differs from {} at byte {at}; the new file was not renamed; start again with --restart, and check \
         the storage if this happens again",
        .partial.display(), .source_file.display()
    )]
    Differs { partial: PathBuf, source_file: PathBuf, at: u64 },
    #[error(
        "{} has {has} bytes instead of {wanted}: its file system does not count holes; start again with --fill-holes --restart",
        .path.display()
    )]
    WrongSize { path: PathBuf, has: u64, wanted: u64 },
    #[error(
        "the file system of {} does not take over the {attribute} ({why}); use --allow-loss if it is not needed",
        .path.display()
    )]
    Attribute { path: PathBuf, attribute: String, why: io::Error },
    /// After a crash in the middle of the switch.
    #[error("{} does not have the content that was copied; it was changed or moved after the switch", .0.display())]
    NotConfirmed(PathBuf),
}

impl RelayoutError {
    /// For `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

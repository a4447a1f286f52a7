//! Real storage: a file of our own in a directory, or a block device.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, OFlags, fadvise, statvfs};
use rustix::io::Errno;
use vpfs_core::hash::mix;
use vpfs_core::{Bytes, OpKind};

use crate::profile::class::timed;
use crate::profile::{Measurement, Point, Probe, ProfileError, Series, Storage, TimedStorage};

/// How to measure real storage.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the test file.
    pub size: Bytes,
    /// The largest access to be measured.
    pub largest_access: Bytes,
    /// Filling the test file stops after this time, once there is room for a few of the largest accesses; only the
    /// filled part is measured.
    pub fill_time: Duration,
    /// Use the page cache: writes wait for the storage, and reads start with a dropped cache.
    pub buffered: bool,
    /// The block device whose data may be destroyed, which must be the one that is measured.
    pub destroy_data: Option<PathBuf>,
}

/// An open file or device.
#[derive(Debug)]
pub struct RealStorage {
    path: PathBuf,
    file: File,
    span: Bytes,
    writable: bool,
    buffered: bool,
}

/// Both ends of a device, where partition tables, file systems, volumes and swap have their signatures.
const ENDS: Bytes = Bytes::mib(1);

const FILL: Bytes = Bytes::mib(1);

const PLACES: u64 = 4;

impl RealStorage {
    /// Opens a directory or a block device, whichever `path` is.
    pub fn open(path: &Path, options: &Options) -> Result<Self, ProfileError> {
        let kind = fs::metadata(path).map_err(ProfileError::io("look at", path))?.file_type();
        if kind.is_block_device() {
            Self::block_device(path, options)
        } else if options.destroy_data.is_some() {
            Err(ProfileError::NotADevice(path.to_owned()))
        } else if kind.is_dir() {
            Self::in_directory(path, options)
        } else {
            Err(ProfileError::Unsuitable(path.to_owned()))
        }
    }

    /// Creates a test file in a directory and fills it. The file has no name, so nothing remains of it, however this
    /// process ends.
    pub fn in_directory(directory: &Path, options: &Options) -> Result<Self, ProfileError> {
        check_span(options.size, options)?;
        check_space(directory, options.size)?;
        let path = directory.join(format!(".vpfs-profile.{}", std::process::id()));
        let flags = if options.buffered { OFlags::DSYNC } else { OFlags::DIRECT };
        let mut open = OpenOptions::new();
        open.read(true).write(true).create_new(true).mode(0o600).custom_flags(bits(flags));
        let opened = open.open(&path).map_err(|error| refusal(error, "make a file in", directory));
        // A file system that refuses direct I/O may have created the file nevertheless.
        let removed = if matches!(opened, Err(ProfileError::Io { .. })) { Ok(()) } else { fs::remove_file(&path) };
        let file = opened?;
        removed.map_err(ProfileError::io("remove", &path))?;
        let directory = directory.to_owned();
        let mut storage = Self { path: directory, file, span: Bytes::ZERO, writable: true, buffered: options.buffered };
        storage.fill(options)?;
        Ok(storage)
    }

    /// Opens a block device, read-only unless its data may be destroyed and it is empty.
    fn block_device(path: &Path, options: &Options) -> Result<Self, ProfileError> {
        let writable = options.destroy_data.is_some();
        if let Some(named) = options.destroy_data.as_ref().filter(|named| *named != path) {
            return Err(ProfileError::OtherDevice { measured: path.to_owned(), named: named.clone() });
        }
        let caching = if options.buffered { OFlags::DSYNC } else { OFlags::DIRECT };
        // The kernel grants exclusive access only to a device that is neither mounted nor part of a volume.
        let flags = if writable { caching | OFlags::EXCL } else { caching };
        let opened = OpenOptions::new().read(true).write(writable).custom_flags(bits(flags)).open(path);
        let mut file = opened.map_err(|error| refusal(error, "open", path))?;
        let span = Bytes(file.seek(SeekFrom::End(0)).map_err(ProfileError::io("find the end of", path))?);
        check_span(span, options)?;
        if writable && let Some(at) = first_data(&file, span).map_err(ProfileError::io("read", path))? {
            return Err(ProfileError::NotEmpty { path: path.to_owned(), at });
        }
        Ok(Self { path: path.to_owned(), file, span, writable, buffered: options.buffered })
    }

    /// The path being measured.
    pub fn span(&self) -> Bytes {
        self.span
    }

    fn drop_cache(&self) -> Result<(), ProfileError> {
        if !self.buffered {
            return Ok(());
        }
        let dropped = fadvise(&self.file, 0, None, Advice::DontNeed);
        dropped.map_err(|error| ProfileError::io("drop the cache of", &self.path)(error.into()))
    }

    fn fill(&mut self, options: &Options) -> Result<(), ProfileError> {
        let mut buffer = Buffer::new(FILL, 0);
        let begin = Instant::now();
        let least = Bytes(options.largest_access.0.saturating_mul(PLACES));
        while self.span < options.size && (self.span < least || begin.elapsed() < options.fill_time) {
            let written = self.file.write_all_at(buffer.bytes(), self.span.0);
            written.map_err(|error| refusal(error, "write a file in", &self.path))?;
            self.span += FILL;
        }
        self.file.sync_all().map_err(ProfileError::io("write a file in", &self.path))
    }
}

impl Storage for RealStorage {
    fn is_writable(&self) -> bool {
        self.writable
    }

    fn measure(&mut self, point: Point, time: Duration) -> Result<Measurement, ProfileError> {
        self.drop_cache()?;
        run(&self.file, self.span, point, time).map_err(ProfileError::io("access", &self.path))
    }
}

impl TimedStorage for RealStorage {
    fn probes(&self) -> Vec<Probe> {
        if self.writable { vec![Probe::Read, Probe::Write] } else { vec![Probe::Read] }
    }

    fn times(&mut self, series: Series) -> Result<Vec<Duration>, ProfileError> {
        self.drop_cache()?;
        times(&self.file, self.span, series).map_err(ProfileError::io("access", &self.path))
    }
}

fn check_space(directory: &Path, size: Bytes) -> Result<(), ProfileError> {
    let look = |error: Errno| ProfileError::io("look at the file system of", directory)(error.into());
    let system = statvfs(directory).map_err(look)?;
    let free = Bytes(system.f_bavail.saturating_mul(system.f_frsize));
    let needed = size + Bytes(size.0 / 10);
    if free < needed { Err(ProfileError::NoSpace { path: directory.to_owned(), needed, free }) } else { Ok(()) }
}

fn check_span(has: Bytes, options: &Options) -> Result<(), ProfileError> {
    let needed = Bytes(options.largest_access.0.saturating_mul(PLACES));
    if has < needed { Err(ProfileError::TooSmall { has, needed }) } else { Ok(()) }
}

fn first_data(file: &File, span: Bytes) -> io::Result<Option<u64>> {
    let mut buffer = Buffer::new(ENDS, 0);
    for begin in [0, span.saturating_sub(ENDS).0] {
        let len = usize::try_from(ENDS.min(span).0).expect("one MiB");
        file.read_exact_at(&mut buffer.bytes()[..len], begin)?;
        if let Some(at) = buffer.bytes()[..len].iter().position(|byte| *byte != 0) {
            return Ok(Some(begin + at as u64));
        }
    }
    Ok(None)
}

fn refusal(error: io::Error, action: &'static str, path: &Path) -> ProfileError {
    match Errno::from_io_error(&error) {
        Some(Errno::INVAL | Errno::OPNOTSUPP) => ProfileError::NoDirectIo(path.to_owned()),
        Some(Errno::BUSY) => ProfileError::InUse(path.to_owned()),
        _ => ProfileError::io(action, path)(error),
    }
}

fn bits(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

// A constant number of outstanding accesses at random offsets, one thread for each.

/// Alignment of memory that satisfies direct I/O on any device.
const ALIGNMENT: usize = 4096;

/// Least number of accesses per thread; the first one finds the storage idle and does not count.
const LEAST: u32 = 2;

/// Keeps `point.outstanding` accesses to the first `span` bytes of `file` outstanding for `time`.
fn run(file: &File, span: Bytes, point: Point, time: Duration) -> io::Result<Measurement> {
    let threads = point.outstanding.max(1);
    let barrier = Barrier::new(threads as usize);
    let failed = AtomicBool::new(false);
    // Different offsets for each point, so that they are not in a cache of the device.
    let seed = mix(point.size.0 ^ mix(u64::from(point.outstanding)));
    let worker = |number| Worker { file, span, point, time, seed: mix(seed ^ u64::from(number)), failed: &failed };
    let results: Vec<io::Result<Done>> = thread::scope(|scope| {
        let spawn = |number| {
            let (worker, barrier) = (worker(number), &barrier);
            scope.spawn(move || worker.run(barrier))
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        handles.into_iter().map(|handle| handle.join().expect("a worker does not panic")).collect()
    });
    let done = results.into_iter().collect::<io::Result<Vec<Done>>>()?;
    Ok(summarize(point, &done))
}

/// The times of the accesses of `series` to the first `span` bytes of `file`, one at a time.
fn times(file: &File, span: Bytes, series: Series) -> io::Result<Vec<Duration>> {
    let op = if series.probe == Probe::Write { OpKind::Write } else { OpKind::Read };
    let point = Point { op, size: series.size, outstanding: 1 };
    let seed = mix(series.size.0 ^ mix(u64::from(series.repetition) + 1));
    let failed = AtomicBool::new(false);
    let worker = Worker { file, span, point, time: series.time, seed, failed: &failed };
    let mut buffer = Buffer::new(series.size, seed);
    timed(series, |number| worker.access(buffer.bytes(), number))
}

struct Worker<'a> {
    file: &'a File,
    span: Bytes,
    point: Point,
    time: Duration,
    seed: u64,
    failed: &'a AtomicBool,
}

struct Done {
    begin: Instant,
    end: Instant,
    accesses: u32,
    waited: Duration,
}

impl Worker<'_> {
    fn run(self, barrier: &Barrier) -> io::Result<Done> {
        let mut buffer = Buffer::new(self.point.size, self.seed);
        barrier.wait();
        let begin = Instant::now();
        let mut done = Done { begin, end: begin, accesses: 0, waited: Duration::ZERO };
        while done.accesses < LEAST || done.end.duration_since(begin) < self.time {
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
            let since = done.end;
            let result = self.access(buffer.bytes(), done.accesses);
            result.inspect_err(|_| self.failed.store(true, Ordering::Relaxed))?;
            done.end = Instant::now();
            if done.accesses > 0 {
                done.waited += done.end.duration_since(since);
            }
            done.accesses += 1;
        }
        Ok(done)
    }

    fn access(&self, buffer: &mut [u8], number: u32) -> io::Result<()> {
        let size = self.point.size.0;
        let places = (self.span.0 / size).max(1);
        let offset = mix(self.seed.wrapping_add(u64::from(number))) % places * size;
        match self.point.op {
            OpKind::Write => self.file.write_all_at(buffer, offset),
            OpKind::Read | OpKind::Metadata => self.file.read_exact_at(buffer, offset),
        }
    }
}

/// Throughput until the last access ended, and the mean latency without each thread's first access.
fn summarize(point: Point, done: &[Done]) -> Measurement {
    let begin = done.iter().map(|one| one.begin).min();
    let end = done.iter().map(|one| one.end).max();
    let elapsed = begin.zip(end).map_or(Duration::ZERO, |(begin, end)| end.duration_since(begin));
    let accesses: u64 = done.iter().map(|one| u64::from(one.accesses)).sum();
    let counted: u32 = done.iter().map(|one| one.accesses.saturating_sub(1)).sum();
    let waited: Duration = done.iter().map(|one| one.waited).sum();
    let per_second = u128::from(accesses * point.size.0) * 1_000_000_000 / elapsed.as_nanos().max(1);
    Measurement {
        size: point.size,
        outstanding: point.outstanding,
        throughput: Bytes(u64::try_from(per_second).unwrap_or(u64::MAX)),
        mean_latency: waited / counted.max(1),
    }
}

/// A buffer aligned for direct I/O, filled with incompressible data.
struct Buffer {
    bytes: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Buffer {
    fn new(size: Bytes, seed: u64) -> Self {
        let len = usize::try_from(size.0).expect("accesses are small");
        let words = (0..(len + ALIGNMENT).div_ceil(8) as u64).map(|word| mix(seed.wrapping_add(word)));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let begin = bytes.as_ptr().addr().next_multiple_of(ALIGNMENT) - bytes.as_ptr().addr();
        Self { bytes, begin, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of the size of a small device, with `text` at offset `at`.
    fn device(at: u64, text: &[u8]) -> File {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(5 << 20).expect("a sparse file");
        file.write_all_at(text, at).expect("within it");
        file
    }

    #[test]
    fn data_at_either_end_is_found() {
        let found = |at| first_data(&device(at, b"EFI PART"), Bytes::mib(5)).expect("it can be read");
        for at in [0, 512, 65_600, (1 << 20) - 8, 4 << 20, (5 << 20) - 8] {
            assert_eq!(found(at), Some(at));
        }
        assert_eq!(found(2 << 20), None);
        // Devices shorter than one of the two ends.
        assert_eq!(first_data(&device(4096, b"x"), Bytes(8192)).expect("it can be read"), Some(4096));
        assert_eq!(first_data(&device(8192, b"x"), Bytes(8192)).expect("it can be read"), None);
    }
}

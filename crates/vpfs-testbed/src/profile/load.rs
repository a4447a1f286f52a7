//! A constant number of outstanding accesses at random offsets, one thread for each.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vpfs_core::hash::mix;
use vpfs_core::{Bytes, OpKind};

use crate::profile::fit::Measurement;
use crate::profile::{Point, Probe, Series};

/// Alignment of memory that satisfies direct I/O on any device.
const ALIGNMENT: usize = 4096;

/// Least number of accesses per thread; the first one finds the storage idle and does not count.
const LEAST: u32 = 2;

/// Keeps `point.outstanding` accesses to the first `span` bytes of `file` outstanding for `time`.
pub(crate) fn run(file: &File, span: Bytes, point: Point, time: Duration) -> io::Result<Measurement> {
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
pub(crate) fn times(file: &File, span: Bytes, series: Series) -> io::Result<Vec<Duration>> {
    let op = if series.probe == Probe::Write { OpKind::Write } else { OpKind::Read };
    let point = Point { op, size: series.size, outstanding: 1 };
    let seed = mix(series.size.0 ^ mix(u64::from(series.repetition) + 1));
    let failed = AtomicBool::new(false);
    let worker = Worker { file, span, point, time: series.time, seed, failed: &failed };
    let mut buffer = Buffer::new(series.size, seed);
    timed(series, |number| worker.access(buffer.bytes(), number))
}

/// The times of the accesses of `series`, which `access` makes. The first one finds storage and network in another
/// state than the others do, and does not count.
pub(crate) fn timed(series: Series, mut access: impl FnMut(u32) -> io::Result<()>) -> io::Result<Vec<Duration>> {
    access(0)?;
    let (begin, mut times) = (Instant::now(), Vec::new());
    let mut now = begin;
    for number in 1..=series.most {
        if number > series.least && now.duration_since(begin) >= series.time {
            break;
        }
        access(number)?;
        times.push(now.elapsed());
        now = Instant::now();
    }
    Ok(times)
}

struct Worker<'a> {
    file: &'a File,
    span: Bytes,
    point: Point,
    time: Duration,
    seed: u64,
    failed: &'a AtomicBool,
}

/// The measurements of one thread.
struct Done {
    begin: Instant,
    end: Instant,
    accesses: u32,
    /// Of all accesses but the first.
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
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(size: Bytes, seed: u64) -> Self {
        let len = usize::try_from(size.0).expect("accesses are small");
        let words = (0..(len + ALIGNMENT).div_ceil(8) as u64).map(|word| mix(seed.wrapping_add(word)));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let begin = bytes.as_ptr().addr().next_multiple_of(ALIGNMENT) - bytes.as_ptr().addr();
        Self { bytes, begin, len }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + self.len]
    }
}

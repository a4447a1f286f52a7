//! A server's write-back cache: writes complete at memory speed until it is full; then no write completes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vpfs_core::Time;

use super::dirty::{DirtyPages, Run};
use super::finishing::Finishing;
use super::units::transfer_time;
use super::{Completion, Device, Io, IoId, IoKind};

/// Parameters of a [`WriteBack`] cache.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteBackProfile {
    /// Memory rate, bytes per second.
    pub memory_bytes_per_second: u64,
    /// With more dirty bytes than this, the cache flushes in the background.
    pub background_bytes: u64,
    /// With this many dirty bytes it flushes in the foreground, and writers wait.
    pub limit_bytes: u64,
    /// Writers continue when no more than this many bytes are dirty.
    pub resume_bytes: u64,
    /// Data that has been dirty for this long is flushed, however little is dirty.
    pub commit_interval: Duration,
    /// Number of writes that a flush keeps outstanding at the device.
    pub flush_depth: usize,
}

impl WriteBackProfile {
    /// The page cache of the vPFS servers: Linux 2.6.32 with 24 GB of memory, EXT3 in data-journalling mode [vPFS
    /// §IV-A].
    ///
    /// - Background from 10 % and foreground from 20 % of memory: `dirty_background_ratio` and `dirty_ratio` of that
    ///   kernel. (The vPFS+ servers have 32 GB; one value serves both papers.)
    /// - Foreground until 512 MiB are flushed, **assumed**: 7 s at the disk's 72 MB/s. The paper has stalls longer than
    ///   its measuring windows of 5 s and shorter than those of 60 s [vPFS §IV-C2].
    /// - Commit: 5 s, the default of EXT3, whose journal takes the data as well in this mode.
    /// - Flush depth: 128, the block layer's `nr_requests`.
    /// - Memory: 1 GB/s, **assumed**, above any network here.
    pub const LINUX_24_GB: Self = Self {
        memory_bytes_per_second: 1_000_000_000,
        background_bytes: 2_400_000_000,
        limit_bytes: 4_800_000_000,
        resume_bytes: 4_800_000_000 - (512 << 20),
        commit_interval: Duration::from_secs(5),
        flush_depth: 128,
    };

    /// The bytes of one file that are flushed before the next one has its turn, `MAX_WRITEBACK_PAGES` of Linux.
    const TURN: u64 = 4 << 20;
}

/// A cache in front of a device.
///
/// A write is done when it is in memory. Dirty data, in whole pages, is flushed when it is older than the commit
/// interval, and as far as it exceeds the background threshold: 4 MiB of the object with the oldest data, in the order
/// of its bytes from where its last turn ended, then of the next one. So scattered writes reach the device sorted. When
/// dirty data reaches its limit, **all** writes wait until enough is flushed, as a file server has one process, and
/// reads compete with a device full of writes: the stalls of [vPFS §IV-C2].
///
/// A read is served from memory if all its pages are dirty, otherwise by the device; data being flushed and clean data
/// are read from the device. (The papers clear caches and read files larger than memory.)
///
/// At most `limit_bytes` plus one access are dirty.
pub struct WriteBack {
    profile: WriteBackProfile,
    device: Box<dyn Device>,
    /// An access submitted to the device: a flush, or a read with the id that its submitter knows.
    at_device: BTreeMap<IoId, Work>,
    dirty: DirtyPages,
    /// The object whose turn it is, and how many bytes of it are left.
    turn: (u64, u64),
    /// Where the last turn of each object ended that may have dirty data.
    turns: BTreeMap<u64, u64>,
    /// Bytes that are dirty or being flushed.
    dirty_bytes: u64,
    flushing: usize,
    foreground: bool,
    /// Writes that wait for the foreground flush, in arrival order.
    waiting: VecDeque<(IoId, Io)>,
    memory_free_from: Time,
    finishing: Finishing,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Flush { bytes: u64 },
    Read(IoId),
}

impl WriteBack {
    /// An empty cache in front of an idle device.
    pub fn new(profile: WriteBackProfile, device: Box<dyn Device>) -> Self {
        Self {
            profile,
            device,
            at_device: BTreeMap::new(),
            dirty: DirtyPages::default(),
            turn: (0, 0),
            turns: BTreeMap::new(),
            dirty_bytes: 0,
            flushing: 0,
            foreground: false,
            waiting: VecDeque::new(),
            memory_free_from: Time::ZERO,
            finishing: Finishing::default(),
        }
    }

    /// Bytes that are not on the device yet, at the time up to which the time line has been run.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Runs the time line up to `now`.
    fn advance(&mut self, now: Time) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            while let Some(completion) = self.device.poll_completed(at) {
                self.on_device_done(completion);
            }
            self.admit_waiting(at);
            self.flush(at);
        }
    }

    /// When the device finishes an access, or dirty data reaches the commit interval.
    fn next_event(&self) -> Option<Time> {
        let commit = self.dirty.oldest().filter(|_| self.flushing < self.profile.flush_depth.max(1));
        let commit = commit.map(|run| run.since + self.profile.commit_interval);
        self.device.poll_timeout().into_iter().chain(commit).min()
    }

    fn on_device_done(&mut self, completion: Completion) {
        match self.at_device.remove(&completion.id).expect("the device completes only submitted accesses") {
            Work::Read(id) => self.finishing.finish(completion.at, id),
            Work::Flush { bytes } => {
                self.flushing -= 1;
                self.dirty_bytes -= bytes;
            }
        }
    }

    /// Admits waiting writes, unless the foreground flush is still running.
    fn admit_waiting(&mut self, now: Time) {
        if self.dirty_bytes <= self.profile.resume_bytes.min(self.profile.limit_bytes.saturating_sub(1)) {
            self.foreground = false;
        }
        while !self.foreground
            && let Some((id, io)) = self.waiting.pop_front()
        {
            self.write(now, id, &io);
        }
    }

    fn write(&mut self, now: Time, id: IoId, io: &Io) {
        self.dirty_bytes += self.dirty.add(now, io);
        self.foreground = self.dirty_bytes >= self.profile.limit_bytes.max(1);
        self.finish_from_memory(now, id, io.len);
    }

    fn finish_from_memory(&mut self, now: Time, id: IoId, len: u64) {
        self.memory_free_from =
            self.memory_free_from.max(now) + transfer_time(len, self.profile.memory_bytes_per_second);
        self.finishing.finish(self.memory_free_from, id);
    }

    /// Submits the data that is due, up to the flush depth.
    fn flush(&mut self, now: Time) {
        while self.flushing < self.profile.flush_depth.max(1)
            && self.flush_is_due(now)
            && let Some(run) = self.next_run()
        {
            let bytes = run.end - run.begin;
            let io = Io { kind: IoKind::Write, object: run.object, offset: run.begin, len: bytes };
            self.at_device.insert(self.device.submit(now, io), Work::Flush { bytes });
            self.flushing += 1;
        }
    }

    /// The next dirty data of the object whose turn it is.
    fn next_run(&mut self) -> Option<Run> {
        if self.turn.1 == 0 {
            self.turn = (self.dirty.oldest()?.object, WriteBackProfile::TURN);
        }
        let (object, left) = self.turn;
        let place = self.turns.get(&object).copied().unwrap_or(0);
        let Some(run) = self.dirty.pop_from(object, place).or_else(|| self.dirty.pop_from(object, 0)) else {
            self.turns.remove(&object);
            self.turn.1 = 0;
            return if self.dirty.oldest().is_some() { self.next_run() } else { None };
        };
        self.turns.insert(object, run.end);
        self.turn.1 = left.saturating_sub(run.end - run.begin);
        Some(run)
    }

    fn flush_is_due(&self, now: Time) -> bool {
        let is_old = |since: Time| since + self.profile.commit_interval <= now;
        let too_much = self.dirty_bytes > self.profile.background_bytes || self.foreground;
        too_much || self.dirty.oldest().is_some_and(|run| is_old(run.since))
    }

    /// Accesses whose end depends on the device.
    fn undecided(&self) -> usize {
        self.waiting.len() + self.at_device.len() - self.flushing
    }
}

impl std::fmt::Debug for WriteBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBack").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Device for WriteBack {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        self.advance(now);
        let id = self.finishing.next_id();
        match io.kind {
            IoKind::Read if self.dirty.covers(&io) => self.finish_from_memory(now, id, io.len),
            IoKind::Read => drop(self.at_device.insert(self.device.submit(now, io), Work::Read(id))),
            IoKind::Write if self.foreground => self.waiting.push_back((id, io)),
            IoKind::Write => self.write(now, id, &io),
        }
        self.flush(now);
        id
    }

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        self.advance(now);
        self.finishing.poll_completed(now)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let device = self.next_event().filter(|_| self.undecided() > 0);
        self.finishing.poll_timeout().into_iter().chain(device).min()
    }

    fn outstanding(&self) -> usize {
        self.finishing.len() + self.undecided()
    }
}

//! A file server's page cache: writes end in memory until too much is dirty, reads come from memory if it has them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::time::Duration;

use vpfs_core::Time;

use super::{Completion, Device, Finishing, Io, IoId, IoKind, Outstanding, PlaceHasher, end_of, transfer_time};

/// Parameters of a [`PageCache`].
#[derive(Clone, Debug, PartialEq)]
pub struct PageCacheProfile {
    /// Memory rate, bytes per second.
    pub memory_bytes_per_second: u64,
    /// Data that stays in memory after it was read or written, more than one access moves; the oldest leaves first.
    pub kept_bytes: u64,
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
    /// A read of any part of a chunk of this size reads the whole chunk; 0: no more than what is asked for.
    pub read_ahead_bytes: u64,
}

impl PageCacheProfile {
    /// PVFS2 on a vPFS server: Linux 2.6.32 with 24 GB of memory, EXT3 in data-journalling mode [vPFS §IV-A].
    ///
    /// - Background from 10 % and foreground from 20 % of memory: `dirty_background_ratio` and `dirty_ratio` of that
    ///   kernel. (The vPFS+ servers have 32 GB; one value serves both papers.)
    /// - Foreground until 512 MiB are flushed, **assumed**: 7 s at the disk's 72 MB/s. The paper has stalls longer than
    ///   its measuring windows of 5 s and shorter than those of 60 s [vPFS §IV-C2].
    /// - Commit: 5 s, the default of EXT3, whose journal takes the data as well in this mode.
    /// - Flush depth: 128, the block layer's `nr_requests`.
    /// - Reads ahead: chunks of 256 KiB, which Linux has outstanding for a stream: the window of 128 KiB
    ///   (`read_ahead_kb`) being read and the next one. That a stream is recognised at its first access is **assumed**.
    /// - Memory: 1 GB/s, above any network here, and three quarters of it keep data (both **assumed**).
    pub const LINUX_24_GB: Self = Self {
        memory_bytes_per_second: 1_000_000_000,
        kept_bytes: 18_000_000_000,
        background_bytes: 2_400_000_000,
        limit_bytes: 4_800_000_000,
        resume_bytes: 4_800_000_000 - (512 << 20),
        commit_interval: Duration::from_secs(5),
        flush_depth: 128,
        read_ahead_bytes: 256 << 10,
    };

    /// PVFS2 on a node of the IOCO and HARL cluster: Linux 2.6.28, that of Ubuntu 9.04, with 8 GB of memory
    /// [IOCO §5.1], [HARL §IV-A].
    ///
    /// - Background from 5 % and foreground from 10 % of memory, the ratios of 2.6.22 to 2.6.29; a writer flushes 6 MiB
    ///   (`sync_writeback_pages`).
    /// - Data is old after 30 s (`dirty_expire_centisecs`).
    /// - The rest is as in [`PageCacheProfile::LINUX_24_GB`], chunks of 256 KiB included, although that kernel reads
    ///   scattered requests as they are: see docs/decisions/0014-reproduction.md.
    pub const LINUX_8_GB: Self = Self {
        kept_bytes: 6_000_000_000,
        background_bytes: 400_000_000,
        limit_bytes: 800_000_000,
        resume_bytes: 800_000_000 - (6 << 20),
        commit_interval: Duration::from_secs(30),
        ..Self::LINUX_24_GB
    };

    /// The same in front of flash, without read-ahead (**assumed**: it would not help).
    pub const LINUX_8_GB_FLASH: Self = Self { read_ahead_bytes: 0, ..Self::LINUX_8_GB };

    /// Accesses that the server makes at a time, `TroveMaxConcurrentIO` with its default; further ones wait in order of
    /// arrival.
    const ACCESSES: usize = 16;

    /// For each other thread, how much later a thread's turn is: what its time slice is shorter than the longest one,
    /// 180 ms, with the default priority.
    const SLICE_OFFSET: Duration = Duration::from_millis(80);

    /// The bytes of one file that are flushed before the next one has its turn, `MAX_WRITEBACK_PAGES` of Linux.
    const TURN: u64 = 4 << 20;
}

/// A file server with a page cache in front of a device; it is empty at first.
///
/// A write is done when it is in memory. Dirty data, in whole pages, is flushed when it is older than the commit
/// interval, and as far as it exceeds the background threshold: 4 MiB of the object with the oldest data, in the order
/// of its bytes from where its last turn ended, then of the next one. So scattered writes reach the device sorted. When
/// dirty data reaches its limit, **all** writes wait until enough is flushed: the stalls of [vPFS §IV-C2]. Only a
/// stable write does not: it waits for itself, and for what was flushed before it and is at the device.
///
/// A read is served from memory if that has its pages; otherwise whole chunks are read, each once, so that small reads
/// of one stream become one access. The server makes each access in a thread of its own (`alt-aio` of PVFS2), and the
/// kernel's elevator (CFQ) serves threads that read one after the other, each until its read is done, in the order of
/// the time at which it began to wait plus 80 ms for each other one then (`cfq_slice_offset`): those that come together
/// in order of arrival, later ones sooner when fewer wait. While there is a read at the device, one write at a time is
/// flushed.
///
/// At most `limit_bytes` plus one access are dirty.
pub struct PageCache {
    profile: PageCacheProfile,
    device: Box<dyn Device>,
    queue: VecDeque<(IoId, Io)>,
    at_device: Outstanding<Work>,
    /// Reads of which a part is not in memory, in the order of their turns.
    reads: Vec<Reading>,
    is_reading: bool,
    kept: Kept,
    dirty: Pages,
    /// The object whose turn it is, and how many bytes of it are left.
    turn: (u64, u64),
    /// Where the last turn of each object ended that may have dirty data.
    turns: BTreeMap<u64, u64>,
    dirty_bytes: u64,
    flushing: usize,
    storing: usize,
    foreground: bool,
    waiting: VecDeque<(IoId, Io)>,
    memory_free_from: Time,
    finishing: Finishing,
}

/// A read that waits for the device.
#[derive(Clone, Copy, Debug)]
struct Reading {
    id: IoId,
    io: Io,
    /// Up to this byte it has its data.
    at: u64,
    /// Those with a smaller one go first.
    turn: Time,
    /// What it needs next may be in memory: something of it came there since it was last looked for.
    may_go_on: bool,
}

impl Reading {
    fn lacks(&self, io: &Io) -> bool {
        let (begin, end) = (self.at.saturating_sub(PAGE_BYTES), end_of(&self.io).saturating_add(PAGE_BYTES));
        self.io.object == io.object && io.offset < end && end_of(io) > begin
    }
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Flush { bytes: u64 },
    Read { object: u64, begin: u64, end: u64 },
    Store { id: IoId },
}

impl PageCache {
    /// An empty cache in front of an idle device.
    pub fn new(profile: PageCacheProfile, device: Box<dyn Device>) -> Self {
        Self {
            profile,
            device,
            queue: VecDeque::new(),
            at_device: Outstanding::default(),
            reads: Vec::new(),
            is_reading: false,
            kept: Kept::default(),
            dirty: Pages::default(),
            turn: (0, 0),
            turns: BTreeMap::new(),
            dirty_bytes: 0,
            flushing: 0,
            storing: 0,
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

    fn advance(&mut self, now: Time) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            while let Some(completion) = self.device.poll_completed(at) {
                self.on_device_done(completion);
            }
            self.admit_waiting(at);
            self.make(at);
            self.feed(at);
            self.flush(at);
        }
    }

    /// When the device finishes an access, or dirty data reaches the commit interval.
    fn next_event(&self) -> Option<Time> {
        let commit = self.dirty.oldest().filter(|_| self.flushing < self.most_flushes());
        let commit = commit.map(|run| run.since + self.profile.commit_interval);
        self.device.poll_timeout().into_iter().chain(commit).min()
    }

    fn on_device_done(&mut self, completion: Completion) {
        match self.at_device.remove(completion.id).expect("the device completes only submitted accesses") {
            Work::Read { object, begin, end } => {
                self.is_reading = false;
                self.keep(&Io { kind: IoKind::Read, object, offset: begin, len: end - begin });
                self.go_on(completion.at);
            }
            Work::Flush { bytes } => {
                self.flushing -= 1;
                self.dirty_bytes -= bytes;
            }
            Work::Store { id } => {
                self.storing -= 1;
                self.finishing.finish(completion.at, id);
            }
        }
    }

    fn make(&mut self, now: Time) {
        while self.waiting.len() + self.reads.len() + self.storing < PageCacheProfile::ACCESSES
            && let Some((id, io)) = self.queue.pop_front()
        {
            match io.kind {
                IoKind::Read => {
                    self.line_up(now, id, io);
                    self.go_on(now);
                }
                IoKind::Write if self.foreground => self.waiting.push_back((id, io)),
                IoKind::Write => self.write(now, id, &io),
                IoKind::StableWrite => self.store(now, id, io),
            }
        }
    }

    /// A stable write goes to the device at once, behind what is there.
    fn store(&mut self, now: Time, id: IoId, io: Io) {
        self.keep(&io);
        self.at_device.insert(self.device.submit(now, Io { kind: IoKind::Write, ..io }), Work::Store { id });
        self.storing += 1;
    }

    /// A read gets its turn: not before the one that is served.
    fn line_up(&mut self, now: Time, id: IoId, io: Io) {
        let others = u32::try_from(self.reads.len()).unwrap_or(u32::MAX);
        let turn = now + PageCacheProfile::SLICE_OFFSET * others;
        let place = self.reads.partition_point(|read| read.turn <= turn).max(1).min(self.reads.len());
        self.reads.insert(place, Reading { id, io, at: io.offset, turn, may_go_on: true });
    }

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
        self.keep(io);
        self.finish_from_memory(now, id, io.len);
    }

    /// Data is in memory now; what came first leaves it.
    fn keep(&mut self, io: &Io) {
        self.reads.iter_mut().for_each(|read| read.may_go_on |= read.lacks(io));
        self.kept.add(io);
        self.kept.shrink_to(self.profile.kept_bytes);
    }

    /// Reads take from memory what is there; those that have everything are done.
    fn go_on(&mut self, now: Time) {
        let mut reads = std::mem::take(&mut self.reads);
        reads.retain_mut(|read| {
            if !std::mem::take(&mut read.may_go_on) {
                return true;
            }
            while let Some((begin, end)) = self.next_chunk(&read.io, read.at) {
                let from = begin.max(read.at);
                let part = Io { offset: from, len: end.min(end_of(&read.io)) - from, ..read.io };
                if !self.kept.covers(&part) && !self.dirty.covers(&part) {
                    return true;
                }
                read.at = end;
            }
            self.finish_from_memory(now, read.id, read.io.len);
            false
        });
        self.reads = reads;
    }

    /// First byte and end of what a read needs next that has its data up to `at`; `None` if it has everything.
    fn next_chunk(&self, io: &Io, at: u64) -> Option<(u64, u64)> {
        let chunk = match self.profile.read_ahead_bytes {
            0 => (at, end_of(io)),
            size => (at / size * size, (at / size * size).saturating_add(size)),
        };
        (at < end_of(io)).then_some(chunk)
    }

    fn finish_from_memory(&mut self, now: Time, id: IoId, len: u64) {
        self.memory_free_from =
            self.memory_free_from.max(now) + transfer_time(len, self.profile.memory_bytes_per_second);
        self.finishing.finish(self.memory_free_from, id);
    }

    fn feed(&mut self, now: Time) {
        if !self.is_reading
            && let Some(&Reading { io, at, .. }) = self.reads.first()
            && let Some((begin, end)) = self.next_chunk(&io, at)
        {
            let work = Work::Read { object: io.object, begin, end };
            self.at_device.insert(self.device.submit(now, Io { offset: begin, len: end - begin, ..io }), work);
            self.is_reading = true;
        }
    }

    fn flush(&mut self, now: Time) {
        while self.flushing < self.most_flushes()
            && self.flush_is_due(now)
            && let Some(run) = self.next_run()
        {
            let bytes = run.end - run.begin;
            let io = Io { kind: IoKind::Write, object: run.object, offset: run.begin, len: bytes };
            self.at_device.insert(self.device.submit(now, io), Work::Flush { bytes });
            self.flushing += 1;
        }
    }

    /// How many writes of a flush may be at the device: one beside reads, for which processes wait.
    fn most_flushes(&self) -> usize {
        if self.is_reading { 1 } else { self.profile.flush_depth.max(1) }
    }

    /// The next dirty data of the object whose turn it is.
    fn next_run(&mut self) -> Option<Run> {
        if self.turn.1 == 0 {
            self.turn = (self.dirty.oldest()?.object, PageCacheProfile::TURN);
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

    fn undecided(&self) -> usize {
        self.queue.len() + self.waiting.len() + self.reads.len() + self.storing
    }
}

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageCache").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Device for PageCache {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        self.advance(now);
        let id = self.finishing.next_id();
        self.queue.push_back((id, io));
        self.make(now);
        self.feed(now);
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

/// The unit in which a cache tracks dirty data: a write of one byte makes a whole page dirty.
const PAGE_BYTES: u64 = 4096;

/// Dirty bytes of one object, whole pages, that became dirty together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    object: u64,
    begin: u64,
    end: u64,
    since: Time,
}

/// Pages that are not on the device yet: runs that do not overlap, indexed by position and by age. All operations are
/// O(log n) for each run that they touch; there is at most one run for each dirty page.
#[derive(Debug, Default)]
struct Pages {
    /// By object and first byte: the run's end and its number.
    by_place: BTreeMap<(u64, u64), (u64, IoId)>,
    /// By number, which grows with time.
    by_age: Outstanding<Run>,
    added: u64,
}

impl Pages {
    /// Marks the pages of `io` dirty; returns the bytes of those that were clean. The others keep their age.
    fn add(&mut self, now: Time, io: &Io) -> u64 {
        let (mut at, end) = pages(io);
        let mut new = 0;
        while at < end {
            let until = if self.end_of_last(io.object, end - 1).is_none_or(|dirty_until| dirty_until <= at) {
                end // Nothing of it is dirty, as is most often the case.
            } else if let Some(dirty_until) = self.dirty_until(io.object, at) {
                at = dirty_until;
                continue;
            } else {
                self.next_run(io.object, at).map_or(end, |(next, _)| next.min(end))
            };
            self.insert(Run { object: io.object, begin: at, end: until, since: now });
            new += until - at;
            at = until;
        }
        new
    }

    fn covers(&self, io: &Io) -> bool {
        let (mut at, end) = pages(io);
        while at < end {
            let Some(dirty_until) = self.dirty_until(io.object, at) else { return false };
            at = dirty_until;
        }
        io.len > 0
    }

    fn oldest(&self) -> Option<&Run> {
        self.by_age.oldest()
    }

    /// Removes the first run of an object that starts at byte `at` or after it.
    fn pop_from(&mut self, object: u64, at: u64) -> Option<Run> {
        let (begin, number) = self.next_run(object, at)?;
        self.by_place.remove(&(object, begin));
        self.by_age.remove(number)
    }

    fn insert(&mut self, run: Run) {
        let number = IoId(self.added);
        self.by_place.insert((run.object, run.begin), (run.end, number));
        self.by_age.insert(number, run);
        self.added += 1;
    }

    /// The end of the run that contains byte `at`; `None` if that byte is clean.
    fn dirty_until(&self, object: u64, at: u64) -> Option<u64> {
        self.end_of_last(object, at).filter(|end| *end > at)
    }

    /// The end of the last run that starts at byte `at` or before it. All objects before are in the range, which costs
    /// less than to look for the first run of this one.
    fn end_of_last(&self, object: u64, at: u64) -> Option<u64> {
        let (&(of, _), &(end, _)) = self.by_place.range(..=(object, at)).next_back()?;
        (of == object).then_some(end)
    }

    fn next_run(&self, object: u64, at: u64) -> Option<(u64, IoId)> {
        let (&(of, begin), &(_, number)) = self.by_place.range((object, at)..).next()?;
        (of == object).then_some((begin, number))
    }
}

fn pages(io: &Io) -> (u64, u64) {
    let end = io.offset.saturating_add(io.len);
    (io.offset / PAGE_BYTES * PAGE_BYTES, end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX))
}

/// Pages that a cache keeps in memory until others need their place, in the order in which they came. Which pages are
/// there is a bit for each, in words that are found by their place: a sorted tree would be searched for each access,
/// and nobody asks for the next page.
#[derive(Debug, Default)]
struct Kept {
    words: HashMap<Word, u64, BuildHasherDefault<PlaceHasher>>,
    runs: VecDeque<Together>,
    bytes: u64,
}

type Word = (u64, u64);

/// Pages from the first to before the last.
#[derive(Clone, Copy, Debug)]
struct Together {
    object: u64,
    begin: u64,
    end: u64,
}

impl Kept {
    /// Takes the pages of `io`; those that are there already keep their age. O(pages / 64 + runs).
    fn add(&mut self, io: &Io) {
        let runs = self.runs.len();
        for (word, mask) in words(&Together::of(io)) {
            let kept = self.words.entry(word).or_default();
            let mut new = mask & !*kept;
            *kept |= mask;
            self.bytes += u64::from(new.count_ones()) * PAGE_BYTES;
            while new != 0 {
                let first = new.trailing_zeros();
                let pages = (new >> first).trailing_ones();
                new &= !bits(first, first + pages);
                let begin = word.1 * 64 + u64::from(first);
                let end = begin + u64::from(pages);
                let goes_on = self.runs.len() > runs;
                match self.runs.back_mut().filter(|last| goes_on && last.end == begin) {
                    Some(last) => last.end = end,
                    None => self.runs.push_back(Together { object: io.object, begin, end }),
                }
            }
        }
    }

    fn covers(&self, io: &Io) -> bool {
        let has = |(word, mask)| self.words.get(&word).is_some_and(|kept| kept & mask == mask);
        io.len > 0 && words(&Together::of(io)).all(has)
    }

    /// Drops the oldest pages until no more than `most` bytes are left, or the last of them is dropped.
    fn shrink_to(&mut self, most: u64) {
        while self.bytes > most
            && let Some(run) = self.runs.pop_front()
        {
            self.bytes -= (run.end - run.begin) * PAGE_BYTES;
            for (word, mask) in words(&run) {
                if let Some(kept) = self.words.get_mut(&word) {
                    *kept &= !mask;
                    if *kept == 0 {
                        self.words.remove(&word);
                    }
                }
            }
        }
    }
}

impl Together {
    fn of(io: &Io) -> Self {
        let end = io.offset.saturating_add(io.len).div_ceil(PAGE_BYTES);
        Self { object: io.object, begin: io.offset / PAGE_BYTES, end }
    }
}

fn words(run: &Together) -> impl Iterator<Item = (Word, u64)> + use<> {
    let Together { object, begin, end } = *run;
    let bit = |page: u64| u32::try_from(page.min(64)).unwrap_or(64);
    (begin / 64..end.div_ceil(64)).map(move |word| {
        let before = word * 64;
        ((object, word), bits(bit(begin.saturating_sub(before)), bit(end - before)))
    })
}

/// Bits from `first` to before `end`, up to 64 of them.
fn bits(first: u32, end: u32) -> u64 {
    let below = |bit: u32| 1_u64.checked_shl(bit).map_or(u64::MAX, |bit| bit - 1);
    below(end) & !below(first)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Compares runs with an oracle that tracks pages one by one.
    #[test]
    fn agrees_with_a_set_of_pages() {
        let (mut runs, mut set, mut random) = (Pages::default(), BTreeSet::new(), 1_u64);
        for step in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let [object, offset, len] = [random >> 63, (random >> 32) % 200_000, (random >> 50) % 30_000];
            let io = Io { kind: IoKind::Write, object, offset, len };
            let (begin, end) = pages(&io);
            let touched =
                || (if len == 0 { 0..0 } else { begin / PAGE_BYTES..end / PAGE_BYTES }).map(|page| (object, page));
            assert_eq!(runs.covers(&io), len > 0 && touched().all(|page| set.contains(&page)));
            if random >> 40 & 3 == 0 {
                let run = runs.oldest().copied();
                run.iter().for_each(|run| assert_eq!(runs.pop_from(run.object, run.begin).as_ref(), Some(run)));
                for page in run.iter().flat_map(|run| run.begin / PAGE_BYTES..run.end / PAGE_BYTES) {
                    assert!(set.remove(&(run.expect("it has pages").object, page)));
                }
            } else if len > 0 {
                let before = set.len();
                set.extend(touched());
                assert_eq!(runs.add(Time::from_millis(step), &io), (set.len() - before) as u64 * PAGE_BYTES);
            }
        }
    }

    #[test]
    fn dirty_pages_keep_their_age() {
        let mut runs = Pages::default();
        let write = |offset, len| Io { kind: IoKind::Write, object: 1, offset, len };
        assert_eq!(runs.add(Time::from_millis(1), &write(10, 1)), PAGE_BYTES);
        assert_eq!(runs.add(Time::from_millis(2), &write(0, 2 * PAGE_BYTES)), PAGE_BYTES);
        let run = |begin, end, millis| Run { object: 1, begin, end, since: Time::from_millis(millis) };
        assert_eq!(runs.pop_from(1, 1), Some(run(PAGE_BYTES, 2 * PAGE_BYTES, 2)));
        assert_eq!((runs.pop_from(2, 0), runs.pop_from(1, 1)), (None, None));
        assert_eq!(runs.pop_from(1, 0), Some(run(0, PAGE_BYTES, 1)));
    }

    /// What is dirty is kept in another way; for what both have, they agree, and so on what is dropped.
    #[test]
    fn agrees_with_sorted_runs() {
        let (mut kept, mut sorted, mut random) = (Kept::default(), Pages::default(), 1_u64);
        let mut bytes = 0;
        for _ in 0..30_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let [object, offset, len] = [random >> 63, (random >> 32) % 5_000_000, (random >> 50) % 900_000];
            let io =
                Io { kind: IoKind::Read, object, offset, len: if random >> 45 & 7 > 0 { len % 20_000 } else { len } };
            assert_eq!(kept.covers(&io), sorted.covers(&io));
            if io.len > 0 && random >> 40 & 1 == 0 {
                kept.add(&io);
                bytes += sorted.add(Time::ZERO, &io);
                kept.shrink_to(4_000_000);
                while bytes > 4_000_000 {
                    let run = *sorted.oldest().unwrap();
                    sorted.pop_from(run.object, run.begin);
                    bytes -= run.end - run.begin;
                }
            }
            assert_eq!((kept.bytes, kept.words.values().all(|word| *word != 0)), (bytes, true));
        }
    }
}

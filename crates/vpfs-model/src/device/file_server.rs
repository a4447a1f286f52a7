//! How a file server uses its device: it reads ahead, and gives it few accesses at a time.

use std::collections::{BTreeMap, VecDeque};

use vpfs_core::Time;

use super::finishing::Finishing;
use super::{Completion, Device, Io, IoId, IoKind};

/// Parameters of [`FileServer`].
#[derive(Clone, Debug, PartialEq)]
pub struct FileServerProfile {
    /// A read of any part of a chunk of this size reads the whole chunk; 0: no read-ahead and no cached reads.
    pub read_ahead_bytes: u64,
    /// Number of chunks kept in memory; the oldest ones are evicted.
    pub chunks_kept: usize,
    /// Accesses outstanding at the device; others wait: objects take turns, and accesses of each go in arrival order.
    pub device_accesses: usize,
}

impl FileServerProfile {
    /// A PVFS2 server with a disk and 8 GB of memory: the IOCO nodes.
    ///
    /// - Chunks of 256 KiB, which Linux has outstanding for a stream: the window of 128 KiB (`read_ahead_kb`) being
    ///   read and the next one. They occupy three quarters of the memory (**assumed**). That a stream is recognised at
    ///   its first access is assumed as well.
    /// - One access at a time, from a queue for each file handle in turn: the trove module handles operations on block
    ///   devices one by one, and the server has a queue for each handle [IOCO §4.1].
    pub const PVFS2_HDD: Self = Self { read_ahead_bytes: 256 << 10, chunks_kept: 24_576, device_accesses: 1 };

    /// The same with flash, without read-ahead (**assumed**: it would not help).
    pub const PVFS2_SSD: Self = Self { read_ahead_bytes: 0, chunks_kept: 0, device_accesses: 1 };
}

/// A file server in front of a device; its page cache is empty at first.
///
/// The device is given few accesses at a time. Reads are rounded to aligned chunks, each of which is read once while it
/// stays in memory, so small reads of one stream, in any order, become one access to the device. Data in memory is read
/// in zero time. Writes go to the device unchanged.
pub struct FileServer {
    profile: FileServerProfile,
    device: Box<dyn Device>,
    /// Accesses submitted to the device.
    at_device: BTreeMap<IoId, Work>,
    /// Accesses waiting to be submitted, by object.
    waiting: BTreeMap<u64, VecDeque<(Io, Work)>>,
    /// Objects with waiting accesses, in the order of their turns.
    turns: VecDeque<u64>,
    chunks: BTreeMap<Chunk, State>,
    /// Chunks in memory, oldest first.
    kept: VecDeque<Chunk>,
    /// Number of chunks that a read still waits for.
    missing: BTreeMap<IoId, u64>,
    /// Accesses passed on unchanged that are not finished.
    as_is: usize,
    finishing: Finishing,
}

/// An object and the number of a chunk in it.
type Chunk = (u64, u64);

#[derive(Debug)]
enum State {
    /// The device is reading it, for these accesses.
    Coming(Vec<IoId>),
    Here,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    AsIs(IoId),
    Chunk(Chunk),
}

impl FileServer {
    /// An empty cache in front of an idle device.
    pub fn new(profile: FileServerProfile, device: Box<dyn Device>) -> Self {
        Self {
            profile,
            device,
            at_device: BTreeMap::new(),
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            chunks: BTreeMap::new(),
            kept: VecDeque::new(),
            missing: BTreeMap::new(),
            as_is: 0,
            finishing: Finishing::default(),
        }
    }

    /// Runs the time line up to `now`.
    fn advance(&mut self, now: Time) {
        while let Some(at) = self.device.poll_timeout().filter(|at| *at <= now) {
            while let Some(Completion { id, at }) = self.device.poll_completed(at) {
                match self.at_device.remove(&id).expect("the device completes only submitted accesses") {
                    Work::AsIs(id) => {
                        self.as_is -= 1;
                        self.finishing.finish(at, id);
                    }
                    Work::Chunk(chunk) => self.on_chunk(at, chunk),
                }
            }
            self.feed(at);
        }
    }

    /// Submits waiting accesses to the device.
    fn feed(&mut self, now: Time) {
        while self.at_device.len() < self.profile.device_accesses.max(1)
            && let Some((io, work)) = self.next_waiting()
        {
            self.at_device.insert(self.device.submit(now, io), work);
        }
    }

    fn wait(&mut self, io: Io, work: Work) {
        let queue = self.waiting.entry(io.object).or_default();
        if queue.is_empty() {
            self.turns.push_back(io.object);
        }
        queue.push_back((io, work));
    }

    /// The first access of the object whose turn it is.
    fn next_waiting(&mut self) -> Option<(Io, Work)> {
        let object = self.turns.pop_front()?;
        let queue = self.waiting.get_mut(&object)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&object);
        } else {
            self.turns.push_back(object);
        }
        next
    }

    /// A chunk has arrived in memory.
    fn on_chunk(&mut self, at: Time, chunk: Chunk) {
        if let Some(State::Coming(readers)) = self.chunks.insert(chunk, State::Here) {
            readers.into_iter().for_each(|reader| self.on_found(at, reader));
        }
        self.kept.push_back(chunk);
        if self.kept.len() > self.profile.chunks_kept
            && let Some(oldest) = self.kept.pop_front()
        {
            self.chunks.remove(&oldest);
        }
    }

    /// A read has one more of its chunks.
    fn on_found(&mut self, at: Time, reader: IoId) {
        let missing = self.missing.get_mut(&reader).expect("chunks have readers that wait");
        *missing -= 1;
        if *missing == 0 {
            self.missing.remove(&reader);
            self.finishing.finish(at, reader);
        }
    }

    fn read(&mut self, now: Time, id: IoId, io: &Io) {
        let size = self.profile.read_ahead_bytes.max(1);
        let last = io.offset.saturating_add(io.len.max(1) - 1) / size;
        // One more than the real number until all chunks have been visited, so that none of them completes the read
        // early.
        self.missing.insert(id, last - io.offset / size + 2);
        for number in io.offset / size..=last {
            self.want(now, (io.object, number), id);
        }
        self.on_found(now, id);
    }

    /// A read needs this chunk.
    fn want(&mut self, now: Time, chunk: Chunk, reader: IoId) {
        match self.chunks.get_mut(&chunk) {
            Some(State::Here) => self.on_found(now, reader),
            Some(State::Coming(readers)) => readers.push(reader),
            None => {
                let size = self.profile.read_ahead_bytes.max(1);
                let (object, number) = chunk;
                let io = Io { kind: IoKind::Read, object, offset: number.saturating_mul(size), len: size };
                self.wait(io, Work::Chunk(chunk));
                self.chunks.insert(chunk, State::Coming(vec![reader]));
            }
        }
    }
}

impl Device for FileServer {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        self.advance(now);
        let id = self.finishing.next_id();
        match io.kind {
            IoKind::Read if self.profile.read_ahead_bytes > 0 => self.read(now, id, &io),
            _ => {
                self.as_is += 1;
                self.wait(io, Work::AsIs(id));
            }
        }
        self.feed(now);
        id
    }

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        self.advance(now);
        self.finishing.poll_completed(now)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.finishing.poll_timeout().into_iter().chain(self.device.poll_timeout()).min()
    }

    fn outstanding(&self) -> usize {
        self.missing.len() + self.as_is + self.finishing.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::device::{Hdd, HddProfile};

    const CHUNK: u64 = 256 << 10;

    fn cache(chunks_kept: usize) -> FileServer {
        let profile = FileServerProfile { chunks_kept, ..FileServerProfile::PVFS2_HDD };
        FileServer::new(profile, Box::new(Hdd::new(HddProfile::SATA_7200)))
    }

    fn read(offset: u64, len: u64) -> Io {
        Io { kind: IoKind::Read, object: 7, offset, len }
    }

    /// Runs until all accesses are done; returns ids and times.
    fn drain(device: &mut impl Device) -> Vec<(u64, Time)> {
        let mut done = Vec::new();
        while let Some(at) = device.poll_timeout() {
            done.extend(std::iter::from_fn(|| device.poll_completed(at)).map(|one| (one.id.0, one.at)));
        }
        assert_eq!(device.outstanding(), 0);
        done
    }

    #[test]
    fn small_reads_of_a_chunk_are_one_access() {
        let mut cached = cache(9);
        for piece in [3, 0, 15, 8] {
            cached.submit(Time::ZERO, read(piece * (CHUNK / 16), CHUNK / 16));
        }
        let mut plain = Hdd::new(HddProfile::SATA_7200);
        plain.submit(Time::ZERO, read(0, CHUNK));
        let (_, at) = drain(&mut plain)[0];
        assert_eq!(drain(&mut cached), [0, 1, 2, 3].map(|id| (id, at)));
        cached.submit(at, read(CHUNK / 2, 4096));
        assert_eq!(drain(&mut cached), [(4, at)], "it is in memory");
    }

    #[test]
    fn a_large_read_waits_for_all_its_chunks() {
        let mut cached = cache(9);
        cached.submit(Time::ZERO, read(CHUNK / 2, 2 * CHUNK));
        let mut plain = Hdd::new(HddProfile::SATA_7200);
        plain.submit(Time::ZERO, read(0, 3 * CHUNK));
        let (done, plain) = (drain(&mut cached), drain(&mut plain));
        let rounding = Duration::from_nanos(3);
        assert!(done.len() == 1 && plain[0].1.since(done[0].1) < rounding, "{done:?} {plain:?}");
    }

    #[test]
    fn the_oldest_chunk_leaves_memory() {
        let mut cached = cache(1);
        cached.submit(Time::ZERO, read(0, 1));
        cached.submit(Time::ZERO, read(CHUNK, 1));
        let (_, end) = *drain(&mut cached).last().expect("two reads");
        cached.submit(end, read(CHUNK, 1));
        cached.submit(end, read(0, 1));
        let again = drain(&mut cached);
        assert!(again[0] == (2, end) && again[1].1 > end, "{again:?}");
    }

    #[test]
    fn accesses_of_an_object_go_to_the_device_one_by_one_in_arrival_order() {
        let mut cached = cache(9);
        let places = [5, 1, 9, 3].map(|piece| read(piece << 30, 4096));
        for place in places {
            cached.submit(Time::ZERO, place);
        }
        let ids: Vec<u64> = drain(&mut cached).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [0, 1, 2, 3], "the disk's elevator has nothing to reorder");
    }

    #[test]
    fn objects_take_turns() {
        let mut cached = cache(9);
        for (object, piece) in [(7, 5), (7, 1), (7, 9), (8, 2), (8, 3)] {
            cached.submit(Time::ZERO, Io { object, ..read(piece << 30, 4096) });
        }
        let ids: Vec<u64> = drain(&mut cached).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [0, 1, 3, 2, 4], "the first object was served before the second one came");
    }

    #[test]
    fn writes_go_to_the_device() {
        let mut cached = cache(9);
        cached.submit(Time::ZERO, Io { kind: IoKind::Write, ..read(0, CHUNK) });
        assert_eq!(cached.outstanding(), 1);
        assert!(drain(&mut cached)[0].1 > Time::ZERO);
    }
}

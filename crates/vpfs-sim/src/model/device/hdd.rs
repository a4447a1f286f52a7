//! A disk with one head, served in batches of sequential accesses and otherwise by an elevator.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::time::Duration;

use vpfs_core::Time;
use vpfs_core::hash::mix;

use super::{Completion, Device, Io, IoId, Outstanding, PlaceHasher, end_of, transfer_time};

/// A disk with one head.
///
/// An access that does not continue the one before it costs `seek_min + seek_span·√(distance/capacity)`, half a
/// rotation, and its transfer; one that does continue it costs the transfer only. One a little ahead on the same track
/// costs no more than the time in which the gap passes under the head.
#[derive(Clone, Debug, PartialEq)]
pub struct HddProfile {
    /// Bytes from the first to the last track.
    pub capacity_bytes: u64,
    /// Cost of the shortest seek.
    pub seek_min: Duration,
    /// Additional cost of a seek over the whole disk, beyond `seek_min`.
    pub seek_span: Duration,
    /// Time of one rotation of the platter.
    pub rotation: Duration,
    /// Transfer rate once positioned, bytes per second.
    pub bytes_per_second: u64,
    /// Length of the command queue, in which the disk reorders accesses; further ones wait in arrival order.
    pub command_queue: usize,
    /// Bytes served in sequence, as accesses continue each other, before others get their turn.
    pub batch_bytes: u64,
    /// A command that has waited longer than this goes before all others.
    pub deadline: Duration,
    /// Accesses that are served in the elevator's order after such a command, before the next one.
    pub sweep_accesses: usize,
    /// Contiguous allocation unit; each unit of an object is at a different place on the disk.
    pub extent_bytes: u64,
}

impl HddProfile {
    /// A 500 GB 7200 rpm SAS disk below EXT3 in data-journalling mode [vPFS+ §V-A].
    ///
    /// - Seek: 8.5 ms mean over uniformly random pairs (√ has mean 8/15 there), 0.8 ms track to track: data sheet
    ///   values of this class of disk.
    /// - Transfer: 72 MB/s: eight such servers deliver 597 MB/s in total to IOR writes [vPFS+ §V-D], less a little for
    ///   the slower inner tracks; data journalling writes twice and so halves what the medium can do.
    /// - Queue: 16 commands. Together these give the paper's profile: saturation with 10 to 15 small accesses,
    ///   128 KiB as the largest small access, and 5 slots for 2 MiB [vPFS+ §III-B, Fig. 2 and 3].
    /// - Batches of 4 MiB: 16 flow buffers of 256 KiB, as the deadline scheduler of Linux has batches of 16 requests. A
    ///   large transfer that arrives in many chunks is served like one access.
    /// - Deadline: 500 ms and 16 requests, as the same scheduler has for reads. (Its 5 s for writes are meant for
    ///   write-back, for which no process waits; here a process waits for every write.)
    /// - Extents of 1 MiB: an aged file system, so that test files of a few megabytes see seeks over the whole disk.
    pub const SAS_7200: Self = Self {
        capacity_bytes: 500_000_000_000,
        seek_min: Duration::from_micros(800),
        seek_span: Duration::from_micros(14_400),
        rotation: Duration::from_nanos(8_333_333),
        bytes_per_second: 72_000_000,
        command_queue: 16,
        batch_bytes: 4 << 20,
        deadline: Duration::from_millis(500),
        sweep_accesses: 16,
        extent_bytes: 1 << 20,
    };

    /// The 250 GB 7200 rpm SATA II disk of the IOCO and HARL nodes [IOCO §2.2, §5.1], [HARL §IV-A].
    ///
    /// - Seek: 8.9 ms mean, 1 ms track to track: data sheet values of this class of disk.
    /// - Transfer: 60 MB/s, the mean over the tracks of disks of that size and generation (70 to 80 MB/s outside);
    ///   their EXT3 of that time journals metadata only.
    /// - Queue: 31 commands, as with native command queueing.
    /// - The rest is as in [`HddProfile::SAS_7200`].
    pub const SATA_7200: Self = Self {
        capacity_bytes: 250_000_000_000,
        seek_min: Duration::from_millis(1),
        seek_span: Duration::from_micros(14_800),
        bytes_per_second: 60_000_000,
        command_queue: 31,
        ..Self::SAS_7200
    };

    /// The simplest storage with a cost: one access at a time in arrival order, 5 ms for each access that does not
    /// continue the one before, and 60 MB/s.
    ///
    /// It is not hardware of a paper. Its results can be computed by hand, regardless of where files are and how much
    /// is outstanding. Use it to state requirements, and to see the effect of a policy without that of the disk's own
    /// scheduling.
    pub const ONE_HEAD: Self = Self {
        seek_min: Duration::from_millis(5),
        seek_span: Duration::ZERO,
        rotation: Duration::ZERO,
        bytes_per_second: 60_000_000,
        command_queue: 1,
        batch_bytes: 0,
        // With only one command to choose from, a deadline has no effect.
        deadline: Duration::ZERO,
        sweep_accesses: 0,
        ..Self::SAS_7200
    };
}

/// One head. Accesses that continue each other are one command, as an operating system merges them, up to a batch.
/// Commands in the disk's queue are served in LOOK order (the elevator that turns at the last request); those that wait
/// for a place in the queue, in arrival order. A command past its deadline goes first: a large transfer leaves the head
/// anywhere, so the elevator alone could pass by a command again and again.
///
/// Throughput of random accesses grows with the number outstanding, because seeks get shorter, until the queue is full.
/// A large access occupies the head for its whole transfer, so outstanding large writes delay a small one.
#[derive(Debug)]
pub struct Hdd {
    profile: HddProfile,
    submitted: u64,
    /// All accesses not yet started. One that continued another when it arrived is a follower: it is in neither of the
    /// next two orders until its predecessor has been served.
    pending: Outstanding<Pending>,
    /// Accesses beyond the command queue, in arrival order.
    waiting: VecDeque<IoId>,
    queue: Vec<(u64, IoId)>,
    neighbours: Neighbours,
    active: Option<Active>,
    done: VecDeque<Completion>,
    head: u64,
    sweep: Sweep,
    /// Object and end of the last access served: its continuation needs no positioning.
    last: Option<(u64, u64)>,
    /// Bytes served in sequence since the last command started.
    batch: u64,
    /// Accesses to be served before deadlines apply again.
    sweep_left: usize,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    io: Io,
    since: Time,
    position: u64,
    /// The next one that starts there.
    next: Option<IoId>,
}

impl Linked for Pending {
    fn next(&self) -> Option<IoId> {
        self.next
    }

    fn set_next(&mut self, next: Option<IoId>) {
        self.next = next;
    }
}

#[derive(Clone, Copy, Debug)]
struct Active {
    id: IoId,
    until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sweep {
    Up,
    Down,
}

impl Hdd {
    /// An idle disk with the head at its first byte.
    pub fn new(profile: HddProfile) -> Self {
        Self {
            profile,
            submitted: 0,
            pending: Outstanding::default(),
            waiting: VecDeque::new(),
            queue: Vec::new(),
            neighbours: Neighbours::default(),
            active: None,
            done: VecDeque::new(),
            head: 0,
            sweep: Sweep::Up,
            last: None,
            batch: 0,
            sweep_left: 0,
        }
    }

    fn advance(&mut self, now: Time) {
        while let Some(active) = self.active
            && active.until <= now
        {
            self.done.push_back(Completion { id: active.id, at: active.until });
            self.active = None;
            self.start_next(active.until);
        }
    }

    fn start_next(&mut self, now: Time) {
        let follower = self.release_followers();
        while self.queue.len() < self.profile.command_queue.max(1)
            && let Some(id) = self.waiting.pop_front()
        {
            let command = (self.pending(id).position, id);
            self.queue.insert(self.queue.partition_point(|other| *other < command), command);
        }
        // What starts where the last one ended is next, unless the batch is full.
        let continuation = follower.filter(|_| self.batch < self.profile.batch_bytes);
        if let Some(id) = continuation.or_else(|| self.choose(now)) {
            let Pending { io, position, .. } = self.forget(id);
            let cost = self.serve(&io, position);
            self.active = Some(Active { id, until: now + cost });
        }
    }

    /// Followers of the last access may be chosen from now on; returns the oldest one.
    fn release_followers(&mut self) -> Option<IoId> {
        let first = self.neighbours.first_at(self.last?)?;
        for id in chain(first, &self.pending) {
            let place = self.waiting.partition_point(|other| *other < id);
            if self.waiting.get(place) != Some(&id) && !self.queue.iter().any(|(_, queued)| *queued == id) {
                self.waiting.insert(place, id);
            }
        }
        Some(first)
    }

    /// Whether a new access continues one that is pending or being served, so that both are one command to the disk.
    fn is_follower(&self, io: &Io) -> bool {
        let begin = (io.object, io.offset);
        self.active.is_some() && self.last == Some(begin) || self.neighbours.is_end(begin)
    }

    /// The next command: the next one in the elevator's order, or the oldest one if it is past its deadline. From there
    /// the elevator continues for some accesses, so that a disk whose commands are all late still sweeps.
    fn choose(&mut self, now: Time) -> Option<IoId> {
        self.batch = 0;
        let expired = if self.sweep_left == 0 { self.expired(now) } else { None };
        if expired.is_some() {
            self.sweep_left = self.profile.sweep_accesses;
        }
        expired.or_else(|| self.elevator())
    }

    fn expired(&self, now: Time) -> Option<IoId> {
        let is_late = |pending: &Pending| now.since(pending.since) > self.profile.deadline;
        // Mostly no access at all is late, and then none of the queue need be looked for.
        self.pending.oldest().filter(|pending| is_late(pending))?;
        let oldest = self.queue.iter().map(|(_, id)| *id).min();
        oldest.filter(|id| is_late(self.pending(*id)))
    }

    fn elevator(&mut self) -> Option<IoId> {
        let up = self.queue.get(self.queue.partition_point(|(position, _)| *position < self.head));
        let down = self.queue[..self.queue.partition_point(|(position, _)| *position <= self.head)].last();
        let (ahead, behind) = if self.sweep == Sweep::Up { (up, down) } else { (down, up) };
        let chosen = ahead.or(behind).map(|(_, id)| *id);
        if ahead.is_none() && behind.is_some() {
            self.sweep = if self.sweep == Sweep::Up { Sweep::Down } else { Sweep::Up };
        }
        chosen
    }

    fn pending(&self, id: IoId) -> &Pending {
        self.pending.get(id).expect("orders are of pending accesses")
    }

    fn forget(&mut self, id: IoId) -> Pending {
        let Pending { io, position, .. } = *self.pending(id);
        self.neighbours.remove(id, &io, &mut self.pending);
        if let Ok(place) = self.queue.binary_search(&(position, id)) {
            self.queue.remove(place);
        } else if let Ok(place) = self.waiting.binary_search(&id) {
            self.waiting.remove(place);
        }
        self.pending.remove(id).expect("only pending accesses are chosen")
    }

    fn serve(&mut self, io: &Io, position: u64) -> Duration {
        let transfer = transfer_time(io.len, self.profile.bytes_per_second);
        let continues = self.last == Some((io.object, io.offset));
        let positioning = if continues { Duration::ZERO } else { self.positioning(position) };
        self.head = position.saturating_add(io.len).min(self.profile.capacity_bytes);
        self.last = Some((io.object, end_of(io)));
        self.batch = self.batch.saturating_add(io.len);
        self.sweep_left = self.sweep_left.saturating_sub(1);
        positioning + transfer
    }

    /// A seek to `position` and half a rotation, or the wait for a place ahead on the same track. Integers only, so
    /// every machine gets the same result.
    fn positioning(&self, position: u64) -> Duration {
        let distance = self.head.abs_diff(position);
        let share = (u128::from(distance) << 32) / u128::from(self.profile.capacity_bytes.max(1));
        let root = u64::try_from(share).unwrap_or(u64::MAX).isqrt().min(1 << 16);
        let nanos = (self.profile.seek_span.as_nanos() * u128::from(root)) >> 16;
        let seek = self.profile.seek_min + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let moved = seek + self.profile.rotation / 2;
        let passed = transfer_time(distance, self.profile.bytes_per_second);
        if position >= self.head && passed < self.profile.rotation { moved.min(passed) } else { moved }
    }

    /// Where an access starts on the disk: the position of its extent, derived only from object and extent number.
    fn position(&self, io: &Io) -> u64 {
        let extents = (self.profile.capacity_bytes / self.profile.extent_bytes).max(1);
        let extent = mix(io.object ^ mix(io.offset / self.profile.extent_bytes)) % extents;
        extent * self.profile.extent_bytes + io.offset % self.profile.extent_bytes
    }
}

impl Device for Hdd {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        self.advance(now);
        let id = IoId(self.submitted);
        self.submitted += 1;
        if !self.is_follower(&io) {
            self.waiting.push_back(id);
        }
        self.pending.insert(id, Pending { io, since: now, position: self.position(&io), next: None });
        self.neighbours.insert(id, &io, &mut self.pending);
        if self.active.is_none() {
            self.start_next(now);
        }
        id
    }

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        self.advance(now);
        self.done.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let done = self.done.front().map(|completion| completion.at);
        done.or(self.active.map(|active| active.until))
    }

    fn outstanding(&self) -> usize {
        self.pending.len() + usize::from(self.active.is_some()) + self.done.len()
    }
}

type Place = (u64, u64);

type ByPlace<T> = HashMap<Place, T, BuildHasherDefault<PlaceHasher>>;

/// Pending accesses by the places where they begin and end, to find those that continue each other. O(1) for each, but
/// to remove an access with which many others begin.
#[derive(Debug, Default)]
struct Neighbours {
    /// Those that begin at a place, in order of submission.
    begins: ByPlace<Alike>,
    ends: ByPlace<u32>,
}

/// Accesses that begin at one place: the first and the last of a list.
#[derive(Clone, Copy, Debug)]
struct Alike {
    first: IoId,
    last: IoId,
}

trait Linked {
    fn next(&self) -> Option<IoId>;
    fn set_next(&mut self, next: Option<IoId>);
}

impl Neighbours {
    fn insert<T: Linked>(&mut self, id: IoId, io: &Io, accesses: &mut Outstanding<T>) {
        match self.begins.entry((io.object, io.offset)) {
            Entry::Vacant(place) => _ = place.insert(Alike { first: id, last: id }),
            Entry::Occupied(mut place) => {
                let last = std::mem::replace(&mut place.get_mut().last, id);
                accesses.get_mut(last).expect("it is pending").set_next(Some(id));
            }
        }
        *self.ends.entry((io.object, end_of(io))).or_default() += 1;
    }

    /// Removes an access, which is still in `accesses`.
    fn remove<T: Linked>(&mut self, id: IoId, io: &Io, accesses: &mut Outstanding<T>) {
        let next = accesses.get(id).expect("it is pending").next();
        let Entry::Occupied(mut place) = self.begins.entry((io.object, io.offset)) else { panic!("it was inserted") };
        let before = chain(place.get().first, accesses).take_while(|other| *other != id).last();
        match (before, next) {
            (None, None) => _ = place.remove(),
            (None, Some(next)) => place.get_mut().first = next,
            (Some(before), next) => {
                accesses.get_mut(before).expect("it is pending").set_next(next);
                if next.is_none() {
                    place.get_mut().last = before;
                }
            }
        }
        let Entry::Occupied(mut end) = self.ends.entry((io.object, end_of(io))) else { panic!("it was inserted") };
        *end.get_mut() -= 1;
        if *end.get() == 0 {
            end.remove();
        }
    }

    fn first_at(&self, place: Place) -> Option<IoId> {
        self.begins.get(&place).map(|alike| alike.first)
    }

    fn is_end(&self, place: Place) -> bool {
        self.ends.contains_key(&place)
    }
}

fn chain<T: Linked>(first: IoId, accesses: &Outstanding<T>) -> impl Iterator<Item = IoId> {
    std::iter::successors(Some(first), |id| accesses.get(*id)?.next())
}

#[cfg(test)]
mod tests {
    use super::super::IoKind;
    use super::*;

    struct Access(Option<IoId>);

    impl Linked for Access {
        fn next(&self) -> Option<IoId> {
            self.0
        }

        fn set_next(&mut self, next: Option<IoId>) {
            self.0 = next;
        }
    }

    /// Of accesses that begin at one place, any may be the next to go.
    #[test]
    fn those_that_begin_together_are_found_in_order() {
        let io = Io { kind: IoKind::Read, object: 1, offset: 8, len: 4 };
        let (begin, end) = ((1, 8), (1, 12));
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let (mut accesses, mut neighbours) = (Outstanding::default(), Neighbours::default());
            let mut left = vec![0, 1, 2];
            for id in left.iter().copied().map(IoId) {
                accesses.insert(id, Access(None));
                neighbours.insert(id, &io, &mut accesses);
            }
            for id in order {
                let found = neighbours.first_at(begin).into_iter().flat_map(|first| chain(first, &accesses));
                assert_eq!(found.map(|id| id.0).collect::<Vec<_>>(), left, "{order:?}");
                assert!(neighbours.is_end(end) && !neighbours.is_end(begin));
                neighbours.remove(IoId(id), &io, &mut accesses);
                accesses.remove(IoId(id));
                left.retain(|other| *other != id);
            }
            assert!(neighbours.first_at(begin).is_none() && !neighbours.is_end(end));
        }
    }
}

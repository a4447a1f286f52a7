//! A disk with one head and an elevator over its command queue.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vpfs_core::Time;

use super::{Completion, Device, HddProfile, Io, IoId, mix};

/// One head; LOOK order (the elevator that turns at the last request) among the commands in the disk's queue; arrival
/// order among those that wait for a place in it.
///
/// Throughput of random accesses grows with the number outstanding, because seeks get shorter, until the queue is
/// full. A large access keeps the head for its whole transfer, so outstanding large writes delay a small one.
#[derive(Debug)]
pub struct Hdd {
    profile: HddProfile,
    submitted: u64,
    /// Beyond the command queue, in arrival order.
    waiting: VecDeque<(IoId, Io)>,
    /// The command queue, by position; equal positions in arrival order.
    queue: BTreeMap<(u64, IoId), Io>,
    active: Option<Active>,
    done: VecDeque<Completion>,
    /// Byte position of the head.
    head: u64,
    sweep: Sweep,
    /// Object and end of the last access served: what continues it needs no positioning.
    last: Option<(u64, u64)>,
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
            waiting: VecDeque::new(),
            queue: BTreeMap::new(),
            active: None,
            done: VecDeque::new(),
            head: 0,
            sweep: Sweep::Up,
            last: None,
        }
    }

    /// Runs the disk's time line up to `now`.
    fn advance(&mut self, now: Time) {
        while let Some(active) = self.active
            && active.until <= now
        {
            self.done.push_back(Completion { id: active.id, at: active.until });
            self.active = None;
            self.start_next(active.until);
        }
    }

    /// Fills the command queue and starts the next command, if there is one.
    fn start_next(&mut self, at: Time) {
        while self.queue.len() < self.profile.command_queue.max(1)
            && let Some((id, io)) = self.waiting.pop_front()
        {
            self.queue.insert((self.position(&io), id), io);
        }
        if let Some(key) = self.choose() {
            let io = self.queue.remove(&key).expect("the chosen command is in the queue");
            let cost = self.serve(key.0, &io);
            self.active = Some(Active { id: key.1, until: at + cost });
        }
    }

    /// The nearest command in the direction of the sweep; turns when there is none.
    fn choose(&mut self) -> Option<(u64, IoId)> {
        let up = |queue: &BTreeMap<_, _>, head| queue.range((head, IoId(0))..).next().map(|(key, _)| *key);
        let down =
            |queue: &BTreeMap<_, _>, head| queue.range(..=(head, IoId(u64::MAX))).next_back().map(|(key, _)| *key);
        let (ahead, behind) = match self.sweep {
            Sweep::Up => (up(&self.queue, self.head), down(&self.queue, self.head)),
            Sweep::Down => (down(&self.queue, self.head), up(&self.queue, self.head)),
        };
        if ahead.is_none() && behind.is_some() {
            self.sweep = if self.sweep == Sweep::Up { Sweep::Down } else { Sweep::Up };
        }
        ahead.or(behind)
    }

    /// Moves the head over an access and returns what that costs.
    fn serve(&mut self, position: u64, io: &Io) -> Duration {
        let transfer = transfer_time(io.len, self.profile.bytes_per_second);
        let end = io.offset.saturating_add(io.len);
        let continues = self.last == Some((io.object, io.offset));
        let positioning = if continues { Duration::ZERO } else { self.positioning(self.head.abs_diff(position)) };
        self.head = position.saturating_add(io.len).min(self.profile.capacity_bytes);
        self.last = Some((io.object, end));
        positioning + transfer
    }

    /// A seek over `distance` bytes and half a rotation. Integers only, so every machine gets the same.
    fn positioning(&self, distance: u64) -> Duration {
        let share = (u128::from(distance) << 32) / u128::from(self.profile.capacity_bytes.max(1));
        let root = share.isqrt().min(1 << 16);
        let nanos = (self.profile.seek_span.as_nanos() * root) >> 16;
        let seek = self.profile.seek_min + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        seek + self.profile.rotation / 2
    }

    /// Where an access begins on the disk: its extent's place, derived from object and extent number alone.
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
        self.waiting.push_back((id, io));
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
        self.waiting.len() + self.queue.len() + usize::from(self.active.is_some()) + self.done.len()
    }
}

/// Time to move `len` bytes at `rate` bytes per second, rounded down to a nanosecond.
pub(super) fn transfer_time(len: u64, rate: u64) -> Duration {
    let nanos = u128::from(len) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

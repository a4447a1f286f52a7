//! The operations of a client, each from its request to its last byte, and the table of them: by tag, and counted by
//! what they wait for.

use std::collections::HashMap;

use bytes::Bytes;
use slab::Slab;
use vpfs_core::{MIN_DATA_COST, OpKind, Pieces, Time};

use super::{Numbered, Order, Protocol};
use crate::session::{Completed, OpId, Outcome, Submission};

/// Bytes that an operation takes up in the tables of session, driver and scheduler, besides its request.
pub(crate) const OP_BYTES: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Sent at once.
    Exempt,
    /// Waits to be scheduled.
    Scheduled(Submission),
}

/// A whole request.
#[derive(Debug)]
pub(crate) struct Arriving<P: Protocol> {
    /// Of no operation in progress.
    pub(crate) tag: P::Tag,
    /// What is sent to the server, as far as it was read,
    pub(crate) message: Bytes,
    /// and the number of bytes behind that, which are there. Zero if it is sent at once.
    pub(crate) unread: usize,
    pub(crate) class: Class,
    pub(crate) detail: P::Detail,
    pub(crate) detail_bytes: usize,
    /// Data bytes of a write in the request itself.
    pub(crate) carried: u64,
    /// Data bytes of a write that the client sends after the acknowledgement.
    pub(crate) expected: u64,
    /// What it must not overtake; `None` if nothing, as for all that is sent at once.
    pub(crate) order: Option<Order>,
    /// What must not be left too far behind.
    pub(crate) numbered: Option<Numbered>,
}

#[derive(Debug)]
pub(crate) enum State {
    /// The request waits for the scheduler.
    Queued(Bytes),
    /// Dispatched, but the client is in the middle of another message, so the request waits for the end of that one.
    Dispatched(Bytes),
    /// Its turn came after `max_hold`: it is sent when its client repeats it.
    Overdue(Bytes),
    /// Sent; the reply or acknowledgement is next.
    Sent,
    /// A write was acknowledged: data from the client, then the completion from the server.
    Writing,
    /// A read was acknowledged: `remaining` data bytes are still to come from the server.
    Reading { remaining: u64 },
}

/// Parts of a request behind its start. Most requests have none.
#[derive(Debug, Default)]
pub(crate) struct Rest(pub(super) Vec<Bytes>);

/// The cost of a data request that moves `bytes` bytes at this server.
pub(crate) fn data_cost(bytes: u64) -> vpfs_core::Bytes {
    vpfs_core::Bytes(bytes).max(MIN_DATA_COST)
}

#[derive(Debug)]
pub(crate) struct Op<P: Protocol> {
    pub(super) tag: P::Tag,
    pub(crate) detail: P::Detail,
    /// `None`: not scheduled.
    pub(super) kind: Option<OpKind>,
    pub(super) cost: vpfs_core::Bytes,
    pub(crate) state: State,
    /// What was read of its request after it had arrived.
    pub(super) rest: Option<Box<Rest>>,
    /// Bytes of memory that it takes up now.
    pub(super) held: usize,
    /// Data bytes in the request itself.
    pub(super) carried: u64,
    /// Data bytes that the client sends after the acknowledgement.
    pub(super) expected: u64,
    /// What it must not overtake.
    pub(super) order: Option<Order>,
    /// Its place in a sequence of which the server drops what comes too late.
    pub(crate) numbered: Option<Numbered>,
    /// Data bytes that passed.
    pub(super) moved: u64,
    /// The data that passes is not counted, so the estimate of the cost stays.
    pub(super) is_uncounted: bool,
    /// The server said that its data is on stable storage.
    pub(crate) is_stored: bool,
    /// Its slots were freed, because it waits for its client.
    pub(super) is_released: bool,
    /// How its data is sent in pieces; `None` if it is sent as a whole.
    pub(super) pieces: Option<Pieces>,
    pub(super) arrived: Time,
    /// When its client asked for it last: at first, or when it repeated it.
    pub(super) asked: Time,
    pub(super) dispatched: Time,
    pub(super) progressed: Time,
}

impl<P: Protocol> Op<P> {
    pub(super) fn awaits_client_data(&self) -> bool {
        matches!(self.state, State::Writing) && self.moved < self.expected
    }

    pub(super) fn next_piece(&self) -> Option<Time> {
        Some(self.pieces?.next_at(self.dispatched, self.moved, self.expected))
    }

    pub(crate) fn is_sent(&self) -> bool {
        !matches!(self.state, State::Queued(_) | State::Dispatched(_) | State::Overdue(_))
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.state, State::Queued(_) | State::Overdue(_))
    }

    pub(super) fn is_overdue(&self) -> bool {
        matches!(self.state, State::Overdue(_))
    }

    pub(super) fn is_charged(&self) -> bool {
        self.kind.is_some() && !self.is_released
    }

    /// The final cost of an operation that ends now, if it differs: what it moved, not what it asked for; for a read
    /// that was cut off, by either side, also what the server may have read ahead.
    pub(super) fn final_cost(&self, outcome: Outcome) -> Option<vpfs_core::Bytes> {
        let moves_data = matches!(self.kind, Some(OpKind::Read | OpKind::Write));
        let is_uncounted = self.is_uncounted && outcome == Outcome::Answered { status: 0 };
        let is_cut_off = !matches!(outcome, Outcome::Answered { .. });
        let real = match self.kind {
            Some(OpKind::Read) if is_cut_off && self.is_sent() => self.cost.min(data_cost(self.moved + P::READ_AHEAD)),
            _ => data_cost(self.moved),
        };
        (moves_data && !is_uncounted && real != self.cost).then_some(real)
    }

    /// Whether the server ends it soon, without its client.
    pub(super) fn ends_without_client(&self) -> bool {
        match self.state {
            State::Queued(_) | State::Dispatched(_) | State::Overdue(_) => false,
            State::Sent => true,
            State::Writing => !self.awaits_client_data(),
            State::Reading { remaining } => remaining <= P::READ_AHEAD,
        }
    }

    pub(super) fn completed(&self, op: OpId, outcome: Outcome) -> Completed {
        Completed {
            op,
            kind: self.kind,
            outcome,
            moved: self.moved,
            is_stored: self.is_stored,
            arrived: self.arrived,
            dispatched: self.dispatched,
        }
    }
}

/// A session without operations keeps tables with room for this number of them.
pub(super) const KEPT_OPS: usize = 16;

#[derive(Debug)]
pub(super) struct Table<P: Protocol> {
    /// With the serial number of each.
    ops: Slab<(u32, Op<P>)>,
    by_tag: HashMap<P::Tag, OpId>,
    serial: u32,
    /// Operations whose requests were sent; only these can time out.
    pub(super) in_progress: usize,
    /// Those that were sent at once.
    pub(super) unscheduled: usize,
    /// Dispatched writes whose data is still to come from the client.
    pub(super) awaiting_data: usize,
    pub(super) overdue: usize,
    pub(super) held: usize,
}

impl<P: Protocol> Default for Table<P> {
    fn default() -> Self {
        Self {
            ops: Slab::new(),
            by_tag: HashMap::new(),
            serial: 0,
            in_progress: 0,
            unscheduled: 0,
            awaiting_data: 0,
            overdue: 0,
            held: 0,
        }
    }
}

impl<P: Protocol> Table<P> {
    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub(super) fn insert(&mut self, op: Op<P>) -> OpId {
        self.held += op.held;
        self.unscheduled += usize::from(op.kind.is_none());
        let serial = self.serial;
        self.serial = serial.wrapping_add(1);
        let entry = self.ops.vacant_entry();
        let index = u32::try_from(entry.key()).expect("operations are bounded by the limits");
        let id = OpId { index, serial };
        let same_tag = self.by_tag.insert(op.tag, id);
        assert!(same_tag.is_none(), "tags in use are unique");
        entry.insert((serial, op));
        id
    }

    pub(super) fn find(&self, tag: P::Tag) -> Option<OpId> {
        self.by_tag.get(&tag).copied()
    }

    /// How many operations have begun since this one, itself included.
    pub(super) fn age(&self, id: OpId) -> u32 {
        self.serial.wrapping_sub(id.serial)
    }

    pub(super) fn contains(&self, id: OpId) -> bool {
        self.ops.get(id.index()).is_some_and(|(serial, _)| *serial == id.serial)
    }

    pub(super) fn get(&self, id: OpId) -> &Op<P> {
        match self.ops.get(id.index()) {
            Some((serial, op)) if *serial == id.serial => op,
            _ => panic!("{id:?} is not in progress"),
        }
    }

    pub(super) fn get_mut(&mut self, id: OpId) -> &mut Op<P> {
        match self.ops.get_mut(id.index()) {
            Some((serial, op)) if *serial == id.serial => op,
            _ => panic!("{id:?} is not in progress"),
        }
    }

    /// All operations in the order of their places, so that equal inputs give equal actions.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Op<P>> {
        self.ops.iter().map(|(_, (_, op))| op)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Op<P>> {
        self.ops.iter_mut().map(|(_, (_, op))| op)
    }

    /// The operations for which this is true, in the same order.
    pub(super) fn ids_where(&self, condition: impl Fn(&Op<P>) -> bool) -> Vec<OpId> {
        let ops = self.ops.iter().filter(|(_, (_, op))| condition(op));
        ops.map(|(_, (_, op))| self.by_tag[&op.tag]).collect()
    }

    /// From now on, messages with `tag` belong to this operation.
    pub(super) fn rename(&mut self, id: OpId, tag: P::Tag) {
        let earlier = std::mem::replace(&mut self.get_mut(id).tag, tag);
        self.by_tag.remove(&earlier);
        self.by_tag.insert(tag, id);
    }

    pub(super) fn has_read_all(&self, id: OpId) -> bool {
        self.contains(id) && matches!(self.get(id).state, State::Reading { remaining: 0 })
    }

    /// Data of an operation passed; it counts unless the operation ended before.
    pub(super) fn moved(&mut self, now: Time, id: OpId, bytes: usize) {
        if !self.contains(id) {
            return;
        }
        let op = self.get_mut(id);
        let awaited = op.awaits_client_data();
        op.moved += bytes as u64;
        op.progressed = now;
        if let State::Reading { remaining } = &mut op.state {
            *remaining = remaining.saturating_sub(bytes as u64);
        }
        let is_all = awaited && !op.awaits_client_data();
        assert!(self.awaiting_data >= usize::from(is_all), "a write that awaits data is counted");
        self.awaiting_data -= usize::from(is_all);
    }

    pub(super) fn hold(&mut self, id: OpId, bytes: usize) {
        self.get_mut(id).held += bytes;
        self.held += bytes;
    }

    pub(super) fn let_go(&mut self, id: OpId, bytes: usize) {
        self.get_mut(id).held -= bytes;
        self.held -= bytes;
    }

    pub(super) fn remove(&mut self, id: OpId) -> Op<P> {
        assert!(self.contains(id), "an operation that is in progress");
        let (_, op) = self.ops.remove(id.index());
        let known = self.by_tag.remove(&op.tag);
        assert_eq!(known, Some(id), "an operation is known by its tag");
        let (is_sent, awaits_data) = (usize::from(op.is_sent()), usize::from(op.awaits_client_data()));
        assert!(
            self.held >= op.held && self.in_progress >= is_sent && self.awaiting_data >= awaits_data,
            "an operation that ends was counted"
        );
        self.overdue -= usize::from(op.is_overdue());
        self.unscheduled -= usize::from(op.kind.is_none());
        self.held -= op.held;
        self.in_progress -= is_sent;
        self.awaiting_data -= awaits_data;
        if self.ops.is_empty() {
            self.rest();
        }
        op
    }

    /// Frees the memory of a table that is empty but once had many operations: thousands of sessions may be idle.
    fn rest(&mut self) {
        let counted = self.held + self.in_progress + self.awaiting_data;
        assert!(counted == 0, "nothing is counted without operations");
        // Not by that of the hash table, which depends on where its keys are: equal inputs give equal numbers.
        if self.ops.capacity() > KEPT_OPS {
            (self.ops, self.by_tag) = Default::default();
        }
    }

    #[cfg(test)]
    pub(super) fn reserve_tags(&mut self, more: usize) {
        self.by_tag.reserve(more);
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.ops.capacity().max(self.by_tag.capacity())
    }

    /// Whether the running counts match the table; for debug assertions.
    pub(super) fn counts_are_right(&self) -> bool {
        let count = |condition: fn(&Op<P>) -> bool| self.iter().filter(|op| condition(op)).count();
        let held: usize = self.iter().map(|op| op.held).sum();
        self.in_progress == count(Op::is_sent)
            && self.awaiting_data == count(Op::awaits_client_data)
            && self.overdue == count(Op::is_overdue)
            && self.unscheduled == count(|op| op.kind.is_none())
            && self.held == held
    }
}

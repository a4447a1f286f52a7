//! The table of operations: by tag, and counted by what they wait for.

use std::collections::HashMap;

use slab::Slab;
use vpfs_core::Time;

use super::Protocol;
use super::op::{Op, State};
use crate::session::OpId;

/// A session without operations keeps tables with room for this number of them.
pub(super) const KEPT_OPS: usize = 16;

/// The operations of a session.
#[derive(Debug)]
pub(super) struct Table<P: Protocol> {
    /// With the serial number of each.
    ops: Slab<(u32, Op<P>)>,
    by_tag: HashMap<P::Tag, OpId>,
    /// The serial number of the next operation.
    serial: u32,
    /// The number of operations whose requests were sent; only these can time out.
    pub(super) in_progress: usize,
    /// The number of operations that were sent at once.
    pub(super) unscheduled: usize,
    /// The number of dispatched writes whose data is still to come from the client.
    pub(super) awaiting_data: usize,
    /// The number of operations that are sent only when their client repeats them.
    pub(super) overdue: usize,
    /// Bytes of memory that all operations take up.
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

    /// Whether an operation has not ended yet.
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

    /// The same, to change them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Op<P>> {
        self.ops.iter_mut().map(|(_, (_, op))| op)
    }

    /// The operations for which this is true, in the same order.
    pub(super) fn ids_where(&self, condition: impl Fn(&Op<P>) -> bool) -> Vec<OpId> {
        let ops = self.ops.iter().filter(|(_, (_, op))| condition(op));
        ops.map(|(_, (_, op))| self.by_tag[&op.tag]).collect()
    }

    /// Messages with `tag` belong to this operation from now on, and those with its earlier tag to none.
    pub(super) fn rename(&mut self, id: OpId, tag: P::Tag) {
        let earlier = std::mem::replace(&mut self.get_mut(id).tag, tag);
        self.by_tag.remove(&earlier);
        self.by_tag.insert(tag, id);
    }

    /// Whether a read has all its data; not if it ended otherwise.
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

    /// An operation holds more memory,
    pub(super) fn hold(&mut self, id: OpId, bytes: usize) {
        self.get_mut(id).held += bytes;
        self.held += bytes;
    }

    /// or less.
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

    /// Makes the hash table larger than its operations need, as some that were removed do.
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

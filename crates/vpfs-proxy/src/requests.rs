//! The requests of one session at its gate.

use std::sync::Arc;

use vpfs_core::{Bytes, Objects};
use vpfs_node::RequestKey;
use vpfs_session::{Completed, OpId};

use crate::gate::Gate;
use crate::mailbox::trim;

/// The gate's ids of the session's operations. Dropping it cancels what is left: a task may also end by a panic or when
/// its runtime shuts down, and the slots of its requests must be freed then as well.
pub(crate) struct Requests {
    gate: Arc<Gate>,
    ids: Vec<Option<RequestKey>>,
}

impl Requests {
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
        Self { gate, ids: Vec::new() }
    }

    /// The gate knows `op` as `id` from now on.
    pub(crate) fn insert(&mut self, op: OpId, id: RequestKey) {
        let index = op.index();
        if self.ids.len() <= index {
            self.ids.resize(index + 1, None);
        }
        let before = self.ids[index].replace(id);
        assert!(before.is_none(), "an operation is enqueued only once");
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.iter().all(Option::is_none)
    }

    /// Gives back the memory of the table, which must have no request in it.
    pub(crate) fn rest(&mut self) {
        debug_assert!(self.is_empty(), "only a session without requests rests");
        self.ids.clear();
        trim(&mut self.ids);
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.ids.capacity()
    }

    pub(crate) fn correct_cost(&self, op: OpId, real: Bytes) {
        if let Some(id) = self.get(op) {
            self.gate.correct_cost(id, real);
        }
    }

    pub(crate) fn correct_objects(&self, op: OpId, real: Objects) {
        if let Some(id) = self.get(op) {
            self.gate.correct_objects(id, real);
        }
    }

    pub(crate) fn complete(&mut self, completed: &Completed) {
        if let Some(id) = self.take(completed.op) {
            self.gate.complete(id, completed);
        }
    }

    pub(crate) fn cancel(&mut self, op: OpId) {
        if let Some(id) = self.take(op) {
            self.gate.cancel(id);
        }
    }

    pub(crate) fn release(&self, op: OpId) {
        if let Some(id) = self.get(op) {
            self.gate.release(id);
        }
    }

    /// An operation that was sent unscheduled has none.
    fn get(&self, op: OpId) -> Option<RequestKey> {
        self.ids.get(op.index()).copied().flatten()
    }

    fn take(&mut self, op: OpId) -> Option<RequestKey> {
        self.ids.get_mut(op.index()).and_then(Option::take)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let left = self.ids.iter().copied().flatten();
        // If the scheduler itself panicked, a second panic here would abort the whole process.
        if !self.gate.is_broken() {
            left.for_each(|id| self.gate.cancel(id));
        }
    }
}

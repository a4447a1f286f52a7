//! Accesses whose finish time is known, in the order of that time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use vpfs_core::Time;

use super::{Completion, IoId};

/// Numbers accesses and yields them when they finish; equal times in order of submission.
#[derive(Debug, Default)]
pub(crate) struct Finishing {
    submitted: u64,
    times: BinaryHeap<Reverse<(Time, IoId)>>,
}

impl Finishing {
    /// The id of the next access, for one whose finish time is not known yet; see [`Finishing::finish`].
    pub(crate) fn next_id(&mut self) -> IoId {
        let id = IoId(self.submitted);
        self.submitted += 1;
        id
    }

    /// An access is done at `at`.
    pub(crate) fn finish(&mut self, at: Time, id: IoId) {
        self.times.push(Reverse((at, id)));
    }

    /// A new access that will be done at `at`.
    pub(crate) fn submit(&mut self, at: Time) -> IoId {
        let id = self.next_id();
        self.finish(at, id);
        id
    }

    pub(crate) fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        let &Reverse((at, id)) = self.times.peek().filter(|next| next.0.0 <= now)?;
        self.times.pop();
        Some(Completion { id, at })
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.times.peek().map(|next| next.0.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }
}

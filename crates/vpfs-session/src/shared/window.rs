//! Requests with numbers whose servers drop what is too far behind, without a word: those of a security context
//! (RFC 2203, section 5.3.3.1).
//!
//! A request is unknown to the scheduler until each that was numbered much earlier is answered or timed out. Then no
//! order of dispatch, and none of the server's own threads, leaves one behind.

use std::collections::{BTreeMap, BTreeSet};

use super::{Core, Protocol};
use crate::{OpId, Submission};

/// The numbers, from the oldest that is not answered on, that may be in progress.
///
/// The shortest window that servers are known to have is Ganesha's, 32; Linux's is 128. A server states its window when
/// a context begins, but clients like Linux's do that on a connection of its own.
const WINDOW: u32 = 32;

/// A number in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Numbered {
    pub(crate) sequence: u64,
    pub(crate) number: u32,
}

/// The requests with numbers, in their order.
#[derive(Debug, Default)]
pub(super) struct Windows {
    unanswered: BTreeSet<(Numbered, OpId)>,
    /// Those of them that wait for earlier ones.
    waiting: BTreeMap<(Numbered, OpId), Submission>,
}

impl Windows {
    /// The first of a sequence.
    const FIRST: OpId = OpId { index: 0, serial: 0 };

    /// Whether a request is too far ahead of others in its sequence.
    fn holds_back(&self, Numbered { sequence, number }: Numbered) -> bool {
        let oldest = self.unanswered.range((Numbered { sequence, number: 0 }, Self::FIRST)..).next();
        oldest.is_some_and(|(oldest, _)| oldest.sequence == sequence && number >= oldest.number.saturating_add(WINDOW))
    }

    /// The next request of a sequence that no longer waits.
    fn next(&mut self, sequence: u64) -> Option<(OpId, Submission)> {
        let first = self.waiting.range((Numbered { sequence, number: 0 }, Self::FIRST)..).next();
        let (&key, _) = first.filter(|((next, _), _)| next.sequence == sequence && !self.holds_back(*next))?;
        Some((key.1, self.waiting.remove(&key)?))
    }
}

impl<P: Protocol> Core<P> {
    /// Whether a request has to wait for others of its sequence. O(log n).
    pub(crate) fn is_ahead(&self, numbered: Numbered) -> bool {
        self.windows.holds_back(numbered)
    }

    /// A request that is to be answered.
    pub(super) fn enter_window(&mut self, id: OpId) {
        let numbered = self.op(id).numbered;
        self.windows.unanswered.extend(numbered.map(|numbered| (numbered, id)));
    }

    /// Has a request scheduled, at once or when it may. O(log n).
    pub(super) fn enqueue(&mut self, id: OpId, submission: Submission) {
        match self.op(id).numbered.filter(|numbered| self.is_ahead(*numbered)) {
            Some(numbered) => drop(self.windows.waiting.insert((numbered, id), submission)),
            None => self.enter_line(id, submission),
        }
    }

    /// A request was answered, or will not be. Returns whether it waited for others.
    pub(super) fn leave_window(&mut self, id: OpId, numbered: Option<Numbered>) -> bool {
        let Some(key) = numbered.map(|numbered| (numbered, id)) else { return false };
        self.windows.unanswered.remove(&key);
        self.windows.waiting.remove(&key).is_some()
    }

    /// What waited for a request that has ended is scheduled.
    pub(super) fn enqueue_next(&mut self, numbered: Option<Numbered>) {
        let Some(Numbered { sequence, .. }) = numbered else { return };
        while let Some((id, submission)) = self.windows.next(sequence) {
            self.enter_line(id, submission);
        }
    }
}

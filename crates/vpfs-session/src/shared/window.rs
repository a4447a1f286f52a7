//! Requests with numbers whose servers drop what comes too late, without a word: those of a security context
//! (RFC 2203, section 5.3.3.1).
//!
//! A request is unknown to the scheduler until all that were numbered much earlier are on their way to the server.

use std::collections::{BTreeMap, BTreeSet};

use super::{Core, Protocol};
use crate::{OpId, Submission};

/// By how much the number of a request may be larger than that of one that is sent after it.
///
/// Half of 32, the shortest window that servers are known to have: Ganesha's; Linux's is 128. The other half is for
/// what their own threads, and several connections of a client, do to the order. A server states its window when a
/// context begins, but clients like Linux's do that on a connection of its own.
const MOST_AHEAD: u32 = 16;

/// A number in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Numbered {
    pub(crate) sequence: u64,
    pub(crate) number: u32,
}

/// The requests with numbers that were not sent, in their order.
#[derive(Debug, Default)]
pub(super) struct Windows {
    unsent: BTreeSet<(Numbered, OpId)>,
    /// Those of them that wait for earlier ones.
    waiting: BTreeMap<(Numbered, OpId), Submission>,
}

impl Windows {
    /// The first of a sequence.
    const FIRST: OpId = OpId { index: 0, serial: 0 };

    /// Whether a request is too far ahead of others in its sequence.
    fn holds_back(&self, Numbered { sequence, number }: Numbered) -> bool {
        let oldest = self.unsent.range((Numbered { sequence, number: 0 }, Self::FIRST)..).next();
        oldest
            .is_some_and(|(oldest, _)| oldest.sequence == sequence && number > oldest.number.saturating_add(MOST_AHEAD))
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

    /// Has a request scheduled, at once or when it may. O(log n).
    pub(super) fn enqueue(&mut self, id: OpId, submission: Submission) {
        if let Some(numbered) = self.op(id).numbered {
            self.windows.unsent.insert((numbered, id));
            if self.is_ahead(numbered) {
                self.windows.waiting.insert((numbered, id), submission);
                return;
            }
        }
        self.enter_line(id, submission);
    }

    /// A request is on its way to the server: what waited for it is scheduled.
    pub(super) fn leave_window(&mut self, id: OpId, numbered: Option<Numbered>) {
        let Some(numbered) = numbered else { return };
        self.windows.unsent.remove(&(numbered, id));
        while let Some((id, submission)) = self.windows.next(numbered.sequence) {
            self.enter_line(id, submission);
        }
    }

    /// A request will not be sent, and neither will those behind it. Returns whether it waited for others.
    pub(super) fn cancel_in_window(&mut self, id: OpId, numbered: Option<Numbered>) -> bool {
        let Some(key) = numbered.map(|numbered| (numbered, id)) else { return false };
        self.windows.unsent.remove(&key);
        self.windows.waiting.remove(&key).is_some()
    }
}

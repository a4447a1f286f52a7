//! Requests with numbers whose servers drop what is too far behind, without a word: those of a security context
//! (RFC 2203, section 5.3.3.1).
//!
//! A request is unknown to the scheduler until each that was numbered much earlier is answered or timed out. Then no
//! order of dispatch, and none of the server's own threads, leaves one behind.

use std::collections::{BTreeMap, BTreeSet};

use crate::session::{OpId, Submission};

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

    /// Whether a request has to wait for others of its sequence. O(log n).
    pub(super) fn holds_back(&self, Numbered { sequence, number }: Numbered) -> bool {
        let oldest = self.unanswered.range((Numbered { sequence, number: 0 }, Self::FIRST)..).next();
        oldest.is_some_and(|(oldest, _)| oldest.sequence == sequence && number >= oldest.number.saturating_add(WINDOW))
    }

    /// A request that is to be answered.
    pub(super) fn enter(&mut self, id: OpId, numbered: Option<Numbered>) {
        self.unanswered.extend(numbered.map(|numbered| (numbered, id)));
    }

    /// A request arrives. Returns it if it may be scheduled at once; otherwise it waits for others. O(log n).
    pub(super) fn admit(&mut self, id: OpId, numbered: Option<Numbered>, submission: Submission) -> Option<Submission> {
        let Some(numbered) = numbered.filter(|numbered| self.holds_back(*numbered)) else { return Some(submission) };
        self.waiting.insert((numbered, id), submission);
        None
    }

    /// A request was answered, or will not be. Returns whether it waited for others.
    pub(super) fn leave(&mut self, id: OpId, numbered: Option<Numbered>) -> bool {
        let Some(key) = numbered.map(|numbered| (numbered, id)) else { return false };
        self.unanswered.remove(&key);
        self.waiting.remove(&key).is_some()
    }

    /// The next request of a sequence that no longer waits.
    pub(super) fn next(&mut self, sequence: u64) -> Option<(OpId, Submission)> {
        let first = self.waiting.range((Numbered { sequence, number: 0 }, Self::FIRST)..).next();
        let (&key, _) = first.filter(|((next, _), _)| next.sequence == sequence && !self.holds_back(*next))?;
        Some((key.1, self.waiting.remove(&key)?))
    }
}

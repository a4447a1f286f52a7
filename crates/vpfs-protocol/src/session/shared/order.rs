//! Policies may dispatch requests of one application out of order. The scheduler does not know a request that must
//! stay behind another one until that one is on its way to the server.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::session::{Action, OpId, Submission};

/// A session without lines keeps a table with room for this number of them.
const KEPT_LINES: usize = 16;

/// What an operation must not overtake. Operations of different lines have no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// One user's operations on one file.
    pub(crate) line: u64,
    /// Data has no order within itself.
    pub(crate) is_data: bool,
}

#[derive(Debug, Default)]
struct Line {
    /// Those that the scheduler knows: data, and others.
    data: usize,
    others: usize,
    /// Those behind them, in order of arrival.
    waiting: VecDeque<(OpId, Order, Submission)>,
}

impl Line {
    fn holds_back(&self, order: Order) -> bool {
        self.others > 0 || self.data > 0 && !order.is_data
    }

    fn count(&mut self, order: Order) -> &mut usize {
        if order.is_data { &mut self.data } else { &mut self.others }
    }

    fn is_empty(&self) -> bool {
        self.data + self.others + self.waiting.len() == 0
    }
}

#[derive(Debug, Default)]
pub(super) struct Lines(HashMap<u64, Line>);

impl Lines {
    /// Returns the request if it may be scheduled at once; otherwise it waits for those before it. O(1).
    pub(super) fn enter(&mut self, id: OpId, order: Option<Order>, submission: Submission) -> Option<Submission> {
        let Some(order) = order else { return Some(submission) };
        let line = self.0.entry(order.line).or_default();
        if !line.waiting.is_empty() || line.holds_back(order) {
            line.waiting.push_back((id, order, submission));
            return None;
        }
        *line.count(order) += 1;
        Some(submission)
    }

    /// An operation is on its way to the server: what waited for it is to be scheduled.
    pub(super) fn leave(&mut self, order: Option<Order>, actions: &mut VecDeque<Action>) {
        let Some(order) = order else { return };
        let line = self.0.get_mut(&order.line).expect("it is in its line");
        *line.count(order) -= 1;
        while let Some(&(_, next, _)) = line.waiting.front()
            && !line.holds_back(next)
            && let Some((id, next, submission)) = line.waiting.pop_front()
        {
            *line.count(next) += 1;
            actions.push_back(Action::Enqueue(id, submission));
        }
        self.forget_empty(order.line);
    }

    /// An operation will not be sent. Returns whether the scheduler knows it. Everything behind it is cancelled as
    /// well, so nothing becomes due.
    pub(super) fn cancel(&mut self, id: OpId, order: Option<Order>) -> bool {
        let Some(order) = order else { return true };
        let line = self.0.get_mut(&order.line).expect("it is in its line");
        let place = line.waiting.iter().position(|(waiting, ..)| *waiting == id);
        match place {
            Some(place) => drop(line.waiting.remove(place)),
            None => *line.count(order) -= 1,
        }
        self.forget_empty(order.line);
        place.is_none()
    }

    fn forget_empty(&mut self, line: u64) {
        if self.0.get(&line).is_some_and(Line::is_empty) {
            self.0.remove(&line);
        }
        if self.0.is_empty() && self.0.capacity() > KEPT_LINES {
            *self = Self::default();
        }
    }
}

// Requests with numbers whose servers drop what is too far behind, without a word: those of a security context
// (RFC 2203, section 5.3.3.1).
//
// A request is unknown to the scheduler until each that was numbered much earlier is answered or timed out. Then no
// order of dispatch, and none of the server's own threads, leaves one behind.

/// The numbers, from the oldest that is not answered on, that may be in progress.
///
/// The shortest window that servers are known to have is Ganesha's, 32; Linux's is 128. A server states its window when
/// a context begins, but clients like Linux's do that on a connection of its own.
const WINDOW: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Numbered {
    pub(crate) sequence: u64,
    pub(crate) number: u32,
}

#[derive(Debug, Default)]
pub(super) struct Windows {
    unanswered: BTreeSet<(Numbered, OpId)>,
    /// Those of them that wait for earlier ones.
    waiting: BTreeMap<(Numbered, OpId), Submission>,
}

impl Windows {
    const FIRST: OpId = OpId { index: 0, serial: 0 };

    pub(super) fn holds_back(&self, Numbered { sequence, number }: Numbered) -> bool {
        let oldest = self.unanswered.range((Numbered { sequence, number: 0 }, Self::FIRST)..).next();
        oldest.is_some_and(|(oldest, _)| oldest.sequence == sequence && number >= oldest.number.saturating_add(WINDOW))
    }

    pub(super) fn enter(&mut self, id: OpId, numbered: Option<Numbered>) {
        self.unanswered.extend(numbered.map(|numbered| (numbered, id)));
    }

    /// Returns the request if it may be scheduled at once; otherwise it waits for others. O(log n).
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

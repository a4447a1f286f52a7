//! One operation of a client, from its request to its last byte.

use bytes::Bytes;
use vpfs_core::{MIN_DATA_COST, OpKind, Pieces, Time};

use super::{Numbered, Order, Protocol};
use crate::session::{Completed, OpId, Outcome, Submission};

/// Bytes that an operation takes up in the tables of session, driver and scheduler, besides its request.
pub(crate) const OP_BYTES: usize = 512;

/// Whether a request is scheduled.
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
    /// Bytes of memory that the detail takes up besides itself.
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

/// The state of an operation.
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
    /// The cost as last reported to the scheduler.
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
    /// Whether it is a dispatched write whose data the client has yet to send.
    pub(super) fn awaits_client_data(&self) -> bool {
        matches!(self.state, State::Writing) && self.moved < self.expected
    }

    /// When the next data of a write may be sent, if it is sent in pieces.
    pub(super) fn next_piece(&self) -> Option<Time> {
        Some(self.pieces?.next_at(self.dispatched, self.moved, self.expected))
    }

    /// Whether its request was sent to the server, so that it can time out.
    pub(crate) fn is_sent(&self) -> bool {
        !matches!(self.state, State::Queued(_) | State::Dispatched(_) | State::Overdue(_))
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.state, State::Queued(_) | State::Overdue(_))
    }

    pub(super) fn is_overdue(&self) -> bool {
        matches!(self.state, State::Overdue(_))
    }

    /// Whether the scheduler wants to know its real cost.
    pub(super) fn is_charged(&self) -> bool {
        self.kind.is_some() && !self.is_released
    }

    /// The final cost of an operation that ends now, if it differs: an operation is charged for what it moved, not for
    /// what it asked for; a read that was cut off also for what the server may have read ahead.
    ///
    /// It does not matter which side cut it off: a client can make a server close the connection, for example with data
    /// that no write expects.
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

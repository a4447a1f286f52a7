//! One operation of a client, from its request to its last byte.

use bytes::Bytes;
use vpfs_core::{MIN_DATA_COST, OpKind, Pieces, Time};
use vpfs_wire::bmi::Tag;
use vpfs_wire::pvfs2::{Handle, Transfer};

use crate::{Completed, OpId, Outcome};

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

/// The form of the reply.
#[derive(Debug)]
pub(crate) enum Reply {
    /// One reply ends it.
    Plain,
    /// One reply ends it and states how many entries it lists.
    Listing,
    /// One reply ends it and is rewritten.
    Config,
    /// One reply ends it and states how much was read.
    SmallRead { handle: Handle },
    /// One reply ends it; the request carries `bytes` of data.
    SmallWrite { bytes: u64 },
    /// An acknowledgement, then data from the server.
    Read { handle: Handle, transfer: Box<Transfer> },
    /// An acknowledgement, data from the client, then a second reply.
    Write { expected: u64 },
    /// Like a read, but counting the bytes after the acknowledgement takes too long: treated as complete there.
    UntoldRead,
}

/// The cost of a data request that moves `bytes` bytes at this server.
pub(crate) fn data_cost(bytes: u64) -> vpfs_core::Bytes {
    vpfs_core::Bytes(bytes).max(MIN_DATA_COST)
}

#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) tag: Tag,
    /// `None`: not scheduled.
    pub(crate) kind: Option<OpKind>,
    /// The cost as last reported to the scheduler.
    pub(crate) cost: vpfs_core::Bytes,
    pub(crate) reply: Reply,
    pub(crate) state: State,
    /// Bytes of memory that it takes up now.
    pub(crate) held: usize,
    pub(crate) moved: u64,
    /// Its slots were freed, because it waits for its client.
    pub(crate) is_released: bool,
    /// How its data is sent in pieces; `None` if it is sent as a whole.
    pub(crate) pieces: Option<Pieces>,
    pub(crate) arrived: Time,
    /// When its client asked for it last: at first, or when it repeated it.
    pub(crate) asked: Time,
    pub(crate) dispatched: Time,
    pub(crate) progressed: Time,
}

/// Bytes of a read that a server may have read from its storage although they have not arrived here.
///
/// OrangeFS reads into all buffers of a flow before the first one is sent, and again into each that was sent
/// (flowproto-multiqueue.c): 8 of 256 KiB. Two sockets of Linux hold up to 8 MB between them, which was measured.
const READ_AHEAD: u64 = 10 << 20;

/// Bytes that an operation takes up in the tables of session, driver and scheduler, besides its request.
const OP_BYTES: usize = 512;
const _: () = assert!(size_of::<Op>() <= OP_BYTES / 2, "half of it is for the other tables");

/// Bytes of memory that an operation takes up at its arrival.
pub(crate) fn held_at_arrival(request: &Bytes, reply: &Reply) -> usize {
    let description = match reply {
        Reply::Read { transfer, .. } => transfer.memory(),
        _ => 0,
    };
    OP_BYTES + request.len() + description
}

impl Op {
    /// Whether it is a dispatched write whose data the client has yet to send.
    pub(crate) fn awaits_client_data(&self) -> bool {
        matches!((&self.state, &self.reply), (State::Writing, Reply::Write { expected }) if self.moved < *expected)
    }

    /// When the next data of a write may be sent, if it is sent in pieces.
    pub(crate) fn next_piece(&self) -> Option<Time> {
        let &Reply::Write { expected } = &self.reply else { return None };
        Some(self.pieces?.next_at(self.dispatched, self.moved, expected))
    }

    /// Whether its request was sent to the server, so that it can time out.
    pub(crate) fn is_sent(&self) -> bool {
        !matches!(self.state, State::Queued(_) | State::Dispatched(_) | State::Overdue(_))
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self.state, State::Queued(_) | State::Overdue(_))
    }

    pub(crate) fn is_overdue(&self) -> bool {
        matches!(self.state, State::Overdue(_))
    }

    /// The final cost of an operation that ends now, if it differs: an operation is charged for what it moved, not for
    /// what it asked for; a read that was cut off also for what the server may have read ahead.
    ///
    /// Who cut it off does not matter: a client can make a server close the connection, for example with data that no
    /// write expects.
    pub(crate) fn final_cost(&self, outcome: Outcome) -> Option<vpfs_core::Bytes> {
        let moves_data = matches!(self.kind, Some(OpKind::Read | OpKind::Write));
        // The data of such a read follows the acknowledgement, which is treated as its end, so it was not counted.
        let is_untold = matches!(self.reply, Reply::UntoldRead) && outcome == Outcome::Answered { status: 0 };
        let is_cut_off = !matches!(outcome, Outcome::Answered { .. });
        let real = match self.kind {
            Some(OpKind::Read) if is_cut_off && self.is_sent() => self.cost.min(data_cost(self.moved + READ_AHEAD)),
            _ => data_cost(self.moved),
        };
        (moves_data && !is_untold && real != self.cost).then_some(real)
    }

    /// Whether the server ends it soon, without its client.
    pub(crate) fn ends_without_client(&self) -> bool {
        match self.state {
            State::Queued(_) | State::Dispatched(_) | State::Overdue(_) => false,
            State::Sent => true,
            State::Writing => !self.awaits_client_data(),
            State::Reading { remaining } => remaining <= READ_AHEAD,
        }
    }

    pub(crate) fn completed(&self, op: OpId, outcome: Outcome) -> Completed {
        Completed {
            op,
            kind: self.kind,
            outcome,
            moved: self.moved,
            arrived: self.arrived,
            dispatched: self.dispatched,
        }
    }
}

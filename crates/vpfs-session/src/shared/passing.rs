//! Messages that pass: each is sent on as it arrives, and ends what it belongs to.

use bytes::{Bytes, BytesMut};
use vpfs_core::Time;

use super::op::State;
use super::{Core, Protocol};
use crate::{Next, OpId, Outcome, Side};

/// What is being read from one side.
#[derive(Debug)]
pub(super) enum Inbound {
    /// The start of a message is next.
    Header,
    /// The rest of a message passes through.
    Body { remaining: usize, meaning: Meaning },
    /// The rest of a request that has arrived is read, or passes when the request is sent.
    Rest { remaining: usize, op: OpId },
}

/// The meaning of the passing message for its operation, which may end before it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    /// Nothing.
    Stray,
    /// An acknowledgement; the operation continues.
    Ack,
    /// Bulk data.
    Data(OpId),
    /// The operation ends with the last byte of this message.
    Last { op: OpId, status: i32 },
}

/// Bytes that are at least so many are held as a part of the buffer that they were read into, all of which stays in
/// memory; fewer are copied, as most of that buffer may be for others.
const KEPT_LEN: usize = 64 << 10;

/// Bytes that are held for a while.
pub(crate) fn kept(bytes: BytesMut) -> Bytes {
    if bytes.len() < KEPT_LEN { Bytes::copy_from_slice(&bytes) } else { bytes.freeze() }
}

impl Inbound {
    /// Whether a message is passing.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Body { .. })
    }

    /// Whether the rest of a request that has arrived is next.
    pub(super) fn is_rest(&self) -> bool {
        matches!(self, Self::Rest { .. })
    }

    /// Whether the next bytes are not the start of a message.
    pub(super) fn is_within_message(&self) -> bool {
        !matches!(self, Self::Header)
    }

    fn next(&self) -> Next {
        match *self {
            Self::Header => Next::Unknown,
            Self::Body { remaining, .. } => Next::Passing(remaining),
            Self::Rest { remaining, .. } => Next::Waiting(remaining),
        }
    }
}

impl<P: Protocol> Core<P> {
    /// Passes the message at the start of the client's `buf`: `head` bytes of it now, `body` bytes as they come, which
    /// are those that count.
    pub(crate) fn pass_client(&mut self, now: Time, buf: &mut BytesMut, [head, body]: [usize; 2], meaning: Meaning) {
        if !self.awaits_rest(Side::Client) {
            self.client_may_send(now);
        }
        self.to_server.push(buf.split_to(head).freeze());
        self.from_client = Inbound::Body { remaining: body, meaning };
    }

    /// The same for a message of the server.
    pub(crate) fn pass_server(&mut self, buf: &mut BytesMut, [head, body]: [usize; 2], meaning: Meaning) {
        self.to_client.push(buf.split_to(head).freeze());
        self.from_server = Inbound::Body { remaining: body, meaning };
    }

    /// The server answers an operation.
    pub(crate) fn progressed(&mut self, now: Time, id: OpId) {
        self.op_mut(id).progressed = now;
    }

    /// A reply, the last of its operation, contains `bytes` bytes of data.
    pub(crate) fn read_in_reply(&mut self, id: OpId, bytes: u64) {
        self.op_mut(id).moved = bytes;
        self.correct(id, bytes);
    }

    /// A read was acknowledged, and `bytes` bytes of data follow. Returns the meaning of the acknowledgement.
    pub(crate) fn read_acknowledged(&mut self, id: OpId, bytes: u64) -> Meaning {
        self.correct(id, bytes);
        if bytes == 0 {
            return Meaning::Last { op: id, status: 0 };
        }
        self.op_mut(id).state = State::Reading { remaining: bytes };
        Meaning::Ack
    }

    /// A read was acknowledged, and nobody can say how much data follows: it is complete, and its cost stays as it was
    /// estimated.
    pub(crate) fn uncounted(&mut self, id: OpId) -> Meaning {
        self.leave_uncounted(id);
        Meaning::Last { op: id, status: 0 }
    }

    /// Nobody can say how much of an operation's data passes, so its cost stays as it was estimated.
    pub(crate) fn leave_uncounted(&mut self, id: OpId) {
        self.op_mut(id).is_uncounted = true;
    }

    /// What is known of the next bytes of this side.
    pub(crate) fn next(&self, side: Side) -> Next {
        match side {
            Side::Client if !self.takes_client() => Next::Unknown,
            Side::Client if self.arriving > 0 => Next::Arriving(self.arriving),
            Side::Client => self.from_client.next(),
            Side::Server if self.closed || self.abandoned => Next::Unknown,
            Side::Server => self.from_server.next(),
        }
    }

    /// The rest of a request that has arrived is there, and was read because its turn has not come: those behind it
    /// must not wait for that. `false`: more bytes are needed.
    pub(super) fn client_rest(&mut self, buf: &mut BytesMut) -> bool {
        let Inbound::Rest { remaining, op } = self.from_client else { return true };
        let count = remaining.min(buf.len());
        if count == 0 {
            return false;
        }
        let part = kept(buf.split_to(count));
        self.table.hold(op, part.len());
        self.op_mut(op).rest.get_or_insert_default().0.push(part);
        self.from_client = match remaining - count {
            0 => Inbound::Header,
            remaining => Inbound::Rest { remaining, op },
        };
        true
    }

    /// Passes on the available bytes of the client's message. `false`: more bytes are needed.
    pub(super) fn client_body(&mut self, now: Time, buf: &mut BytesMut) -> bool {
        let Inbound::Body { remaining, .. } = self.from_client else { return true };
        let count = remaining.min(buf.len());
        if count == 0 && remaining > 0 {
            return false;
        }
        self.to_server.push(buf.split_to(count).freeze());
        self.client_passed(now, count);
        true
    }

    /// `count` bytes of the client's message were passed on.
    pub(super) fn client_passed(&mut self, now: Time, count: usize) {
        let Inbound::Body { remaining, meaning } = self.from_client else { return };
        let awaiting = self.table.awaiting_data;
        if let Meaning::Data(id) = meaning {
            self.table.moved(now, id, count);
        }
        self.client_sent(now, count, self.table.awaiting_data < awaiting);
        self.from_client = match remaining - count {
            0 => Inbound::Header,
            remaining => Inbound::Body { remaining, meaning },
        };
        self.send_dispatched(now);
    }

    /// Passes on the available bytes of the server's message. `false`: more bytes are needed.
    pub(super) fn server_body(&mut self, now: Time, buf: &mut BytesMut) -> bool {
        let Inbound::Body { remaining, .. } = self.from_server else { return true };
        let count = remaining.min(buf.len());
        if count == 0 && remaining > 0 {
            return false;
        }
        self.to_client.push(buf.split_to(count).freeze());
        self.server_passed(now, count);
        true
    }

    /// `count` bytes of the server's message were passed on.
    pub(super) fn server_passed(&mut self, now: Time, count: usize) {
        let Inbound::Body { remaining, meaning } = self.from_server else { return };
        if let Meaning::Data(id) = meaning {
            self.table.moved(now, id, count);
        }
        match remaining - count {
            0 => self.server_message_end(meaning),
            remaining => self.from_server = Inbound::Body { remaining, meaning },
        }
    }

    fn server_message_end(&mut self, meaning: Meaning) {
        self.from_server = Inbound::Header;
        self.send_answers();
        match meaning {
            Meaning::Data(id) if self.table.has_read_all(id) => self.complete(id, Outcome::Answered { status: 0 }),
            Meaning::Last { op, status } if self.table.contains(op) => self.complete(op, Outcome::Answered { status }),
            _ => {}
        }
    }
}

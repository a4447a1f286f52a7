//! Bytes from the server: replies and data pass at once, and reveal the progress of each operation.

use bytes::BytesMut;
use vpfs_core::{Objects, Time};
use vpfs_wire::bmi::{Header, Mode};
use vpfs_wire::pvfs2::rewrite::ClientTimeouts;
use vpfs_wire::pvfs2::view::ReplyNumbers;
use vpfs_wire::pvfs2::{IoType, ReplyHead, rewrite};

use super::{Inbound, Meaning, OrangeFsSession, decode_header, message, payload_len, violation};
use crate::orangefs::classify::file_key;
use crate::orangefs::op::data_cost;
use crate::orangefs::op::{Reply, State};
use crate::{Action, CloseReason, OpId, Outcome, Side};

/// More than the longest reply without data (40 bytes, of a small write), so that a reply that is too long is noticed.
const PEEK: usize = 48;

/// The longest eager message: clients use small reads only if the data fits into one.
const MAX_SMALL_REPLY: usize = 16 << 10;

/// Configuration texts are at most 64 KiB; addresses may grow.
const MAX_CONFIG_REPLY: usize = 128 << 10;

impl OrangeFsSession {
    /// Reads one header and enough of the payload to know the meaning of the message. `Ok(false)`: more bytes are
    /// needed.
    pub(super) fn server_message(&mut self, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        let Some(header) = decode_header(buf, Side::Server)? else { return Ok(false) };
        if header.mode == Mode::Unexpected {
            return Err(violation(Side::Server, "a request"));
        }
        let Some(&id) = self.by_tag.get(&header.tag) else {
            // The answer to an abandoned operation: the client ignores it.
            self.pass(buf, header, Meaning::Stray);
            return Ok(true);
        };
        let peek = self.peek_len(id, payload_len(&header))?;
        if buf.len() < Header::LEN + peek {
            return Ok(false);
        }
        let meaning = match self.op_ref(id).state {
            State::Queued(_) | State::Dispatched(_) | State::Overdue(_) => {
                return Err(violation(Side::Server, "a reply to a request that was not sent"));
            }
            State::Reading { .. } => Meaning::Data(id),
            State::Sent if matches!(self.op_ref(id).reply, Reply::Config) => {
                self.config(id, header, buf)?;
                return Ok(true);
            }
            State::Sent => self.first_reply(now, id, parse(&buf[Header::LEN..Header::LEN + peek])?)?,
            State::Writing => written(id, parse(&buf[Header::LEN..Header::LEN + peek])?)?,
        };
        self.pass(buf, header, meaning);
        Ok(true)
    }

    /// How much of a message must have arrived before it can be classified.
    fn peek_len(&self, id: OpId, size: usize) -> Result<usize, CloseReason> {
        let op = self.op_ref(id);
        match (&op.state, &op.reply) {
            (State::Sent, Reply::Config) if size > MAX_CONFIG_REPLY => {
                Err(violation(Side::Server, "a configuration of more than 128 KiB"))
            }
            (State::Sent, Reply::Config) => Ok(size),
            (State::Sent, Reply::SmallRead { .. }) if size > MAX_SMALL_REPLY => {
                Err(violation(Side::Server, "a reply to a small read of more than 16 KiB"))
            }
            (State::Sent, Reply::SmallRead { .. }) => Ok(size),
            (State::Sent | State::Writing, _) => Ok(size.min(PEEK)),
            _ => Ok(0),
        }
    }

    /// The meaning of the first message of an operation; an error ends any operation.
    fn first_reply(&mut self, now: Time, id: OpId, reply: ReplyHead) -> Result<Meaning, CloseReason> {
        let last = Meaning::Last { op: id, status: reply.status.0 };
        self.op_mut(id).progressed = now;
        if matches!(self.op_ref(id).reply, Reply::Listing) {
            // A server that refuses has listed nothing.
            let entries = if let ReplyNumbers::Listing { entries } = reply.numbers { entries } else { 0 };
            self.correct_objects(id, entries);
            return Ok(last);
        }
        if !reply.status.is_ok() {
            return Ok(last);
        }
        match (&self.op_ref(id).reply, reply.numbers) {
            (Reply::Plain | Reply::Listing | Reply::Config, _) => Ok(last),
            (Reply::SmallWrite { .. }, ReplyNumbers::SmallIo { io_type: IoType::Write, .. }) => Ok(last),
            (
                &Reply::SmallRead { handle },
                ReplyNumbers::SmallIo { io_type: IoType::Read, bstream_size, result_size },
            ) => {
                self.actions.push_back(Action::SizeLearned { file: file_key(handle), size: bstream_size });
                self.op_mut(id).moved = result_size;
                self.correct(id, result_size);
                Ok(last)
            }
            (Reply::Read { handle, transfer }, ReplyNumbers::IoAck { bstream_size: size }) => {
                let before = transfer.steps();
                let (handle, expected) = (*handle, transfer.read_bytes(size).ok());
                self.steps += transfer.steps() - before;
                self.actions.push_back(Action::SizeLearned { file: file_key(handle), size });
                Ok(self.read_acknowledged(id, expected))
            }
            (Reply::UntoldRead, ReplyNumbers::IoAck { .. }) => Ok(last),
            (Reply::Write { .. }, ReplyNumbers::IoAck { .. }) => {
                let op = self.op_mut(id);
                op.state = State::Writing;
                if op.awaits_client_data() {
                    self.await_data(now, id);
                }
                Ok(Meaning::Ack)
            }
            _ => Err(another_operation()),
        }
    }

    /// A read was acknowledged and will move `expected` bytes; `None` if that cannot be computed in bounded time.
    fn read_acknowledged(&mut self, id: OpId, expected: Option<u64>) -> Meaning {
        let Some(remaining) = expected else {
            self.op_mut(id).reply = Reply::UntoldRead;
            return Meaning::Last { op: id, status: 0 };
        };
        self.correct(id, remaining);
        if remaining == 0 {
            return Meaning::Last { op: id, status: 0 };
        }
        self.op_mut(id).state = State::Reading { remaining };
        Meaning::Ack
    }

    /// Passes the message at the start of `buf`: its header now, its body as it comes.
    fn pass(&mut self, buf: &mut BytesMut, header: Header, meaning: Meaning) {
        self.to_client.push(buf.split_to(Header::LEN).freeze());
        self.from_server = Inbound::Body { remaining: payload_len(&header), meaning };
    }

    /// Passes on the available bytes of a message. `false`: more bytes are needed.
    pub(super) fn server_body(&mut self, now: Time, buf: &mut BytesMut) -> bool {
        let Inbound::Body { remaining, meaning } = self.from_server else { return true };
        let count = remaining.min(buf.len());
        if count == 0 && remaining > 0 {
            return false;
        }
        self.to_client.push(buf.split_to(count).freeze());
        if let Meaning::Data(id) = meaning {
            self.moved(now, id, count);
        }
        match remaining - count {
            0 => self.server_message_end(meaning),
            remaining => self.from_server = Inbound::Body { remaining, meaning },
        }
        true
    }

    fn server_message_end(&mut self, meaning: Meaning) {
        self.from_server = Inbound::Header;
        self.send_refusals();
        match meaning {
            Meaning::Stray | Meaning::Ack => {}
            Meaning::Data(id) => {
                if matches!(self.op_ref(id).state, State::Reading { remaining: 0 }) {
                    self.complete(id, Outcome::Answered { status: 0 });
                }
            }
            Meaning::Last { op, status } => self.complete(op, Outcome::Answered { status }),
        }
    }

    /// Passes on a configuration with every server's address replaced by its proxy's.
    fn config(&mut self, id: OpId, header: Header, buf: &mut BytesMut) -> Result<(), CloseReason> {
        let whole = buf.split_to(Header::LEN + payload_len(&header)).freeze();
        let payload = &whole[Header::LEN..];
        let status = parse(payload)?.status;
        let mut unmapped = Vec::new();
        let secs = self.limits.client_timeout.map(|timeout| u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX));
        let timeouts = ClientTimeouts { bmi_secs: secs, flow_secs: secs };
        let text = rewrite::config_text(payload, timeouts, |server| {
            let proxy = self.addresses.for_client(server);
            if proxy.is_none() {
                unmapped.push(server.to_owned());
            }
            proxy.map(str::to_owned)
        });
        let text = text.map_err(|error| CloseReason::Config(error.to_string()))?;
        let header =
            Header::reply(header.tag, text.len() as u64).map_err(|error| CloseReason::Config(error.to_string()))?;
        self.actions.extend(unmapped.into_iter().map(Action::UnmappedServer));
        self.to_client.push(message(&header, &text));
        self.complete(id, Outcome::Answered { status: status.0 });
        Ok(())
    }

    /// Reports to the scheduler how much a listing really lists.
    fn correct_objects(&mut self, id: OpId, entries: u32) {
        let op = self.op_ref(id);
        if op.kind.is_some() && !op.is_released {
            self.actions.push_back(Action::CorrectObjects(id, Objects::new(entries.into())));
        }
    }

    /// Reports to the scheduler how much a data operation really moves.
    fn correct(&mut self, id: OpId, bytes: u64) {
        let cost = data_cost(bytes);
        let op = self.op_mut(id);
        op.cost = cost;
        if op.kind.is_some() && !op.is_released {
            self.actions.push_back(Action::CorrectCost(id, cost));
        }
    }
}

/// The meaning of the second reply of a write.
fn written(op: OpId, reply: ReplyHead) -> Result<Meaning, CloseReason> {
    match reply.numbers {
        ReplyNumbers::WriteCompletion { .. } => {}
        _ if !reply.status.is_ok() => {}
        _ => return Err(another_operation()),
    }
    Ok(Meaning::Last { op, status: reply.status.0 })
}

fn another_operation() -> CloseReason {
    violation(Side::Server, "a reply of another operation than was asked for")
}

fn parse(payload: &[u8]) -> Result<ReplyHead, CloseReason> {
    ReplyHead::parse(payload).map_err(|error| CloseReason::Malformed { side: Side::Server, error: error.to_string() })
}

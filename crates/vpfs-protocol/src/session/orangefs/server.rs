//! Messages from the server: replies and data pass at once, and reveal the progress of each operation.

use bytes::BytesMut;
use vpfs_core::{Objects, Time};

use crate::wire::bmi::{Header, Mode};
use crate::wire::pvfs2::rewrite::ClientTimeouts;
use crate::wire::pvfs2::view::ReplyNumbers;
use crate::wire::pvfs2::{IoType, ReplyHead, rewrite};

use super::Messages;
use super::classify::file_key;
use super::detail::Detail;
use super::frame::{decode_header, malformed, message, payload_len};
use crate::session::shared::{Core, Meaning, Op, State, violation};
use crate::session::{Action, CloseReason, OpId, Outcome, Side};

/// More than the longest reply without data (40 bytes, of a small write), so that a reply that is too long is noticed.
const PEEK: usize = 48;

/// The longest eager message: clients use small reads only if the data fits into one.
const MAX_SMALL_REPLY: usize = 16 << 10;

/// Configuration texts are at most 64 KiB; addresses may grow.
const MAX_CONFIG_REPLY: usize = 128 << 10;

impl Messages {
    pub(super) fn on_server_message(
        &mut self,
        core: &mut Core<Self>,
        now: Time,
        buf: &mut BytesMut,
    ) -> Result<bool, CloseReason> {
        let Some(header) = decode_header(buf, Side::Server)? else { return Ok(false) };
        if header.mode == Mode::Unexpected {
            return Err(violation(Side::Server, "a request"));
        }
        let size = payload_len(&header);
        let Some(id) = core.find(header.tag) else {
            // The answer to an abandoned operation: the client ignores it.
            core.pass_server(buf, [Header::LEN, size], Meaning::Stray);
            return Ok(true);
        };
        let peek = peek_len(core.op(id), size)?;
        if buf.len() < Header::LEN + peek {
            return Ok(false);
        }
        let op = core.op(id);
        let meaning = match op.state {
            State::Queued(_) | State::Dispatched(_) | State::Overdue(_) => {
                return Err(violation(Side::Server, "a reply to a request that was not sent"));
            }
            State::Reading { .. } => Meaning::Data(id),
            State::Sent if matches!(op.detail, Detail::Config) => {
                self.config(core, id, header, buf)?;
                return Ok(true);
            }
            State::Sent => first_reply(core, now, id, parse(&buf[Header::LEN..Header::LEN + peek])?)?,
            State::Writing => written(id, parse(&buf[Header::LEN..Header::LEN + peek])?)?,
        };
        core.pass_server(buf, [Header::LEN, size], meaning);
        Ok(true)
    }

    /// Passes on a configuration with every server's address replaced by its proxy's.
    fn config(
        &mut self,
        core: &mut Core<Self>,
        id: OpId,
        header: Header,
        buf: &mut BytesMut,
    ) -> Result<(), CloseReason> {
        let whole = buf.split_to(Header::LEN + payload_len(&header)).freeze();
        let payload = &whole[Header::LEN..];
        let status = parse(payload)?.status;
        let mut unmapped = Vec::new();
        let secs = core.limits.client_timeout.map(|timeout| u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX));
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
        core.actions.extend(unmapped.into_iter().map(Action::UnmappedServer));
        core.to_client.push(message(&header, &text));
        core.complete(id, Outcome::Answered { status: status.0 });
        Ok(())
    }
}

/// How much of a message must have arrived before it can be classified.
fn peek_len(op: &Op<Messages>, size: usize) -> Result<usize, CloseReason> {
    match (&op.state, &op.detail) {
        (State::Sent, Detail::Config) if size > MAX_CONFIG_REPLY => {
            Err(violation(Side::Server, "a configuration of more than 128 KiB"))
        }
        (State::Sent, Detail::Config) => Ok(size),
        (State::Sent, Detail::SmallRead { .. }) if size > MAX_SMALL_REPLY => {
            Err(violation(Side::Server, "a reply to a small read of more than 16 KiB"))
        }
        (State::Sent, Detail::SmallRead { .. }) => Ok(size),
        (State::Sent | State::Writing, _) => Ok(size.min(PEEK)),
        _ => Ok(0),
    }
}

/// The meaning of the first message of an operation; an error ends any operation.
fn first_reply(core: &mut Core<Messages>, now: Time, id: OpId, reply: ReplyHead) -> Result<Meaning, CloseReason> {
    let last = Meaning::Last { op: id, status: reply.status.0 };
    core.progressed(now, id);
    if matches!(core.op(id).detail, Detail::Listing) {
        // A server that refuses has listed nothing.
        let entries = if let ReplyNumbers::Listing { entries } = reply.numbers { entries } else { 0 };
        core.correct_objects(id, Objects::new(entries.into()));
        return Ok(last);
    }
    if !reply.status.is_ok() {
        return Ok(last);
    }
    match (&core.op(id).detail, reply.numbers) {
        (Detail::Plain | Detail::Listing | Detail::Config, _) => Ok(last),
        (Detail::SmallWrite { .. }, ReplyNumbers::SmallIo { io_type: IoType::Write, .. }) => Ok(last),
        (&Detail::SmallRead { handle }, ReplyNumbers::SmallIo { io_type: IoType::Read, bstream_size, result_size }) => {
            core.actions.push_back(Action::SizeLearned { file: file_key(handle), size: bstream_size });
            core.read_in_reply(id, result_size);
            Ok(last)
        }
        (Detail::Read { handle, transfer }, ReplyNumbers::IoAck { bstream_size: size }) => {
            let before = transfer.steps();
            let (handle, expected) = (*handle, transfer.read_bytes(size).ok());
            core.steps += transfer.steps() - before;
            core.actions.push_back(Action::SizeLearned { file: file_key(handle), size });
            Ok(match expected {
                Some(bytes) => core.read_acknowledged(id, bytes),
                // It cannot be computed in bounded time.
                None => core.uncounted(id),
            })
        }
        (Detail::UncountedRead, ReplyNumbers::IoAck { .. }) => Ok(core.uncounted(id)),
        (Detail::Write { .. }, ReplyNumbers::IoAck { .. }) => {
            core.write_acknowledged(now, id);
            Ok(Meaning::Ack)
        }
        _ => Err(another_operation()),
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
    ReplyHead::parse(payload).map_err(|error| malformed(Side::Server, &error))
}

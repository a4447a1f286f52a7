//! Bytes from the client: requests are classified and queued, data of dispatched writes passes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use vpfs_core::Time;
use vpfs_wire::DecodeError;
use vpfs_wire::bmi::{Header, Mode};
use vpfs_wire::pvfs2::view::CredentialIds;
use vpfs_wire::pvfs2::{Op as OpCode, RequestView, rewrite};

use super::{Inbound, Meaning, OrangeFsSession, decode_header, message, payload_len, violation};
use crate::orangefs::classify::{Class, administers, claims_server, metadata, plan};
use crate::orangefs::op::{Op, Reply, State, held_at_arrival};
use crate::{Action, CloseReason, Requester, Session, Side, Submission, User};

impl OrangeFsSession {
    /// Reads one header, and the request behind it if it is one. `Ok(false)`: more bytes are needed.
    pub(super) fn client_message(&mut self, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        let Some(header) = decode_header(buf, Side::Client)? else { return Ok(false) };
        let size = payload_len(&header);
        if header.mode == Mode::Unexpected {
            if buf.len() < Header::LEN + size {
                return Ok(false);
            }
            let message = buf.split_to(Header::LEN + size).freeze();
            self.request(now, header, message)?;
        } else {
            let meaning = match self.by_tag.get(&header.tag) {
                Some(&id) if !self.op_ref(id).is_sent() => {
                    // The data would overtake its request.
                    return Err(violation(Side::Client, "data of a request that was not sent"));
                }
                Some(&id) if matches!(self.op_ref(id).reply, Reply::Write { .. }) => {
                    let due = self.op_ref(id).next_piece().filter(|due| *due > now);
                    if due.is_some() {
                        self.paused_until = due;
                        return Ok(false);
                    }
                    Meaning::Data(id)
                }
                // Unsolicited; the server decides what to do, as it would without a proxy.
                _ => Meaning::Stray,
            };
            if !self.awaits_rest(Side::Client) {
                self.client_may_send(now);
            }
            self.to_server.push(buf.split_to(Header::LEN).freeze());
            self.from_client = Inbound::Body { remaining: size, meaning };
        }
        Ok(true)
    }

    /// Passes on the available bytes of a message. `false`: more bytes are needed.
    pub(super) fn client_body(&mut self, now: Time, buf: &mut BytesMut) -> bool {
        let Inbound::Body { remaining, meaning } = self.from_client else { return true };
        let count = remaining.min(buf.len());
        if count == 0 && remaining > 0 {
            return false;
        }
        self.to_server.push(buf.split_to(count).freeze());
        let awaiting = self.awaiting_data;
        if let Meaning::Data(id) = meaning {
            self.moved(now, id, count);
        }
        self.client_sent(now, count, self.awaiting_data < awaiting);
        self.from_client = match remaining - count {
            0 => Inbound::Header,
            remaining => Inbound::Body { remaining, meaning },
        };
        self.send_dispatched(now);
        true
    }

    fn request(&mut self, now: Time, header: Header, message: Bytes) -> Result<(), CloseReason> {
        if self.by_tag.contains_key(&header.tag) {
            return Err(violation(Side::Client, "a request with the tag of one in progress"));
        }
        let held = self.held + self.unsent_bytes();
        if self.by_tag.len() >= self.limits.most_ops() || held >= self.limits.most_request_bytes() {
            return Err(violation(Side::Client, "too many requests while write data is expected"));
        }
        if let Some(unsent) = &mut self.unsent {
            unsent.extend_from_slice(&message);
            return Ok(());
        }
        let malformed = |error: DecodeError| CloseReason::Malformed { side: Side::Client, error: error.to_string() };
        let payload = &message[Header::LEN..];
        let view = RequestView::parse(payload).map_err(malformed)?;
        if self.requester == (Requester::Client { may_manage: false }) && administers(view.op()) {
            return self.refuse(header.tag, view.op());
        }
        let claims = claims_server(&view).map_err(malformed)?;
        let is_from_server = claims && self.believes_claim();
        let (class, reply) = plan(&view, is_from_server, &mut self.steps).map_err(malformed)?;
        let class = match class {
            // A client that mounts, or a tool, has one in progress. More at once are a flood, and work like any other.
            Class::Exempt if self.unscheduled > 0 && self.requester != Requester::Server => {
                Class::Scheduled(metadata(&view).map_err(malformed)?)
            }
            class => class,
        };
        // Servers state their own credential, or that of the client they serve: neither identifies the peer.
        if matches!(class, Class::Scheduled(_))
            && let Some(ids) = view.credential_ids().map_err(malformed)?
        {
            self.learn(&ids);
        }
        let message = match (self.rewritten_layout(&view, header, payload), &class) {
            (Some(rewritten), _) => rewritten,
            (None, Class::Exempt) => message,
            // A slice of the socket's read buffer would keep the whole buffer in memory while the request is queued.
            (None, Class::Scheduled(_)) => Bytes::copy_from_slice(&message),
        };
        if matches!(class, Class::Scheduled(_))
            && let Some(earlier) = self.repeated(now, &message)
        {
            self.take_place(now, earlier, header.tag, message);
            return Ok(());
        }
        let (kind, cost) = match &class {
            Class::Exempt => (None, vpfs_core::Bytes::ZERO),
            Class::Scheduled(submission) => (Some(submission.kind), submission.cost),
        };
        let id = self.insert(Op {
            tag: header.tag,
            kind,
            cost,
            held: held_at_arrival(&message, &reply),
            reply,
            state: State::Queued(message),
            moved: 0,
            is_released: false,
            pieces: None,
            arrived: now,
            asked: now,
            dispatched: now,
            progressed: now,
        });
        match class {
            Class::Exempt => self.dispatch(now, id, None),
            Class::Scheduled(submission) => {
                let submission = Submission { user: self.user.clone(), ..submission };
                self.actions.push_back(Action::Enqueue(id, submission));
            }
        }
        Ok(())
    }

    /// A request claims to be from a server: whether it is believed. Reports the first claim that is not.
    fn believes_claim(&mut self) -> bool {
        if self.requester == Requester::Server {
            return true;
        }
        if !std::mem::replace(&mut self.claimed, true) {
            self.actions.push_back(Action::ClaimsServer);
        }
        false
    }

    /// CREATE and MKDIR may list servers by the addresses known to the client, which are the proxies'; servers refuse
    /// those.
    fn rewritten_layout(&self, view: &RequestView<'_>, header: Header, payload: &[u8]) -> Option<Bytes> {
        if !matches!(view.op(), OpCode::Create | OpCode::MkDir) {
            return None;
        }
        // A list that cannot be rewritten passes unchanged: the server's own refusal is the clearest answer.
        let payload = rewrite::layout(payload, |proxy| self.addresses.for_server(proxy).map(str::to_owned)).ok()??;
        let header = Header::request(header.tag, payload.len() as u64).ok()?;
        Some(message(&header, &payload))
    }

    /// Data requests carry no credential: they belong to the user that the connection stated last.
    fn learn(&mut self, ids: &CredentialIds<'_>) {
        let same = |user: &Arc<User>| user.uid == ids.uid && user.gids.iter().copied().eq(ids.gids());
        if !self.user.as_ref().is_some_and(same) {
            self.user = Some(Arc::new(User { uid: ids.uid, gids: ids.gids().collect() }));
        }
    }

    /// Sends dispatched requests, unless the client is in the middle of a message: messages never interleave.
    pub(super) fn send_dispatched(&mut self, now: Time) {
        if matches!(self.from_client, Inbound::Body { .. }) {
            return;
        }
        while let Some(id) = self.dispatched.pop_front() {
            let op = self.op_mut(id);
            let State::Dispatched(request) = std::mem::replace(&mut op.state, State::Sent) else {
                unreachable!("only dispatched operations are in this list")
            };
            op.dispatched = now;
            op.progressed = now;
            op.held -= request.len();
            if let Reply::SmallWrite { bytes } = op.reply {
                op.moved = bytes;
            }
            self.held -= request.len();
            self.to_server.push(request);
            self.in_progress += 1;
        }
        self.arm_watch(now);
    }
}

//! Messages from the client: requests are classified and queued, data of dispatched writes passes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use vpfs_core::Time;

use crate::wire::bmi::{Header, Mode, Tag, reply_message};
use crate::wire::pvfs2::view::CredentialIds;
use crate::wire::pvfs2::{Errno, Op as OpCode, Reply, RequestView, Status, rewrite};

use super::Messages;
use super::classify::{administers, claims_server, metadata, plan};
use super::detail::Detail;
use super::frame::{decode_header, malformed, message, payload_len};
use crate::session::shared::{Arriving, Class, Core, Meaning, violation};
use crate::session::{Action, CloseReason, Requester, Side, Submission, User};

impl Messages {
    pub(super) fn on_client_message(
        &mut self,
        core: &mut Core<Self>,
        now: Time,
        buf: &mut BytesMut,
    ) -> Result<bool, CloseReason> {
        let Some(header) = decode_header(buf, Side::Client)? else { return Ok(false) };
        let size = payload_len(&header);
        if header.mode == Mode::Unexpected {
            if buf.len() < Header::LEN + size {
                return Ok(false);
            }
            let message = buf.split_to(Header::LEN + size).freeze();
            self.request(core, now, header, message)?;
            return Ok(true);
        }
        let meaning = match core.find(header.tag) {
            // The data would overtake its request.
            Some(id) if !core.op(id).is_sent() => {
                return Err(violation(Side::Client, "data of a request that was not sent"));
            }
            Some(id) if matches!(core.op(id).detail, Detail::Write { .. }) => {
                if core.pauses(now, id) {
                    return Ok(false);
                }
                Meaning::Data(id)
            }
            // Unsolicited; the server decides what to do, as it would without a proxy.
            _ => Meaning::Stray,
        };
        core.pass_client(now, buf, [Header::LEN, size], meaning);
        Ok(true)
    }

    fn request(&mut self, core: &mut Core<Self>, now: Time, header: Header, message: Bytes) -> Result<(), CloseReason> {
        if core.find(header.tag).is_some() {
            return Err(violation(Side::Client, "a request with the tag of one in progress"));
        }
        if !core.takes_request(&message)? {
            return Ok(());
        }
        let payload = &message[Header::LEN..];
        let malformed = |error| malformed(Side::Client, &error);
        let view = RequestView::parse(payload).map_err(malformed)?;
        if core.requester == (Requester::Client { may_manage: false }) && administers(view.op) {
            return refuse(core, header.tag, view.op);
        }
        let claims = claims_server(&view).map_err(malformed)?;
        let is_from_server = claims && self.believes_claim(core);
        let (class, detail) = plan(&view, is_from_server, &mut core.steps).map_err(malformed)?;
        let class = match class {
            // A client that mounts, or a tool, has one in progress. More at once are a flood, and work like any other.
            Class::Exempt if core.has_exempt() && core.requester != Requester::Server => {
                Class::Scheduled(metadata(&view).map_err(malformed)?)
            }
            class => class,
        };
        let rewritten = self.rewritten_layout(&view, header, payload);
        let (message, class) = match class {
            Class::Exempt => (rewritten.unwrap_or(message), Class::Exempt),
            Class::Scheduled(submission) => {
                // Servers state their own credential, or that of the client they serve: neither identifies the peer.
                if let Some(ids) = view.credential_ids().map_err(malformed)? {
                    self.learn(&ids);
                }
                // A slice of the socket's read buffer would keep the whole buffer in memory while it is queued.
                let message = rewritten.unwrap_or_else(|| Bytes::copy_from_slice(&message));
                (message, Class::Scheduled(Submission { user: self.user.clone(), ..submission }))
            }
        };
        let (tag, detail_bytes) = (header.tag, detail.memory());
        let (carried, expected) = (detail.carried(), detail.expected());
        let (order, numbered) = (None, None);
        let unread = 0;
        core.arrive(
            now,
            Arriving { tag, message, unread, class, detail, detail_bytes, carried, expected, order, numbered },
        );
        Ok(())
    }

    /// A request claims to be from a server: whether it is believed. Reports the first claim that is not.
    fn believes_claim(&mut self, core: &mut Core<Self>) -> bool {
        if core.requester == Requester::Server {
            return true;
        }
        if !std::mem::replace(&mut self.claimed, true) {
            core.actions.push_back(Action::ClaimsServer);
        }
        false
    }

    /// CREATE and MKDIR may list servers by the addresses known to the client, which are the proxies'; servers refuse
    /// those.
    fn rewritten_layout(&self, view: &RequestView<'_>, header: Header, payload: &[u8]) -> Option<Bytes> {
        if !matches!(view.op, OpCode::Create | OpCode::MkDir) {
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
            self.user = Some(Arc::new(User { uid: ids.uid, gids: ids.gids().collect(), ..User::default() }));
        }
    }
}

/// Answers a request as servers answer operations for which the sender has no permission.
fn refuse(core: &mut Core<Messages>, tag: Tag, op: OpCode) -> Result<(), CloseReason> {
    let payload = Reply::error(op, Status::error(Errno::EACCES)).encode();
    let Ok(answer) = reply_message(tag, &payload) else { unreachable!("an error has 16 bytes") };
    core.answer(&answer)
}

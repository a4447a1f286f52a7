//! Messages from the client: calls are classified and queued, replies to calls of the server pass.

use std::sync::Arc;

use bytes::BytesMut;
use vpfs_core::Time;

use crate::wire::nfs::{Access, Call, Compound, Credential, Message, Protection, Record, program};

use super::classify::{Plan, metadata, plan};
use super::detail::{Content, Detail};
use super::{Messages, SAME_XID, Tag, USUAL, make_room, malformed, record};
use crate::session::shared::{Arriving, Class, Core, Meaning, Numbered, kept, violation};
use crate::session::{CloseReason, Next, Side, User};

/// Bytes of a call that have its header, with the longest credential and verifier, and what a WRITE says before its
/// data.
const PEEK: usize = 1024;

/// What a record of the client is.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Found {
    /// To be scheduled or sent.
    Call(Tag, Plan, Detail),
    /// A call that is dealt with: it is in progress already, or left to the session that continues this one.
    Settled,
    /// A reply to a call of the server.
    Reply,
}

impl Messages {
    pub(super) fn on_client_message(
        &mut self,
        core: &mut Core<Self>,
        now: Time,
        buf: &mut BytesMut,
    ) -> Result<bool, CloseReason> {
        let Some(record) = record(buf, Side::Client, PEEK)? else { return Ok(false) };
        let here = record.len.min(buf.len());
        let unread = record.len - here;
        if unread > 0 && !(unread <= USUAL && is_write(&record, buf) && core.arrives(unread)) {
            if core.next(Side::Client) == Next::Unknown {
                make_room(buf, unread);
            }
            return Ok(false);
        }
        match self.look_at(core, &record, &buf[..here])? {
            Found::Call(tag, Plan { class, carried, order, numbered, .. }, detail) => {
                let message = kept(buf.split_to(here));
                let (detail_bytes, expected) = (0, 0);
                core.arrive(
                    now,
                    Arriving { tag, message, unread, class, detail, detail_bytes, carried, expected, order, numbered },
                );
            }
            // To be forgotten, it must be read.
            Found::Settled if unread > 0 => return Ok(false),
            Found::Settled => drop(buf.split_to(here)),
            Found::Reply => core.pass_client(now, buf, [here, 0], Meaning::Stray),
        }
        Ok(true)
    }

    fn look_at(&mut self, core: &mut Core<Self>, record: &Record, bytes: &[u8]) -> Result<Found, CloseReason> {
        let start = record.message(bytes);
        let call = match Message::parse(&start).map_err(|error| malformed(Side::Client, &error))? {
            Message::Call(call) => call,
            Message::Reply(_) => return Ok(Found::Reply),
        };
        if !core.takes_request(bytes)? {
            return Ok(Found::Settled);
        }
        let user = self.user_of(&call.credential);
        let mut plan = plan(&call, record.len, record.len - bytes.len(), user.as_ref());
        let protection = call.credential.protection();
        // A checksum covers the arguments, too.
        let unstable_at = plan.unstable_at.filter(|_| protection == Protection::None).and_then(|at| {
            let before = start.len() - call.arguments?.len();
            u16::try_from(record.place(bytes, before + at)?).ok()
        });
        if let Class::Scheduled(submission) = &mut plan.class {
            submission.may_be_left = unstable_at.is_some();
        }
        let content = content(&call, record, &plan);
        let detail = Detail { answer: plan.answer, protection, content, unstable_at };
        let Some(tag) = unused_tag(core, call.xid, &detail.content, plan.numbered)? else { return Ok(Found::Settled) };
        let is_ahead = plan.numbered.is_some_and(|numbered| core.is_ahead(numbered));
        if plan.class == Class::Exempt && (core.has_exempt() || is_ahead) {
            // A client that mounts has one in progress. More at once are a flood, and work like any other.
            plan = Plan { numbered: plan.numbered, ..metadata(user.as_ref(), 1) };
        }
        Ok(Found::Call(tag, plan, detail))
    }

    /// The user of a call, shared with the call before it if that is the same.
    fn user_of(&mut self, credential: &Credential<'_>) -> Option<Arc<User>> {
        let Credential::Sys(sys) = credential else { return None };
        let is_same = |user: &Arc<User>| {
            user.uid == sys.uid && user.gids.iter().copied().eq(sys.gids()) && user.machine == sys.machine
        };
        if !self.user.as_ref().is_some_and(is_same) {
            let (gids, machine) = (sys.gids().collect(), sys.machine.to_owned());
            self.user = Some(Arc::new(User { uid: sys.uid, gids, machine }));
        }
        self.user.clone()
    }
}

/// Whether the record is a WRITE as far as it is here, so that the rest is its data, or little that follows that.
fn is_write(record: &Record, bytes: &[u8]) -> bool {
    let start = record.message(bytes);
    let Ok(Message::Call(Call { program: program::NFS, version, procedure, arguments: Some(arguments), .. })) =
        Message::parse(&start)
    else {
        return false;
    };
    match version {
        3 => matches!(Access::parse(procedure, arguments), Ok(Access::Write { .. })),
        4 => Compound::parse(arguments)
            .is_ok_and(|compound| compound.missing > 0 && compound.is_known(record.len - bytes.len())),
        _ => false,
    }
}

fn content(call: &Call<'_>, record: &Record, plan: &Plan) -> Content {
    let position = if let Class::Scheduled(submission) = &plan.class { submission.position } else { None };
    Content { program: call.program, procedure: call.procedure, len: record.len, position }
}

/// A tag for a call with this transaction number; `None` if that call is in progress already: it is answered once.
///
/// With another number in its security context it is another call: a client does not accept the answer to the first.
fn unused_tag(
    core: &Core<Messages>,
    xid: u32,
    content: &Content,
    numbered: Option<Numbered>,
) -> Result<Option<Tag>, CloseReason> {
    for tag in (0..SAME_XID).map(|number| (xid, number)) {
        let Some(op) = core.find(tag) else { return Ok(Some(tag)) };
        if core.op(op).detail.content == *content && core.op(op).numbered == numbered {
            return Ok(None);
        }
    }
    Err(violation(Side::Client, "too many calls with the same transaction number"))
}

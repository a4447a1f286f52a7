//! NFS over ONC RPC, and any other RPC program that a client speaks on the same connection
//! (docs/decisions/0011-nfs.md).

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use vpfs_core::{Bytes, FileKey, FilePosition, MIN_DATA_COST, Objects, OpKind, Time};

use crate::session::shared::{
    Arriving, Class, Core, Meaning, Numbered, OP_BYTES, Op, Order, Protocol, ProtocolSession, data_cost, kept,
    violation,
};
use crate::session::{
    Action, CloseReason, Interposer, Next, OpId, Requester, Session, SessionLimits, Side, Submission, User,
};
use crate::wire::DecodeError;
use crate::wire::nfs::{
    Access, Call, Compound, Credential, DATA_SYNC, GssCredential, MAX_RECORD, Message, Protection, Record, Reply,
    compound_listed, compound_moved, compound_stored, listed, moved, program, status,
};

/// NFS as a listener's protocol.
#[derive(Debug)]
pub struct Nfs;

impl Interposer for Nfs {
    /// Every call states its user, so that of an earlier session does not matter.
    fn session(&self, limits: SessionLimits, requester: Requester, _: Option<Arc<User>>) -> Box<dyn Session> {
        Box::new(ProtocolSession::new(limits, requester, Messages::default()))
    }

    /// Clients send what was not answered again, whenever they notice the end.
    fn quiet_at_end(&self) -> Duration {
        Duration::ZERO
    }
}

#[derive(Debug, Default)]
struct Messages {
    user: Option<Arc<User>>,
}

/// A call in progress: its transaction number, and how many of the same number are in progress already.
type Tag = (u32, u8);

/// The largest number of calls with the same transaction number that are in progress at once: a client that uses
/// numbers again is mistaken, but served.
const SAME_XID: u8 = 8;

impl Protocol for Messages {
    type Tag = Tag;
    type Detail = Detail;

    /// And the mark of a fragment that would make it longer.
    const LONGEST_REQUEST: usize = MAX_RECORD + 4;
    /// A server reads all that was asked for before it replies.
    const READ_AHEAD: u64 = MAX_RECORD as u64;
    /// They wait for ever, or repeat it under the same number, which the server recognises.
    const IS_REPEATED: bool = false;

    fn client_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        let Some(record) = record(buf, Side::Client, PEEK_CALL)? else { return Ok(false) };
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

    fn server_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        let Some(found) = record(buf, Side::Server, PEEK_REPLY)? else { return Ok(false) };
        let Some(id) = answered(core, &found, buf)? else {
            // A call of the server, or the answer to an abandoned operation, which the client ignores.
            pass(core, &found, buf, Meaning::Stray);
            return Ok(true);
        };
        if core.op(id).detail.answer.is_listing() && record(buf, Side::Server, PEEK_LISTING)?.is_none() {
            return Ok(false);
        }
        core.progressed(now, id);
        let start = found.message(buf);
        let Ok(Message::Reply(reply)) = Message::parse(&start) else { unreachable!("it was parsed above") };
        let status = learn(core, id, &reply, &found, found.message_len() / start.len());
        drop(start);
        pass(core, &found, buf, Meaning::Last { op: id, status });
        Ok(true)
    }

    fn stored_instead(detail: &Detail) -> Option<(usize, &'static [u8])> {
        Some((detail.unstable_at?.into(), &DATA_SYNC))
    }

    fn content(request: &[u8]) -> &[u8] {
        request
    }

    fn stated_user(&mut self) -> Option<Arc<User>> {
        None
    }
}

/// Room in a buffer behind a record that is arriving, so that the driver goes on reading into the same buffer.
const ROOM_BEHIND: usize = 64 << 10;

/// Bytes of the longest WRITE of usual clients. Of what is allocated for one that never comes, the system provides only
/// the pages that were written to.
const USUAL: usize = 1 << 20;

/// The record at the start of `buf`, `None` if fewer than `needed` of its bytes are there, or than all if it has
/// several fragments.
fn record(buf: &mut BytesMut, side: Side, needed: usize) -> Result<Option<Record>, CloseReason> {
    let record = match Record::parse(buf) {
        Ok(record) => record,
        Err(DecodeError::Incomplete { .. }) => return Ok(None),
        Err(_) if is_tls(buf) => return Err(violation(side, TLS)),
        Err(error) => return Err(malformed(side, &error)),
    };
    let needed = if record.is_contiguous() { needed.min(record.len) } else { record.len };
    if buf.len() >= needed {
        return Ok(Some(record));
    }
    make_room(buf, needed - buf.len());
    Ok(None)
}

/// Makes room for `missing` bytes of a record that is arriving at once, as far as usual clients send, and for those of
/// a longer one when so much has arrived: otherwise its start would be copied again and again while the buffer grows.
fn make_room(buf: &mut BytesMut, missing: usize) {
    if missing > ROOM_BEHIND {
        buf.reserve(missing.min(USUAL.max(4 * buf.len())) + ROOM_BEHIND);
    }
}

const TLS: &str = "NFS over TLS, which vpfs cannot schedule; mount without xprtsec=, or past the proxy \
                   (docs/decisions/0011-nfs.md)";

/// Whether bytes that are no record begin a handshake of TLS (RFC 9289), its version 1.0 or later.
fn is_tls(bytes: &[u8]) -> bool {
    bytes.starts_with(&[22, 3])
}

fn malformed(side: Side, error: &DecodeError) -> CloseReason {
    let error = match error {
        // Its record is all there.
        DecodeError::Incomplete { .. } => "a message that ends within its header".to_owned(),
        error => error.to_string(),
    };
    CloseReason::Malformed { side, error }
}

// Messages from the client: calls are classified and queued, replies to calls of the server pass.

/// Bytes of a call that have its header, with the longest credential and verifier, and what a WRITE says before its
/// data.
const PEEK_CALL: usize = 1024;

#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Found {
    Call(Tag, Plan, Detail),
    /// A call that is dealt with: it is in progress already, or left to the session that continues this one.
    Settled,
    Reply,
}

impl Messages {
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

/// A tag for a call; `None` if that call is in progress already: it is answered once. With another number in its
/// security context it is another call.
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

// Messages from the server: all pass at once, and replies reveal what each operation did.

/// Bytes of a reply that have its header, with the longest verifier, and what the results of a READ or WRITE say before
/// the data.
const PEEK_REPLY: usize = 640;

/// Bytes of a listing in which entries are counted; the rest of a longer one is taken to be like these.
const PEEK_LISTING: usize = 64 << 10;

const NOT_EXECUTED: i32 = -1;

fn answered(core: &Core<Messages>, record: &Record, bytes: &[u8]) -> Result<Option<OpId>, CloseReason> {
    let start = record.message(bytes);
    let Message::Reply(Reply { xid, .. }) = Message::parse(&start).map_err(|error| malformed(Side::Server, &error))?
    else {
        return Ok(None);
    };
    let with_xid = (0..SAME_XID).filter_map(|number| core.find((xid, number)));
    Ok(with_xid.into_iter().find(|&id| core.op(id).is_sent()))
}

fn pass(core: &mut Core<Messages>, record: &Record, buf: &mut BytesMut, meaning: Meaning) {
    let here = record.len.min(buf.len());
    core.pass_server(buf, [here, record.len - here], meaning);
}

/// Reports what a reply reveals, of whose bytes one of `parts` equal parts is here. Returns its status, negative for an
/// error.
fn learn(core: &mut Core<Messages>, id: OpId, reply: &Reply<'_>, record: &Record, parts: usize) -> i32 {
    let detail = &core.op(id).detail;
    let (answer, is_nfs) = (detail.answer, detail.content.program == program::NFS);
    if answer == Answer::Opaque {
        let objects = opaque_objects(detail.content.len.saturating_add(record.len));
        core.correct_objects(id, Objects::new(objects.into()));
    }
    let Some(results) = reply.results else { return NOT_EXECUTED };
    // Nothing is known of encrypted results, or of those of other programs.
    let Some(results) = core.op(id).detail.protection.open(results).filter(|_| is_nfs) else { return 0 };
    // Procedure 0 returns nothing.
    let status = status(results).unwrap_or(0);
    let entries = |listed: u32| if status == 0 { Objects::new(u64::from(listed) * parts as u64) } else { Objects::ONE };
    match answer {
        Answer::Read | Answer::Write if status == 0 => learn_moved(core, id, answer, results),
        Answer::CompoundWrite if status == 0 => core.op_mut(id).is_stored = compound_stored(results) == Ok(true),
        Answer::CompoundRead if status == 0 => match compound_moved(results) {
            Ok(count) => core.read_in_reply(id, count.into()),
            Err(_) => core.leave_uncounted(id),
        },
        Answer::Uncounted => core.leave_uncounted(id),
        Answer::List { is_plus } => core.correct_objects(id, entries(listed(is_plus, results))),
        Answer::CompoundList => core.correct_objects(id, entries(compound_listed(results))),
        _ => {}
    }
    -i32::try_from(status).unwrap_or(i32::MAX)
}

fn learn_moved(core: &mut Core<Messages>, id: OpId, answer: Answer, results: &[u8]) {
    let is_write = answer == Answer::Write;
    if let Ok(moved) = moved(is_write, results) {
        let file = core.op(id).detail.content.position.map(|position| position.file);
        core.actions.extend(file.zip(moved.size).map(|(file, size)| Action::SizeLearned { file, size }));
        core.op_mut(id).is_stored = moved.is_stored;
        if !is_write {
            core.read_in_reply(id, moved.count.into());
        }
    }
}

#[derive(Debug)]
struct Detail {
    answer: Answer,
    protection: Protection,
    content: Content,
    /// Where its record says that a WRITE may be stored later; `None` also where that can't be changed.
    unstable_at: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// A status.
    Plain,
    /// What cannot be read counts by its length.
    Opaque,
    /// Only that what was asked for was done, which is charged as it was asked for.
    Uncounted,
    /// How much was read, and the file's size.
    Read,
    /// The file's size.
    Write,
    /// Entries of a directory.
    List { is_plus: bool },
    /// Whether what was written is stored, by NFSv4.
    CompoundWrite,
    /// How much was read, by NFSv4.
    CompoundRead,
    /// Entries of a directory, by NFSv4.
    CompoundList,
}

impl Answer {
    fn is_listing(self) -> bool {
        matches!(self, Self::List { .. } | Self::CompoundList)
    }
}

/// By which a call that a client sends again is recognised, as its transaction number may be one that is used again by
/// mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    program: u32,
    procedure: u32,
    /// Bytes of the record.
    len: usize,
    position: Option<FilePosition>,
}

const _: () = assert!(size_of::<Op<Messages>>() <= OP_BYTES / 2, "half of it is for the other tables");

// Classifies calls for the scheduler: data, metadata, or never delayed.

#[derive(Debug)]
struct Plan {
    class: Class,
    answer: Answer,
    /// Data bytes in the call.
    carried: u64,
    order: Option<Order>,
    numbered: Option<Numbered>,
    /// Where the arguments say that a WRITE may be stored later.
    unstable_at: Option<usize>,
}

impl Plan {
    fn new(user: Option<&Arc<User>>, mut submission: Submission) -> Self {
        submission.user = user.cloned();
        let class = Class::Scheduled(submission);
        Self { class, answer: Answer::Plain, carried: 0, order: None, numbered: None, unstable_at: None }
    }
}

/// Bytes of a listing's reply for each entry, at least, and with attributes and handles.
const ENTRY: u32 = 32;
const ENTRY_PLUS: u32 = 128;
/// The largest number of entries to expect of a listing. Clients ask for as much as fits their buffers, and most
/// directories are short.
const ENTRIES: u32 = 64;

/// Whatever a call asks for, no longer reply passes.
const LONGEST_READ: u64 = MAX_RECORD as u64;

const COMMIT: u32 = 21;
const SETATTR: u32 = 2;

/// Classifies a call of `user`, of which `unread` bytes of data, or little more, were not read.
///
/// Exempt, one at a time, are what every client does before anything else: calls of other programs (MOUNT, portmapper),
/// procedure 0, handshakes of RPCSEC_GSS, and what keeps clients, sessions and leases of NFSv4 alive.
fn plan(call: &Call<'_>, len: usize, unread: usize, user: Option<&Arc<User>>) -> Plan {
    let is_handshake = matches!(&call.credential, Credential::Gss(gss) if !gss.is_data);
    let numbered = numbered(&call.credential);
    if call.program != program::NFS || call.procedure == 0 || is_handshake {
        return Plan { class: Class::Exempt, numbered, ..metadata(user, 1) };
    }
    let known = match (call.version, call.arguments) {
        (3, Some(arguments)) => {
            Access::parse(call.procedure, arguments).ok().map(|access| v3(call.procedure, access, len, user))
        }
        (4, Some(arguments)) => Compound::parse(arguments).ok().and_then(|compound| v4(&compound, len, unread, user)),
        _ => None,
    };
    // The server refuses what cannot be decoded, and encrypted arguments cannot be.
    let plan = known.unwrap_or_else(|| Plan { answer: Answer::Opaque, ..metadata(user, opaque_objects(len)) });
    Plan { numbered, ..plan }
}

fn numbered(credential: &Credential<'_>) -> Option<Numbered> {
    match credential {
        Credential::Gss(GssCredential { is_data: true, context, number, .. }) => {
            Some(Numbered { sequence: hash(context), number: *number })
        }
        _ => None,
    }
}

/// What cannot be read counts as one object for each of the smallest data accesses that may be in it.
fn opaque_objects(len: usize) -> u32 {
    let objects = len as u64 / MIN_DATA_COST.0;
    u32::try_from(objects).unwrap_or(u32::MAX)
}

fn v4(compound: &Compound<'_>, len: usize, unread: usize, user: Option<&Arc<User>>) -> Option<Plan> {
    let &Compound { read, reads, listing, objects, file, unstable_at, .. } = compound;
    let written = compound.written.min(len as u64);
    if !compound.is_known(unread) {
        return None;
    }
    if !compound.is_work {
        return Some(Plan { class: Class::Exempt, ..metadata(user, 1) });
    }
    if let Some((file, offset)) = compound.data {
        let (kind, answer) = match (reads, written) {
            (0, _) => (OpKind::Write, Answer::CompoundWrite),
            (1, 0) => (OpKind::Read, Answer::CompoundRead),
            _ => (if read < written { OpKind::Write } else { OpKind::Read }, Answer::Uncounted),
        };
        // The file of an access that finds it by name is not known.
        let file = file.unwrap_or_default();
        let order = Some(order(user, file_key(file), !compound.is_ordered));
        let plan = data(kind, file, offset, read.min(LONGEST_READ) + written, user);
        return Some(Plan { answer, carried: written, order, unstable_at, ..plan });
    }
    let order = file.filter(|_| compound.is_ordered).map(|file| order(user, file_key(file), false));
    if listing > 0 {
        let objects = objects.max((listing / ENTRY_PLUS).min(ENTRIES));
        return Some(Plan { answer: Answer::CompoundList, order, ..metadata(user, objects) });
    }
    Some(Plan { order, ..metadata(user, objects) })
}

fn v3(procedure: u32, access: Access<'_>, len: usize, user: Option<&Arc<User>>) -> Plan {
    match access {
        Access::Read { file, offset, count } => {
            data(OpKind::Read, file, offset, u64::from(count).min(LONGEST_READ), user)
        }
        // The server refuses a call with less data than it says.
        Access::Write { file, offset, count, unstable_at } => {
            Plan { unstable_at, ..data(OpKind::Write, file, offset, u64::from(count).min(len as u64), user) }
        }
        Access::List { bytes, is_plus, .. } => {
            let entries = bytes / if is_plus { ENTRY_PLUS } else { ENTRY };
            Plan { answer: Answer::List { is_plus }, ..metadata(user, entries.min(ENTRIES)) }
        }
        Access::Other { file } if matches!(procedure, COMMIT | SETATTR) => {
            Plan { order: Some(order(user, file_key(file), false)), ..metadata(user, 1) }
        }
        Access::Other { .. } | Access::Null => metadata(user, 1),
    }
}

fn data(kind: OpKind, file: &[u8], start: u64, bytes: u64, user: Option<&Arc<User>>) -> Plan {
    let file = file_key(file);
    let (answer, carried) = match kind {
        OpKind::Read => (Answer::Read, 0),
        _ => (Answer::Write, bytes),
    };
    // The server refuses a place beyond.
    let position = i64::try_from(start).is_ok().then_some(FilePosition { file, start });
    let submission = Submission { position, ..Submission::new(kind, data_cost(bytes), Objects::ONE) };
    Plan { answer, carried, order: Some(order(user, file, true)), ..Plan::new(user, submission) }
}

fn metadata(user: Option<&Arc<User>>, objects: u32) -> Plan {
    Plan::new(user, Submission::new(OpKind::Metadata, Bytes::ZERO, Objects::new(objects.into())))
}

/// Handles are longer than keys.
fn file_key(handle: &[u8]) -> FileKey {
    FileKey(hash(handle))
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// One user's operations on one file; those of other users on it have no order.
fn order(user: Option<&Arc<User>>, file: FileKey, is_data: bool) -> Order {
    let uid = user.map_or(u64::MAX, |user| user.uid.into());
    Order { line: file.0 ^ vpfs_core::hash::mix(uid), is_data }
}

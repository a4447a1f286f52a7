//! OrangeFS 2.10 (docs/protocols/orangefs.md).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use vpfs_core::{FileKey, FilePosition, Objects, OpKind, Time};

use crate::session::shared::{
    Arriving, Class, Core, Meaning, OP_BYTES, Op, Protocol, ProtocolSession, State, data_cost, violation,
};
use crate::session::{
    Action, CloseReason, Interposer, OpId, Outcome, Requester, Session, SessionLimits, Side, Submission, User,
};
use crate::wire::DecodeError;
use crate::wire::bmi::{Header, Mode, Tag, reply_message};
use crate::wire::pvfs2::rewrite::{self, ClientTimeouts};
use crate::wire::pvfs2::view::{CredentialIds, IoView, ReplyNumbers};
use crate::wire::pvfs2::{
    DistView, Errno, Handle, IoType, Op as OpCode, OpClass, Reply, ReplyHead, RequestView, Status, Transfer,
    TransferError,
};

/// OrangeFS as a listener's protocol.
#[derive(Debug)]
pub struct OrangeFs {
    addresses: Arc<AddressMap>,
}

impl OrangeFs {
    /// `addresses` are the addresses announced to clients.
    pub fn new(addresses: AddressMap) -> Self {
        Self { addresses: Arc::new(addresses) }
    }
}

impl Interposer for OrangeFs {
    fn session(&self, limits: SessionLimits, requester: Requester, user: Option<Arc<User>>) -> Box<dyn Session> {
        let protocol = Messages { addresses: Arc::clone(&self.addresses), user, claimed: false };
        Box::new(ProtocolSession::new(limits, requester, protocol))
    }

    /// libpvfs2 loses an operation if it learns of the end between posting its receive and sending its request
    /// (sys-io.sm, "Receive immediately failed"), and that is what it does after each reply. Once it waits for the next
    /// reply it repeats the request, so that moment is the one to wait for: many round trips.
    fn quiet_at_end(&self) -> Duration {
        Duration::from_millis(250)
    }
}

#[derive(Debug)]
struct Messages {
    addresses: Arc<AddressMap>,
    user: Option<Arc<User>>,
    claimed: bool,
}

impl Protocol for Messages {
    type Tag = Tag;
    type Detail = Detail;

    const LONGEST_REQUEST: usize = Header::LEN + (16 << 10);

    /// OrangeFS reads into all buffers of a flow before the first one is sent, and again into each that was sent
    /// (flowproto-multiqueue.c): 8 of 256 KiB. Two sockets of Linux hold up to 8 MB between them, which was measured.
    const READ_AHEAD: u64 = 10 << 20;
    const IS_REPEATED: bool = true;

    fn client_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
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

    fn server_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
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

    fn content(request: &[u8]) -> &[u8] {
        &request[Header::LEN..]
    }

    fn stated_user(&mut self) -> Option<Arc<User>> {
        self.user.take()
    }
}

impl Messages {
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
        let arriving = Arriving {
            tag: header.tag,
            message,
            unread: 0,
            class,
            detail_bytes: detail.memory(),
            carried: detail.carried(),
            expected: detail.expected(),
            detail,
            order: None,
            numbered: None,
        };
        core.arrive(now, arriving);
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

// Messages from the server: replies and data pass at once, and reveal the progress of each operation.

/// More than the longest reply without data (40 bytes, of a small write), so that a reply that is too long is noticed.
const PEEK: usize = 48;

/// The longest eager message: clients use small reads only if the data fits into one.
const MAX_SMALL_REPLY: usize = 16 << 10;

/// Configuration texts are at most 64 KiB; addresses may grow.
const MAX_CONFIG_REPLY: usize = 128 << 10;

impl Messages {
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

#[derive(Debug)]
enum Detail {
    /// One reply ends it.
    Plain,
    /// One reply ends it and states how many entries it lists.
    Listing,
    Config,
    /// One reply ends it and states how much was read.
    SmallRead {
        handle: Handle,
    },
    /// One reply ends it; the request carries `bytes` of data.
    SmallWrite {
        bytes: u64,
    },
    /// An acknowledgement, then data from the server.
    Read {
        handle: Handle,
        transfer: Box<Transfer>,
    },
    /// An acknowledgement, `expected` bytes of data from the client, then a second reply.
    Write {
        expected: u64,
    },
    /// Like a read, but counting the bytes after the acknowledgement takes too long: treated as complete there.
    UncountedRead,
}

const _: () = assert!(size_of::<Op<Messages>>() <= OP_BYTES / 2, "half of it is for the other tables");

impl Detail {
    fn memory(&self) -> usize {
        match self {
            Self::Read { transfer, .. } => transfer.memory(),
            _ => 0,
        }
    }

    fn carried(&self) -> u64 {
        if let Self::SmallWrite { bytes } = self { *bytes } else { 0 }
    }

    fn expected(&self) -> u64 {
        if let Self::Write { expected } = self { *expected } else { 0 }
    }
}

// Classifies requests for the scheduler: data, metadata, or never delayed.

/// Handles are unique in a file system.
fn file_key(handle: Handle) -> FileKey {
    FileKey(handle.0)
}

/// Whether a request looks like one that only servers send. Anybody can make it look so.
fn claims_server(request: &RequestView<'_>) -> Result<bool, DecodeError> {
    Ok(request.is_from_server()? || mirrors(request)?)
}

/// Whether a request administers a server. All clients ask for the configuration, and may ask whether a server is
/// there.
fn administers(op: OpCode) -> bool {
    op.class() == OpClass::Management && !matches!(op, OpCode::GetConfig | OpCode::MgmtNoop)
}

/// Whether a server copies a file to its mirrors. Such writes have no capability, while clients always state one.
fn mirrors(request: &RequestView<'_>) -> Result<bool, DecodeError> {
    let capability = &request.capability;
    let is_null = capability.issuer.is_empty() && capability.op_mask == 0 && capability.handles().len() == 0;
    let is_copy = |io: IoView<'_>| io.io_type == IoType::Write && io.server_ct == 1 && io.dist == DistView::Basic;
    Ok(is_null && request.io()?.is_some_and(is_copy))
}

/// Classifies a request, and determines the form of its reply.
///
/// Exempt are configuration and administration of the server itself, of a client one at a time, and requests of servers
/// to each other. A client's operation may be waiting for the latter inside a server, so queueing them behind client
/// work could deadlock.
///
/// Adds to `steps` those of [`Transfer::steps`].
fn plan(request: &RequestView<'_>, is_from_server: bool, steps: &mut u32) -> Result<(Class, Detail), DecodeError> {
    let (submission, reply) = match (request.op.class(), request.op) {
        (OpClass::Data, OpCode::Io) => {
            let Some(io) = request.io()? else { unreachable!("the operation is an IO") };
            plan_io(&io, steps)?
        }
        (OpClass::Data, _) => plan_small_io(request, steps)?,
        (_, OpCode::GetConfig) => return Ok((Class::Exempt, Detail::Config)),
        (_, OpCode::ReadDir | OpCode::MgmtIterateHandles) => (metadata(request)?, Detail::Listing),
        (_, OpCode::MgmtRemoveObject | OpCode::MgmtRemoveDirent | OpCode::MgmtGetDirdataHandle) => {
            (metadata(request)?, Detail::Plain)
        }
        (OpClass::Management, _) => return Ok((Class::Exempt, Detail::Plain)),
        // The last two are never requests: the server refuses them.
        (OpClass::Metadata | OpClass::ServerToServer | OpClass::ReplyOnly | OpClass::Internal, _) => {
            (metadata(request)?, Detail::Plain)
        }
    };
    Ok((if is_from_server { Class::Exempt } else { Class::Scheduled(submission) }, reply))
}

fn metadata(request: &RequestView<'_>) -> Result<Submission, DecodeError> {
    Ok(Submission::new(OpKind::Metadata, vpfs_core::Bytes::ZERO, Objects::new(request.objects()?.into())))
}

fn plan_io(io: &IoView<'_>, steps: &mut u32) -> Result<(Submission, Detail), DecodeError> {
    let transfer = told(io.transfer())?;
    let share = transfer.as_ref().map(Transfer::upper_bound).map_or(Ok(None), told)?;
    let start = transfer.as_ref().map(Transfer::first_physical_offset).map_or(Ok(None), told)?.flatten();
    *steps += transfer.as_ref().map_or(0, Transfer::steps);
    // If the share is unknown, the whole access is an upper bound.
    let bytes = share.unwrap_or_else(|| u64::try_from(io.aggregate_size).unwrap_or(0));
    let elsewhere = transfer.as_ref().and_then(Transfer::elsewhere);
    let reply = match (io.io_type, transfer) {
        (IoType::Write, _) => Detail::Write { expected: bytes },
        (IoType::Read, Some(transfer)) if share.is_some() => {
            Detail::Read { handle: io.handle, transfer: Box::new(transfer) }
        }
        (IoType::Read, _) => Detail::UncountedRead,
    };
    Ok((data(io, bytes, start, elsewhere), reply))
}

fn plan_small_io(request: &RequestView<'_>, steps: &mut u32) -> Result<(Submission, Detail), DecodeError> {
    let Some(small) = request.small_io()? else { unreachable!("the only other operation that moves data") };
    let io = &small.io;
    if io.io_type == IoType::Write {
        let bytes = small.total_bytes;
        return Ok((data(io, bytes, Some(0), None), Detail::SmallWrite { bytes }));
    }
    // The data fits the reply, so a small read cannot move more than this, whatever it asks for.
    let transfer = told(io.transfer())?;
    let share = transfer.as_ref().map(Transfer::upper_bound).map_or(Ok(None), told)?;
    *steps += transfer.as_ref().map_or(0, Transfer::steps);
    let bytes = share.unwrap_or(u64::MAX).min(crate::wire::bmi::MAX_UNEXPECTED);
    Ok((data(io, bytes, None, None), Detail::SmallRead { handle: io.handle }))
}

/// Clients send the data of a write in messages of this size.
const FLOW_BUFFER: vpfs_core::Bytes = vpfs_core::Bytes::kib(256);

fn data(io: &IoView<'_>, bytes: u64, start: Option<u64>, elsewhere: Option<vpfs_core::Bytes>) -> Submission {
    let kind = match io.io_type {
        IoType::Read => OpKind::Read,
        IoType::Write => OpKind::Write,
    };
    let position = start.map(|start| FilePosition { file: file_key(io.handle), start });
    let piece = (kind == OpKind::Write).then_some(FLOW_BUFFER);
    Submission { position, elsewhere, piece, ..Submission::new(kind, data_cost(bytes), Objects::ONE) }
}

/// `None` if computing the answer would take more steps than allowed for one request.
fn told<T>(result: Result<T, TransferError>) -> Result<Option<T>, DecodeError> {
    let malformed = |what| Err(DecodeError::Malformed { offset: 0, what });
    match result {
        Ok(value) => Ok(Some(value)),
        Err(TransferError::TooComplex) => Ok(None),
        Err(TransferError::Malformed(what)) => malformed(what),
        Err(TransferError::Distribution(_)) => malformed("invalid distribution parameters"),
    }
}

fn decode_header(buf: &BytesMut, side: Side) -> Result<Option<Header>, CloseReason> {
    match Header::decode(buf) {
        Ok(header) => Ok(Some(header)),
        Err(DecodeError::Incomplete { .. }) => Ok(None),
        Err(error) => Err(malformed(side, &error)),
    }
}

fn payload_len(header: &Header) -> usize {
    // At most 16 MiB, as checked by decoding.
    usize::try_from(header.size).unwrap_or(usize::MAX)
}

fn message(header: &Header, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(Header::LEN + payload.len());
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(payload);
    bytes.freeze()
}

fn malformed(side: Side, error: &DecodeError) -> CloseReason {
    CloseReason::Malformed { side, error: error.to_string() }
}

/// The complete map of one listener: every server's own address and the address announced to clients instead.
///
/// It must be complete and equal in all proxies: clients compare the configuration texts of all servers and refuse to
/// mount if one differs (OrangeFS 2.10 wire protocol, integrity check).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressMap {
    to_client: HashMap<String, String>,
    to_server: HashMap<String, String>,
}

impl AddressMap {
    /// A map of (server address, proxy address) pairs, written as in the servers' configuration: `tcp://host:port`.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut map = Self::default();
        for (server, proxy) in pairs {
            map.to_server.insert(proxy.clone(), server.clone());
            map.to_client.insert(server, proxy);
        }
        map
    }

    /// The address announced to clients instead of this server address.
    pub fn for_client(&self, server: &str) -> Option<&str> {
        self.to_client.get(server).map(String::as_str)
    }

    /// The server behind this proxy address.
    pub fn for_server(&self, proxy: &str) -> Option<&str> {
        self.to_server.get(proxy).map(String::as_str)
    }
}

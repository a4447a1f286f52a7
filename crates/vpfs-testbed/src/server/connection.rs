//! One client connection: reads messages, runs operations, keeps both within bounds.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::FutureExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use vpfs_protocol::wire::DecodeError;
use vpfs_protocol::wire::bmi::{MAX_UNEXPECTED, Mode, Tag, TooLong};
use vpfs_protocol::wire::pvfs2::reply::SmallIoResult;
use vpfs_protocol::wire::pvfs2::transfer::TransferPiece;
use vpfs_protocol::wire::pvfs2::types::op_mask;
use vpfs_protocol::wire::pvfs2::{
    Capability, Errno, Handle, IoType, Op, Reply, Request, RequestBody, Status, Transfer, TransferError, reply, request,
};
use vpfs_sim::model::device::{Io, IoKind};

use super::ops::Server;
use super::{Storage, errno_of};
use crate::device::Access;
use crate::server;
use crate::store::StoreError;
use crate::transport::{
    Chunk, Message, MessageReader, Outgoing, ReadError, chunk_len, chunks, socket_for, write_messages,
};

/// Number of replies and data chunks that may wait to be written.
const REPLY_QUEUE: usize = 32;

/// How long a partly received message may pause.
const STALL: Duration = Duration::from_secs(30);

/// Why a server closes a connection.
#[derive(Debug, thiserror::Error)]
enum CloseReason {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("request {0}")]
    Request(DecodeError),
    #[error("data for an unknown operation (tag {0})")]
    StrayData(Tag),
    #[error("tag {0} is in use already")]
    TagInUse(Tag),
    #[error("too many requests while write data is expected: {0} are waiting")]
    Backlog(usize),
    #[error("transfer: {0}")]
    Flow(#[from] FlowError),
    #[error("writing: {0}")]
    Write(#[from] std::io::Error),
    #[error("an operation panicked: {0}")]
    Panic(#[from] tokio::task::JoinError),
}

/// Serves a connection until it ends. An error ends this connection only.
pub(super) async fn serve(stream: TcpStream, peer: SocketAddr, server: Server) {
    let (alias, index) = (server.cluster.config.servers[server.index].alias.clone(), server.index);
    tracing::debug!(%peer, server = alias, "connected");
    match Connection::new(stream, server).run().await {
        Ok(()) => tracing::debug!(%peer, server = alias, "closed by the client"),
        Err(reason) => tracing::warn!(%peer, server = alias, index, %reason, "connection closed"),
    }
}

struct Connection {
    server: Server,
    reader: MessageReader<OwnedReadHalf>,
    replies: mpsc::Sender<Outgoing>,
    /// The writer comes first; it ends only with an error, because we hold a sender.
    writer: JoinSet<std::io::Result<()>>,
    /// Metadata operations and inline I/O.
    answers: JoinSet<Result<(), FlowError>>,
    /// Bulk transfers, by tag so that data finds them.
    flows: JoinSet<(Tag, Result<(), FlowError>)>,
    receivers: HashMap<Tag, mpsc::Sender<Bytes>>,
    /// Requests that wait because the limit of running operations is reached.
    backlog: VecDeque<Message>,
}

impl Connection {
    fn new(stream: TcpStream, server: Server) -> Self {
        // Without TCP_NODELAY, small replies wait for the client's delayed acknowledgements.
        let _ = stream.set_nodelay(true);
        let (read_half, write_half) = stream.into_split();
        let (replies, mut queue) = mpsc::channel(REPLY_QUEUE);
        let mut writer = JoinSet::new();
        writer.spawn(async move { write_messages(write_half, &mut queue).await }.boxed());
        let limit = server.cluster.config.flow_buffer_bytes.max(MAX_UNEXPECTED);
        Self {
            server,
            reader: MessageReader::new(read_half, limit, Some(STALL)),
            replies,
            writer,
            answers: JoinSet::new(),
            flows: JoinSet::new(),
            receivers: HashMap::new(),
            backlog: VecDeque::new(),
        }
    }

    async fn run(mut self) -> Result<(), CloseReason> {
        let result = match self.run_until_closed().await {
            Ok(()) => self.answer_the_rest().await,
            Err(reason) => Err(reason),
        };
        // Metadata operations run to their end; transfers end with the connection.
        self.answers.detach_all();
        if result.is_ok() {
            drop(self.replies);
            // The last replies; the client may be gone, which is not an error here.
            let _ = self.writer.join_next().await;
        }
        result
    }

    /// The client sends no more, but may still read: all requests are answered except writes, whose data cannot arrive.
    async fn answer_the_rest(&mut self) -> Result<(), CloseReason> {
        loop {
            self.start_waiting()?;
            self.receivers.clear();
            if self.answers.is_empty() && self.flows.is_empty() {
                return Ok(());
            }
            tokio::select! {
                Some(answered) = self.answers.join_next() => answered??,
                Some(ended) = self.flows.join_next() => match ended?.1 {
                    Err(FlowError::Closed) => {}
                    result => result?,
                },
                // The client has closed both directions.
                Some(_) = self.writer.join_next() => return Ok(()),
            }
        }
    }

    async fn run_until_closed(&mut self) -> Result<(), CloseReason> {
        loop {
            self.start_waiting()?;
            let may_read = self.may_read()?;
            tokio::select! {
                message = self.reader.next(), if may_read => match message? {
                    Some(message) => self.take(message).await?,
                    None => return Ok(()),
                },
                Some(answered) = self.answers.join_next() => answered??,
                Some(ended) = self.flows.join_next() => {
                    let (tag, result) = ended?;
                    self.receivers.remove(&tag);
                    result?;
                }
                Some(written) = self.writer.join_next() => written??,
            }
        }
    }

    /// Back-pressure: while requests wait, the connection is read only if a running write still needs data, which comes
    /// after them.
    fn may_read(&self) -> Result<bool, CloseReason> {
        match self.backlog.len() {
            0 => Ok(true),
            waiting if waiting >= self.server.cluster.limits.waiting_requests => Err(CloseReason::Backlog(waiting)),
            _ => Ok(!self.receivers.is_empty()),
        }
    }

    fn start_waiting(&mut self) -> Result<(), CloseReason> {
        while self.answers.len() + self.flows.len() < self.server.cluster.limits.running_requests.max(1)
            && let Some(message) = self.backlog.pop_front()
        {
            self.start(&message)?;
        }
        Ok(())
    }

    async fn take(&mut self, message: Message) -> Result<(), CloseReason> {
        if message.header.mode == Mode::Unexpected {
            self.backlog.push_back(message);
            return Ok(());
        }
        let tag = message.header.tag;
        let receiver = self.receivers.get(&tag).ok_or(CloseReason::StrayData(tag))?;
        // Waits while the transfer's buffers are full; the transfer needs nothing from this connection to go on.
        receiver.send(message.payload).await.map_err(|_| CloseReason::StrayData(tag))
    }

    fn start(&mut self, message: &Message) -> Result<(), CloseReason> {
        let tag = message.header.tag;
        let replies = Replies { tag, queue: self.replies.clone() };
        let server = self.server.clone();
        let request = match Request::decode(&message.payload) {
            Ok(request) => request,
            Err(DecodeError::UnknownBody(op)) => {
                self.answers.spawn(async move { replies.send(&unknown(op)).await }.boxed());
                return Ok(());
            }
            Err(error) => return Err(CloseReason::Request(error)),
        };
        let Request { capability, hints, body } = request;
        match body {
            RequestBody::Io(body) if body.io_type == IoType::Write => {
                let (sender, data) = mpsc::channel(server.cluster.config.flow_buffers.max(1));
                if self.receivers.insert(tag, sender).is_some() {
                    return Err(CloseReason::TagInUse(tag));
                }
                self.flows
                    .spawn(async move { (tag, server.write_flow(&capability, &body, data, &replies).await) }.boxed());
            }
            RequestBody::Io(body) => {
                self.flows.spawn(async move { (tag, server.read_flow(&capability, &body, &replies).await) }.boxed());
            }
            RequestBody::SmallIo(body) => {
                self.answers
                    .spawn(async move { replies.send(&server.small_io(&capability, body).await).await }.boxed());
            }
            body => {
                let request = Request { capability, hints, body };
                self.answers.spawn(async move { replies.send(&server.answer(request).await).await }.boxed());
            }
        }
        Ok(())
    }
}

/// The reply to an operation whose body is not known.
fn unknown(op: Op) -> Reply {
    Reply::error(op, Status::error(Errno::ENOSYS))
}

/// Connections that wait to be accepted, enough for the start of a large job. The kernel allows at most
/// `net.core.somaxconn`.
const BACKLOG: u32 = 4096;

/// A socket that listens at `address`.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket_for(address)?;
    // So that a restarted server does not wait for the end of old connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A listening server. Dropping it closes its port and its connections.
#[derive(Debug)]
pub(super) struct Listening {
    task: JoinHandle<()>,
}

impl Listening {
    pub(super) fn start(listener: TcpListener, server: Server) -> Self {
        Self { task: tokio::spawn(accept(listener, server).boxed()) }
    }

    /// Closes everything and returns once the port is free.
    pub(super) async fn stop(mut self) {
        self.task.abort();
        // The only possible result is that the task was aborted.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// At the limit, new connections wait in the operating system's queue.
async fn accept(listener: TcpListener, server: Server) {
    let mut connections = JoinSet::new();
    loop {
        let may_accept = connections.len() < server.cluster.limits.connections;
        tokio::select! {
            accepted = listener.accept(), if may_accept => match accepted {
                Ok((stream, peer)) => drop(connections.spawn(serve(stream, peer, server.clone()).boxed())),
                Err(error) => {
                    // Usually out of file descriptors: other connections must close before the next attempt can
                    // succeed.
                    tracing::warn!(%error, "cannot accept");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Pieces closer together than this form one access to the device, which includes the gap.
const GAP_MAX: u64 = 64 << 10;

/// Bytes of a SMALL_IO reply besides the data.
const SMALL_REPLY_OVERHEAD: u64 = 40;

/// How long a write waits for its next chunk: ServerJobFlowTimeoutSecs.
const FLOW_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a transfer closes its connection: the two sides no longer agree on what comes next.
#[derive(Debug, thiserror::Error)]
pub(super) enum FlowError {
    #[error("a data message has {got} bytes instead of {expected}")]
    WrongChunk { got: u64, expected: u64 },
    #[error("no data for {0:?}")]
    NoData(Duration),
    #[error("access: {0}")]
    Access(#[from] TransferError),
    #[error("storage: {0}")]
    Storage(#[from] StoreError),
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// The connection is already being closed.
    #[error("the connection is closed")]
    Closed,
}

/// What a running transfer needs from its connection.
#[derive(Clone, Debug)]
pub(super) struct Replies {
    pub(super) tag: Tag,
    pub(super) queue: mpsc::Sender<Outgoing>,
}

impl Replies {
    pub(super) async fn send(&self, reply: &Reply) -> Result<(), FlowError> {
        self.put(Outgoing::reply(self.tag, reply.encode())?).await
    }

    async fn put(&self, message: Outgoing) -> Result<(), FlowError> {
        self.queue.send(message).await.map_err(|_| FlowError::Closed)
    }
}

/// An I/O that was checked.
struct Checked {
    handle: Handle,
    transfer: Transfer,
    /// The datafile's size when the I/O began.
    size: u64,
    /// Bytes that will move.
    total: u64,
}

impl Server {
    /// A write: acknowledge, receive chunks, complete. Errors after the acknowledgement are reported in the completion,
    /// after the client has sent all its data.
    pub(super) async fn write_flow(
        &self,
        capability: &Capability,
        body: &request::Io,
        mut data: mpsc::Receiver<Bytes>,
        replies: &Replies,
    ) -> Result<(), FlowError> {
        let Some(io) = self.begin(capability, body, replies).await? else { return Ok(()) };
        let mut writes = InFlight::new(self.cluster.config.flow_buffers);
        let mut failed = None;
        for chunk in chunks(io.transfer.pieces(), io.total, self.cluster.config.flow_buffer_bytes) {
            let chunk = chunk?;
            let bytes = next_chunk(&mut data, &chunk).await?;
            if failed.is_none() {
                writes.push(self.storage().access(IoKind::Write, io.handle, &chunk), (chunk, bytes));
                failed = self.store_written(io.handle, writes.pop_excess().await).err();
            }
        }
        while failed.is_none()
            && let Some(written) = writes.pop().await
        {
            failed = self.store_written(io.handle, Some(written)).err();
        }
        let completion = match failed {
            None => reply::WriteCompletion { total_completed: signed(io.total) }.into(),
            Some(errno) => Reply::error(Op::WriteCompletion, Status::error(errno)),
        };
        replies.send(&completion).await
    }

    /// A read: acknowledge, send chunks. There is no end message, so a failure in the middle can only close the
    /// connection.
    pub(super) async fn read_flow(
        &self,
        capability: &Capability,
        body: &request::Io,
        replies: &Replies,
    ) -> Result<(), FlowError> {
        let Some(io) = self.begin(capability, body, replies).await? else { return Ok(()) };
        let mut reads = InFlight::new(self.cluster.config.flow_buffers);
        for chunk in chunks(io.transfer.pieces(), io.total, self.cluster.config.flow_buffer_bytes) {
            let chunk = chunk?;
            reads.push(self.storage().access(IoKind::Read, io.handle, &chunk), chunk);
            if let Some(chunk) = reads.pop_excess().await {
                self.send_chunk(io.handle, chunk, replies).await?;
            }
        }
        while let Some(chunk) = reads.pop().await {
            self.send_chunk(io.handle, chunk, replies).await?;
        }
        Ok(())
    }

    /// Sends the acknowledgement; `None` after a negative one.
    async fn begin(
        &self,
        capability: &Capability,
        body: &request::Io,
        replies: &Replies,
    ) -> Result<Option<Checked>, FlowError> {
        match self.check(capability, body.fs, body.handle, body.io_type, body.transfer()) {
            Ok(io) => {
                replies.send(&reply::Io { bstream_size: signed(io.size) }.into()).await?;
                Ok(Some(io))
            }
            Err(errno) => {
                replies.send(&Reply::error(Op::Io, Status::error(errno))).await?;
                Ok(None)
            }
        }
    }

    fn check(
        &self,
        capability: &Capability,
        fs: i32,
        handle: Handle,
        io_type: IoType,
        transfer: Result<Transfer, TransferError>,
    ) -> Result<Checked, Errno> {
        self.same_fs(fs)?;
        let needed = if io_type == IoType::Read { op_mask::READ } else { op_mask::WRITE };
        server::require(capability, needed)?;
        self.own_datafile(handle)?;
        let transfer = transfer.map_err(|_| Errno::EINVAL)?;
        let size = self.storage().store.size(handle.0);
        let total = match io_type {
            IoType::Read => transfer.read_bytes(size),
            IoType::Write => transfer.write_bytes(),
        };
        Ok(Checked { handle, transfer, size, total: total.map_err(|_| Errno::EINVAL)? })
    }

    /// Stores a chunk that the device has taken.
    fn store_written(&self, handle: Handle, written: Option<(Chunk, Bytes)>) -> Result<(), Errno> {
        let Some((chunk, bytes)) = written else { return Ok(()) };
        self.storage().write(handle, &chunk, bytes).map_err(|error| errno_of(&error))?;
        if self.own_datafile(handle).is_err() {
            // The datafile was removed meanwhile, so nothing else will free what was just written.
            self.storage().store.remove(handle.0);
            return Err(Errno::ENOENT);
        }
        Ok(())
    }

    async fn send_chunk(&self, handle: Handle, chunk: Chunk, replies: &Replies) -> Result<(), FlowError> {
        let segments = self.storage().read(handle, &chunk);
        replies.put(Outgoing::data(replies.tag, segments)?).await
    }

    /// An I/O with its data in the request or the reply.
    pub(super) async fn small_io(&self, capability: &Capability, body: request::SmallIo) -> Reply {
        let done = self.try_small_io(capability, body).await;
        done.unwrap_or_else(|errno| Reply::error(Op::SmallIo, Status::error(errno)))
    }

    async fn try_small_io(&self, capability: &Capability, body: request::SmallIo) -> Result<Reply, Errno> {
        let request::SmallIo { handle, fs, io_type, .. } = body;
        let io = self.check(capability, fs, handle, io_type, body.transfer())?;
        let whole: Chunk = match chunks(io.transfer.pieces(), io.total, u64::MAX).next() {
            None => Chunk::new(),
            Some(chunk) => chunk.map_err(|_| Errno::EINVAL)?,
        };
        let result = match io_type {
            IoType::Read if io.total + SMALL_REPLY_OVERHEAD > vpfs_protocol::wire::bmi::MAX_UNEXPECTED => {
                Err(Errno::EINVAL)
            }
            IoType::Read => {
                self.storage().access(IoKind::Read, handle, &whole).done().await;
                let segments = self.storage().read(handle, &whole);
                Ok(SmallIoResult::Read(segments.concat()))
            }
            IoType::Write if body.data.len() as u64 != io.total => Err(Errno::EINVAL),
            IoType::Write => {
                self.storage().access(IoKind::Write, handle, &whole).done().await;
                self.store_written(handle, Some((whole, body.data.into())))?;
                Ok(SmallIoResult::Written(signed(io.total)))
            }
        }?;
        Ok(reply::SmallIo { bstream_size: signed(self.storage().store.size(handle.0)), result }.into())
    }
}

impl Storage {
    /// Submits a chunk to the device now.
    fn access(&self, kind: IoKind, handle: Handle, chunk: &[TransferPiece]) -> Accesses {
        let mut accesses: Vec<Access> = Vec::new();
        let mut run: Option<(u64, u64)> = None;
        let mut submit = |(offset, end): (u64, u64)| {
            accesses.push(self.device.submit(Io { kind, object: handle.0, offset, len: end - offset }));
        };
        for piece in chunk {
            let end = piece.physical + piece.len;
            run = match run {
                Some((begin, so_far)) if (so_far..=so_far + GAP_MAX).contains(&piece.physical) => Some((begin, end)),
                other => {
                    other.into_iter().for_each(&mut submit);
                    Some((piece.physical, end))
                }
            };
        }
        run.into_iter().for_each(&mut submit);
        Accesses(accesses)
    }

    fn write(&self, handle: Handle, chunk: &Chunk, mut rest: Bytes) -> Result<(), StoreError> {
        for run in coalesce(chunk) {
            let data = rest.split_to(clamp(run.len).min(rest.len()));
            self.store.write(handle.0, run.physical, &data)?;
        }
        Ok(())
    }

    /// The bytes of a chunk. A datafile that was truncated meanwhile reads as zeros, because the length has already
    /// been announced.
    fn read(&self, handle: Handle, chunk: &Chunk) -> Vec<Bytes> {
        let piece = |run: TransferPiece| {
            let bytes = self.store.read(handle.0, run.physical, clamp(run.len));
            if bytes.len() as u64 == run.len { bytes } else { padded(&bytes, clamp(run.len)) }
        };
        coalesce(chunk).map(piece).collect()
    }
}

/// Joins pieces that are adjacent in the datafile.
fn coalesce(chunk: &[TransferPiece]) -> impl Iterator<Item = TransferPiece> {
    let mut pieces = chunk.iter().copied().peekable();
    std::iter::from_fn(move || {
        let mut run = pieces.next()?;
        while let Some(next) = pieces.next_if(|next| next.physical == run.physical + run.len) {
            run.len += next.len;
        }
        Some(run)
    })
}

fn padded(bytes: &Bytes, len: usize) -> Bytes {
    let mut padded = BytesMut::from(&bytes[..]);
    padded.resize(len, 0);
    padded.freeze()
}

/// Waits for the next chunk's data.
async fn next_chunk(data: &mut mpsc::Receiver<Bytes>, chunk: &[TransferPiece]) -> Result<Bytes, FlowError> {
    let received = timeout(FLOW_TIMEOUT, data.recv()).await.map_err(|_| FlowError::NoData(FLOW_TIMEOUT))?;
    let bytes = received.ok_or(FlowError::Closed)?;
    let (got, expected) = (bytes.len() as u64, chunk_len(chunk));
    if got == expected { Ok(bytes) } else { Err(FlowError::WrongChunk { got, expected }) }
}

/// The device accesses of one chunk.
struct Accesses(Vec<Access>);

impl Accesses {
    /// Waits for all of them.
    async fn done(self) {
        for access in self.0 {
            access.await;
        }
    }
}

/// Chunks submitted to the device, oldest first, at most as many as a flow has buffers.
struct InFlight<T> {
    chunks: VecDeque<(Accesses, T)>,
    buffers: usize,
}

impl<T> InFlight<T> {
    fn new(buffers: usize) -> Self {
        Self { chunks: VecDeque::new(), buffers: buffers.max(1) }
    }

    fn push(&mut self, accesses: Accesses, chunk: T) {
        self.chunks.push_back((accesses, chunk));
    }

    /// The oldest chunk once the device has finished it, if all buffers are in use.
    async fn pop_excess(&mut self) -> Option<T> {
        if self.chunks.len() < self.buffers { None } else { self.pop().await }
    }

    /// The oldest chunk once the device has finished it.
    async fn pop(&mut self) -> Option<T> {
        let (accesses, chunk) = self.chunks.pop_front()?;
        accesses.done().await;
        Some(chunk)
    }
}

/// Sizes and totals stay below 2⁶³: offsets on the wire are signed.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Chunk sizes fit into memory.
fn clamp(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

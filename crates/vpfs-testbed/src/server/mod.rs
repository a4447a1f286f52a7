//! Embedded file servers that speak the OrangeFS protocol to stock clients and tools.
//!
//! The servers of a cluster live in one process and share their names and attributes; each has its own address,
//! handles, store and device, and serves only what it owns, so clients see an ordinary cluster.

mod namespace;
mod ops;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, FutureExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use vpfs_protocol::wire::DecodeError;
use vpfs_protocol::wire::bmi::{MAX_UNEXPECTED, Mode, Tag};
use vpfs_protocol::wire::pvfs2::transfer::TransferPiece;
use vpfs_protocol::wire::pvfs2::types::op_mask;
use vpfs_protocol::wire::pvfs2::{
    Capability, Credential, Errno, Handle, IoType, ObjType, Op, Reply, Request, RequestBody, Status, Text,
};
use vpfs_sim::model::device::{DeviceProfile, Io, IoKind};

use crate::fsconfig::FsConfig;
use crate::storage::{Access, DeviceClock, DeviceHandle, MemoryStore, StoreError};
use crate::transport::{Chunk, Message, MessageReader, Outgoing, ReadError, socket_for, write_messages};
use namespace::{Namespace, Object};
use ops::{FlowError, Replies, Server};

/// A running cluster. Dropping it stops all servers at once.
#[derive(Debug)]
pub struct EmbeddedCluster {
    cluster: Arc<Cluster>,
    addresses: Vec<SocketAddr>,
    /// `None` for stopped servers.
    listening: Mutex<Vec<Option<Listening>>>,
}

impl EmbeddedCluster {
    /// Starts all servers; when this returns they accept connections.
    pub fn start(config: ClusterConfig) -> BoxFuture<'static, io::Result<Self>> {
        Box::pin(async move {
            let mut listeners = Vec::new();
            for address in config.listen_addresses()? {
                listeners.push(listen(address)?);
            }
            let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
            let fs = config.fs_config(&addresses)?;
            let storage = (0..config.servers).map(|server| {
                let device = DeviceHandle::start(&config.device_of(server), config.clock);
                Storage::new(MemoryStore::new(config.capacity_bytes), device, config.metadata_write_bytes)
            });
            let namespace = Namespace::new(&fs, config.objects_max, now());
            let cluster = Arc::new(Cluster::new(fs, storage.collect(), config.limits, namespace));
            let listening = listeners.into_iter().enumerate().map(|(index, listener)| {
                Some(Listening::start(listener, Server { index, cluster: Arc::clone(&cluster) }))
            });
            let listening = Mutex::new(listening.collect());
            Ok(Self { cluster, addresses, listening })
        })
    }

    /// Where the servers listen, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The configuration announced to clients.
    pub fn fs_config(&self) -> &FsConfig {
        &self.cluster.config
    }

    /// The URL for clients: the first server's advertised address and the file system's name.
    pub fn url(&self) -> String {
        let fs = self.fs_config();
        format!("{}/{}", fs.servers[0].address, fs.name)
    }

    /// Bytes stored on a server.
    pub fn used_bytes(&self, server: usize) -> u64 {
        self.cluster.storage[server].store.usage().used
    }

    /// Number of accesses that a server's device has not finished.
    pub fn outstanding(&self, server: usize) -> usize {
        self.cluster.storage[server].device.outstanding()
    }

    /// Stops one server as a crash would: closes its port and all its connections. Its data is kept.
    pub fn stop_server(&self, server: usize) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let stopped = self.lock()[server].take();
            if let Some(listening) = stopped {
                listening.stop().await;
            }
        })
    }

    /// Starts a stopped server again on its old address; no effect on a running one.
    pub fn restart_server(&self, server: usize) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            if self.lock()[server].is_some() {
                return Ok(());
            }
            let listener = listen(self.addresses[server])?;
            let started = Listening::start(listener, Server { index: server, cluster: Arc::clone(&self.cluster) });
            self.lock()[server] = Some(started);
            Ok(())
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Listening>>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Largest number of servers in one cluster.
const SERVERS_MAX: usize = 1024;

/// A cluster to start. Start from [`ClusterConfig::new`] and change fields.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Number of servers, each for metadata and data.
    pub servers: usize,
    /// Where they listen; servers beyond the list get a free port on 127.0.0.1.
    pub listen: Vec<SocketAddr>,
    /// Addresses (`host:port`) announced to clients instead; servers beyond the list announce where they listen.
    pub advertise: Vec<String>,
    /// Name of the file system, the last part of its URL.
    pub fs_name: String,
    /// Device models, taken in turn: one for all servers, or one for each.
    pub devices: Vec<DeviceProfile>,
    /// The clock that the devices run on.
    pub clock: DeviceClock,
    /// Bytes that each change of names or attributes writes to its server's device; 0 makes them free. Reading metadata
    /// is always free, because it is in memory.
    pub metadata_write_bytes: u64,
    /// Largest number of bytes that each server stores.
    pub capacity_bytes: u64,
    /// Largest number of files, directories, datafiles and links in the cluster.
    pub objects_max: usize,
    /// Size of a bulk data message in bytes.
    pub flow_buffer_bytes: u64,
    /// How many times clients retry, as announced to them.
    pub retry_limit: u32,
    /// Pause of a client before it retries on a lost connection.
    pub retry_delay: Duration,
    /// How long a client waits for a reply.
    pub reply_timeout: Duration,
    /// Limits on what clients can make a server do concurrently.
    pub limits: ServerLimits,
}

/// Limits on what clients can make one server do concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Open connections; further ones wait to be accepted.
    pub connections: usize,
    /// Operations of one connection that run concurrently; further ones wait.
    pub running_requests: usize,
    /// Requests of one connection that wait while data of running writes must still be read; a client that sends more
    /// is disconnected. Without such writes the connection is simply not read.
    pub waiting_requests: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self { connections: 1024, running_requests: 256, waiting_requests: 4096 }
    }
}

impl ClusterConfig {
    /// Servers on loopback, in memory, without a device model.
    pub fn new(servers: usize) -> Self {
        let fs = FsConfig::new("vpfs", &[]);
        Self {
            servers,
            listen: Vec::new(),
            advertise: Vec::new(),
            fs_name: fs.name,
            devices: vec![DeviceProfile::None],
            clock: DeviceClock::default(),
            metadata_write_bytes: 4096,
            capacity_bytes: 8 << 30,
            objects_max: 4_000_000,
            flow_buffer_bytes: fs.flow_buffer_bytes,
            retry_limit: fs.retry_limit,
            retry_delay: fs.retry_delay,
            reply_timeout: fs.reply_timeout,
            limits: ServerLimits::default(),
        }
    }

    fn listen_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if !(1..=SERVERS_MAX).contains(&self.servers) {
            return Err(invalid(format!("a cluster has 1 to {SERVERS_MAX} servers, not {}", self.servers)));
        }
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Ok((0..self.servers).map(|server| self.listen.get(server).copied().unwrap_or(free)).collect())
    }

    fn device_of(&self, server: usize) -> DeviceProfile {
        let turn = self.devices.iter().cycle().nth(server % self.devices.len().max(1));
        turn.cloned().unwrap_or_default()
    }

    fn fs_config(&self, listening: &[SocketAddr]) -> io::Result<FsConfig> {
        let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && c != '/');
        if !is_word(&self.fs_name) {
            return Err(invalid(format!("`{}` cannot name a file system", self.fs_name)));
        }
        if let Some(bad) = self.advertise.iter().find(|address| !is_word(address)) {
            return Err(invalid(format!("`{bad}` is not host:port")));
        }
        if !(1..=vpfs_protocol::wire::bmi::MAX_MESSAGE).contains(&self.flow_buffer_bytes) {
            return Err(invalid("flow buffers have 1 byte to 16 MiB".to_owned()));
        }
        let told = |server: usize| self.advertise.get(server).cloned().unwrap_or_else(|| listening[server].to_string());
        let addresses: Vec<_> = (0..self.servers).map(|server| format!("tcp://{}", told(server))).collect();
        let mut fs = FsConfig::new(&self.fs_name, &addresses);
        fs.flow_buffer_bytes = self.flow_buffer_bytes;
        fs.retry_limit = self.retry_limit;
        fs.retry_delay = self.retry_delay;
        (fs.reply_timeout, fs.flow_timeout) = (self.reply_timeout, self.reply_timeout);
        Ok(fs)
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Object number of a server's metadata log on its device, larger than any handle.
const LOG_OBJECT: u64 = u64::MAX;

/// Bytes after which the metadata log wraps around: the size of a common file system journal.
const LOG_BYTES: u64 = 128 << 20;

/// A cluster in one process.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) config: FsConfig,
    pub(crate) config_text: Text,
    pub(crate) storage: Vec<Storage>,
    pub(crate) limits: ServerLimits,
    pub(crate) started: Instant,
    namespace: Mutex<Namespace>,
    /// New files placed so far; spreads their first datafiles.
    placed: AtomicU64,
}

impl Cluster {
    pub(crate) fn new(config: FsConfig, storage: Vec<Storage>, limits: ServerLimits, namespace: Namespace) -> Self {
        let (namespace, config_text, started) = (Mutex::new(namespace), config.to_text().into(), Instant::now());
        Self { config, config_text, storage, limits, started, namespace, placed: AtomicU64::new(0) }
    }

    /// The namespace, locked. Never hold it across an await.
    pub(crate) fn namespace(&self) -> MutexGuard<'_, Namespace> {
        self.namespace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The storage of the server that holds `datafile`.
    pub(crate) fn storage_of(&self, datafile: Handle) -> Result<&Storage, Errno> {
        let owner = self.config.owner_of(datafile.0).ok_or(Errno::ENOENT)?;
        self.storage.get(owner).ok_or(Errno::ENOENT)
    }

    /// A number that differs from file to file.
    pub(crate) fn next_placement(&self) -> u64 {
        self.placed.fetch_add(1, Ordering::Relaxed)
    }
}

/// Pieces closer together than this form one access to the device, which includes the gap.
const GAP_MAX: u64 = 64 << 10;

/// The data of one server, and the device model that determines how long accesses take.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) store: MemoryStore,
    pub(crate) device: DeviceHandle,
    /// Bytes that each metadata change writes to the device's log; 0 for none.
    metadata_bytes: u64,
    log_offset: AtomicU64,
}

impl Storage {
    pub(crate) fn new(store: MemoryStore, device: DeviceHandle, metadata_bytes: u64) -> Self {
        Self { store, device, metadata_bytes, log_offset: AtomicU64::new(0) }
    }

    /// The device time of a metadata change: one sequential write to its log.
    pub(crate) async fn log_metadata(&self) {
        if self.metadata_bytes > 0 {
            let offset = self.log_offset.fetch_add(self.metadata_bytes, Ordering::Relaxed) % LOG_BYTES;
            let len = self.metadata_bytes;
            self.device.submit(Io { kind: IoKind::Write, object: LOG_OBJECT, offset, len }).await;
        }
    }

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

/// Chunk sizes fit into memory.
fn clamp(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The protocol's error number for a store error.
pub(crate) fn errno_of(error: &StoreError) -> Errno {
    match error {
        StoreError::Full { .. } => Errno::ENOSPC,
        StoreError::TooLarge { .. } => Errno::EFBIG,
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// The permissions needed to change a directory's entries.
const CHANGE_ENTRIES: u32 = op_mask::WRITE | op_mask::EXEC;

/// The operations that a user may perform on an object. User 0 may do everything.
fn allowed(object: &Object, credential: &Credential) -> u32 {
    let is_directory = object.objtype() == ObjType::DIRECTORY;
    let directory_only = op_mask::CREATE | op_mask::REMOVE;
    if credential.uid == 0 {
        return if is_directory { u32::MAX } else { !directory_only };
    }
    let class = match () {
        () if credential.uid == object.owner => 6,
        () if credential.gids.contains(&object.group) => 3,
        () => 0,
    };
    let bit = |perm: u32, allows: u32| if object.perms >> class & perm != 0 { allows } else { 0 };
    let mut allowed = bit(4, op_mask::READ) | bit(2, op_mask::WRITE) | bit(1, op_mask::EXEC);
    if credential.uid == object.owner {
        allowed |= op_mask::SETATTR;
    }
    if is_directory && allowed & CHANGE_ENTRIES == CHANGE_ENTRIES {
        allowed |= directory_only;
    }
    allowed
}

/// EACCES unless the capability has all bits of `needed`. Capabilities are not signed, as in default builds of
/// OrangeFS.
fn require(capability: &Capability, needed: u32) -> Result<(), Errno> {
    if capability.op_mask & needed == needed { Ok(()) } else { Err(Errno::EACCES) }
}

/// EACCES unless the capability has at least one bit of `sufficient`.
fn require_any(capability: &Capability, sufficient: u32) -> Result<(), Errno> {
    if capability.op_mask & sufficient != 0 { Ok(()) } else { Err(Errno::EACCES) }
}

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
async fn serve(stream: TcpStream, peer: SocketAddr, server: Server) {
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
    writer: JoinSet<io::Result<()>>,
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
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket_for(address)?;
    // So that a restarted server does not wait for the end of old connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A listening server. Dropping it closes its port and its connections.
#[derive(Debug)]
struct Listening {
    task: JoinHandle<()>,
}

impl Listening {
    fn start(listener: TcpListener, server: Server) -> Self {
        Self { task: tokio::spawn(accept(listener, server).boxed()) }
    }

    /// Closes everything and returns once the port is free.
    async fn stop(mut self) {
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

#[cfg(test)]
mod tests {
    use vpfs_protocol::wire::pvfs2::Attr;

    use namespace::Kind;

    use super::*;

    fn user(uid: u32, gid: u32) -> Credential {
        Credential { uid, gids: vec![gid], ..Credential::default() }
    }

    #[test]
    fn bits_follow_owner_group_and_mode() {
        let attr = Attr { owner: 5, group: 50, perms: 0o751, ..Attr::default() };
        let directory = Object::new(&attr, Kind::Directory { dirdata: Handle(9), hint: None }, 0);
        let file = Object::new(&attr, Kind::Datafile, 0);
        assert_eq!(allowed(&directory, &user(0, 0)), 0xffff_ffff);
        assert_eq!(allowed(&file, &user(0, 0)), 0xffff_ffaf);
        assert_eq!(allowed(&file, &user(5, 1)), op_mask::READ | op_mask::WRITE | op_mask::EXEC | op_mask::SETATTR);
        assert_eq!(allowed(&directory, &user(5, 1)) & op_mask::CREATE, op_mask::CREATE);
        assert_eq!(allowed(&directory, &user(6, 50)), op_mask::READ | op_mask::EXEC);
        assert_eq!(allowed(&directory, &user(6, 51)), op_mask::EXEC);
    }
}

//! State shared by all operations of a client, its setup, and how requests are sent and repeated.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use vpfs_protocol::wire::bmi::{MAX_MESSAGE, Tag};
use vpfs_protocol::wire::pvfs2::{
    Capability, Credential, Errno, Handle, Hint, Op, Reply, ReplyBody, Request, RequestBody,
};

use super::{ClientError, ClientOptions, Result};
use crate::fsconfig::{FsConfig, FsConfigError, FsServer};
use crate::transport::{MessageReader, Outgoing, socket_for, write_messages};

/// GETCONFIG is sent before the configuration is known, so it uses the stock client's fixed values.
const CONFIG_POLICY: Policy = Policy {
    retries: 5,
    delay: Duration::from_secs(2),
    reply_wait: Duration::from_secs(30),
    flow_wait: Duration::ZERO,
};

/// Lifetime of a credential in seconds. Credentials are not signed, so a new one is made for every request.
const CREDENTIAL_SECONDS: u64 = 3600;

/// Class of status codes for transport errors; only these are retried.
const TRANSPORT_CLASS: i32 = 1;

/// When to wait, when to repeat (docs/protocols/orangefs.md, time-outs and retries).
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Attempts after the first one.
    pub(super) retries: u32,
    /// Pause before an attempt on a lost connection; none after a time-out.
    pub(super) delay: Duration,
    pub(super) reply_wait: Duration,
    pub(super) flow_wait: Duration,
}

/// A mounted file system.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) config: FsConfig,
    pub(super) policy: Policy,
    pub(super) directories: Directories,
    links: Vec<Link>,
    tags: Tags,
    options: ClientOptions,
    /// The metadata server for the next new object.
    next_server: AtomicU64,
}

/// The configuration text of one server, asked once: what clients get there, or why they get none.
///
/// `address` is `host:port`; each step may take `wait`.
pub fn fetch_config(address: &str, wait: Duration) -> BoxFuture<'_, Result<Vec<u8>>> {
    Box::pin(async move {
        let policy = Policy { retries: 0, reply_wait: wait, ..CONFIG_POLICY };
        let (link, tags) = (Link::new(address, None), Tags::default());
        let asked = get_config(&link, &tags, policy);
        let silent = || failure(address, Op::GetConfig, LinkError::Silent(wait));
        tokio::time::timeout(wait, asked).await.map_err(|_| silent())?
    })
}

impl Mount {
    /// Fetches the configuration from all servers and checks that the copies are equal.
    pub(super) async fn new(options: ClientOptions) -> Result<Self> {
        let (address, fs_name) = options.split_url()?;
        let tags = Tags::default();
        let policy = overridden(CONFIG_POLICY, &options);
        let first = Link::new(address, options.local_address);
        let text = get_config(&first, &tags, policy).await?;
        let config = FsConfig::parse(&text, fs_name).map_err(|error| unusable(error, address))?;
        let mut first = Some(first);
        let link = |address: &str| {
            let known = first.take_if(|first| first.address == address);
            known.unwrap_or_else(|| Link::new(address, options.local_address))
        };
        let links = config.servers.iter().map(FsServer::host_and_port).map(link).collect::<Vec<_>>();
        for link in &links {
            if get_config(link, &tags, policy).await? != text {
                return Err(ClientError::ConfigsDiffer { first: address.to_owned(), server: link.address.clone() });
            }
        }
        let policy = Policy {
            retries: config.retry_limit,
            delay: config.retry_delay,
            reply_wait: config.reply_timeout,
            flow_wait: config.flow_timeout,
        };
        // Different clients should not all start with the same server.
        let next_server = AtomicU64::new(RandomState::new().hash_one(address));
        let policy = overridden(policy, &options);
        Ok(Self { config, policy, directories: Directories::default(), links, tags, options, next_server })
    }

    pub(super) fn credential(&self) -> Credential {
        Credential {
            uid: self.options.uid,
            gids: self.options.gids.clone(),
            issuer: format!("C:{}", self.options.host_name).into(),
            timeout: unix_seconds() + CREDENTIAL_SECONDS,
            ..Credential::default()
        }
    }

    /// The ends of all open connections.
    pub(super) fn ends(&self) -> impl Iterator<Item = (IpAddr, SocketAddr)> {
        self.links.iter().filter_map(Link::ends)
    }

    pub(super) fn uid(&self) -> u32 {
        self.options.uid
    }

    pub(super) fn gid(&self) -> u32 {
        self.options.gids.first().copied().unwrap_or(0)
    }

    /// A request whose hint names `subject`, the file or directory that the operation is for.
    pub(super) fn request(&self, capability: Capability, subject: Handle, body: impl Into<RequestBody>) -> Request {
        let named = self.options.hints.iter();
        let named = named.map(|(name, value)| Hint::Named { name: name.as_str().into(), value: value.as_str().into() });
        let hints = std::iter::once(Hint::Handle(subject)).chain(named).collect();
        Request { capability, hints, body: body.into() }
    }

    /// The server that owns `handle`.
    pub(super) fn owner(&self, handle: Handle) -> Result<usize> {
        self.config.owner_of(handle.0).ok_or(ClientError::refused(Op::GetAttr, Errno::ENOENT))
    }

    /// A server for the metadata of a new object, round robin.
    pub(super) fn pick_metadata_server(&self) -> usize {
        let servers = self.config.servers.iter().enumerate();
        let with_metadata: Vec<_> = servers.filter(|(_, server)| !server.meta_handles.is_empty()).collect();
        let turn = self.next_server.fetch_add(1, Ordering::Relaxed) % with_metadata.len() as u64;
        // A configuration without metadata servers is rejected when it is parsed.
        usize::try_from(turn).map_or(0, |turn| with_metadata[turn].0)
    }

    pub(super) fn address(&self, server: usize) -> &str {
        &self.links[server].address
    }

    /// Sends one request and returns the body of its one reply, repeating it on transport errors.
    pub(super) async fn call<R: TryFrom<ReplyBody>>(&self, server: usize, request: &Request) -> Result<R> {
        let reply = call(&self.links[server], &self.tags, self.policy, request).await?;
        R::try_from(reply).map_err(|_| self.unexpected(server, request.body.op()))
    }

    /// [`Mount::call`] with a [`Mount::request`].
    pub(super) async fn ask<R: TryFrom<ReplyBody>>(
        &self,
        server: usize,
        capability: &Capability,
        subject: Handle,
        body: impl Into<RequestBody>,
    ) -> Result<R> {
        self.call(server, &self.request(capability.clone(), subject, body)).await
    }

    /// [`Mount::ask`] at the owner of `handle`, if the reply has no fields of interest.
    pub(super) async fn tell(
        &self,
        handle: Handle,
        capability: &Capability,
        subject: Handle,
        body: impl Into<RequestBody>,
    ) -> Result<()> {
        self.ask::<ReplyBody>(self.owner(handle)?, capability, subject, body).await.map(drop)
    }

    /// Starts an exchange of several messages; repeating it is up to the caller.
    pub(super) async fn begin(
        &self,
        server: usize,
        payload: &Bytes,
        allowance: u64,
    ) -> std::result::Result<Exchange, LinkError> {
        begin(&self.links[server], &self.tags, self.policy, payload, allowance).await
    }

    /// The error for a reply of the wrong kind.
    pub(super) fn unexpected(&self, server: usize, op: Op) -> ClientError {
        ClientError::Protocol { server: self.address(server).to_owned(), what: format!("unexpected reply to {op}") }
    }

    /// The error of an operation that will not be retried.
    pub(super) fn failure(&self, server: usize, op: Op, error: LinkError) -> ClientError {
        failure(self.address(server), op, error)
    }
}

/// The error for a configuration that the server at `address` returned.
fn unusable(error: FsConfigError, address: &str) -> ClientError {
    let address = address.to_owned();
    match &error {
        FsConfigError::UnknownFileSystem { known, .. } => {
            let name = known.first().cloned().unwrap_or_default();
            ClientError::FileSystem { error, address, name }
        }
        _ => ClientError::Config { address, error },
    }
}

async fn get_config(link: &Link, tags: &Tags, policy: Policy) -> Result<Vec<u8>> {
    match call(link, tags, policy, &Request::bare(RequestBody::GetConfig)).await? {
        ReplyBody::GetConfig(body) => Ok(body.text.0),
        _ => Err(ClientError::Protocol { server: link.address.clone(), what: "no configuration".to_owned() }),
    }
}

async fn call(link: &Link, tags: &Tags, policy: Policy, request: &Request) -> Result<ReplyBody> {
    let (op, payload) = (request.body.op(), Bytes::from(request.encode()));
    let mut attempts_left = policy.retries;
    loop {
        let error = match attempt(link, tags, policy, &payload).await {
            Ok(reply) if reply.status.is_ok() => return Ok(reply.body),
            Ok(Reply { status, .. }) if status.class() != TRANSPORT_CLASS => {
                return Err(ClientError::Refused { op, status });
            }
            Ok(Reply { status, .. }) => ClientError::Refused { op, status },
            Err(error @ LinkError::Protocol(_)) => return Err(failure(&link.address, op, error)),
            Err(error) => failure(&link.address, op, error),
        };
        if attempts_left == 0 {
            return Err(error);
        }
        attempts_left -= 1;
        pause_before_retry(&error, policy).await;
    }
}

/// Waits after a lost connection, but not after a time-out.
pub(super) async fn pause_before_retry(error: &ClientError, policy: Policy) {
    if !matches!(error, ClientError::Timeout { .. }) {
        tokio::time::sleep(policy.delay).await;
    }
}

async fn attempt(link: &Link, tags: &Tags, policy: Policy, payload: &Bytes) -> std::result::Result<Reply, LinkError> {
    let mut exchange = begin(link, tags, policy, payload, MAX_MESSAGE).await?;
    let reply = exchange.receive(policy.reply_wait).await?;
    Reply::decode(&reply).map_err(|error| exchange.fail(format!("reply {error}")))
}

async fn begin(
    link: &Link,
    tags: &Tags,
    policy: Policy,
    payload: &Bytes,
    allowance: u64,
) -> std::result::Result<Exchange, LinkError> {
    let tag = tags.next();
    let message = Outgoing::request(tag, payload.clone()).map_err(|error| LinkError::Protocol(error.to_string()))?;
    link.connection().await?.begin(tag, message, allowance, policy.reply_wait).await
}

fn failure(server: &str, op: Op, error: LinkError) -> ClientError {
    let server = server.to_owned();
    match error {
        LinkError::Lost { kind, reason } => ClientError::Connection { server, kind, reason },
        LinkError::Silent(waited) => ClientError::Timeout { server, op, waited },
        LinkError::Protocol(what) => ClientError::Protocol { server, what },
    }
}

fn overridden(policy: Policy, options: &ClientOptions) -> Policy {
    Policy {
        retries: options.retry_limit.unwrap_or(policy.retries),
        delay: options.retry_delay.unwrap_or(policy.delay),
        reply_wait: options.reply_timeout.unwrap_or(policy.reply_wait),
        flow_wait: options.flow_timeout.unwrap_or(policy.flow_wait),
    }
}

pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// Longest time to wait for a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(30);

/// One server.
#[derive(Debug)]
pub(super) struct Link {
    /// `host:port`.
    pub(super) address: String,
    local: Option<IpAddr>,
    current: Mutex<Option<Arc<Connection>>>,
    /// Lets one operation connect while the others wait for it; guards nothing else.
    connecting: tokio::sync::Mutex<()>,
}

impl Link {
    pub(super) fn new(address: &str, local: Option<IpAddr>) -> Self {
        Self { address: address.to_owned(), local, current: Mutex::new(None), connecting: tokio::sync::Mutex::new(()) }
    }

    /// The open connection, or a new one.
    pub(super) async fn connection(&self) -> std::result::Result<Arc<Connection>, LinkError> {
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let _turn = self.connecting.lock().await;
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let fresh = Arc::new(Connection::open(&self.address, self.local, CONNECT_WAIT).await?);
        *self.slot() = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// The address that its connection comes from, and where that ends.
    pub(super) fn ends(&self) -> Option<(IpAddr, SocketAddr)> {
        self.open_connection().map(|connection| connection.ends)
    }

    fn open_connection(&self) -> Option<Arc<Connection>> {
        self.slot().as_ref().filter(|connection| connection.is_open()).cloned()
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives out tags: 1, 2, ... over all servers, never 0, positive as a signed 32-bit number.
#[derive(Debug, Default)]
pub(super) struct Tags(AtomicU32);

impl Tags {
    pub(super) fn next(&self) -> Tag {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        Tag(u64::from(count % (i32::MAX as u32)) + 1)
    }
}

/// Number of messages that may wait to be written.
const QUEUE: usize = 32;

/// Why an exchange failed; only the caller knows whether it may be repeated.
#[derive(Clone, Debug)]
pub(super) enum LinkError {
    /// No connection, or it broke.
    Lost { kind: io::ErrorKind, reason: String },
    /// Nothing arrived for this long.
    Silent(Duration),
    /// The server broke the protocol.
    Protocol(String),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Lost { kind: error.kind(), reason: error.to_string() }
    }
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// The address that it comes from, and where it ends.
    pub(super) ends: (IpAddr, SocketAddr),
    queue: mpsc::Sender<Outgoing>,
    waiting: Arc<Mutex<Waiting>>,
    tasks: [AbortHandle; 2],
}

/// The operations that wait for replies, by tag.
#[derive(Debug, Default)]
struct Waiting {
    by_tag: HashMap<Tag, Waiter>,
    /// Why the connection ended.
    ended: Option<LinkError>,
}

#[derive(Debug)]
struct Waiter {
    messages: mpsc::UnboundedSender<Bytes>,
    /// Payload bytes that may still come: the bound on what the channel holds.
    allowance: u64,
}

impl Connection {
    /// Connects to `address` (`host:port`), from `local` if given.
    pub(super) async fn open(
        address: &str,
        local: Option<IpAddr>,
        wait: Duration,
    ) -> std::result::Result<Self, LinkError> {
        let stream = timeout(wait, connect(address, local)).await.map_err(|_| LinkError::Silent(wait))??;
        stream.set_nodelay(true)?;
        let ends = (stream.local_addr()?.ip(), stream.peer_addr()?);
        let (read_half, write_half) = stream.into_split();
        let (queue, mut outgoing) = mpsc::channel(QUEUE);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (read_side, write_side) = (Arc::clone(&waiting), Arc::clone(&waiting));
        let reading = tokio::spawn(
            async move {
                let reason = read(read_half, &read_side).await;
                end(&read_side, reason);
            }
            .boxed(),
        );
        let writing = tokio::spawn(
            async move {
                if let Err(error) = write_messages(write_half, &mut outgoing).await {
                    end(&write_side, error.into());
                }
            }
            .boxed(),
        );
        Ok(Self { ends, queue, waiting, tasks: [reading.abort_handle(), writing.abort_handle()] })
    }

    /// Whether operations may still be started on it.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.waiting).ended.is_none()
    }

    /// Ends the connection and everything on it.
    pub(super) fn close(&self, reason: LinkError) {
        self.tasks.iter().for_each(AbortHandle::abort);
        end(&self.waiting, reason);
    }

    /// Sends a request and returns the exchange that receives its replies, of at most `allowance` payload bytes in
    /// total.
    pub(super) async fn begin(
        self: &Arc<Self>,
        tag: Tag,
        request: Outgoing,
        allowance: u64,
        wait: Duration,
    ) -> std::result::Result<Exchange, LinkError> {
        let (messages, incoming) = mpsc::unbounded_channel();
        {
            let mut waiting = lock(&self.waiting);
            if let Some(reason) = &waiting.ended {
                return Err(reason.clone());
            }
            waiting.by_tag.insert(tag, Waiter { messages, allowance });
        }
        let exchange = Exchange { connection: Arc::clone(self), tag, incoming, awaits_data: false };
        exchange.send(request, wait).await?;
        Ok(exchange)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// One operation on a connection, from request to last reply. Dropping it discards further replies.
#[derive(Debug)]
pub(super) struct Exchange {
    connection: Arc<Connection>,
    tag: Tag,
    incoming: mpsc::UnboundedReceiver<Bytes>,
    /// The server waits for data: if the exchange is dropped now, the server learns of it only if the connection is
    /// closed.
    awaits_data: bool,
}

impl Exchange {
    pub(super) fn tag(&self) -> Tag {
        self.tag
    }

    /// Marks the time during which the server waits for data from this side.
    pub(super) fn set_awaits_data(&mut self, awaits_data: bool) {
        self.awaits_data = awaits_data;
    }

    /// Sends another message; waits at most `wait` while the queue is full.
    pub(super) async fn send(&self, message: Outgoing, wait: Duration) -> std::result::Result<(), LinkError> {
        match timeout(wait, self.connection.queue.send(message)).await {
            Ok(sent) => sent.map_err(|_| self.why_ended()),
            Err(_) => Err(LinkError::Silent(wait)),
        }
    }

    /// The payload of the next message with this tag.
    pub(super) async fn receive(&mut self, wait: Duration) -> std::result::Result<Bytes, LinkError> {
        match timeout(wait, self.incoming.recv()).await {
            Ok(Some(payload)) => Ok(payload),
            Ok(None) => Err(self.why_ended()),
            Err(_) => Err(LinkError::Silent(wait)),
        }
    }

    /// Closes the connection, as the meaning of further bytes on it is no longer known.
    pub(super) fn fail(&self, what: String) -> LinkError {
        let error = LinkError::Protocol(what);
        self.connection.close(error.clone());
        error
    }

    fn why_ended(&self) -> LinkError {
        let lost = || LinkError::Lost { kind: io::ErrorKind::ConnectionReset, reason: "connection closed".to_owned() };
        lock(&self.connection.waiting).ended.clone().unwrap_or_else(lost)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        lock(&self.connection.waiting).by_tag.remove(&self.tag);
        if self.awaits_data {
            let reason = "a transfer was abandoned".to_owned();
            self.connection.close(LinkError::Lost { kind: io::ErrorKind::ConnectionAborted, reason });
        }
    }
}

/// Connects to `address` (`host:port`), from `local` if given.
pub(crate) async fn connect(address: &str, local: Option<IpAddr>) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for remote in lookup_host(address).await? {
        match connect_to(remote, local).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_to(remote: SocketAddr, local: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = socket_for(remote)?;
    if let Some(local) = local {
        socket.bind(SocketAddr::new(local, 0))?;
    }
    socket.connect(remote).await
}

/// Delivers messages to the operations that wait for them until the connection ends; returns the reason.
async fn read(stream: OwnedReadHalf, waiting: &Mutex<Waiting>) -> LinkError {
    let mut reader = MessageReader::new(stream, MAX_MESSAGE, None);
    loop {
        let message = match reader.next().await {
            Ok(Some(message)) => message,
            Ok(None) => {
                let reason = "closed by the server".to_owned();
                return LinkError::Lost { kind: io::ErrorKind::ConnectionReset, reason };
            }
            Err(error) => return LinkError::Lost { kind: io::ErrorKind::InvalidData, reason: error.to_string() },
        };
        let mut waiting = lock(waiting);
        // A late reply to an operation that was given up is not an error.
        let Some(waiter) = waiting.by_tag.get_mut(&message.header.tag) else { continue };
        let Some(left) = waiter.allowance.checked_sub(message.payload.len() as u64) else {
            return LinkError::Protocol("more data than was asked for".to_owned());
        };
        waiter.allowance = left;
        // The receiver may have been dropped a moment ago.
        let _ = waiter.messages.send(message.payload);
    }
}

/// Records why the connection ended (the first reason stays) and wakes all waiting operations.
fn end(waiting: &Mutex<Waiting>, reason: LinkError) {
    let mut waiting = lock(waiting);
    waiting.ended.get_or_insert(reason);
    waiting.by_tag.clear();
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a directory's attributes are cached: the stock client's attribute cache time.
const LIFE: Duration = Duration::from_secs(5);

/// Number of directories cached; beyond it, the cache is cleared.
const KNOWN_MAX: usize = 4096;

/// What is needed to use a directory.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) handle: Handle,
    /// The object that holds its entries.
    pub(super) dirdata: Handle,
    pub(super) capability: Capability,
    pub(super) fetched: Instant,
}

/// The directories used lately.
#[derive(Debug, Default)]
pub(super) struct Directories(Mutex<HashMap<Handle, Arc<Directory>>>);

impl Directories {
    pub(super) fn get(&self, handle: Handle) -> Option<Arc<Directory>> {
        self.lock().get(&handle).filter(|directory| directory.fetched.elapsed() < LIFE).cloned()
    }

    pub(super) fn put(&self, directory: &Arc<Directory>) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(directory.handle, Arc::clone(directory));
    }

    pub(super) fn forget(&self, handle: Handle) {
        self.lock().remove(&handle);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Handle, Arc<Directory>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

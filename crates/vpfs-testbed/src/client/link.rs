//! The connection to one server, and the exchanges of messages on it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::FutureExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use vpfs_protocol::wire::bmi::{MAX_MESSAGE, Tag};

use crate::transport::{MessageReader, Outgoing, socket_for, write_messages};

const CONNECT_WAIT: Duration = Duration::from_secs(30);

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

const QUEUE: usize = 32;

/// Why an exchange failed; only the caller knows whether it may be repeated.
#[derive(Clone, Debug)]
pub(super) enum LinkError {
    Lost { kind: io::ErrorKind, reason: String },
    Silent(Duration),
    Protocol(String),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Lost { kind: error.kind(), reason: error.to_string() }
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    /// The address that it comes from, and where it ends.
    ends: (IpAddr, SocketAddr),
    queue: mpsc::Sender<Outgoing>,
    waiting: Arc<Mutex<Waiting>>,
    tasks: [AbortHandle; 2],
}

#[derive(Debug, Default)]
struct Waiting {
    by_tag: HashMap<Tag, Waiter>,
    ended: Option<LinkError>,
}

#[derive(Debug)]
struct Waiter {
    messages: mpsc::UnboundedSender<Bytes>,
    /// Payload bytes that may still come: the bound on what the channel holds.
    allowance: u64,
}

impl Connection {
    async fn open(address: &str, local: Option<IpAddr>, wait: Duration) -> std::result::Result<Self, LinkError> {
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

    fn is_open(&self) -> bool {
        lock(&self.waiting).ended.is_none()
    }

    fn close(&self, reason: LinkError) {
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

    pub(super) async fn send(&self, message: Outgoing, wait: Duration) -> std::result::Result<(), LinkError> {
        match timeout(wait, self.connection.queue.send(message)).await {
            Ok(sent) => sent.map_err(|_| self.why_ended()),
            Err(_) => Err(LinkError::Silent(wait)),
        }
    }

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

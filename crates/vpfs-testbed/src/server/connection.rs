//! One client connection: reads messages, runs operations, keeps both within bounds.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::FutureExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use vpfs_protocol::wire::DecodeError;
use vpfs_protocol::wire::bmi::{MAX_UNEXPECTED, Mode, Tag};
use vpfs_protocol::wire::pvfs2::{Errno, IoType, Op, Reply, Request, RequestBody, Status};

use super::ops::{FlowError, Replies, Server};
use crate::transport::{Message, MessageReader, Outgoing, ReadError, socket_for, write_messages};

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

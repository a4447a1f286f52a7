//! One client connection: opens its server connection and moves bytes as its [`Session`] directs, in any protocol.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::sync::watch;
use vpfs_core::{RequestId, Time};
use vpfs_session::{Action, CloseReason, Completed, OpId, Outbound, Outcome, Session, Side};

use crate::gate::Gate;
use crate::identity::ClientIdentity;
use crate::limits::DaemonLimits;
use crate::listener::Listener;
use crate::mailbox::{Dispatched, Mailbox};
use crate::memory::{LITTLE, STEP, Scarce, Share};
use crate::shared::{Shared, Stage, left_serving};
use crate::sockets::{prepare, reset_on_close};

/// Bytes read at once from a socket; one bulk message of the default flow buffer size.
pub(crate) const READ_SIZE: usize = 256 << 10;
/// A read buffer with less room than this is replaced or reclaimed.
const MIN_READ: usize = 32 << 10;
/// After moving this number of bytes, a task yields to the others of its thread, even if it could move more at once.
const TURN: usize = 1 << 20;

/// How long a drained connection waits for its client to close: many round trips, for the last replies to arrive.
const LINGER: Duration = Duration::from_millis(250);

/// How a connection ended without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both sides are done.
    Closed,
    /// The daemon is draining and nothing was in progress.
    Drained,
    /// The daemon stopped, regardless of operations in progress.
    Stopped,
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The server cannot be reached.
    #[error("cannot connect to the server: {0}")]
    Upstream(io::Error),
    /// A socket failed.
    #[error("{side} connection failed: {error}")]
    Io {
        /// The side that failed.
        side: Side,
        /// The error of the socket.
        error: io::Error,
    },
    /// Nothing moved for too long.
    #[error("timed out: {0}")]
    TimedOut(&'static str),
    /// A write waits for its data, and no memory is left for the requests in front of that data.
    #[error("limits.memory or limits.host_memory is used up while write data is expected")]
    OutOfMemory,
    /// A peer misbehaved.
    #[error("{0}")]
    Refused(CloseReason),
}

/// Serves one accepted connection until either side ends.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    listener: Arc<Listener>,
    client: TcpStream,
    peer: SocketAddr,
) -> Result<End, Failure> {
    let mut stage = shared.stage();
    let connected = tokio::select! {
        connected = connect(&shared, &listener) => connected,
        () = left_serving(&mut stage) => return Ok(End::Drained),
    };
    let server = match connected {
        Ok(server) => server,
        Err(error) => {
            reset_on_close(&client);
            return Err(Failure::Upstream(error));
        }
    };
    listener.reached();
    let mut connection = Connection::new(shared, listener, client, server, peer);
    let ended = connection.run().await;
    connection.release();
    match ended {
        Ok(End::Closed) => {}
        Ok(End::Drained) => connection.linger().await,
        Ok(End::Stopped) | Err(_) => reset_on_close(&connection.client.stream),
    }
    ended
}

async fn connect(shared: &Shared, listener: &Listener) -> io::Result<TcpStream> {
    let (host, port) = &listener.upstream;
    let connecting = TcpStream::connect((host.as_str(), *port));
    let timeout = shared.rules().limits.connect_timeout;
    let stream = tokio::time::timeout(timeout, connecting)
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no answer within limits.connect_timeout"))??;
    prepare(&stream)?;
    Ok(stream)
}

/// A socket and the bytes read from it that are not a complete message yet.
struct Half {
    stream: TcpStream,
    buf: BytesMut,
    eof: bool,
    write_closed: bool,
}

impl Half {
    fn new(stream: TcpStream) -> Self {
        Self { stream, buf: BytesMut::new(), eof: false, write_closed: false }
    }

    /// Reads available bytes, at most `most`, without waiting. `None` if no bytes are available, `Some(0)` at the end
    /// of file.
    fn try_read(&mut self, most: usize) -> io::Result<Option<usize>> {
        if self.buf.capacity() - self.buf.len() < MIN_READ {
            // The bytes left in the buffer are subtracted, so that its allocation can be reused.
            self.buf.reserve(READ_SIZE.saturating_sub(self.buf.len()).max(MIN_READ));
        }
        match self.stream.try_read_buf(&mut (&mut self.buf).limit(most)) {
            Ok(count) => {
                self.eof = count == 0;
                Ok(Some(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes as much as the socket accepts, without waiting.
    fn try_write(&self, out: &mut Outbound) -> io::Result<()> {
        while !out.is_empty() {
            let mut slices = [io::IoSlice::new(&[]); 16];
            let filled = out.slices(&mut slices);
            match self.stream.try_write_vectored(&slices[..filled]) {
                Ok(count) => out.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn interest(&self, read: bool, write: bool) -> Option<Interest> {
        let read = (read && !self.eof).then_some(Interest::READABLE);
        match (read, write.then_some(Interest::WRITABLE)) {
            (Some(read), Some(write)) => Some(read.add(write)),
            (read, write) => read.or(write),
        }
    }

    /// Waits until one of `interest` is possible; for ever if there is none. Cancel safe.
    async fn ready(&self, interest: Option<Interest>) -> io::Result<()> {
        match interest {
            Some(interest) => self.stream.ready(interest).await.map(drop),
            None => std::future::pending().await,
        }
    }
}

struct Connection {
    shared: Arc<Shared>,
    listener: Arc<Listener>,
    limits: DaemonLimits,
    client: Half,
    server: Half,
    session: Box<dyn Session>,
    mailbox: Arc<Mailbox>,
    /// The gate's ids of the session's operations.
    requests: Vec<Option<RequestId>>,
    dispatched: Vec<Dispatched>,
    identity: ClientIdentity,
    memory: Share,
    stage: watch::Receiver<Stage>,
    /// The daemon started draining while operations were in progress.
    drains: bool,
    /// Bytes moved since the task last yielded.
    turn: usize,
    /// After the end of the session: the time limit for the client to receive the remaining bytes.
    flush_until: Option<Time>,
}

impl Connection {
    fn new(
        shared: Arc<Shared>,
        listener: Arc<Listener>,
        client: TcpStream,
        server: TcpStream,
        peer: SocketAddr,
    ) -> Self {
        let rules = shared.rules();
        let limits = rules.limits;
        let requester = rules.requester(peer.ip());
        let identity = ClientIdentity::new(&shared, peer.ip(), listener.index);
        let memory = Share::new(Arc::clone(&shared.memory), Arc::clone(identity.host()));
        Self {
            limits,
            client: Half::new(client),
            server: Half::new(server),
            session: listener.interposer.session(limits.session, requester),
            mailbox: Arc::new(Mailbox::default()),
            requests: Vec::new(),
            dispatched: Vec::new(),
            identity,
            memory,
            stage: shared.stage(),
            drains: false,
            turn: 0,
            flush_until: None,
            shared,
            listener,
        }
    }

    async fn run(&mut self) -> Result<End, Failure> {
        loop {
            self.settle()?;
            self.count_memory()?;
            if let Some(end) = self.end() {
                return Ok(end);
            }
            self.pass_on_half_close().await?;
            if self.turn >= TURN {
                // Waiting for a socket that is ready does not yield to other tasks.
                self.turn = 0;
                tokio::task::yield_now().await;
            }
            self.step().await?;
        }
    }

    /// Waits for an event, then reads from both sides.
    async fn step(&mut self) -> Result<(), Failure> {
        let (from_client, from_server) = (self.client_room() > 0, self.server_room() > 0);
        let client_interest = self.client.interest(from_client, !self.session.to_client().is_empty());
        let server_interest = self.server.interest(from_server, !self.session.to_server().is_empty());
        let is_scarce = self.memory.is_scarce();
        let deadline = self.deadline().map(|at| self.shared.clock.instant(at));
        tokio::select! {
            ready = self.client.ready(client_interest) => ready.map_err(io_error(Side::Client))?,
            ready = self.server.ready(server_interest) => ready.map_err(io_error(Side::Server))?,
            () = self.mailbox.filled() => {}
            () = self.memory.eased(), if is_scarce => {}
            _ = self.stage.changed() => {}
            () = sleep_until(deadline) => self.handle_timeout()?,
        }
        self.read()
    }

    /// How the connection ends, if it ends now.
    fn end(&mut self) -> Option<End> {
        if self.session.is_closed() && self.session.to_client().is_empty() {
            return Some(End::Closed);
        }
        // Once a client has disconnected and has its answers, there is no reason to wait for the server to close.
        if self.client.eof {
            self.session.drain();
            if self.session.is_idle() {
                return Some(End::Closed);
            }
        }
        match *self.stage.borrow_and_update() {
            Stage::Serving => None,
            Stage::Draining => {
                self.session.drain();
                if self.session.is_idle() {
                    return Some(End::Drained);
                }
                self.drains = true;
                None
            }
            Stage::Stopped => Some(End::Stopped),
        }
    }

    /// When to act if nothing arrives.
    fn deadline(&mut self) -> Option<Time> {
        if !self.session.is_closed() {
            return self.session.poll_timeout();
        }
        let (clock, patience) = (&self.shared.clock, self.limits.session.flow_timeout);
        Some(*self.flush_until.get_or_insert_with(|| clock.now() + patience))
    }

    fn handle_timeout(&mut self) -> Result<(), Failure> {
        if self.session.is_closed() {
            return Err(Failure::TimedOut("the client did not receive the last bytes from the server"));
        }
        let now = self.shared.clock.now();
        self.session.handle_timeout(now);
        // Data that waited for its turn was already read.
        self.session.handle_client(now, &mut self.client.buf);
        Ok(())
    }

    /// The number of bytes to read from the client at once; zero if the client has to wait.
    fn client_room(&mut self) -> usize {
        if !self.session.wants_client() {
            return 0;
        }
        if !self.memory.is_scarce() {
            return READ_SIZE;
        }
        let takes_requests = self.session.held_requests() < LITTLE || self.session.must_read_client();
        if takes_requests && self.session.to_server().held() < LITTLE { STEP } else { 0 }
    }

    /// The same for the server. Replies do not wait as long as the client keeps receiving them.
    fn server_room(&mut self) -> usize {
        match (self.session.wants_server(), self.memory.is_scarce()) {
            (false, _) => 0,
            (true, false) => READ_SIZE,
            (true, true) if self.session.to_client().held() < LITTLE => STEP,
            (true, true) => 0,
        }
    }

    /// Reads available bytes from both sockets, as far as the session wants them and memory allows.
    fn read(&mut self) -> Result<(), Failure> {
        let room = self.client_room();
        if room > 0
            && !self.client.eof
            && let Some(count) = self.client.try_read(room).map_err(io_error(Side::Client))?
        {
            self.turn += count;
            self.session.handle_client(self.shared.clock.now(), &mut self.client.buf);
            if self.client.eof {
                self.session.handle_client_eof(self.client.buf.len());
            }
        }
        let room = self.server_room();
        if room > 0
            && !self.server.eof
            && let Some(count) = self.server.try_read(room).map_err(io_error(Side::Server))?
        {
            self.turn += count;
            self.session.handle_server(self.shared.clock.now(), &mut self.server.buf);
            if self.server.eof {
                self.session.handle_server_eof(self.server.buf.len());
            }
        }
        Ok(())
    }

    /// Executes actions and dispatches until there are none, then writes.
    fn settle(&mut self) -> Result<(), Failure> {
        loop {
            while let Some(action) = self.session.poll_action() {
                self.act(action)?;
            }
            self.mailbox.take(&mut self.dispatched);
            if self.dispatched.is_empty() {
                break;
            }
            let now = self.shared.clock.now();
            for index in 0..self.dispatched.len() {
                let Dispatched { op, pieces } = self.dispatched[index];
                // A dispatch may cross a cancellation; then the request is gone. Its number has not been reused,
                // because requests are cancelled only when no others follow.
                if self.request_of(op).is_some() {
                    self.session.dispatch(now, op, pieces);
                }
            }
            self.dispatched.clear();
        }
        self.client.try_write(self.session.to_client()).map_err(io_error(Side::Client))?;
        self.server.try_write(self.session.to_server()).map_err(io_error(Side::Server))
    }

    /// Updates the count of memory held; called after everything that can be sent was sent.
    fn count_memory(&mut self) -> Result<(), Failure> {
        let requests = self.session.held_requests();
        let held = [requests, self.session.to_server().held(), self.session.to_client().held()];
        let has_more_requests = requests > self.memory.requests() && requests >= LITTLE;
        match self.memory.set(held) {
            None => {}
            Some(Scarce::Process) => tracing::warn!("limits.memory is nearly used up; connections wait"),
            Some(Scarce::Host) => {
                let client = self.identity.ip();
                tracing::warn!(%client, "limits.host_memory is nearly used up; connections from this host wait");
            }
        }
        // Any other connection would simply not be read. This one must be, because its write occupies slots of the
        // server.
        if has_more_requests && self.session.must_read_client() && self.memory.is_used_up() {
            return Err(Failure::OutOfMemory);
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::Enqueue(op, submission) => {
                let app = self.identity.app(&self.shared, submission.user.as_ref());
                let id = self.gate().enqueue(&self.mailbox, op, app, &submission);
                let index = op.index();
                if self.requests.len() <= index {
                    self.requests.resize(index + 1, None);
                }
                let before = self.requests[index].replace(id);
                assert!(before.is_none(), "an operation is enqueued only once");
            }
            Action::CorrectCost(op, real) => {
                if let Some(id) = self.request_of(op) {
                    self.gate().correct_cost(id, real);
                }
            }
            Action::CorrectObjects(op, real) => {
                if let Some(id) = self.request_of(op) {
                    self.gate().correct_objects(id, real);
                }
            }
            Action::Complete(completed) => {
                if let Some(id) = self.take_request(completed.op) {
                    self.gate().complete(id, &completed);
                }
                return still_alive(&completed);
            }
            Action::Cancel(op) => {
                if let Some(id) = self.take_request(op) {
                    self.gate().cancel(id);
                }
            }
            Action::Release(op) => {
                if let Some(id) = self.request_of(op) {
                    self.gate().release(id);
                }
            }
            Action::SizeLearned { file, size } => self.gate().learn_size(file, size),
            Action::UnmappedServer(address) => self.shared.warn_unmapped(&address),
            Action::ClaimsServer => self.shared.warn_unknown_server(self.identity.ip()),
            Action::Close(reason) => return Err(Failure::Refused(reason)),
        }
        Ok(())
    }

    /// Gives a client time to receive its last replies: it may already be sending its next request, and closing a
    /// socket with unread bytes sends a reset, which overtakes those replies.
    async fn linger(&mut self) {
        if !self.drains || self.client.stream.shutdown().await.is_err() {
            return;
        }
        let mut scrap = vec![0; 16 << 10];
        let until_end = async { while let Ok(1..) = self.client.stream.read(&mut scrap).await {} };
        tokio::select! {
            _ = tokio::time::timeout(LINGER, until_end) => {}
            _ = self.stage.wait_for(|stage| *stage == Stage::Stopped) => {}
        }
    }

    /// Returns everything to the gate, however the connection ended.
    fn release(&mut self) {
        self.session.end();
        while let Some(action) = self.session.poll_action() {
            // The connection ends in any case, so a further reason does not matter.
            let _ = self.act(action);
        }
        debug_assert!(self.requests.iter().all(Option::is_none), "an ended session has no requests");
    }
}

impl Connection {
    fn gate(&self) -> &Gate {
        &self.listener.gate
    }

    fn request_of(&self, op: OpId) -> Option<RequestId> {
        self.requests.get(op.index()).copied().flatten()
    }

    fn take_request(&mut self, op: OpId) -> Option<RequestId> {
        self.requests.get_mut(op.index()).and_then(Option::take)
    }

    /// Once the client is done and everything it sent was passed on, half-closes the connection to the server.
    async fn pass_on_half_close(&mut self) -> Result<(), Failure> {
        if self.session.server_side_done() && !self.server.write_closed {
            self.server.write_closed = true;
            self.server.stream.shutdown().await.map_err(io_error(Side::Server))?;
        }
        Ok(())
    }
}

impl Drop for Connection {
    /// A task may also end by a panic or when its runtime shuts down; the slots of its requests must be freed then as
    /// well.
    fn drop(&mut self) {
        let left = self.requests.iter().copied().flatten();
        // If the scheduler itself panicked, a second panic here would abort the whole process.
        if !self.gate().is_broken() {
            left.for_each(|id| self.gate().cancel(id));
        }
    }
}

/// An operation that timed out may still be running in the server. Only closing its connection ends it there and makes
/// the client repeat it.
fn still_alive(completed: &Completed) -> Result<(), Failure> {
    match completed.outcome {
        Outcome::TimedOut => Err(Failure::TimedOut("an operation made no progress")),
        Outcome::Answered { .. } | Outcome::Disconnected => Ok(()),
    }
}

fn io_error(side: Side) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Io { side, error }
}

async fn sleep_until(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;
    use vpfs_config::{AppTable, Config};
    use vpfs_session::orangefs::{AddressMap, OrangeFs};
    use vpfs_wire::bmi::{Tag, request_message};
    use vpfs_wire::pvfs2::{Handle, Request, RequestBody, request};

    use super::*;
    use crate::clock::Clock;
    use crate::shared::Rules;

    /// One slot in front of a server that only receives requests.
    struct Place {
        server: TcpListener,
        clients: TcpListener,
        shared: Arc<Shared>,
        listener: Arc<Listener>,
    }

    impl Place {
        async fn new() -> Self {
            let [server, clients] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0"));
            let (server, clients) = (server.await.unwrap(), clients.await.unwrap());
            let text = "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n\
                        [scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n";
            let config = Config::parse("test", text).unwrap();
            let (apps, clock) = (AppTable::new(&config), Clock::start());
            let gate = Arc::new(Gate::new(
                clock.clone(),
                vpfs_core::ServerId(0),
                crate::post::Post::default(),
                &config,
                &apps,
            ));
            let listener = Listener {
                server: "s".to_owned(),
                upstream: ("127.0.0.1".to_owned(), server.local_addr().unwrap().port()),
                index: 0,
                interposer: Arc::new(OrangeFs::new(AddressMap::default())),
                gate: Arc::clone(&gate),
                down: false.into(),
            };
            let rules = Rules::resolved(&config);
            let shared = Arc::new(Shared::new(clock, vec![gate], rules, apps));
            Self { server, clients, shared, listener: Arc::new(listener) }
        }

        /// A served client, and the connection that was opened for it.
        async fn client(&self) -> (TcpStream, TcpStream, JoinHandle<Result<End, Failure>>) {
            let client = TcpStream::connect(self.clients.local_addr().unwrap()).await.unwrap();
            let (accepted, peer) = self.clients.accept().await.unwrap();
            let task = tokio::spawn(serve(Arc::clone(&self.shared), Arc::clone(&self.listener), accepted, peer));
            (client, self.server.accept().await.unwrap().0, task)
        }
    }

    fn requests(tags: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let body = request::Flush { handle: Handle(1), fs: 1, flags: 0 };
        let payload = Request::bare(RequestBody::Flush(body)).encode();
        tags.into_iter().flat_map(|tag| request_message(Tag(tag), &payload).unwrap()).collect()
    }

    /// Symptom: fewer slots than configured after a session's task had panicked. Cause: only the orderly end of a task
    /// freed the slots of its requests. A cancelled task ends in the same way.
    #[tokio::test]
    async fn an_aborted_task_frees_its_slots() {
        let place = Place::new().await;
        let (mut first, mut first_server, task) = place.client().await;
        let (mut second, mut second_server, _task) = place.client().await;
        let expected = requests([1]);
        let mut arrived = vec![0; expected.len()];
        // The first connection has the slot, and more of its requests are queued.
        first.write_all(&requests(1..=5)).await.unwrap();
        first_server.read_exact(&mut arrived).await.unwrap();
        second.write_all(&expected).await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        second_server.read_exact(&mut arrived).await.unwrap();
        assert_eq!(arrived, expected);
        assert_eq!(first_server.read(&mut arrived).await.unwrap(), 0);
    }
}

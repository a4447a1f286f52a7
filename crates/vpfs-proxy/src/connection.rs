//! One client connection: opens its server connection and moves bytes as its [`Session`] directs, in any protocol.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::sync::watch;
use vpfs_core::Time;
use vpfs_protocol::session::{Action, CloseReason, Completed, Next, Outcome, Session, Side, Suspended, User};

use crate::check::Exhausted;
use crate::clock::Alarm;
use crate::event_log::Kind;
use crate::gate::{Dispatched, Gate, Mailbox, Requests, trim};
use crate::handover::Handed;
use crate::hosts::Seat;
use crate::memory::{DaemonLimits, LITTLE, READ_SIZE, STEP, Scarce, Share};
use crate::shared::{ClientIdentity, Shared, Stage, reached};
use crate::sockets::{Listener, reset_on_close};
#[cfg(test)]
use crate::stream::simulated;
use crate::stream::{Half, Stream};

/// After moving this number of bytes, a task yields to the others of its thread, even if it could move more at once.
const TURN: usize = 1 << 20;

/// Bytes to read of what may be the start of a long message, the rest of which need not be copied. A small request or
/// reply with its data is no longer.
const FIRST_READ: usize = 16 << 10;

/// The rest of a message that is at least this long is not read. For a shorter one, the system calls cost more than the
/// copies that they save, and it is read together with what follows it.
const LONG_REST: usize = 32 << 10;

/// No segment of TCP has more bytes.
const LONGEST_SEGMENT: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Drained,
    HandedOver,
    /// Nothing was in progress, and another host got its place.
    GaveWay,
    /// The daemon stopped, regardless of operations in progress.
    Stopped,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot connect to the server: {0}")]
    Upstream(io::Error),
    #[error("{0}")]
    NoDescriptors(Exhausted),
    #[error("{side} connection failed: {error}")]
    Io { side: Side, error: io::Error },
    #[error("timed out: {0}")]
    TimedOut(&'static str),
    /// A write waits for its data, and no memory is left for the requests in front of that data.
    #[error("limits.memory or limits.host_memory is used up while write data is expected")]
    OutOfMemory,
    #[error("{0}")]
    Refused(CloseReason),
}

impl Failure {
    /// What to log about it, and which side is to blame, as far as that is known; `None` for what happens without a
    /// fault of either.
    pub(crate) fn blame(&self) -> Option<(Side, Kind)> {
        Some(match self {
            Self::Upstream(_) | Self::Io { .. } | Self::NoDescriptors(_) => return None,
            Self::TimedOut(_) | Self::Refused(CloseReason::Incomplete) => (Side::Client, Kind::TimedOut),
            Self::OutOfMemory => (Side::Client, Kind::OutOfMemory),
            Self::Refused(CloseReason::Malformed { side, .. }) => (*side, Kind::Malformed),
            Self::Refused(CloseReason::Violation { side, .. }) => (*side, Kind::Violation),
            Self::Refused(CloseReason::Truncated(side)) => (*side, Kind::Truncated),
            Self::Refused(CloseReason::Config(_)) => (Side::Server, Kind::Configuration),
        })
    }
}

pub(crate) enum Newcomer {
    Accepted(TcpStream),
    Inherited(Handed),
    #[cfg(test)]
    Simulated(simulated::Socket, simulated::Socket),
}

/// Serves one connection until either side ends. Returns how it ended, and what the server still does for it.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    listener: Arc<Listener>,
    newcomer: Newcomer,
    peer: SocketAddr,
    seat: Arc<Seat>,
) -> (Result<End, Failure>, Option<Abandoned>) {
    let (client, server, user) = match pair(&shared, &listener, newcomer).await {
        Ok(Some(pair)) => pair,
        Ok(None) => return (Ok(End::Drained), None),
        Err(failure) => return (Err(failure), None),
    };
    let mut connection = Connection::new(shared, listener, [client, server], (peer, seat), user);
    let ended = connection.run().await;
    match ended {
        Ok(End::HandedOver) => {
            connection.hand_over();
            return (ended, None);
        }
        Ok(End::Closed) => {}
        Ok(End::Drained) => connection.end_quietly().await,
        Ok(End::Stopped | End::GaveWay) | Err(_) => connection.client.stream.reset_on_close(),
    }
    if matches!(ended, Err(Failure::Io { side: Side::Server, .. })) {
        connection.server.eof = true;
    }
    let abandoned = connection.abandon();
    (ended, abandoned)
}

/// A newcomer's two sockets and its user; `None` if the daemon drains before the server has answered.
async fn pair(
    shared: &Shared,
    listener: &Listener,
    newcomer: Newcomer,
) -> Result<Option<(Half, Half, Option<Arc<User>>)>, Failure> {
    let client = match newcomer {
        Newcomer::Accepted(client) => client,
        Newcomer::Inherited(handed) => {
            let half = |stream, bytes, side| Half::inherited(stream, bytes).map_err(io_error(side));
            let client = half(handed.client, handed.from_client, Side::Client)?;
            let server = half(handed.server, handed.from_server, Side::Server)?;
            return Ok(Some((client, server, handed.user)));
        }
        #[cfg(test)]
        Newcomer::Simulated(client, server) => {
            let half = |socket| Half::new(Stream::Simulated(socket));
            return Ok(Some((half(client), half(server), None)));
        }
    };
    let mut stage = shared.stage();
    let connected = tokio::select! {
        connected = listener.connect(shared.rules().limits.connect_timeout) => connected,
        () = reached(&mut stage, Stage::Draining) => return Ok(None),
    };
    let server = connected.map_err(|error| {
        reset_on_close(&client);
        Exhausted::of(&error).map_or(Failure::Upstream(error), Failure::NoDescriptors)
    })?;
    listener.reached();
    Ok(Some((Half::new(Stream::Tcp(client)), Half::new(Stream::Tcp(server)), None)))
}

struct Connection {
    shared: Arc<Shared>,
    listener: Arc<Listener>,
    limits: DaemonLimits,
    /// Of the rules by which the session knows who its client is.
    generation: u64,
    client: Half,
    server: Half,
    session: Box<dyn Session>,
    mailbox: Arc<Mailbox>,
    requests: Requests,
    dispatched: Vec<Dispatched>,
    identity: ClientIdentity,
    memory: Share,
    stage: watch::Receiver<Stage>,
    seat: Arc<Seat>,
    alarm: Alarm,
    suspended: Option<Suspended>,
    turn: usize,
    /// After the end of the session: the time limit for the client to receive the remaining bytes.
    flush_until: Option<Time>,
}

impl Connection {
    fn new(
        shared: Arc<Shared>,
        listener: Arc<Listener>,
        [client, server]: [Half; 2],
        (peer, seat): (SocketAddr, Arc<Seat>),
        user: Option<Arc<User>>,
    ) -> Self {
        // Before the rules, so that newer ones are noticed.
        let generation = shared.generation();
        let rules = shared.rules();
        let limits = rules.limits;
        let requester = rules.requester(peer.ip());
        let identity = ClientIdentity::new(&shared, peer.ip(), listener.index);
        let mut session = listener.interposer.session(limits.session, requester, user);
        session.set_patience(identity.host().patience.at(shared.clock.now()));
        let memory = Share::new(Arc::clone(&shared.memory), Arc::clone(identity.host()));
        Self {
            limits,
            generation,
            client,
            server,
            session,
            mailbox: Arc::clone(&seat.mailbox),
            requests: Requests::new(Arc::clone(&listener.gate)),
            dispatched: Vec::new(),
            identity,
            memory,
            stage: shared.stage(),
            seat,
            alarm: Alarm::default(),
            suspended: None,
            turn: 0,
            flush_until: None,
            shared,
            listener,
        }
    }

    async fn run(&mut self) -> Result<End, Failure> {
        // What a predecessor had read.
        self.catch_up();
        loop {
            // Once for each turn: a change after this wakes the next wait, so none is overlooked.
            let stage = *self.stage.borrow_and_update();
            self.suspend(stage);
            self.settle()?;
            // What was sent just now may have been the last that was in progress; nothing else may ever arrive.
            self.suspend(stage);
            self.count_memory()?;
            if let Some(end) = self.end(stage) {
                return Ok(end);
            }
            self.pass_on_half_close().await?;
            let is_behind = self.session.is_behind();
            if self.turn >= TURN || is_behind {
                // Waiting for a socket that is ready does not yield to other tasks.
                self.turn = 0;
                tokio::task::yield_now().await;
            }
            if is_behind {
                self.catch_up();
            } else {
                self.step().await?;
            }
        }
    }

    fn catch_up(&mut self) {
        let now = self.shared.clock.now();
        self.session.handle_client(now, &mut self.client.buf);
        self.session.handle_server(now, &mut self.server.buf);
        self.report_ends();
    }

    fn report_ends(&mut self) {
        if self.client.eof && !self.session.is_behind() {
            self.session.handle_client_eof(self.client.buf.len());
        }
        if self.server.eof && !self.session.is_behind() {
            self.session.handle_server_eof(self.server.buf.len());
        }
    }

    async fn step(&mut self) -> Result<(), Failure> {
        self.rest();
        let (from_client, from_server) = (self.client_room() > 0, self.server_room() > 0);
        if !from_client {
            self.client.await_any();
        }
        let client_interest = self.client.interest(from_client, !self.session.to_client().is_empty());
        let server_interest = self.server.interest(from_server, !self.session.to_server().is_empty());
        let is_scarce = self.memory.is_scarce();
        let deadline = self.deadline();
        // In a fixed order, so that a simulation can be repeated. None starves: whatever ends the wait, both sides are
        // read, and the deadline is looked at.
        tokio::select! {
            biased;
            ready = self.client.ready(client_interest) => ready.map_err(io_error(Side::Client))?,
            ready = self.server.ready(server_interest) => ready.map_err(io_error(Side::Server))?,
            () = self.mailbox.filled() => {}
            () = self.memory.eased(), if is_scarce => {}
            _ = self.stage.changed() => {}
            () = self.alarm.at(&self.shared.clock, deadline) => {}
        }
        let now = self.shared.clock.now();
        if !from_client {
            self.session.client_waited(now);
        }
        // What arrived in time counts, even if it is read only now.
        self.read(now)?;
        if deadline.is_some_and(|at| at <= now) { self.handle_timeout(now) } else { Ok(()) }
    }

    fn rest(&mut self) {
        self.client.rest();
        self.server.rest();
        if self.session.held_requests() == 0 {
            self.requests.rest();
        }
    }

    /// While the daemon hands over: stops as soon as the session can continue elsewhere.
    fn suspend(&mut self, stage: Stage) {
        if stage == Stage::HandingOver && self.suspended.is_none() && !self.server.eof {
            let now = self.shared.clock.now();
            self.suspended = self.session.suspend(now);
            // Data that waited for its turn no longer does.
            self.session.handle_client(now, &mut self.client.buf);
        }
    }

    fn end(&mut self, stage: Stage) -> Option<End> {
        if self.suspended.is_some() {
            return Some(End::HandedOver);
        }
        if self.session.is_closed() && self.session.to_client().is_empty() {
            return Some(End::Closed);
        }
        // Once a client has disconnected and has its answers, there is no reason to wait for the server to close.
        if self.client.eof && !self.session.is_behind() {
            self.session.drain();
            if self.session.is_idle() {
                return Some(End::Closed);
            }
        }
        let is_idle = self.session.is_idle();
        self.seat.set_idle(is_idle, || self.shared.clock.now());
        if self.mailbox.take_claim() && is_idle {
            self.session.drain();
            return Some(End::GaveWay);
        }
        match stage {
            Stage::Serving | Stage::HandingOver => None,
            Stage::Draining => {
                self.session.drain();
                self.session.is_idle().then_some(End::Drained)
            }
            Stage::Stopped => Some(End::Stopped),
        }
    }

    fn deadline(&mut self) -> Option<Time> {
        if !self.session.is_closed() {
            return [self.session.poll_timeout(), self.client.awaits_until()].into_iter().flatten().min();
        }
        let (clock, patience) = (&self.shared.clock, self.limits.session.flow_timeout);
        Some(*self.flush_until.get_or_insert_with(|| clock.now() + patience))
    }

    fn handle_timeout(&mut self, now: Time) -> Result<(), Failure> {
        if self.session.is_closed() {
            return Err(Failure::TimedOut("the client did not receive the last bytes from the server"));
        }
        self.session.set_patience(self.identity.host().patience.at(now));
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
        let takes_requests = self.session.held_requests() < LITTLE || self.session.awaits_rest(Side::Client);
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

    fn read(&mut self, now: Time) -> Result<(), Failure> {
        let room = self.client_room();
        if room > 0
            && !self.client.eof
            && let Some(count) = self.receive(now, Side::Client, room).map_err(io_error(Side::Client))?
        {
            self.report_ends();
            self.acknowledge_part(Side::Client, count);
        }
        let room = self.server_room();
        if room == 0 || self.server.eof {
            return Ok(());
        }
        match self.receive(now, Side::Server, room) {
            Ok(None) => return Ok(()),
            Ok(Some(count)) => self.acknowledge_part(Side::Server, count),
            // What it sent before that is the client's, so this is an orderly end: a reset would overtake it.
            Err(_) if !self.session.to_client().is_empty() => self.server.eof = true,
            Err(error) => return Err(io_error(Side::Server)(error)),
        }
        self.report_ends();
        Ok(())
    }

    fn room(&mut self, side: Side) -> usize {
        match side {
            Side::Client => self.client_room(),
            Side::Server => self.server_room(),
        }
    }

    fn receive(&mut self, now: Time, side: Side, room: usize) -> io::Result<Option<usize>> {
        let Some((count, most)) = self.receive_part(now, side, room)? else { return Ok(None) };
        // What is behind the start of a long message is there as well.
        let room = if count == most && most < room { self.room(side) } else { 0 };
        let more = if room > 0 { self.receive_part(now, side, room)? } else { None };
        Ok(Some(count + more.map_or(0, |(count, _)| count)))
    }

    /// Takes at most `room` bytes that arrived from one side. The rest of a long message is not looked at. Returns how
    /// many there were and how many it would have taken.
    fn receive_part(&mut self, now: Time, side: Side, room: usize) -> io::Result<Option<(usize, usize)>> {
        let next = self.session.next(side);
        let (from, to) = match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        };
        match next {
            Next::Passing(rest) if rest >= LONG_REST && from.buf.is_empty() => {
                match from.try_splice(to, rest.min(room)) {
                    Ok(Some(count)) => {
                        self.turn += count;
                        self.session.passed(now, side, count);
                        return Ok(Some((count, room)));
                    }
                    Ok(None) => return Ok(None),
                    Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                    Err(error) => return Err(error),
                }
            }
            // The system holds it meanwhile, which counts.
            Next::Arriving(rest) if rest >= LONG_REST && room == READ_SIZE => match from.try_await(now, rest)? {
                Some(true) => {
                    self.recognise();
                    self.session.arrived(now, &mut self.client.buf);
                    // If its turn comes now, the rest is not read.
                    return Ok(Some((0, room)));
                }
                Some(false) => {}
                None => return Ok(None),
            },
            _ => {}
        }
        let most = match next {
            _ if !from.buf.is_empty() => room,
            Next::Passing(rest) | Next::Waiting(rest) => room.min(rest + FIRST_READ),
            Next::Unknown | Next::Arriving(_) => room.min(FIRST_READ),
        };
        from.await_any();
        let Some(count) = from.try_read(most)? else { return Ok(None) };
        self.turn += count;
        match side {
            Side::Client => {
                self.recognise();
                self.session.handle_client(now, &mut self.client.buf);
            }
            Side::Server => self.session.handle_server(now, &mut self.server.buf),
        }
        Ok(Some((count, most)))
    }

    /// Acknowledges a part of a message at once, of which `count` bytes were read just now. A peer with a small send
    /// buffer sends the rest only then, and nothing that is sent to it meanwhile could carry the acknowledgement. That
    /// of a whole message goes with the answer, and the system does not wait with that of more than a segment: to ask
    /// for it makes another packet for each read.
    fn acknowledge_part(&self, side: Side, count: usize) {
        if count > LONGEST_SEGMENT {
            return;
        }
        let half = match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        };
        if !half.buf.is_empty() || self.session.awaits_rest(side) {
            half.stream.acknowledge();
        }
    }

    /// The client's address may be known as a server's since the rules changed. Servers keep their connections for as
    /// long as they run.
    fn recognise(&mut self) {
        let generation = self.shared.generation();
        if generation != self.generation {
            self.generation = generation;
            self.session.set_requester(self.shared.rules().requester(self.identity.ip()));
        }
    }

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
                let Dispatched { op, pieces, is_to_store } = self.dispatched[index];
                if is_to_store {
                    self.session.ask_to_store(op);
                }
                self.session.dispatch(now, op, pieces);
            }
            self.dispatched.clear();
            trim(&mut self.dispatched);
        }
        self.client.try_write(self.session.to_client()).map_err(io_error(Side::Client))?;
        self.server.try_write(self.session.to_server()).map_err(io_error(Side::Server))
    }

    /// Updates the count of memory held; called after everything that can be sent was sent.
    fn count_memory(&mut self) -> Result<(), Failure> {
        let requests = self.session.held_requests();
        let in_socket = match self.session.next(Side::Client) {
            Next::Arriving(rest) | Next::Waiting(rest) => rest,
            Next::Unknown | Next::Passing(_) => 0,
        };
        let unread = self.client.buf.len() + self.server.buf.len() + in_socket;
        let held = [requests, self.session.to_server().held(), self.session.to_client().held(), unread];
        let has_more_requests = requests > self.memory.requests() && requests >= LITTLE;
        match self.memory.set(held) {
            None => {}
            Some(Scarce::Process) => tracing::warn!("limits.memory is nearly exhausted; connections wait"),
            Some(Scarce::Host) => {
                let client = self.identity.ip();
                tracing::warn!(%client, "limits.host_memory is nearly exhausted; connections from this host wait");
            }
        }
        // Any other connection would simply not be read. This one must be, because its write occupies slots of the
        // server.
        if has_more_requests && self.session.awaits_rest(Side::Client) && self.memory.is_used_up() {
            return Err(Failure::OutOfMemory);
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::Enqueue(op, submission) => {
                let (user, kind) = (submission.user.as_ref(), submission.kind);
                let belonging = self.identity.app(&self.shared, user, kind);
                let id = self.gate().enqueue((&self.mailbox, op), belonging, &submission);
                // If the rules changed just now, the change may not have found this request.
                if self.identity.is_outdated(&self.shared) {
                    let app = self.identity.app(&self.shared, user, kind).app;
                    self.gate().reassign(id, app);
                }
                self.requests.insert(op, id);
            }
            Action::CorrectCost(op, real) => self.requests.correct_cost(op, real),
            Action::CorrectObjects(op, real) => self.requests.correct_objects(op, real),
            Action::Complete(completed) => {
                self.requests.complete(&completed);
                return still_alive(&completed);
            }
            Action::Cancel(op) => self.requests.cancel(op),
            Action::Release(op) => {
                self.identity.host().patience.shorten(self.shared.clock.now());
                self.requests.release(op);
            }
            Action::Overdue(op) => self.requests.release(op),
            Action::Repeated => self.identity.tell_repeated(self.shared.clock.now(), &self.listener.server),
            Action::SizeLearned { file, size } => self.gate().learn_size(file, size),
            Action::UnmappedServer(address) => self.shared.warn_unmapped(&address),
            Action::ClaimsServer => self.shared.warn_unknown_server(self.identity.ip()),
            Action::Close(reason) => return Err(Failure::Refused(reason)),
        }
        Ok(())
    }

    async fn end_quietly(&mut self) {
        tokio::select! {
            () = tokio::time::sleep(self.listener.interposer.quiet_at_end()) => {}
            () = reached(&mut self.stage, Stage::Stopped) => {}
        }
        self.client.stream.reset_on_close();
    }

    fn hand_over(self) {
        let Self { shared, listener, mut client, server, suspended, requests, .. } = self;
        debug_assert!(requests.is_empty(), "nothing is in progress");
        let Some(Suspended { requests, user }) = suspended else { return };
        let mut from_client = BytesMut::from(requests);
        from_client.extend_from_slice(&client.buf);
        let from_server = server.buf;
        client.await_any();
        // A socket that cannot leave the runtime is closed, with a reset.
        if let (Ok(client), Ok(server)) = (client.stream.detach(), server.stream.detach()) {
            let (address, upstream) = (listener.address, listener.upstream.clone());
            shared.give(Handed { listener: address, upstream, client, server, user, from_client, from_server });
        }
    }

    fn abandon(self) -> Option<Abandoned> {
        let Self { shared, server, session, requests, memory, .. } = self;
        let mut abandoned = Abandoned::new(server, session, requests, memory, shared);
        abandoned.is_going_on().then_some(abandoned)
    }

    fn gate(&self) -> &Gate {
        &self.listener.gate
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

// What the server still does for a client that is gone: its slots stay taken until that is over.
//
// Otherwise a client that hangs up and connects again has any amount of work done outside the depth.

/// How long to wait for the server. A flow has at most 2 MiB in the storage, and a disk does the flows of a usual depth
/// in less; after a hang-up, as after a stall of the same length, others come first.
const GRACE: Duration = Duration::from_secs(1);

/// A server that sends more than this after it was told that the client is gone does not care; sockets hold less.
const DISCARDED: usize = 16 << 20;

/// The server's side of a connection whose client is gone. It holds a place among the daemon's connections, so there
/// are no more of them than of those.
pub(crate) struct Abandoned {
    server: Half,
    session: Box<dyn Session>,
    requests: Requests,
    shared: Arc<Shared>,
    memory: Share,
}

impl Abandoned {
    pub(crate) fn new(
        server: Half,
        session: Box<dyn Session>,
        requests: Requests,
        memory: Share,
        shared: Arc<Shared>,
    ) -> Self {
        let mut abandoned = Self { server, session, requests, shared, memory };
        abandoned.session.abandon();
        abandoned.act();
        abandoned
    }

    /// Whether the server may still work for the client; otherwise, everything is returned to the gate.
    pub(crate) fn is_going_on(&mut self) -> bool {
        if self.server.eof || self.shared.is_ending() {
            self.end();
        }
        !self.requests.is_empty()
    }

    /// Returns when the server is done, or after a short time. A daemon that drains does not wait.
    pub(crate) async fn finish(mut self) {
        let mut stage = self.shared.stage();
        tokio::select! {
            // A server that fails is done as well.
            _ = tokio::time::timeout(GRACE, self.until_done()) => {}
            () = reached(&mut stage, Stage::Draining) => {}
        }
        self.end();
    }

    async fn until_done(&mut self) -> io::Result<()> {
        while self.session.awaits_server() {
            self.step().await?;
        }
        if self.session.is_closed() {
            return Ok(());
        }
        // What is left ends with the connection.
        self.server.write_closed = true;
        self.server.stream.shutdown().await?;
        let mut discarded = 0;
        while !self.session.is_closed() && !self.requests.is_empty() && discarded < DISCARDED {
            discarded += self.step().await?;
        }
        Ok(())
    }

    async fn step(&mut self) -> io::Result<usize> {
        let writes = !self.session.to_server().is_empty() && !self.server.write_closed;
        self.server.ready(self.server.interest(true, writes)).await?;
        if writes {
            self.server.try_write(self.session.to_server())?;
        }
        let count = self.server.try_read(READ_SIZE)?.unwrap_or(0);
        self.session.handle_server(self.shared.clock.now(), &mut self.server.buf);
        while self.session.is_behind() {
            tokio::task::yield_now().await;
            self.session.handle_server(self.shared.clock.now(), &mut self.server.buf);
        }
        if self.server.eof {
            self.session.handle_server_eof(self.server.buf.len());
        }
        self.act();
        // Waiting for a socket that is ready does not yield to other tasks.
        tokio::task::yield_now().await;
        Ok(count)
    }

    fn end(&mut self) {
        self.session.end();
        self.act();
        debug_assert!(self.requests.is_empty(), "an ended session has no requests");
    }

    fn act(&mut self) {
        let answers = self.session.to_client().len();
        self.session.to_client().advance(answers);
        let requests = self.session.held_requests();
        self.memory.set([requests, self.session.to_server().held(), 0, self.server.buf.len()]);
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::CorrectCost(op, real) => self.requests.correct_cost(op, real),
                Action::CorrectObjects(op, real) => self.requests.correct_objects(op, real),
                Action::Complete(completed) => self.requests.complete(&completed),
                Action::Cancel(op) => self.requests.cancel(op),
                Action::Release(op) | Action::Overdue(op) => self.requests.release(op),
                // The client is gone, so nothing is enqueued, and reasons to close do not matter.
                Action::Enqueue(..)
                | Action::Repeated
                | Action::SizeLearned { .. }
                | Action::UnmappedServer(_)
                | Action::ClaimsServer
                | Action::Close(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;
    use vpfs_config::{AppTable, Config};
    use vpfs_protocol::session::nfs::Nfs;
    use vpfs_protocol::session::orangefs::{AddressMap, OrangeFs};
    use vpfs_protocol::session::{Interposer, Requester};
    use vpfs_protocol::wire::bmi::{Tag, reply_message, request_message};
    use vpfs_protocol::wire::pvfs2::{Handle, Op, Reply, Request, RequestBody, request};

    use super::*;
    use crate::clock::Clock;
    use crate::event_log::LogLimit;
    use crate::names::Names;
    use crate::shared::Rules;
    use crate::stream;

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
                    [scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n[trust]\nservers = [\"127.0.0.1\"]\n";
            let config = Config::parse("test", text).unwrap();
            let (apps, clock) = (AppTable::new(&config), Clock::start());
            let gate = Arc::new(Gate::alone(clock.clone(), &config, &apps));
            let listener = Listener {
                server: "s".to_owned(),
                address: clients.local_addr().unwrap(),
                upstream: ("127.0.0.1".to_owned(), server.local_addr().unwrap().port()),
                names: Names::unknown(&clock),
                index: 0,
                interposer: Arc::new(OrangeFs::new(AddressMap::default())),
                gate: Arc::clone(&gate),
                down: false.into(),
                log: LogLimit::default(),
            };
            let rules = Rules::resolved(&config);
            let shared = Arc::new(Shared::new(clock, vec![gate], rules, apps));
            Self { server, clients, shared, listener: Arc::new(listener) }
        }

        async fn client(&self) -> (TcpStream, TcpStream, JoinHandle<Result<End, Failure>>) {
            let client = TcpStream::connect(self.clients.local_addr().unwrap()).await.unwrap();
            let (accepted, peer) = self.clients.accept().await.unwrap();
            let newcomer = Newcomer::Accepted(accepted);
            let served = serve(Arc::clone(&self.shared), Arc::clone(&self.listener), newcomer, peer, Arc::default());
            let task = tokio::spawn(async { served.await.0 });
            (client, self.server.accept().await.unwrap().0, task)
        }

        async fn connection(&self) -> (TcpStream, TcpStream, Connection) {
            let client = TcpStream::connect(self.clients.local_addr().unwrap()).await.unwrap();
            let (accepted, peer) = self.clients.accept().await.unwrap();
            let upstream = TcpStream::connect(self.server.local_addr().unwrap()).await.unwrap();
            let halves = [accepted, upstream].map(|stream| Half::new(Stream::Tcp(stream)));
            let (listener, peer) = (Arc::clone(&self.listener), (peer, Arc::default()));
            let connection = Connection::new(Arc::clone(&self.shared), listener, halves, peer, None);
            (client, self.server.accept().await.unwrap().0, connection)
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

    #[tokio::test]
    async fn bytes_that_are_not_read_are_not_awaited() {
        let place = Place::new().await;
        let (mut client, _server, mut connection) = place.connection().await;
        let requester = Requester::Client { may_manage: true };
        connection.session = Nfs.session(connection.limits.session, requester, None);
        let words = [1, 0, 2, 100_003, 3, 7, 0, 0, 0, 0, 4, 9, 0, 0, 100_000, 2, 100_000_u32];
        let mark = 100_068 | (1 << 31);
        let start = std::iter::once(&mark).chain(&words).flat_map(|word| word.to_be_bytes());
        client.write_all(&start.chain([7; 1000]).collect::<Vec<u8>>()).await.unwrap();
        connection.step().await.unwrap();
        client.write_all(&[7; 1000]).await.unwrap();
        connection.step().await.unwrap();
        assert!(connection.client.awaits_until().is_some());
        connection.session.drain();
        assert!(pin!(connection.step()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(connection.client.awaits_until(), None, "otherwise it would spin from then on");
    }

    /// Symptom: once in hundreds of upgrades under load, an idle connection was cut off after `limits.drain_timeout`.
    /// Cause: the stage was looked at twice in a turn, and a hand-over that began in between was taken for seen.
    #[tokio::test]
    async fn a_hand_over_that_begins_in_the_middle_of_a_turn_is_noticed() {
        let place = Place::new().await;
        let (_client, _server, mut connection) = place.connection().await;
        let stage = *connection.stage.borrow_and_update();
        connection.suspend(stage);
        place.shared.enter(Stage::HandingOver);
        assert_eq!(connection.end(stage), None);
        assert!(connection.stage.has_changed().unwrap(), "otherwise nothing ends its next wait");
        let stage = *connection.stage.borrow_and_update();
        connection.suspend(stage);
        assert_eq!(connection.end(stage), Some(End::HandedOver));
    }

    /// Symptom: under load, one upgrade in a few hundred cut a connection off after `limits.drain_timeout`. Cause:
    /// whether it can continue elsewhere was looked at before the last answer was sent to its client, and nothing
    /// happened then.
    #[tokio::test]
    async fn a_connection_is_handed_over_in_the_turn_that_sends_the_last_answer() {
        let place = Place::new().await;
        let (_client, _server, mut connection) = place.connection().await;
        connection.client.ready(Some(Interest::WRITABLE)).await.unwrap();
        connection.server.ready(Some(Interest::WRITABLE)).await.unwrap();
        connection.client.buf.extend_from_slice(&requests([1]));
        connection.catch_up();
        connection.settle().unwrap();
        connection.server.buf.extend_from_slice(&reply_message(Tag(1), &Reply::done(Op::Flush).encode()).unwrap());
        connection.catch_up();
        place.shared.enter(Stage::HandingOver);
        let ended = std::future::poll_fn(|context| Poll::Ready(pin!(connection.run()).poll(context))).await;
        assert!(matches!(ended, Poll::Ready(Ok(End::HandedOver))), "{ended:?}");
    }

    /// Otherwise thousands of idle connections hold half a MiB each.
    #[tokio::test]
    async fn an_idle_connection_has_no_buffers() {
        let place = Place::new().await;
        let (mut client, mut server, mut connection) = place.connection().await;
        let payload = Request::bare(RequestBody::MgmtNoop).encode();
        let requests: Vec<u8> = (1..=200).flat_map(|tag| request_message(Tag(tag), &payload).unwrap()).collect();
        let traffic = async {
            client.write_all(&requests).await.unwrap();
            server.read_exact(&mut vec![0; requests.len()]).await.unwrap();
            let reply = Reply::done(Op::MgmtNoop).encode();
            let replies: Vec<u8> = (1..=200).flat_map(|tag| reply_message(Tag(tag), &reply).unwrap()).collect();
            server.write_all(&replies).await.unwrap();
            client.read_exact(&mut vec![0; replies.len()]).await.unwrap();
            // The connection runs once more, to wait.
            tokio::task::yield_now().await;
        };
        tokio::select! {
            biased;
            ended = connection.run() => panic!("{ended:?}"),
            () = traffic => {}
        }
        assert_eq!([connection.client.buf.capacity(), connection.server.buf.capacity()], [0, 0]);
    }

    fn socket(half: &Half) -> socket2::SockRef<'_> {
        let Stream::Tcp(stream) = &half.stream else { panic!("a socket of the system") };
        stream.into()
    }

    /// Symptom: with send buffers of 4 KiB, each call of 65,535 bytes took 40 ms longer than without the proxy. Cause:
    /// the peer sent the rest of its message only after the acknowledgement of the first part, which waited for an
    /// answer.
    #[tokio::test]
    async fn the_first_part_of_a_message_is_acknowledged_at_once() {
        let place = Place::new().await;
        let (mut client, mut server, mut connection) = place.connection().await;
        let reply = reply_message(Tag(1), &Reply::done(Op::Flush).encode()).unwrap();
        for (side, message) in [(Side::Client, requests([1])), (Side::Server, reply)] {
            let (first, rest) = message.split_at(30);
            for (part, is_whole) in [(first, false), (rest, true)] {
                let (half, peer) = match side {
                    Side::Client => (&connection.client, &mut client),
                    Side::Server => (&connection.server, &mut server),
                };
                // As after an answer: acknowledgements wait for something to go with.
                socket(half).set_tcp_quickack(false).unwrap();
                peer.write_all(part).await.unwrap();
                half.ready(Some(Interest::READABLE)).await.unwrap();
                connection.read(connection.shared.clock.now()).unwrap();
                connection.settle().unwrap();
                let half = if side == Side::Client { &connection.client } else { &connection.server };
                assert_eq!(socket(half).tcp_quickack().unwrap(), !is_whole, "{side}, {} bytes", part.len());
            }
        }
    }

    /// Symptom: CPU of 1.3 times HAProxy's for each byte. Cause: data was copied into the process and out of it.
    #[tokio::test]
    async fn a_long_message_passes_through_pipes_if_there_are_any() {
        let _turn = stream::IN_TURN.lock().await;
        let payload: Vec<u8> = (0..4 << 20).map(|at: u32| (at % 251) as u8).collect();
        let message = reply_message(Tag(9), &payload).unwrap();
        for is_piped in [true, false] {
            let taken = (!is_piped).then(stream::take_all);
            let place = Place::new().await;
            let (mut client, mut server, mut connection) = place.connection().await;
            socket2::SockRef::from(&client).set_recv_buffer_size(64 << 10).unwrap();
            socket(&connection.client).set_send_buffer_size(64 << 10).unwrap();
            let sent = message.clone();
            tokio::spawn(async move { server.write_all(&sent).await });
            // The client reads only when nothing more fits.
            while connection.server_room() > 0 {
                connection.server.ready(Some(Interest::READABLE)).await.unwrap();
                connection.read(connection.shared.clock.now()).unwrap();
                connection.settle().unwrap();
            }
            assert_eq!(connection.session.to_client().piped() > 0, is_piped);
            let mut received = vec![0; message.len()];
            let (ended, read) = tokio::join!(connection.run(), client.read_exact(&mut received));
            assert!(matches!(ended, Ok(End::Closed)) && read.is_ok(), "{ended:?}, {read:?}");
            assert!(received == message);
            drop(taken);
        }
    }
}

//! One client connection: opens its server connection and moves bytes as its [`Session`] directs, in any protocol.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::sync::watch;
use vpfs_core::Time;
use vpfs_session::{Action, CloseReason, Completed, Next, Outcome, Session, Side, Suspended, User};

use crate::abandoned::Abandoned;
use crate::alarm::Alarm;
use crate::descriptors::Exhausted;
use crate::gate::Gate;
use crate::half::Half;
use crate::handover::Handed;
use crate::hosts::Seat;
use crate::identity::ClientIdentity;
use crate::limits::DaemonLimits;
use crate::listener::Listener;
use crate::log_limit::Kind;
use crate::mailbox::{Dispatched, Mailbox, trim};
use crate::memory::{LITTLE, STEP, Scarce, Share};
use crate::read_buffers::READ_SIZE;
use crate::requests::Requests;
use crate::shared::{Shared, Stage, reached};
use crate::sockets::reset_on_close;
use crate::stream::Stream;
#[cfg(test)]
use crate::stream::simulated;

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

/// How a connection ended without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both sides are done.
    Closed,
    /// The daemon is draining and nothing was in progress.
    Drained,
    /// Another process serves it from now on.
    HandedOver,
    /// Nothing was in progress, and another host got its place.
    GaveWay,
    /// The daemon stopped, regardless of operations in progress.
    Stopped,
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The server cannot be reached.
    #[error("cannot connect to the server: {0}")]
    Upstream(io::Error),
    /// No socket for the server's connection can be opened.
    #[error("{0}")]
    NoDescriptors(Exhausted),
    /// A socket failed.
    #[error("{side} connection failed: {error}")]
    Io { side: Side, error: io::Error },
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

/// A connection that is to be served.
pub(crate) enum Newcomer {
    /// A client that has just connected.
    Accepted(TcpStream),
    /// A connection of the process that this one succeeds.
    Inherited(Handed),
    /// A client and its server in a simulation.
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
    /// What another process needs to continue.
    suspended: Option<Suspended>,
    /// Bytes moved since the task last yielded.
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

    /// Goes on with the bytes that were left because those before them took much computation.
    fn catch_up(&mut self) {
        let now = self.shared.clock.now();
        self.session.handle_client(now, &mut self.client.buf);
        self.session.handle_server(now, &mut self.server.buf);
        self.report_ends();
    }

    /// Reports the ends of streams, once everything before them was used.
    fn report_ends(&mut self) {
        if self.client.eof && !self.session.is_behind() {
            self.session.handle_client_eof(self.client.buf.len());
        }
        if self.server.eof && !self.session.is_behind() {
            self.session.handle_server_eof(self.server.buf.len());
        }
    }

    /// Waits for an event, then reads from both sides.
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

    /// Gives back what only a busy connection needs.
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

    /// How the connection ends, if it ends now.
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

    /// When to act if nothing arrives.
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

    /// Reads available bytes from both sockets, as far as the session wants them and memory allows.
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

    /// The number of bytes to read from one side at once.
    fn room(&mut self, side: Side) -> usize {
        match side {
            Side::Client => self.client_room(),
            Side::Server => self.server_room(),
        }
    }

    /// Takes bytes that arrived from one side, and returns their number; `None` if there are none.
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

    /// Gives a client time to receive its last replies before the reset.
    async fn end_quietly(&mut self) {
        tokio::select! {
            () = tokio::time::sleep(self.listener.interposer.quiet_at_end()) => {}
            () = reached(&mut self.stage, Stage::Stopped) => {}
        }
        self.client.stream.reset_on_close();
    }

    /// Gives a suspended connection to the daemon's successor.
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

    /// Closes the client's side, and returns everything to the gate but what the server still does.
    fn abandon(self) -> Option<Abandoned> {
        let Self { shared, server, session, requests, memory, .. } = self;
        let mut abandoned = Abandoned::new(server, session, requests, memory, shared);
        abandoned.is_going_on().then_some(abandoned)
    }
}

impl Connection {
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

#[cfg(test)]
mod tests;

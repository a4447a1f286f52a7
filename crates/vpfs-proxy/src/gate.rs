//! The place in front of one server where requests wait for the scheduler.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream as Sender;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc, watch};
use vpfs_config::{AppEntry, AppTable, Config, Protocol, Share, WriteBack};
use vpfs_core::{AppId, Bytes, Dispatch, FileKey, Learned, Objects, OpKind, Pieces, ServerId, Time};
use vpfs_node::coordination::Members;
use vpfs_node::{
    AppName, Arrival, Event, NamedShare, Node, NodeSettings, PeerMessage, PeerSettings, RequestKey, Served, Snapshot,
    Unstored,
};
use vpfs_protocol::session::{Completed, OpId, Outcome, Submission, User};

use crate::clock::Clock;
use crate::event_log::{EventLog, is_important};
use crate::lock;
use crate::state_dir::Known;

/// One node, shared by all sessions of a server.
///
/// The lock is held only for pure state changes: never across I/O, an await, logging or the waking of a task.
pub(crate) struct Gate {
    clock: Clock,
    server: ServerId,
    outbox: Outbox,
    state: Mutex<State>,
    timer_changed: Notify,
    /// Says when [`Gate::run_timer`] has had the lock.
    turns: watch::Sender<()>,
    events: EventLog,
    /// Connections that were closed because their host had too many.
    pub(crate) refused: AtomicU64,
}

struct State {
    node: Node<Waiter>,
    /// What clients leave to the server to store later; `None` if that is not limited.
    unstored: Option<Unstored>,
    is_limited_there: bool,
    timer: Option<Time>,
}

#[derive(Clone)]
enum Waiter {
    /// An operation of a session, whose it is, and bytes that may be stored later.
    Session(Arc<Mailbox>, OpId, Arc<Origin>, u64),
    Program(Arc<Ticket>),
}

#[derive(Default)]
struct Outputs {
    messages: Vec<(ServerId, PeerMessage)>,
    dispatched: Vec<Arc<Mailbox>>,
    programs: Vec<Arc<Ticket>>,
    events: Vec<(Time, Event)>,
}

struct Drain<'a> {
    outputs: &'a mut Outputs,
    unstored: Option<&'a mut Unstored>,
    now: Time,
}

impl vpfs_node::Outputs<Waiter> for Drain<'_> {
    fn transmit(&mut self, messages: impl Iterator<Item = (ServerId, PeerMessage)>) {
        self.outputs.messages.extend(messages);
    }

    fn dispatch(&mut self, waiter: &Waiter, request: RequestKey, dispatch: &Dispatch) {
        match waiter {
            Waiter::Session(mailbox, op, _, may_be_left) => {
                let is_to_store = *may_be_left > 0
                    && self
                        .unstored
                        .as_mut()
                        .is_some_and(|unstored| !unstored.may_leave(self.now, request, dispatch.app, *may_be_left));
                mailbox.put(Dispatched { op: *op, pieces: dispatch.pieces, is_to_store });
                self.outputs.dispatched.push(Arc::clone(mailbox));
            }
            Waiter::Program(ticket) => self.outputs.programs.push(Arc::clone(ticket)),
        }
    }

    fn event(&mut self, at: Time, event: Event) {
        if is_important(&event) || tracing::enabled!(tracing::Level::DEBUG) {
            self.outputs.events.push((at, event));
        }
    }
}

impl Gate {
    #[cfg(test)]
    pub(crate) fn alone(clock: Clock, config: &Config, apps: &AppTable) -> Self {
        Self::new(clock, ServerId(0), Outbox::default(), config, apps)
    }

    pub(crate) fn new(clock: Clock, server: ServerId, outbox: Outbox, config: &Config, apps: &AppTable) -> Self {
        let now = clock.now();
        let node = Node::new(now, server, &node_settings(config, now));
        let unstored = unstored(config, server);
        let state = State { node, unstored, is_limited_there: false, timer: None };
        let gate = Self {
            clock,
            server,
            outbox,
            state: Mutex::new(state),
            timer_changed: Notify::new(),
            turns: watch::Sender::default(),
            events: EventLog::new(&config.servers[server.index()].name),
            refused: AtomicU64::new(0),
        };
        gate.set_shares(config);
        for (app, entry) in apps.iter() {
            gate.set_app(app, entry);
        }
        gate
    }

    pub(crate) fn set_processor_wait(&self, wait: Duration) {
        self.lock().node.set_processor_wait(wait);
    }

    pub(crate) fn learned(&self) -> Option<Learned> {
        let state = self.lock();
        state.node.learned(self.clock.now())
    }

    /// Continues from what an earlier process learned; call before the first request.
    pub(crate) fn remember(&self, known: &Known) {
        self.with(|state, now| state.node.remember(now, &known.learned()));
    }

    /// Enqueues an operation; its mailbox, which may be the caller's own, receives the dispatch.
    pub(crate) fn enqueue(
        &self,
        (mailbox, op): (&Arc<Mailbox>, OpId),
        Belonging { app, origin }: Belonging,
        submission: &Submission,
    ) -> RequestKey {
        let Submission { kind, cost: Bytes(bytes), objects, position, elsewhere, piece, may_be_left, .. } = *submission;
        // No client says when it issued a request (docs/decisions/0002-policies-and-simulation.md).
        let arrival = Arrival { app, op: kind, bytes, objects, position, elsewhere, issued_at: None, piece };
        let waiter = Waiter::Session(Arc::clone(mailbox), op, origin, if may_be_left { bytes } else { 0 });
        self.with(|state, now| state.node.enqueue(now, waiter, &arrival))
    }

    /// Enqueues a request of a program; its ticket gets the dispatch, possibly before this returns.
    pub(crate) fn enqueue_program(&self, ticket: &Arc<Ticket>, app: AppId, op: OpKind, bytes: u64) -> RequestKey {
        let waiter = Waiter::Program(Arc::clone(ticket));
        self.with(|state, now| state.node.enqueue(now, waiter, &Arrival::new(app, op, bytes)))
    }

    pub(crate) fn reassign(&self, request: RequestKey, app: AppId) {
        self.with(|state, now| state.node.reassign(now, request, app));
    }

    /// The rules have changed: requests that wait go by those in force, by which `identified` finds their applications.
    /// Must not be called under the lock of the applications. O(n log n) in requests; the lock of the gate is not held
    /// while they are identified.
    pub(crate) fn reassign_all(&self, identified: impl Fn(&Origin, OpKind) -> AppId) {
        let waiting: Vec<(RequestKey, OpKind, Waiter)> =
            self.lock().node.waiting().map(|(request, op, waiter)| (request, op, waiter.clone())).collect();
        let found = waiting.into_iter().filter_map(|(request, op, waiter)| {
            let app = match waiter {
                Waiter::Session(_, _, origin, _) => identified(&origin, op),
                Waiter::Program(ticket) => ticket.app()?,
            };
            Some((request, app))
        });
        let found: Vec<(RequestKey, AppId)> = found.collect();
        if !found.is_empty() {
            self.with(|state, now| found.iter().for_each(|(request, app)| state.node.reassign(now, *request, *app)));
        }
    }

    pub(crate) fn complete_program(&self, request: RequestKey, served: &Served) {
        self.with(|state, now| state.node.complete(now, request, served));
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn correct_cost(&self, request: RequestKey, real: Bytes) {
        self.with(|state, now| state.node.correct_cost(now, request, real.0));
    }

    pub(crate) fn correct_objects(&self, request: RequestKey, real: Objects) {
        self.with(|state, now| state.node.correct_objects(now, request, real));
    }

    pub(crate) fn complete(&self, request: RequestKey, completed: &Completed) {
        let &Completed { kind, outcome, moved, is_stored, arrived, dispatched, .. } = completed;
        let answered = matches!(outcome, Outcome::Answered { .. });
        let op = kind.unwrap_or(OpKind::Metadata);
        let served = Served { op, bytes: moved, arrived, dispatched, answered };
        self.with(|state, now| {
            state.node.complete(now, request, &served);
            state.ended(now, request, if is_stored { moved } else { 0 });
        });
    }

    /// A dispatched operation waits for its client: frees its slots. It is still completed or cancelled later.
    pub(crate) fn release(&self, request: RequestKey) {
        let (at, app) = self.with(|state, now| (now, state.node.release(now, request)));
        self.events.note_released(at, app);
    }

    /// Cancels a queued or dispatched operation, refunding its cost and freeing its slots.
    pub(crate) fn cancel(&self, request: RequestKey) {
        self.with(|state, now| {
            state.node.cancel(now, request);
            state.ended(now, request, 0);
        });
    }

    pub(crate) fn learn_size(&self, file: FileKey, size: u64) {
        self.lock().node.learn_size(file, size);
    }

    pub(crate) fn set_shares(&self, config: &Config) {
        let shares = config.shares.iter().map(|Share { path, policy }| NamedShare { path, policy: *policy });
        self.with(|state, now| state.node.set_shares(now, shares));
    }

    pub(crate) fn set_app(&self, app: AppId, entry: &AppEntry) {
        self.events.set_app(app, entry);
        let share = entry.share.as_ref().map(|place| NamedShare::new(&place.path, place.weight));
        let name = AppName { name: &entry.name, share };
        self.with(|state, now| state.node.set_app(now, app, name, &entry.policy));
    }

    pub(crate) fn is_idle_for(&self, app: AppId) -> bool {
        self.lock().node.is_idle_for(app)
    }

    /// Whether an application counts in the sum of those without metrics of their own.
    pub(crate) fn set_other(&self, app: AppId, is_other: bool) {
        self.with(|state, now| state.node.set_other(now, app, is_other));
    }

    pub(crate) fn forget_app(&self, app: AppId) {
        self.with(|state, now| state.node.forget_app(now, app));
    }

    pub(crate) fn receive(&self, from: ServerId, message: &PeerMessage) {
        if let Err(error) = self.with(|state, now| state.node.handle_message(now, from, message)) {
            self.events.note_refused(self.clock.now(), from, &error);
        }
    }

    /// The cluster's clock is this far ahead of this process's; behind it if negative.
    pub(crate) fn set_clock(&self, ahead_ns: i64) {
        self.lock().node.set_clock(ahead_ns);
    }

    /// Changes policy and costs; no queued or dispatched request is lost.
    pub(crate) fn reconfigure(&self, config: &Config) {
        self.with(|state, now| {
            state.node.reconfigure(now, &node_settings(config, now));
            // The setting itself needs a restart, but the mode may have changed.
            state.unstored = unstored(config, self.server).map(|new| state.unstored.take().unwrap_or(new));
        });
    }

    /// The server's own host limits what it has not stored, or no longer. Returns whether that is news.
    pub(crate) fn set_limited_there(&self, is_limited: bool) -> bool {
        std::mem::replace(&mut self.lock().is_limited_there, is_limited) != is_limited
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.lock().node.snapshot(self.clock.now())
    }

    pub(crate) fn server(&self) -> ServerId {
        self.server
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lock().node.is_idle()
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.state.is_poisoned()
    }

    pub(crate) async fn run_timer(&self) {
        loop {
            let due = [self.lock().timer, self.events.due_at()].into_iter().flatten().min();
            self.turns.send_replace(());
            // A change from here on is remembered until it is awaited.
            let changed = self.timer_changed.notified();
            match due {
                None => changed.await,
                Some(time) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(self.clock.instant(time)) => {
                        self.events.settle(self.clock.now());
                        self.with(|state, now| state.node.handle_timeout(now));
                    }
                },
            }
        }
    }

    /// Returns once [`Gate::run_timer`] has taken a turn, for which it needs a thread and the lock: what every request
    /// needs, too.
    pub(crate) async fn pulse(&self) {
        let mut turns = self.turns.subscribe();
        self.timer_changed.notify_one();
        // The sender lives as long as this.
        let _ = turns.changed().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held is a bug. For the other sessions, stopping would be no better than continuing
        // with the state that it left.
        lock(&self.state)
    }

    /// Executes one input, and processes its outputs after the lock is released.
    fn with<R>(&self, input: impl FnOnce(&mut State, Time) -> R) -> R {
        let mut state = self.lock();
        let now = self.clock.now();
        let result = input(&mut state, now);
        let mut outputs = Outputs::default();
        let State { node, unstored, is_limited_there, .. } = &mut *state;
        let unstored = unstored.as_mut().filter(|_| !*is_limited_there);
        let timer = node.drain(now, &mut Drain { outputs: &mut outputs, unstored, now });
        let timer_changed = std::mem::replace(&mut state.timer, timer) != timer;
        drop(state);
        if timer_changed {
            self.timer_changed.notify_one();
        }
        outputs.dispatched.iter().for_each(|mailbox| mailbox.wake());
        outputs.programs.iter().for_each(|ticket| ticket.call());
        self.outbox.send(self.server, outputs.messages);
        let may_settle = outputs.events.iter().fold(false, |settle, (at, event)| self.events.note(*at, event) | settle);
        if may_settle {
            self.timer_changed.notify_one();
        }
        result
    }
}

impl State {
    /// A request that was dispatched ended, after which so many bytes more are stored.
    fn ended(&mut self, now: Time, request: RequestKey, stored: u64) {
        if let Some(unstored) = &mut self.unstored {
            unstored.ended(now, request, stored);
        }
    }
}

fn unstored(config: &Config, server: ServerId) -> Option<Unstored> {
    let is_nfs = config.servers[server.index()].address.protocol() == Some(Protocol::Nfs);
    if !is_nfs || config.scheduler.observed.is_some() {
        return None;
    }
    match config.limits.write_back {
        WriteBack::Auto => Some(Unstored::new(None)),
        WriteBack::Size(size) => Some(Unstored::new(Some(size))),
        WriteBack::Off => None,
    }
}

fn node_settings(config: &Config, now: Time) -> NodeSettings {
    // The daemon's table of applications limits the flows of all its gates, and may grow on reload.
    let coordination = vpfs_node::coordination::CoordinationSettings {
        max_flows: usize::MAX,
        ..vpfs_node::coordination::CoordinationSettings::default()
    };
    // Servers of processes that cannot be reached count as silent ones: their part of a total cap is not used here.
    let servers = Members::named(config.servers.iter().map(|server| server.name.as_str()));
    NodeSettings {
        policy: config.scheduler.policy.clone(),
        metadata_cost: config.scheduler.metadata_cost,
        peers: Some(PeerSettings { incarnation: now.as_nanos(), servers, coordination }),
    }
}

pub(crate) async fn deliver(gate: Arc<Gate>, mut incoming: mpsc::Receiver<Incoming>) {
    while let Some((from, message)) = incoming.recv().await {
        gate.receive(from, &message);
    }
}

/// The gate's ids of the session's operations. Dropping it cancels what is left: a task may also end by a panic or when
/// its runtime shuts down, and the slots of its requests must be freed then as well.
pub(crate) struct Requests {
    gate: Arc<Gate>,
    ids: Vec<Option<RequestKey>>,
}

impl Requests {
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
        Self { gate, ids: Vec::new() }
    }

    pub(crate) fn insert(&mut self, op: OpId, id: RequestKey) {
        let index = op.index();
        if self.ids.len() <= index {
            self.ids.resize(index + 1, None);
        }
        let before = self.ids[index].replace(id);
        assert!(before.is_none(), "an operation is enqueued only once");
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.iter().all(Option::is_none)
    }

    pub(crate) fn rest(&mut self) {
        debug_assert!(self.is_empty(), "only a session without requests rests");
        self.ids.clear();
        trim(&mut self.ids);
    }

    pub(crate) fn correct_cost(&self, op: OpId, real: Bytes) {
        if let Some(id) = self.get(op) {
            self.gate.correct_cost(id, real);
        }
    }

    pub(crate) fn correct_objects(&self, op: OpId, real: Objects) {
        if let Some(id) = self.get(op) {
            self.gate.correct_objects(id, real);
        }
    }

    pub(crate) fn complete(&mut self, completed: &Completed) {
        if let Some(id) = self.take(completed.op) {
            self.gate.complete(id, completed);
        }
    }

    pub(crate) fn cancel(&mut self, op: OpId) {
        if let Some(id) = self.take(op) {
            self.gate.cancel(id);
        }
    }

    pub(crate) fn release(&self, op: OpId) {
        if let Some(id) = self.get(op) {
            self.gate.release(id);
        }
    }

    /// An operation that was sent unscheduled has none.
    fn get(&self, op: OpId) -> Option<RequestKey> {
        self.ids.get(op.index()).copied().flatten()
    }

    fn take(&mut self, op: OpId) -> Option<RequestKey> {
        self.ids.get_mut(op.index()).and_then(Option::take)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let left = self.ids.iter().copied().flatten();
        // If the scheduler itself panicked, a second panic here would abort the whole process.
        if !self.gate.is_broken() {
            left.for_each(|id| self.gate.cancel(id));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dispatched {
    pub(crate) op: OpId,
    pub(crate) pieces: Option<Pieces>,
    /// The server is to answer it only once its data is stored.
    pub(crate) is_to_store: bool,
}

/// Dispatched operations of one session. Limited by the number of operations that the session holds.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    dispatched: Mutex<Vec<Dispatched>>,
    is_claimed: AtomicBool,
    notify: Notify,
}

impl Mailbox {
    /// Adds one; [`Mailbox::wake`] must follow. Separate, because waking a thread is slow and this is called under a
    /// lock.
    pub(crate) fn put(&self, dispatched: Dispatched) {
        self.lock().push(dispatched);
    }

    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    pub(crate) fn claim(&self) {
        self.is_claimed.store(true, Ordering::Relaxed);
        self.wake();
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::Relaxed)
    }

    pub(crate) fn take_claim(&self) -> bool {
        self.is_claimed() && self.is_claimed.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn take(&self, into: &mut Vec<Dispatched>) {
        let mut dispatched = self.lock();
        into.append(&mut dispatched);
        trim(&mut dispatched);
    }

    /// Waits for a dispatch or a claim; cancel safe.
    pub(crate) async fn filled(&self) {
        loop {
            self.notify.notified().await;
            // A session whose own input dispatches an operation takes it at once; then the notification is stale.
            if self.is_claimed() || !self.lock().is_empty() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Dispatched>> {
        lock(&self.dispatched)
    }
}

/// An empty vector with room for more entries than this is freed.
const KEPT: usize = 16;

/// Frees the memory of a vector that is empty but once had many entries: thousands of connections may be idle.
pub(crate) fn trim<T>(vec: &mut Vec<T>) {
    if vec.is_empty() && vec.capacity() > KEPT {
        *vec = Vec::new();
    }
}

/// What to do when a request's turn comes, or when it is closed before. It must not block.
type Then = Box<dyn FnOnce(End) + Send>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Called,
    Closed,
}

pub(crate) type Identified = Arc<dyn Fn() -> AppId + Send + Sync>;

/// Tells when its turn comes. The caller may say only afterwards what to do then.
#[derive(Default)]
pub(crate) struct Ticket(Mutex<TicketState>);

#[derive(Default)]
enum TicketState {
    #[default]
    Asked,
    Told(Then, Identified),
    Ended(End),
}

impl Ticket {
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.lock(), TicketState::Ended(_))
    }

    /// Its turn has come. If it was closed before, the closer ends the request.
    pub(crate) fn call(&self) {
        self.end(End::Called);
    }

    /// Nobody waits any more. Whether that ended it, so that the caller must end the request: its turn had not come.
    pub(crate) fn close(&self) -> bool {
        self.end(End::Closed)
    }

    fn end(&self, end: End) -> bool {
        let mut state = self.lock();
        if let TicketState::Ended(_) = *state {
            return false;
        }
        let before = std::mem::replace(&mut *state, TicketState::Ended(end));
        drop(state);
        if let TicketState::Told(then, _) = before {
            then(end);
        }
        true
    }

    pub(crate) fn app(&self) -> Option<AppId> {
        let identified = match &*self.lock() {
            TicketState::Told(_, identified) => Arc::clone(identified),
            TicketState::Asked | TicketState::Ended(_) => return None,
        };
        // Not under the lock: it may dispatch other requests.
        Some(identified())
    }

    pub(crate) fn then(&self, identified: Identified, then: Then) {
        let mut state = self.lock();
        match *state {
            TicketState::Ended(end) => {
                drop(state);
                then(end);
            }
            TicketState::Asked | TicketState::Told(..) => *state = TicketState::Told(then, identified),
        }
    }

    fn lock(&self) -> MutexGuard<'_, TicketState> {
        lock(&self.0)
    }
}

/// The maximum number of unread messages for one gate, and of those that leave the process; further ones are dropped,
/// which the protocol repairs.
const UNREAD_MAX: usize = 1024;

pub(crate) type Incoming = (ServerId, PeerMessage);

pub(crate) type Outgoing = (ServerId, ServerId, PeerMessage);

#[derive(Clone, Default)]
pub(crate) struct Outbox {
    local: BTreeMap<ServerId, mpsc::Sender<Incoming>>,
    remote: Option<mpsc::Sender<Outgoing>>,
}

impl Outbox {
    pub(crate) fn between(servers: &[ServerId]) -> (Self, Vec<mpsc::Receiver<Incoming>>) {
        let boxes = servers.iter().map(|&server| (server, mpsc::channel(UNREAD_MAX)));
        let (local, incoming) = boxes.map(|(server, (sender, incoming))| ((server, sender), incoming)).unzip();
        (Self { local, remote: None }, incoming)
    }

    /// Opens the way to the gates of other processes; what is sent to them is received here.
    pub(crate) fn open_remote(&mut self) -> mpsc::Receiver<Outgoing> {
        let (sender, outgoing) = mpsc::channel(UNREAD_MAX);
        self.remote = Some(sender);
        outgoing
    }

    pub(crate) fn send(&self, from: ServerId, messages: Vec<(ServerId, PeerMessage)>) {
        for (to, message) in messages {
            match &self.remote {
                // A full channel means a lost message: the next message repeats its content.
                Some(sender) if !self.local.contains_key(&to) => drop(sender.try_send((from, to, message))),
                _ => self.deliver(from, to, message),
            }
        }
    }

    pub(crate) fn deliver(&self, from: ServerId, to: ServerId, message: PeerMessage) {
        if let Some(peer) = self.local.get(&to) {
            // As above.
            let _ = peer.try_send((from, message));
        }
    }
}

/// Where a request comes from: its application is looked up again if the rules change while it waits.
pub(crate) struct Origin {
    pub(crate) ip: IpAddr,
    pub(crate) listener: usize,
    /// As the request stated, or the latest one of its host when it arrived.
    pub(crate) user: Option<Arc<User>>,
}

#[derive(Clone)]
pub(crate) struct Belonging {
    pub(crate) app: AppId,
    pub(crate) origin: Arc<Origin>,
}

// For how long messages wait for a processor of this host.
//
// A request spends this time on its way, and so do its data and its answer, at the proxy and at a storage server on
// the same host; while processors are busy, it looks like slow storage. It is measured, not derived from how busy they
// are: work with lower priority delays nobody, and a runtime whose threads are all busy delays messages also on an
// idle host. So a thread sends a message to this process now and then, as storage servers do, and the time until it
// is read counts.

const EVERY: Duration = Duration::from_millis(50);
const MESSAGES: u32 = 20;

/// Tells the gates each second, for ever. What it needs is opened at once, not when it is first polled.
pub(crate) fn watch_processors(gates: Vec<Arc<Gate>>) -> impl Future<Output = ()> {
    let pair = Sender::pair();
    async move {
        if let Err(error) = measure(pair, |wait| gates.iter().for_each(|gate| gate.set_processor_wait(wait))).await {
            tracing::warn!(%error, "waits for a processor are not measured, so a busy host may look like slow storage");
        }
    }
}

async fn measure(pair: io::Result<(Sender, Sender)>, tell: impl Fn(Duration)) -> io::Result<()> {
    let (sender, receiver) = pair?;
    receiver.set_nonblocking(true)?;
    let (receiver, began) = (UnixStream::from_std(receiver)?, Instant::now());
    thread::Builder::new().name("processor wait".into()).stack_size(64 << 10).spawn(move || send(sender, began))?;
    receive(receiver, began, tell).await
}

async fn receive(mut receiver: UnixStream, began: Instant, tell: impl Fn(Duration)) -> io::Result<()> {
    loop {
        let mut all = Duration::ZERO;
        for _ in 0..MESSAGES {
            let sent = Duration::from_nanos(receiver.read_u64().await?);
            all += began.elapsed().saturating_sub(sent);
        }
        tell(all / MESSAGES);
    }
}

fn send(mut sender: Sender, began: Instant) {
    let now = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    while sender.write_all(&now().to_be_bytes()).is_ok() {
        thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::mpsc::channel;
    use std::task::{Context, Waker};

    use super::*;

    /// What systemd's watchdog depends on.
    #[tokio::test(start_paused = true)]
    async fn a_gate_answers_as_long_as_its_task_runs() {
        let config = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n";
        let config = Config::parse("f", config).unwrap();
        let gate = Arc::new(Gate::alone(Clock::start(), &config, &AppTable::new(&config)));
        let answers = async || tokio::time::timeout(Duration::from_secs(60), gate.pulse()).await.is_ok();
        assert!(!answers().await, "nothing runs yet");
        let running = Arc::clone(&gate);
        let task = tokio::spawn(async move { running.run_timer().await });
        assert!(answers().await && answers().await);
        task.abort();
        assert!(!answers().await);
    }

    #[test]
    fn dispatches_that_were_taken_do_not_wake_the_task() {
        let (mailbox, mut dispatched) = (Mailbox::default(), Vec::new());
        let mut context = Context::from_waker(Waker::noop());
        let mut filled = pin!(mailbox.filled());
        let [first, second] =
            [1, 2].map(|serial| Dispatched { op: OpId { index: 0, serial }, pieces: None, is_to_store: false });
        mailbox.put(first);
        mailbox.take(&mut dispatched);
        mailbox.wake();
        assert!(filled.as_mut().poll(&mut context).is_pending());
        mailbox.put(second);
        mailbox.wake();
        assert!(filled.as_mut().poll(&mut context).is_ready());
        mailbox.take(&mut dispatched);
        assert_eq!(dispatched, [first, second]);
    }

    #[test]
    fn what_comes_first_ends_it_once() {
        let (sender, ends) = channel();
        let told = || {
            let ticket = Arc::<Ticket>::default();
            let sender = sender.clone();
            ticket.then(Arc::new(|| AppId(0)), Box::new(move |end| sender.send(end).unwrap()));
            ticket
        };
        let closed = told();
        assert!(closed.close() && !closed.close());
        closed.call();
        let called = told();
        called.call();
        assert!(called.has_ended() && !called.close(), "whose turn has come is not interrupted");
        assert_eq!(ends.try_iter().collect::<Vec<_>>(), [End::Closed, End::Called]);
    }

    #[tokio::test]
    async fn what_messages_waited_is_told() {
        let (mut sender, receiver) = Sender::pair().unwrap();
        receiver.set_nonblocking(true).unwrap();
        // Half of them are from the beginning, a second ago, and half are from later than now, which is no wait.
        let began = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let later = u64::try_from(Duration::from_secs(9000).as_nanos()).unwrap();
        for message in 0..u64::from(MESSAGES) {
            sender.write_all(&(message % 2 * later).to_be_bytes()).unwrap();
        }
        drop(sender);
        let told = Cell::new(Duration::ZERO);
        receive(UnixStream::from_std(receiver).unwrap(), began, |wait| told.set(wait)).await.unwrap_err();
        assert!((Duration::from_millis(500)..=began.elapsed() / 2).contains(&told.get()), "{told:?}");
    }
}

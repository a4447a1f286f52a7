//! The place in front of one server where requests wait for the scheduler.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use vpfs_config::{AppEntry, AppTable, Config, Protocol, Share, WriteBack};
use vpfs_core::{AppId, Bytes, Dispatch, FileKey, Learned, Objects, OpKind, ServerId, Time};
use vpfs_node::coordination::Members;
use vpfs_node::{
    AppName, Arrival, Event, NamedShare, Node, NodeSettings, PeerMessage, PeerSettings, RequestKey, Served, Snapshot,
    Unstored,
};
use vpfs_session::{Completed, OpId, Outcome, Submission};

use crate::clock::Clock;
use crate::event_log::{EventLog, is_important};
use crate::learned::Known;
use crate::mailbox::{Dispatched, Mailbox};
use crate::origin::{Belonging, Origin};
use crate::outbox::{Incoming, Outbox};
use crate::ticket::Ticket;

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
    /// The server's own host limits it.
    is_limited_there: bool,
    timer: Option<Time>,
    /// Applications that were bulk before a restart, and have not appeared since.
    awaited: Vec<String>,
}

/// What waits for a request's dispatch.
#[derive(Clone)]
enum Waiter {
    /// An operation of a session, whose it is, and bytes that may be stored later.
    Session(Arc<Mailbox>, OpId, Arc<Origin>, u64),
    /// A request of a program on this host.
    Program(Arc<Ticket>),
}

/// The outputs of one input, processed after the lock is released.
#[derive(Default)]
struct Outputs {
    messages: Vec<(ServerId, PeerMessage)>,
    dispatched: Vec<Arc<Mailbox>>,
    programs: Vec<Arc<Ticket>>,
    events: Vec<(Time, Event)>,
}

/// Takes a node's outputs.
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
    /// In front of the only server.
    #[cfg(test)]
    pub(crate) fn alone(clock: Clock, config: &Config, apps: &AppTable) -> Self {
        Self::new(clock, ServerId(0), Outbox::default(), config, apps)
    }

    pub(crate) fn new(clock: Clock, server: ServerId, outbox: Outbox, config: &Config, apps: &AppTable) -> Self {
        let now = clock.now();
        let node = Node::new(now, server, &node_settings(config, now));
        let unstored = unstored(config, server);
        let state = State { node, unstored, is_limited_there: false, timer: None, awaited: Vec::new() };
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

    /// Messages wait for a processor for so long on the mean.
    pub(crate) fn set_processor_wait(&self, wait: Duration) {
        self.lock().node.set_processor_wait(wait);
    }

    /// What the policy has learned, for the next process.
    pub(crate) fn learned(&self) -> Option<Learned> {
        let state = self.lock();
        state.node.learned(self.clock.now())
    }

    /// Continues from what an earlier process learned; call before the first request.
    pub(crate) fn remember(&self, known: &Known, apps: &AppTable) {
        let Some(learned) = known.learned() else { return };
        self.with(|state, now| {
            state.node.remember(now, &learned);
            for name in &known.bulk {
                match apps.find(name) {
                    Some(app) => state.node.remember_bulk(app),
                    None => state.awaited.push(name.clone()),
                }
            }
        });
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

    /// A request belongs to this application now, if it still waits.
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

    /// A dispatched request of a program ended.
    pub(crate) fn complete_program(&self, request: RequestKey, served: &Served) {
        self.with(|state, now| state.node.complete(now, request, served));
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Corrects the cost of a queued or dispatched operation.
    pub(crate) fn correct_cost(&self, request: RequestKey, real: Bytes) {
        self.with(|state, now| state.node.correct_cost(now, request, real.0));
    }

    /// Corrects the number of objects of a dispatched metadata operation.
    pub(crate) fn correct_objects(&self, request: RequestKey, real: Objects) {
        self.with(|state, now| state.node.correct_objects(now, request, real));
    }

    /// A dispatched operation ended.
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

    /// Declares the shares of a configuration.
    pub(crate) fn set_shares(&self, config: &Config) {
        let shares = config.shares.iter().map(|Share { path, policy }| NamedShare { path, policy: *policy });
        self.with(|state, now| state.node.set_shares(now, shares));
    }

    /// Sets an application's weight, share, cap, target and order.
    pub(crate) fn set_app(&self, app: AppId, entry: &AppEntry) {
        self.events.set_app(app, entry);
        let share = entry.share.as_ref().map(|place| NamedShare::new(&place.path, place.weight));
        let name = AppName { name: &entry.name, share };
        self.with(|state, now| {
            state.node.set_app(now, app, name, &entry.policy);
            if let Some(index) = state.awaited.iter().position(|awaited| *awaited == entry.name) {
                state.awaited.swap_remove(index);
                state.node.remember_bulk(app);
            }
        });
    }

    /// Whether an application has no request here.
    pub(crate) fn is_idle_for(&self, app: AppId) -> bool {
        self.lock().node.is_idle_for(app)
    }

    /// Whether an application counts in the sum of those without metrics of their own.
    pub(crate) fn set_other(&self, app: AppId, is_other: bool) {
        self.with(|state, now| state.node.set_other(now, app, is_other));
    }

    /// An application that is idle is gone for good.
    pub(crate) fn forget_app(&self, app: AppId) {
        self.with(|state, now| state.node.forget_app(now, app));
    }

    /// Takes a message from another gate.
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

    /// All that is known at this moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.lock().node.snapshot(self.clock.now())
    }

    pub(crate) fn server(&self) -> ServerId {
        self.server
    }

    /// Whether no request is queued or outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().node.is_idle()
    }

    /// Whether a panic passed through the node, so that its state may be inconsistent.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.is_poisoned()
    }

    /// Serves the node's timer for ever.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The limit on what clients leave to this server to store later; `None` if there is none.
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

/// The settings of a node that starts or is reconfigured at `now`.
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

/// Delivers the messages of its peers to a gate, for ever.
pub(crate) async fn deliver(gate: Arc<Gate>, mut incoming: mpsc::Receiver<Incoming>) {
    while let Some((from, message)) = incoming.recv().await {
        gate.receive(from, &message);
    }
}

#[cfg(test)]
mod tests {
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
}

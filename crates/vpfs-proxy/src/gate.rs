//! The place in front of one server where requests wait for the scheduler.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use vpfs_config::{AppEntry, AppTable, Config};
use vpfs_coord::Message;
use vpfs_core::{AppId, Bytes, Event, OpKind, Request, RequestId, Scheduler, ServerId, Time};
use vpfs_interpose::{Finished, OpId, Submission};
use vpfs_wire::pvfs2::Handle;

use crate::clock::Clock;
use crate::file_sizes::FileSizes;
use crate::mailbox::{Grant, Mailbox};
use crate::peers::{Peers, Post};
use crate::policy::{self, ServerScheduler};
use crate::totals::Totals;

/// One scheduler, shared by all sessions of a server.
///
/// The lock is held for pure state changes only: never across I/O, an await, a line of the log or the waking of a task.
pub(crate) struct Gate {
    clock: Clock,
    server: ServerId,
    post: Post,
    state: Mutex<State>,
    timer_changed: Notify,
}

struct State {
    scheduler: ServerScheduler,
    /// Only while shares hold over several servers.
    peers: Option<Peers>,
    metadata_cost: Bytes,
    waiters: Vec<Option<Waiter>>,
    free: Vec<RequestId>,
    sizes: FileSizes,
    totals: Totals,
    timer: Option<Time>,
}

/// Who asked for a request.
struct Waiter {
    mailbox: Arc<Mailbox>,
    op: OpId,
    app: AppId,
}

impl Gate {
    pub(crate) fn new(clock: Clock, server: ServerId, post: Post, config: &Config, apps: &AppTable) -> Self {
        let state = State {
            scheduler: policy::scheduler(config),
            peers: Peers::new(clock.now(), server, &post, config),
            metadata_cost: config.scheduler.metadata_cost,
            waiters: Vec::new(),
            free: Vec::new(),
            sizes: FileSizes::default(),
            totals: Totals::default(),
            timer: None,
        };
        let gate = Self { clock, server, post, state: Mutex::new(state), timer_changed: Notify::new() };
        for (app, entry) in apps.iter() {
            gate.set_app(app, entry);
        }
        gate
    }

    /// Queues an operation; its mailbox, which may be the caller's own, hears when it may go.
    pub(crate) fn submit(&self, mailbox: &Arc<Mailbox>, op: OpId, app: AppId, submission: &Submission) -> RequestId {
        self.with(|state, now| {
            let cost = match submission.kind {
                OpKind::Metadata => state.metadata_cost,
                OpKind::Read | OpKind::Write => state.sizes.estimate(submission),
            };
            let id = state.insert(Waiter { mailbox: Arc::clone(mailbox), op, app });
            let elsewhere = submission.elsewhere.map(|bytes| in_proportion(bytes, cost, submission.cost));
            state.scheduler.enqueue(now, Request { elsewhere, ..Request::new(id, app, submission.kind, cost) });
            id
        })
    }

    /// The real cost of a queued or dispatched operation.
    pub(crate) fn correct(&self, id: RequestId, real: Bytes) {
        self.with(|state, now| state.scheduler.correct_cost(now, id, real));
    }

    /// A dispatched operation is over.
    pub(crate) fn finish(&self, id: RequestId, finished: &Finished) {
        self.with(|state, now| {
            state.scheduler.complete(now, id);
            let waiter = state.remove(id);
            state.totals.add(waiter.app, now, finished);
        });
    }

    /// A queued or dispatched operation is given up, with its cost and its slots.
    pub(crate) fn withdraw(&self, id: RequestId) {
        self.with(|state, now| {
            state.scheduler.cancel(now, id);
            state.remove(id);
        });
    }

    pub(crate) fn learn_size(&self, handle: Handle, size: u64) {
        self.lock().sizes.learn(handle, size);
    }

    /// Gives an application its weight, cap, target and order.
    pub(crate) fn set_app(&self, app: AppId, entry: &AppEntry) {
        self.with(|state, now| {
            if let Some(peers) = &mut state.peers {
                peers.name(app, &entry.name);
            }
            policy::set_app(&mut state.scheduler, now, app, entry);
        });
    }

    /// A message of another gate.
    pub(crate) fn receive(&self, from: ServerId, message: &Message) {
        let received = self.with(|state, now| match &mut state.peers {
            Some(peers) => peers.receive(now, from, message),
            None => Ok(()),
        });
        if let Err(error) = received {
            tracing::warn!(server = from.0, %error, "a peer's message makes no sense");
        }
    }

    /// Takes over policy and costs; nothing that is queued or outstanding is lost.
    pub(crate) fn reconfigure(&self, config: &Config, apps: &AppTable) {
        self.with(|state, now| {
            let shares_before = state.peers.is_some();
            let peers = Peers::new(now, self.server, &self.post, config);
            if peers.is_some() != shares_before {
                state.peers = peers;
                state.peers.iter_mut().for_each(|peers| peers.name_all(apps));
            }
            state.metadata_cost = config.scheduler.metadata_cost;
            if state.scheduler.inner().settings() != &config.scheduler.policy {
                state.scheduler.inner_mut().reconfigure(now, &config.scheduler.policy);
            }
        });
    }

    /// What each application got so far.
    pub(crate) fn totals(&self) -> Totals {
        self.lock().totals.clone()
    }

    /// A panic went through the scheduler: what it holds may contradict itself.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.is_poisoned()
    }

    /// Serves the scheduler's timer (caps, periods) for ever.
    pub(crate) async fn run_timer(&self) {
        loop {
            let due = self.lock().timer;
            // A change from here on is remembered until it is waited for.
            let changed = self.timer_changed.notified();
            match due {
                None => changed.await,
                Some(time) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(self.clock.instant(time)) => {
                        self.with(State::handle_timeout);
                    }
                },
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in here is a bug, but the state it leaves is no worse for the other sessions than stopping.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one input and hands out what may go because of it.
    fn with<R>(&self, input: impl FnOnce(&mut State, Time) -> R) -> R {
        let mut state = self.lock();
        let now = self.clock.now();
        let result = input(&mut state, now);
        let messages = state.exchange(now);
        let granted = state.grant(now);
        let events = state.take_events();
        let coordination = state.take_coordination();
        let timer = state.poll_timeout();
        let timer_changed = std::mem::replace(&mut state.timer, timer) != timer;
        drop(state);
        if timer_changed {
            self.timer_changed.notify_one();
        }
        granted.iter().for_each(|mailbox| mailbox.wake());
        self.post.send(self.server, messages);
        for (at, event) in events {
            if let Event::LatencyMissed { app, latency, cause } = event {
                tracing::warn!(
                    server = self.server.0,
                    app = app.0,
                    ?latency,
                    ?cause,
                    "a promised latency cannot be kept"
                );
            }
            tracing::debug!(at_ns = at.as_nanos(), ?event, "scheduler");
        }
        for (at, event) in coordination {
            tracing::debug!(at_ns = at.as_nanos(), ?event, "coordination");
        }
        result
    }
}

impl State {
    /// Puts grants into the mailboxes of all that may go now; who is to be told.
    fn grant(&mut self, now: Time) -> Vec<Arc<Mailbox>> {
        let mut granted = Vec::new();
        while let Some(dispatch) = self.scheduler.poll_dispatch(now) {
            let waiter = self.waiters[dispatch.id.index()].as_ref().expect("a dispatched request has a waiter");
            waiter.mailbox.grant(Grant { op: waiter.op, pieces: dispatch.pieces });
            granted.push(Arc::clone(&waiter.mailbox));
        }
        granted
    }

    /// What the scheduler did, if the log wants to know; in any case it keeps nothing.
    fn take_events(&mut self) -> Vec<(Time, Event)> {
        let wanted = tracing::enabled!(tracing::Level::DEBUG);
        let important = |event: &Event| matches!(event, Event::LatencyMissed { .. });
        let events = std::iter::from_fn(|| self.scheduler.poll_event());
        events.filter(|(_, event)| wanted || important(event)).collect()
    }

    /// What the gates of other servers must hear.
    fn exchange(&mut self, now: Time) -> Vec<(ServerId, Message)> {
        match &mut self.peers {
            Some(peers) => peers.exchange(now, &mut self.scheduler),
            None => {
                // There is nobody to tell.
                while self.scheduler.poll_report(now).is_some() {}
                Vec::new()
            }
        }
    }

    /// As [`State::take_events`], of what happened between servers.
    fn take_coordination(&mut self) -> Vec<(Time, vpfs_coord::Event)> {
        let wanted = tracing::enabled!(tracing::Level::DEBUG);
        let peers = self.peers.iter_mut();
        peers.flat_map(|peers| std::iter::from_fn(|| peers.poll_event())).filter(|_| wanted).collect()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let peers = self.peers.as_ref().and_then(Peers::poll_timeout);
        self.scheduler.poll_timeout().into_iter().chain(peers).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.scheduler.poll_timeout().is_some_and(|due| due <= now) {
            self.scheduler.handle_timeout(now);
        }
        if let Some(peers) = &mut self.peers {
            peers.handle_timeout(now);
        }
    }

    fn insert(&mut self, waiter: Waiter) -> RequestId {
        let id = self.free.pop().unwrap_or_else(|| {
            let id = u32::try_from(self.waiters.len()).expect("connections and operations are bounded");
            self.waiters.push(None);
            RequestId(id)
        });
        self.waiters[id.index()] = Some(waiter);
        id
    }

    fn remove(&mut self, id: RequestId) -> Waiter {
        self.free.push(id);
        self.waiters[id.index()].take().expect("a request that is in use")
    }
}

/// What the parts elsewhere cost if this one costs `cost` and not `asked`: parts of one access shrink alike.
fn in_proportion(elsewhere: Bytes, cost: Bytes, asked: Bytes) -> Bytes {
    let scaled = (u128::from(elsewhere.0) * u128::from(cost.0)).checked_div(asked.0.into());
    Bytes(scaled.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(u64::MAX)))
}

//! One storage server as its driver sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vpfs_core::ioco::order_of;
use vpfs_core::pace::TriedRate;
use vpfs_core::{
    AppId, AppPolicy, Bytes, Dispatch, Event as SchedulerEvent, Learned, Limits, MIN_DATA_COST, Member, Objects,
    OpKind, Policy, PolicyKind, Reach, Request, Scheduler, ServerId, ServiceClass, Settings, SharedService, Time,
    TotalId, TotalKind,
};

use crate::accounts::{Accounts, Activity, AppAccount};
use crate::arrival::{Arrival, Cost, Costs, Served};
use crate::coordination::MessageError;
use crate::flows::{AppName, Flows, InShare, NamedShare};
use crate::in_storage::Leaving;
use crate::peers::{PeerMessage, PeerService, PeerSettings, Peers};
use crate::requests::{Entry, RequestKey, Requests, State};

/// Events are kept only between two inputs; if one input causes more than this many, the rest are only counted.
const EVENTS: usize = 1024;

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The scheduler's policy.
    pub policy: Settings,
    /// Cost of a metadata request for each object.
    pub metadata_cost: Bytes,
    /// The other servers; used only if the policy shares over servers.
    pub peers: Option<PeerSettings>,
}

/// What a driver does with that which an input brings about; see [`Node::drain`].
pub trait Outputs<W> {
    /// Messages to other servers' nodes; called before the dispatches of an input, and again after them.
    fn transmit(&mut self, messages: impl Iterator<Item = (ServerId, PeerMessage)>);

    /// A request, for which `waiter` waits, goes to the storage now.
    fn dispatch(&mut self, waiter: &W, request: RequestKey, dispatch: &Dispatch);

    /// Something happened: the scheduler's events, oldest first, then the coordination's.
    fn event(&mut self, at: Time, event: Event);
}

/// One storage server without its I/O and clock; `W` is whatever is woken when a request is dispatched. How to drive
/// it: see the crate documentation.
///
/// **Bounds.** It holds an entry for each request in use and for each [`AppId`] named; the driver chooses these.
///
/// **Panics.** Using a request that has ended is a bug of the driver and panics.
#[derive(Debug)]
pub struct Node<W> {
    server: ServerId,
    requests: Requests<W>,
    scheduler: Policy,
    peers: Option<Box<Peers>>,
    peer_settings: Option<Box<PeerSettings>>,
    /// What is for the sum over all servers, in bytes per second.
    sums: BTreeMap<(Member, TotalKind), u64>,
    flows: Flows,
    costs: Costs,
    /// `None` if nobody looks at them.
    accounts: Option<Box<Accounts>>,
    /// Applications that count in [`Snapshot::others`], ...
    others: BTreeSet<AppId>,
    /// ... and what those got that no longer do.
    earlier_others: Option<Box<AppSnapshot>>,
    /// Requests of exempt applications since the last [`Node::drain`].
    passing: Vec<RequestKey>,
    latest: Time,
}

impl<W> Node<W> {
    /// A node for `server` that knows no applications yet.
    pub fn new(now: Time, server: ServerId, settings: &NodeSettings) -> Self {
        let mut node = Self {
            server,
            requests: Requests::new(),
            scheduler: Policy::new(&settings.policy, EVENTS),
            peers: None,
            peer_settings: settings.peers.clone().map(Box::new),
            sums: BTreeMap::new(),
            flows: Flows::default(),
            costs: Costs::new(settings.metadata_cost),
            accounts: Some(Box::default()),
            others: BTreeSet::new(),
            earlier_others: None,
            passing: Vec::new(),
            latest: now,
        };
        node.find_peers(now);
        node
    }

    /// Keeps no account of what applications do and get; [`Node::snapshot`] is then without them. A thousand nodes in
    /// one process are many times faster so.
    #[must_use]
    pub fn without_accounts(self) -> Self {
        Self { accounts: None, ..self }
    }

    /// What the policy has learned and would have to learn again after a restart; `None` if nothing. O(applications).
    pub fn learned(&self, now: Time) -> Option<Learned> {
        self.scheduler.learned(now)
    }

    /// Continues from what an earlier node learned, as far as it had the same policy. Call before the first request.
    pub fn remember(&mut self, now: Time, learned: &Learned) {
        self.scheduler.remember(now, learned);
    }

    /// Changes policy and costs; no queued or dispatched request is lost.
    pub fn reconfigure(&mut self, now: Time, settings: &NodeSettings) {
        self.peer_settings = settings.peers.clone().map(Box::new);
        if let (Some(peers), Some(settings)) = (&mut self.peers, &settings.peers) {
            peers.set_members(now, &settings.servers);
            self.set_reach(now);
            self.forget_parts(now);
        }
        self.costs.metadata = settings.metadata_cost;
        if self.settings() != &settings.policy {
            self.scheduler.reconfigure(now, &settings.policy);
        }
        self.find_peers(now);
    }

    /// Sets an application's weight, cap, promises and order, where it stands in the tree of shares, and its name,
    /// under which servers report service to each other. Its share has the number that belongs to its path; the order
    /// is that of the name, unless there is one.
    pub fn set_app<'a>(&mut self, now: Time, app: AppId, name: impl Into<AppName<'a>>, policy: &AppPolicy) {
        let name = name.into();
        let share = self.flows.name(app, name);
        self.tell_shares(now);
        let policy = AppPolicy { share, order: policy.order.or(Some(order_of(name.name))), ..*policy };
        self.scheduler.set_app(now, app, &policy);
        self.flows.set_exempt(app, policy.exempt);
        if let Some(accounts) = &mut self.accounts {
            accounts.set_policy(now, app, &policy);
        }
        self.set_sums(app.into(), policy.totals());
        self.forget_shares(now);
        self.find_peers(now);
        self.renew_reach(now);
    }

    fn set_sums(&mut self, of: Member, totals: impl Iterator<Item = (TotalKind, u64)>) {
        for kind in TotalKind::ALL {
            self.sums.remove(&(of, kind));
        }
        self.sums.extend(totals.map(|(kind, rate)| ((of, kind), rate)));
    }

    /// Declares exactly these shares. Others exist while an application is in them. O(shares).
    pub fn set_shares<'a>(&mut self, now: Time, declared: impl IntoIterator<Item = NamedShare<'a>>) {
        self.flows.places.declare(declared.into_iter());
        self.tell_shares(now);
        self.forget_shares(now);
        self.find_peers(now);
        self.renew_reach(now);
    }

    fn tell_shares(&mut self, now: Time) {
        while let Some((share, policy)) = self.flows.places.poll_changed() {
            self.scheduler.set_share(now, share, Some(&policy));
            if let Some(accounts) = &mut self.accounts {
                accounts.set_share(now, share, policy);
            }
            self.set_sums(share.into(), policy.totals());
        }
    }

    fn forget_shares(&mut self, now: Time) {
        while let Some((share, key)) = self.flows.places.poll_gone() {
            self.scheduler.set_share(now, share, None);
            self.set_sums(share.into(), std::iter::empty());
            if let Some(peers) = &mut self.peers {
                peers.share_left(now, key);
            }
        }
    }

    /// Coordinates with peers from the moment at which shares or totals hold over servers, and no longer than that.
    fn find_peers(&mut self, now: Time) {
        let needs_peers = self.settings().needs_peers(self.sums.keys().map(|(_, kind)| *kind));
        if needs_peers != self.peers.is_some() {
            let settings = self.peer_settings.as_ref().filter(|_| needs_peers);
            self.peers = settings.and_then(|settings| Peers::new(now, self.server, settings)).map(Box::new);
            if let Some(pacing) = self.scheduler.pacing() {
                pacing.set_shared(now, false);
            }
            self.set_reach(now);
            self.forget_parts(now);
        }
    }

    /// The clock that all servers go by is this far ahead of the driver's; behind it if negative. For policies with
    /// windows of time.
    pub fn set_clock(&mut self, ahead_ns: i64) {
        self.scheduler.set_clock(ahead_ns);
    }

    /// A message waits for a processor of the driver's host for so long on the mean, from when it can be read until
    /// somebody reads it. Call each second or so; what that explains of requests' times is not the storage's.
    pub fn set_processor_wait(&mut self, wait: Duration) {
        if let Some(accounts) = &mut self.accounts {
            accounts.set_processor_wait(wait);
        }
    }

    /// As messages and timeouts may change it. O(peers), so not for each message if nothing depends on it.
    fn renew_reach(&mut self, now: Time) {
        if !self.sums.is_empty() {
            self.set_reach(now);
        }
    }

    fn set_reach(&mut self, now: Time) {
        self.scheduler.set_reach(now, self.peers.as_ref().map_or(Reach::ALONE, |peers| peers.reach()));
    }

    /// Until they are found anew, if servers take parts at all.
    fn forget_parts(&mut self, now: Time) {
        for &(of, kind) in self.sums.keys() {
            for class in [ServiceClass::Data, ServiceClass::Metadata] {
                if let Some(totals) = self.scheduler.totals(kind, class) {
                    totals.set_part(now, of, None);
                }
            }
        }
    }

    /// Whether [`Node::set_app`] was called for an application.
    pub fn knows(&self, app: AppId) -> bool {
        self.flows.key(app).is_some()
    }

    /// Queues a request, for which `waiter` waits. Those of applications that are exempt are dispatched by the next
    /// [`Node::drain`], whatever the policy says, which never learns of them.
    pub fn enqueue(&mut self, now: Time, waiter: W, arrival: &Arrival) -> RequestKey {
        let Arrival { app, op, objects, issued_at, piece, .. } = *arrival;
        let key = self.requests.insert(now, waiter, app, op);
        if let Some(accounts) = &mut self.accounts {
            accounts.on_enqueue(now, app, op);
        }
        if self.flows.is_exempt(app) {
            self.requests.exempt(key);
            self.passing.push(key);
            self.check(now);
            return key;
        }
        let Cost { here, elsewhere } = self.costs.of(arrival);
        let request = Request::new(self.requests.id(key), app, op, here);
        self.schedule(now, now, &Request { objects, issued_at, elsewhere, piece, ..request });
        self.check(now);
        key
    }

    fn schedule(&mut self, now: Time, arrived: Time, request: &Request) {
        let Request { app, op, .. } = *request;
        self.scheduler.enqueue_held(now, arrived, request);
        self.flows.add(now, app);
        if let Some(peers) = &mut self.peers {
            peers.flow_arrived(now, &self.flows, app);
            if peers.divides() {
                let settings = self.scheduler.settings();
                let all = self.flows.with_above(app).flat_map(|of| TotalKind::ALL.map(|kind| (of, kind)));
                for (of, kind) in all.filter(|total| self.sums.contains_key(total)) {
                    peers.want(now, TotalId { of, kind, class: settings.class_of(kind, op) });
                }
            }
        }
        // Now, so that a report takes no message beside the one that announces the application.
        self.pass_reports_on(now);
    }

    /// All queued requests in order of arrival, with their kinds and waiters: their applications may have changed.
    /// O(n log n) in requests in use.
    pub fn waiting(&self) -> impl Iterator<Item = (RequestKey, OpKind, &W)> {
        self.requests.all_queued().into_iter().map(|(key, entry)| (key, entry.op, &entry.waiter))
    }

    /// A request that is still queued belongs to `app` from now on: it is refunded to the application that it was
    /// enqueued for, waits by the rules of `app` alone, and passes at once if that is exempt. What it has waited stays
    /// known. Nothing happens if it was dispatched, or has ended.
    pub fn reassign(&mut self, now: Time, key: RequestKey, app: AppId) {
        let Some((before, op)) = self.requests.queued(key) else { return };
        let is_exempt = self.flows.is_exempt(app);
        if before == app && !is_exempt {
            return;
        }
        let (arrived, request) = self.scheduler.withdraw(now, self.requests.id(key));
        self.flows.remove(now, before);
        self.requests.set_app(key, app);
        if let Some(accounts) = &mut self.accounts {
            accounts.on_enqueue(now, app, op);
        }
        self.on_gone(now, (before, op), true);
        if is_exempt {
            self.requests.exempt(key);
            self.passing.push(key);
        } else {
            self.schedule(now, arrived, &Request { app, ..request });
        }
        self.check(now);
    }

    /// Corrects a queued or dispatched data request, whose size was an estimate: it moves `bytes`.
    pub fn correct_cost(&mut self, now: Time, key: RequestKey, bytes: u64) {
        if self.requests.is_exempt(key) {
            return;
        }
        self.scheduler.correct_cost(now, self.requests.id(key), Bytes(bytes).max(MIN_DATA_COST));
    }

    /// Corrects a queued or dispatched metadata request, whose number of objects was an estimate.
    pub fn correct_objects(&mut self, now: Time, key: RequestKey, objects: Objects) {
        if self.requests.is_exempt(key) {
            return;
        }
        self.scheduler.correct_cost(now, self.requests.id(key), self.costs.metadata_cost(objects));
    }

    /// A dispatched request ended.
    pub fn complete(&mut self, now: Time, key: RequestKey, served: &Served) {
        let (id, entry) = self.requests.remove(key);
        if entry.state != State::Released {
            if entry.state != State::Exempt {
                self.scheduler.complete(now, id);
                self.flows.remove(now, entry.app);
            }
            self.on_leave(now, &entry.leaving(served.answered.then_some(served.bytes)));
            self.on_gone(now, (entry.app, entry.op), false);
        }
        if let Some(accounts) = &mut self.accounts {
            accounts.on_end(entry.app, now, served);
        }
        self.check(now);
    }

    /// A dispatched request waits for its client: its slots are free, its charge stays. It still ends later. Returns
    /// its application.
    pub fn release(&mut self, now: Time, key: RequestKey) -> AppId {
        let is_exempt = self.requests.is_exempt(key);
        let (id, entry) = self.requests.release(key);
        let (app, op, leaving) = (entry.app, entry.op, entry.leaving(None));
        self.on_leave(now, &leaving);
        if !is_exempt {
            self.scheduler.release(now, id);
            self.flows.remove(now, app);
        }
        if let Some(accounts) = &mut self.accounts {
            accounts.on_release(app);
        }
        self.on_gone(now, (app, op), false);
        self.check(now);
        app
    }

    /// A queued or dispatched request is cancelled; its cost is refunded, unless it is released.
    pub fn cancel(&mut self, now: Time, key: RequestKey) {
        let (id, entry) = self.requests.remove(key);
        let Entry { app, op, state, .. } = entry;
        let passing = self.passing.len();
        self.passing.retain(|passing| *passing != key);
        let is_queued = state == State::Queued || self.passing.len() < passing;
        if state != State::Released {
            if state != State::Exempt {
                self.scheduler.cancel(now, id);
                self.flows.remove(now, app);
            }
            if !is_queued {
                self.on_leave(now, &entry.leaving(None));
            }
            self.on_gone(now, (app, op), is_queued);
        }
        self.check(now);
    }

    fn on_leave(&mut self, now: Time, leaving: &Leaving) {
        if let Some(accounts) = &mut self.accounts {
            accounts.on_leave(now, leaving);
        }
    }

    fn on_gone(&mut self, now: Time, request: (AppId, OpKind), was_queued: bool) {
        if let Some(accounts) = &mut self.accounts {
            let is_idle = self.scheduler.outstanding() + self.requests.exempted() == 0;
            accounts.on_gone(now, request, was_queued, is_idle);
        }
    }

    /// Not in release builds: there, one panic must not make every later input panic as well.
    fn check(&mut self, now: Time) {
        debug_assert_eq!(
            self.requests.scheduled(),
            self.scheduler.queued() + self.scheduler.outstanding(),
            "somebody waits for each request"
        );
        debug_assert!(now >= self.latest, "time does not go back");
        self.latest = now;
    }

    /// An application has finished; without this call, it leaves after ten minutes without a request.
    pub fn flow_left(&mut self, now: Time, app: AppId) {
        self.flows.forget(app);
        if let Some(peers) = &mut self.peers {
            peers.flow_left(now, app);
        }
    }

    /// Whether an application has no request queued or dispatched.
    pub fn is_idle_for(&self, app: AppId) -> bool {
        self.flows.is_idle(app)
    }

    /// An application that is idle is gone for good: its number may be given to another one by [`Node::set_app`], some
    /// time later, as policies take one that returns after a moment for the same. What it got is no longer known.
    /// O(applications).
    pub fn forget_app(&mut self, now: Time, app: AppId) {
        debug_assert!(self.is_idle_for(app), "an application with requests stays");
        self.flow_left(now, app);
        self.flows.set_exempt(app, false);
        self.set_other(now, app, false);
        if let Some(accounts) = &mut self.accounts {
            accounts.forget(app);
        }
    }

    /// Whether an application counts in [`Snapshot::others`]. It may do so from its first request on, and no longer at
    /// any time; what it got by then stays in the sum, whose counts therefore never fall.
    pub fn set_other(&mut self, now: Time, app: AppId, is_other: bool) {
        if is_other {
            self.others.insert(app);
        } else if self.others.contains(&app) {
            if let Some(seen) = self.seen(now, app) {
                add_to(&mut self.earlier_others, Box::new(seen.ended()));
            }
            self.others.remove(&app);
        }
    }

    /// The server revealed the size of a file's part on it.
    pub fn learn_size(&mut self, file: vpfs_core::FileKey, size: u64) {
        self.costs.learn_size(file, size);
    }

    /// Takes a message from another server's node.
    ///
    /// # Errors
    /// If no correct peer sends such a message; none of it was used.
    pub fn handle_message(&mut self, now: Time, from: ServerId, message: &PeerMessage) -> Result<(), MessageError> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let handled = peers.handle_message(now, from, message, &self.flows, &mut self.scheduler);
        self.renew_reach(now);
        handled
    }

    /// The time given by [`Node::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.check(now);
        if self.scheduler.poll_timeout().is_some_and(|due| due <= now) {
            self.scheduler.handle_timeout(now);
        }
        if let Some(peers) = &mut self.peers {
            peers.handle_timeout(now, &mut self.scheduler);
            let rate = |total: TotalId| self.sums.get(&(total.of, total.kind)).copied();
            peers.divide(now, &self.flows, rate, &mut self.scheduler);
            self.set_reach(now);
        }
        while let Some(app) = self.flows.poll_left(now) {
            self.flow_left(now, app);
        }
    }

    /// Passes everything on that the latest input brought about; returns when to call [`Node::handle_timeout`] if no
    /// other input comes first, `None` if only other inputs matter.
    ///
    /// The order is part of the contract: a dispatch may produce a report to other servers, and reports that are taken
    /// before it would make other messages.
    pub fn drain(&mut self, now: Time, outputs: &mut impl Outputs<W>) -> Option<Time> {
        outputs.transmit(std::iter::from_fn(|| self.poll_transmit(now)));
        for key in std::mem::take(&mut self.passing) {
            let (entry, dispatch) = self.requests.pass(now, key);
            if let Some(accounts) = &mut self.accounts {
                accounts.on_dispatch(now, entry, dispatch.rule);
            }
            outputs.dispatch(&entry.waiter, key, &dispatch);
        }
        while let Some(dispatch) = self.scheduler.poll_dispatch(now) {
            let (key, entry) = self.requests.dispatch(now, &dispatch);
            if let Some(accounts) = &mut self.accounts {
                accounts.on_dispatch(now, entry, dispatch.rule);
            }
            outputs.dispatch(&entry.waiter, key, &dispatch);
        }
        self.pass_reports_on(now);
        outputs.transmit(std::iter::from_fn(|| self.poll_transmit(now)));
        while let Some((at, event)) = self.poll_event() {
            match event {
                Event::Scheduler(SchedulerEvent::CapHeld { id, .. }) => self.requests.hold(id),
                Event::Scheduler(SchedulerEvent::Enqueued { id, .. }) => self.requests.admit(id, at),
                _ => {}
            }
            outputs.event(at, event);
        }
        self.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<(ServerId, PeerMessage)> {
        if self.peers.as_mut()?.takes_all_reports() {
            self.scheduler.report_all();
            self.pass_reports_on(now);
        }
        self.peers.as_mut()?.poll_transmit(now, &self.flows, &mut self.scheduler)
    }

    fn pass_reports_on(&mut self, now: Time) {
        while let Some((total, bytes)) = self.scheduler.poll_total() {
            if let Some(peers) = &mut self.peers {
                peers.report_total(now, &self.flows, total, bytes);
            }
        }
        while let Some(report) = self.scheduler.poll_report(now) {
            if let Some(peers) = &mut self.peers {
                peers.report(now, &self.flows, report);
            }
        }
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        if let Some((at, event)) = self.scheduler.poll_event() {
            return Some((at, Event::Scheduler(event)));
        }
        let (at, event) = self.peers.as_mut()?.poll_event()?;
        Some((at, Event::Coordination(event)))
    }

    /// When to call [`Node::handle_timeout`], as [`Node::drain`] returned it.
    pub fn poll_timeout(&self) -> Option<Time> {
        let peers = self.peers.as_ref();
        // Without peers, nobody needs to know that an application left.
        let left = peers.and_then(|_| self.flows.poll_timeout());
        [self.scheduler.poll_timeout(), peers.and_then(|peers| peers.poll_timeout()), left].into_iter().flatten().min()
    }

    /// All that is known at this moment, of no application if it is [`Node::without_accounts`]. O(applications).
    pub fn snapshot(&mut self, now: Time) -> Snapshot {
        if let Some(accounts) = &mut self.accounts {
            accounts.look(now);
        }
        let accounts = self.accounts.as_ref();
        let known = accounts.into_iter().flat_map(|accounts| accounts.iter());
        let apps: Vec<AppSnapshot> = known.filter_map(|(app, _)| self.seen(now, app)).collect();
        let mut others = self.earlier_others.clone();
        apps.iter().filter(|seen| seen.is_other).for_each(|seen| add_to(&mut others, Box::new(seen.clone())));
        Snapshot {
            at: now,
            policy: self.settings().kind,
            bulk: self.scheduler.bulk().to_vec(),
            limits: self.scheduler.limits(),
            tried_rates: self.tried_rates(),
            queued: self.queued(),
            outstanding: self.outstanding(),
            busy: accounts.map_or(Duration::ZERO, |accounts| accounts.used().all()),
            apps,
            others: others.map(|others| *others),
        }
    }

    fn tried_rates(&self) -> Vec<TriedRate<AppId>> {
        let of_all = self.peers.as_ref().and_then(|peers| peers.pace.tried_rates(&self.flows));
        of_all.unwrap_or_else(|| self.scheduler.tried_rates())
    }

    fn seen(&self, now: Time, app: AppId) -> Option<AppSnapshot> {
        let accounts = self.accounts.as_ref()?;
        let account = accounts.get(app)?;
        let (entitled, used) = (accounts.entitled(now, app), accounts.used().of(app));
        let shares = self.flows.places.way_to(account.policy.share);
        let (is_other, peers) = (self.others.contains(&app), self.peer_service(app));
        Some(AppSnapshot { app, is_other, shares, account: account.clone(), entitled, used, peers })
    }

    /// The service of an application that was reported to peers and heard from them.
    pub fn peer_service(&self, app: AppId) -> PeerService {
        self.peers.as_ref().map_or(PeerService::default(), |peers| peers.service(app))
    }

    /// The policy in force.
    pub fn settings(&self) -> &Settings {
        self.scheduler.settings()
    }

    /// Whether no request is queued, dispatched or released.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Requests queued, not yet dispatched.
    pub fn queued(&self) -> usize {
        self.scheduler.queued()
    }

    /// Requests dispatched, not yet complete.
    pub fn outstanding(&self) -> usize {
        self.scheduler.outstanding()
    }
}

fn add_to(sum: &mut Option<Box<AppSnapshot>>, seen: Box<AppSnapshot>) {
    match sum {
        Some(sum) => sum.add(&seen),
        None => *sum = Some(seen),
    }
}

/// What is known about a server and the applications that use it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When it is.
    pub at: Time,
    /// The policy in force.
    pub policy: PolicyKind,
    /// The applications that go at the pace of bulk, in order.
    pub bulk: Vec<AppId>,
    /// What limits the work in the storage now.
    pub limits: Limits,
    /// What rates of bulk were recently worth, in order; empty where that is decided elsewhere.
    pub tried_rates: Vec<TriedRate<AppId>>,
    /// Requests that wait.
    pub queued: usize,
    /// Requests in the storage, without those that wait for their clients.
    pub outstanding: usize,
    /// What all applications used of the storage's time: its rate is the utilisation.
    pub busy: Duration,
    /// All applications that were named or had requests, by id.
    pub apps: Vec<AppSnapshot>,
    /// The sum of those that [`AppSnapshot::is_other`], with what earlier ones got; its counts never fall. `None` if
    /// there never was one.
    pub others: Option<AppSnapshot>,
}

/// An application in a [`Snapshot`].
#[derive(Clone, Debug)]
pub struct AppSnapshot {
    /// Its id.
    pub app: AppId,
    /// It counts in [`Snapshot::others`], for readers that show few applications.
    pub is_other: bool,
    /// The shares that it is in, the one at the top first.
    pub shares: Vec<InShare>,
    /// What it has and got here.
    pub account: AppAccount,
    /// The storage's time to which its weight entitled it while it had requests, among those that had some. Of all
    /// applications, this is the time in which any had.
    pub entitled: Duration,
    /// The storage's time that it used, by when its requests left. Of all applications, this is [`Snapshot::busy`].
    pub used: Duration,
    /// What of it was reported to other servers, and heard from them.
    pub peers: PeerService,
}

impl AppSnapshot {
    /// Adds another application, for the sum of several; whom they waited for, and what peers know, is left out.
    pub fn add(&mut self, other: &Self) {
        self.account.add(&other.account);
        self.entitled += other.entitled;
        self.used += other.used;
    }

    /// Only what it did and got until now, without what it has now.
    #[must_use]
    pub(crate) fn ended(mut self) -> Self {
        for activity in [&mut self.account.read, &mut self.account.write, &mut self.account.metadata] {
            (activity.queued, activity.outstanding) = (0, 0);
        }
        self
    }
}

/// What an application got, over all kinds of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppTotals {
    /// Data requests that ended.
    pub data_requests: u64,
    /// Metadata requests that ended.
    pub metadata_requests: u64,
    /// Data bytes that passed.
    pub bytes: u64,
    /// Requests that ended in time-out or disconnection.
    pub failed: u64,
    /// Requests that took longer than the application is promised.
    pub late: u64,
    /// Sum of the times from arrival to dispatch.
    pub waited: Duration,
    /// Sum of the times from dispatch to the end.
    pub served: Duration,
}

impl AppTotals {
    /// Adds what it got at another server.
    pub fn add(&mut self, account: &AppAccount) {
        self.data_requests += account.read.requests + account.write.requests;
        self.metadata_requests += account.metadata.requests;
        for Activity { bytes, failed, late, waited, served, .. } in account.activities() {
            self.bytes += bytes;
            self.failed += failed;
            self.late += late;
            self.waited += waited.sum;
            self.served += served.sum;
        }
    }
}

/// An event of the scheduler or of the coordination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Requests, policies, and missed promises.
    Scheduler(vpfs_core::Event),
    /// Peers.
    Coordination(crate::coordination::Event),
}

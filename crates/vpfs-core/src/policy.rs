//! One of the policies, exchangeable at runtime, behind the caps of applications. A daemon holds one for each server.
//!
//! Nothing is dropped when settings change. Changes of depth or slot costs, and between SFQ(D) and SFQ(D)+, keep every
//! tag. A change between FIFO, the fair policies, Two-level and IOCO hands the requests over: outstanding ones stay
//! outstanding, occupy slots of the new policy and are charged to their flows; queued ones follow in order of arrival;
//! weights, targets and orders are kept. Earlier service is forgotten, as after a start. The fair policies do not keep
//! the time at which a request was issued, nor its cost elsewhere once that is charged; the next policy then uses the
//! time of arrival and does not know the layout.
//!
//! **Metadata** can have its own queue [vPFS+ §IV]: a second policy of the same kind, with its own depth and virtual
//! time, for servers whose metadata and data are on different storage. Reports from other servers go to the queue of
//! their class. That queue can be opened and closed at any time: requests stay where they are queued, new ones follow
//! the new rule.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::app_policy::{AppPolicy, ShareId, SharePolicy};
use crate::caps::{Caps, Cost};
use crate::dsfq::SharedService;
use crate::engine::{Engine, Learned, Limits};
use crate::event::{Event, EventQueue};
use crate::list::{Links, Node};
use crate::member::Member;
use crate::pace::{Pacing, TriedRate};
use crate::request::{Dispatch, OpKind, Request, ServiceClass, ServiceReport};
use crate::scheduler::Scheduler;
use crate::settings::Settings;
use crate::total::{Reach, TotalKind};
use crate::totals::{TotalId, Totals};
use crate::units::{AppId, Bytes, RequestId, Time};

/// A scheduler whose policy and settings can change at any time.
///
/// Caps, and a queue of metadata, add O(1) to the cost of a request, or O(log n) in the number of applications that
/// are held back if the request's has a cap. A request that is held back counts as queued; its [`Event::Enqueued`]
/// follows when it is released. Poll events after every input, as the drive contract requires, to receive them in
/// order.
#[derive(Debug)]
pub struct Policy {
    /// The scheduler of all requests or of data.
    data: Box<dyn Engine>,
    /// That of metadata, also while it only drains its remaining requests.
    metadata: Option<Box<dyn Engine>>,
    /// By id. Small, as it is all that is kept here for a request without a cap.
    places: Vec<Place>,
    /// By id, as far as any request with a cap had it.
    capped: Vec<Entry>,
    caps: Caps,
    /// Of caps.
    events: EventQueue,
    settings: Settings,
    event_capacity: usize,
    /// By application, as far as they were set; kept for the next policy.
    apps: Vec<Option<AppPolicy>>,
    /// By share, likewise.
    shares: Vec<Option<SharePolicy>>,
    cluster: Cluster,
}

/// What the next policy has to know.
#[derive(Clone, Copy)]
struct Known<'a> {
    apps: &'a [Option<AppPolicy>],
    shares: &'a [Option<SharePolicy>],
    cluster: Cluster,
}

/// What is known of the other servers; kept for the next policy.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    reach: Reach,
    clock_ahead_ns: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The id is not in use.
    Nowhere,
    /// Held back by its application's cap.
    Held,
    /// In the scheduler of all requests or of data.
    Data,
    /// In that of metadata.
    Metadata,
}

/// A request that is held back, or charged to a cap.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// If not, and if it is not held back, the rest is unused.
    charged: bool,
    request: Request,
    arrived: Time,
    links: Links,
}

impl Entry {
    const UNUSED: Self = Self {
        charged: false,
        request: Request::new(RequestId(0), AppId(0), OpKind::Metadata, Bytes::ZERO),
        arrived: Time::ZERO,
        links: Links::UNLINKED,
    };
}

impl Node for Entry {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Cost for Entry {
    fn cost(&self) -> Bytes {
        self.request.cost
    }
}

impl Policy {
    /// A policy that keeps at most `event_capacity` events between polls, and as many about caps.
    pub fn new(settings: &Settings, event_capacity: usize) -> Self {
        let mut policy = Self {
            data: settings.engine(event_capacity),
            metadata: None,
            places: Vec::new(),
            capped: Vec::new(),
            caps: Caps::new(),
            events: EventQueue::with_capacity(event_capacity),
            settings: settings.clone(),
            event_capacity,
            apps: Vec::new(),
            shares: Vec::new(),
            cluster: Cluster { reach: Reach::ALONE, clock_ahead_ns: 0 },
        };
        policy.open(Time::ZERO);
        policy
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the policy has learned and would have to learn again after a restart; `None` if nothing. O(applications).
    pub fn learned(&self, now: Time) -> Option<Learned> {
        self.data.learned(now)
    }

    /// Continues from what an earlier policy had learned, as far as it is of the same kind. Call before the first
    /// request.
    pub fn remember(&mut self, now: Time, learned: &Learned) {
        self.data.remember(now, learned);
    }

    /// What limits the work in the storage now.
    pub fn limits(&self) -> Limits {
        self.data.limits()
    }

    /// The applications that go at the pace of bulk, in order.
    pub fn bulk(&self) -> &[AppId] {
        self.data.bulk()
    }

    /// What rates of bulk were recently worth, if that is decided here.
    pub fn tried_rates(&self) -> Vec<TriedRate<AppId>> {
        self.data.tried_rates()
    }

    /// Changes to other settings; see the [module](self) for what is kept. Drain dispatches afterwards, as after any
    /// input. O(n log n) in requests in use if the policy or a slot cost changes, otherwise O(1).
    pub fn reconfigure(&mut self, now: Time, settings: &Settings) {
        let before = core::mem::replace(&mut self.settings, settings.clone());
        let known = Known { apps: &self.apps, shares: &self.shares, cluster: self.cluster };
        reconfigure(&mut self.data, now, &before, settings, known);
        if let Some(metadata) = &mut self.metadata {
            reconfigure(metadata, now, &before.of_metadata(), &settings.of_metadata(), known);
        }
        self.open(now);
    }

    /// Sets how many of the servers that share totals can be reached; [`Reach::ALONE`] until then. O(applications).
    pub fn set_reach(&mut self, now: Time, reach: Reach) {
        self.cluster.reach = reach;
        self.all_totals().for_each(|(_, totals)| totals.set_reach(now, reach));
    }

    /// Sets how far the clock that all servers go by is ahead of the caller's, or behind it if negative; 0 until then.
    /// At most 100 years, so that times since 1970 can be counted. O(n log n) in queued requests for policies with
    /// windows of time, O(1) for others.
    pub fn set_clock(&mut self, ahead_ns: i64) {
        self.cluster.clock_ahead_ns = ahead_ns;
        self.engines_mut().for_each(|engine| engine.set_clock(ahead_ns));
    }

    /// The totals of a kind for requests of `class`; `None` if the policy keeps none. A cap limits all requests
    /// together, whatever their class.
    pub fn totals(&mut self, kind: TotalKind, class: ServiceClass) -> Option<&mut Totals> {
        let totals = match kind {
            TotalKind::Cap => Some(self.caps.totals()),
            TotalKind::Target | TotalKind::Minimum => self.queue_of(class).totals(),
        };
        totals.filter(|totals| totals.kind() == kind)
    }

    /// The pace of bulk, if the policy has one that several servers can share; of metadata, only if it has no queue of
    /// its own.
    pub fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        self.data.pacing()
    }

    /// The next report about any total, see [`Totals::poll_report`].
    pub fn poll_total(&mut self) -> Option<(TotalId, i64)> {
        if self.cluster.reach.servers <= 1 {
            // Asked after every input, so worth a short way out.
            return None;
        }
        self.all_totals().find_map(|(class, totals)| {
            let (of, bytes) = totals.poll_report()?;
            Some((TotalId { of, kind: totals.kind(), class }, bytes))
        })
    }

    /// What waits here only because a total does not allow more. O(1), or O(applications) for a share.
    pub fn waiting(&self, TotalId { of, kind, class }: TotalId) -> Bytes {
        match (kind, &self.metadata) {
            (TotalKind::Cap, _) => self.caps.cost(of),
            (_, Some(metadata)) if self.is_open() && class == ServiceClass::Metadata => metadata.waiting(of),
            _ => self.data.waiting(of),
        }
    }

    fn all_totals(&mut self) -> impl Iterator<Item = (ServiceClass, &mut Totals)> {
        let data = self.data.totals().map(|totals| (ServiceClass::Data, totals));
        let metadata = self.metadata.as_mut().and_then(|engine| engine.totals());
        let metadata = metadata.map(|totals| (ServiceClass::Metadata, totals));
        [Some((ServiceClass::Data, self.caps.totals())), data, metadata].into_iter().flatten()
    }

    /// Gives up a queued request, which is refunded as if it were cancelled, so that it can be enqueued as another
    /// application's. Returns when it arrived. A cap forgets nothing of it; the fair policies do not know when it was
    /// issued.
    pub fn withdraw(&mut self, now: Time, id: RequestId) -> (Time, Request) {
        let withdrawn = match self.place(id) {
            Place::Held => {
                let Entry { request, arrived, .. } = self.capped[id.index()];
                (arrived, request)
            }
            place => self.engine(place).request(id),
        };
        self.cancel(now, id);
        withdrawn
    }

    /// Whether new metadata requests go to a queue of their own.
    fn is_open(&self) -> bool {
        self.settings.metadata_depth.is_some()
    }

    /// Creates the queue of metadata, if it is to have one and there is none yet.
    fn open(&mut self, now: Time) {
        if self.is_open() && self.metadata.is_none() {
            let mut engine = self.settings.of_metadata().engine(self.event_capacity);
            let known = Known { apps: &self.apps, shares: &self.shares, cluster: self.cluster };
            known.apply(now, engine.as_mut());
            self.metadata = Some(engine);
        }
    }

    fn engines(&self) -> impl Iterator<Item = &dyn Engine> {
        [Some(self.data.as_ref()), self.metadata.as_deref()].into_iter().flatten()
    }

    fn engines_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Engine>> {
        [Some(&mut self.data), self.metadata.as_mut()].into_iter().flatten()
    }

    fn engine(&mut self, place: Place) -> &mut dyn Engine {
        match &mut self.metadata {
            Some(metadata) if place == Place::Metadata => metadata.as_mut(),
            _ => self.data.as_mut(),
        }
    }

    /// The scheduler of new requests of `class`.
    fn queue_of(&mut self, class: ServiceClass) -> &mut dyn Engine {
        self.engine(self.place_of(class))
    }

    fn place_of(&self, class: ServiceClass) -> Place {
        if self.is_open() && class == ServiceClass::Metadata { Place::Metadata } else { Place::Data }
    }

    /// Where a request is; its scheduler panics if the id is not in use.
    fn place(&self, id: RequestId) -> Place {
        self.places.get(id.index()).copied().unwrap_or(Place::Nowhere)
    }

    /// The scheduler of a dispatched request, whose id is free afterwards.
    fn leave(&mut self, id: RequestId) -> &mut dyn Engine {
        let place = self.place(id);
        assert!(place != Place::Held, "only a dispatched request can be complete");
        if let Some(place) = self.places.get_mut(id.index()) {
            *place = Place::Nowhere;
        }
        if let Some(entry) = self.capped.get_mut(id.index()) {
            entry.charged = false;
        }
        self.engine(place)
    }

    /// Records where a new request is. Panics if `id` is in use.
    fn settle(&mut self, id: RequestId, place: Place) {
        if id.index() >= self.places.len() {
            self.places.resize(id.index() + 1, Place::Nowhere);
        }
        let before = core::mem::replace(&mut self.places[id.index()], place);
        assert!(before == Place::Nowhere, "request id {id} is in use");
    }

    /// Sets or lifts the cap of `app`, and sets where it stands. Lifting a cap releases all held requests, and takes
    /// time proportional to the requests in use.
    fn set_cap(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        self.caps.set(now, app, policy);
        self.release_held(now, app);
        if !self.caps.limit(app) {
            // Outstanding requests must not be refunded to a bucket that is created later.
            let charged = self.capped.iter_mut().filter(|entry| entry.charged && entry.request.app == app);
            charged.for_each(|entry| entry.charged = false);
        }
    }

    /// Releases the requests of `app` that may go now.
    fn release_held(&mut self, now: Time, app: AppId) {
        while let Some(id) = self.caps.poll(now, &mut self.capped, app) {
            let entry = &mut self.capped[id.index()];
            entry.charged = true;
            let Entry { request, arrived, .. } = *entry;
            let place = self.place_of(request.op.into());
            self.places[id.index()] = place;
            self.engine(place).enqueue_held(now, arrived, &request);
        }
    }

    /// Releases all requests that may go now.
    fn release_due(&mut self, now: Time) {
        while let Some(app) = self.caps.poll_due(now) {
            self.release_held(now, app);
        }
    }

    /// A charged request costs `real` instead of `charged`.
    fn recharge(&mut self, now: Time, app: AppId, charged: Bytes, real: Bytes) {
        if self.caps.limit(app) {
            self.caps.recharge(now, app, [charged, real]);
            self.release_held(now, app);
            self.release_due(now);
        }
    }
}

impl Known<'_> {
    /// Tells it to `engine`, which is new.
    fn apply(self, now: Time, engine: &mut dyn Engine) {
        if let Some(totals) = engine.totals() {
            totals.set_reach(now, self.cluster.reach);
        }
        engine.set_clock(self.cluster.clock_ahead_ns);
        for (share, policy) in (0..).map(ShareId).zip(self.shares) {
            if let Some(policy) = policy {
                engine.set_share(now, share, Some(policy));
            }
        }
        for (app, policy) in (0..).map(AppId).zip(self.apps) {
            if let Some(policy) = policy {
                engine.set_app(now, app, policy);
            }
        }
    }
}

impl Settings {
    /// The settings for a queue of metadata.
    fn of_metadata(&self) -> Self {
        Self { depth: self.metadata_depth.unwrap_or(self.depth), ..self.clone() }
    }
}

/// Changes `engine` to other settings, or replaces it if they require another engine.
fn reconfigure(engine: &mut Box<dyn Engine>, now: Time, before: &Settings, settings: &Settings, known: Known<'_>) {
    if engine.reconfigure(now, before, settings) {
        return;
    }
    let mut next = settings.engine(0);
    known.apply(now, next.as_mut());
    let handover = core::mem::replace(engine, next).hand_over();
    engine.take_over(now, handover);
}

impl Scheduler for Policy {
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        let Request { id, app, op, .. } = *request;
        if !self.caps.limit(app) {
            let place = self.place_of(op.into());
            self.settle(id, place);
            return self.engine(place).enqueue_held(now, arrived, request);
        }
        self.settle(id, Place::Held);
        if id.index() >= self.capped.len() {
            self.capped.resize(id.index() + 1, Entry::UNUSED);
        }
        let entry = &mut self.capped[id.index()];
        (entry.request, entry.arrived) = (*request, arrived);
        self.caps.hold(&mut self.capped, app, id);
        self.release_held(now, app);
        if self.place(id) == Place::Held {
            self.events.push(now, Event::CapHeld { id, app });
        }
    }

    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        while let Some(member) = self.caps.totals().poll_changed() {
            match member {
                Member::App(app) => self.release_held(now, app),
                Member::Share(share) => {
                    self.caps.wake(now, share);
                    self.release_due(now);
                }
            }
        }
        // Written out by hand because every request waits for it.
        let dispatch = self.data.as_mut().poll_dispatch(now);
        dispatch.or_else(|| self.metadata.as_mut()?.as_mut().poll_dispatch(now))
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        self.leave(id).complete(now, id);
    }

    fn release(&mut self, now: Time, id: RequestId) {
        self.leave(id).release(now, id);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        let Entry { charged, request: Request { app, cost, .. }, .. } =
            self.capped.get(id.index()).copied().unwrap_or(Entry::UNUSED);
        if self.place(id) != Place::Held {
            self.leave(id).cancel(now, id);
            if charged {
                self.recharge(now, app, cost, Bytes::ZERO);
            }
            return;
        }
        self.caps.remove(&mut self.capped, app, id);
        self.places[id.index()] = Place::Nowhere;
        self.events.push(now, Event::Cancelled { id, app, cost });
        if self.queued() == 0 && self.outstanding() == 0 {
            self.events.push(now, Event::Idle);
        }
        self.release_held(now, app);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        let place = self.place(id);
        let limited = self.capped.get_mut(id.index()).filter(|entry| entry.charged || place == Place::Held);
        let limited = limited.map(|entry| (entry.request.app, entry.request.correct(real)));
        match limited {
            Some((app, estimated)) if place == Place::Held => {
                self.caps.correct(app, [estimated, real]);
                self.events.push(now, Event::CostCorrected { id, app, estimated, real });
            }
            Some((app, estimated)) => {
                self.engine(place).correct_cost(now, id, real);
                self.recharge(now, app, estimated, real);
            }
            None => self.engine(place).correct_cost(now, id, real),
        }
    }

    /// A cap also applies to requests that are already queued here. A first one starts with a full bucket; a changed
    /// one keeps its tokens, up to the new burst.
    fn set_app(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        if app.index() >= self.apps.len() {
            self.apps.resize(app.index() + 1, None);
        }
        self.apps[app.index()] = Some(*policy);
        self.engines_mut().for_each(|engine| engine.set_app(now, app, policy));
        self.set_cap(now, app, policy);
    }

    fn set_share(&mut self, now: Time, share: ShareId, policy: Option<&SharePolicy>) {
        if share.index() >= self.shares.len() {
            self.shares.resize(share.index() + 1, None);
        }
        self.shares[share.index()] = policy.copied();
        self.engines_mut().for_each(|engine| engine.set_share(now, share, policy));
        self.caps.set_share(now, share, policy);
        self.release_due(now);
    }

    fn queued(&self) -> usize {
        self.caps.len() + self.engines().map(|engine| engine.queued()).sum::<usize>()
    }

    fn outstanding(&self) -> usize {
        self.engines().map(|engine| engine.outstanding()).sum()
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        if let Some(event) = self.events.poll() {
            return Some(event);
        }
        while let Some(event) = self.data.as_mut().poll_event() {
            // One of the two may be idle while the other is not, or while requests are held back.
            if event.1 != Event::Idle || self.queued() + self.outstanding() == 0 {
                return Some(event);
            }
        }
        while let Some(event) = self.metadata.as_mut()?.as_mut().poll_event() {
            // The data scheduler reports changes of settings as well; report them once.
            let repeated = matches!(event.1, Event::WeightChanged { .. } | Event::DepthChanged { .. });
            if !repeated && (event.1 != Event::Idle || self.queued() + self.outstanding() == 0) {
                return Some(event);
            }
        }
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.caps.poll_timeout().into_iter().chain(self.engines().filter_map(|engine| engine.poll_timeout())).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.release_due(now);
        self.engines_mut().for_each(|engine| engine.handle_timeout(now));
    }
}

/// Policies without shares over servers ignore it.
impl SharedService for Policy {
    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        if let Some(shared) = self.queue_of(report.class).shared() {
            shared.handle_peer(now, report);
        }
    }

    fn handle_strangers(&mut self, now: Time, share: ShareId, class: ServiceClass, bytes: i64) {
        if let Some(shared) = self.queue_of(class).shared() {
            shared.handle_strangers(now, share, class, bytes);
        }
    }

    fn poll_report(&mut self, now: Time) -> Option<ServiceReport> {
        self.engines_mut().find_map(|engine| engine.shared()?.poll_report(now))
    }

    fn report_all(&mut self) {
        self.engines_mut().filter_map(|engine| engine.shared()).for_each(SharedService::report_all);
    }
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;

    use super::*;
    use crate::app_policy::Cap;
    use crate::settings::{PolicyKind, Sharing, SharingMode};
    use crate::slot_cost::SlotCostTable;
    use crate::testing::Random;
    use crate::units::Depth;

    const FLOWS: u32 = 100;
    const IDS: u32 = 1000;

    /// Requests of all flows, operations and sizes; every third flow is capped.
    struct Run {
        scheduler: Policy,
        random: Random,
        now: Time,
        free: Vec<RequestId>,
        outstanding: Vec<RequestId>,
    }

    impl Run {
        fn new() -> Self {
            let depth = Depth::new(14).unwrap();
            let sharing = Sharing { mode: SharingMode::Layout, ..Sharing::default() };
            let settings = Settings { sharing, ..Settings::new(PolicyKind::SfqDPlus, depth, SlotCostTable::default()) };
            let mut scheduler = Policy::new(&settings, 64);
            for app in (0..FLOWS).step_by(3) {
                let policy = AppPolicy { cap: Cap::new(1 << 30, Bytes::mib(4)), ..AppPolicy::default() };
                scheduler.set_app(Time::ZERO, AppId(app), &policy);
            }
            let free = (0..IDS).map(RequestId).collect();
            Self { scheduler, random: Random::new(7), now: Time::ZERO, free, outstanding: Vec::new() }
        }

        /// Enqueues a request of `app` if there is an id for it.
        fn enqueue(&mut self, app: AppId, op: OpKind, cost: Bytes) {
            if let Some(id) = self.free.pop() {
                // Some requests reveal their cost elsewhere, the others are counted.
                let elsewhere = (id.0 % 2 == 0).then_some(Bytes(cost.0 * 7));
                self.scheduler.enqueue(self.now, Request { elsewhere, ..Request::new(id, app, op, cost) });
            }
        }

        /// A request arrives or completes; then everything that may go is dispatched.
        fn step(&mut self) {
            self.now = Time::from_nanos(self.now.as_nanos() + 10_000);
            self.scheduler.handle_timeout(self.now);
            if self.random.below(2) == 0 {
                let app = AppId(self.random.below(FLOWS));
                let op = [OpKind::Metadata, OpKind::Read, OpKind::Write][self.random.below(3) as usize];
                let cost = Bytes::kib(1 << self.random.below(12));
                self.enqueue(app, op, cost);
            } else if let Some(id) = self.outstanding.pop() {
                self.scheduler.complete(self.now, id);
                self.free.push(id);
            }
            while self.scheduler.poll_total().is_some() {}
            while let Some(report) = self.scheduler.poll_report(self.now) {
                // As if the same request had arrived at another server.
                self.scheduler.handle_peer(self.now, report);
            }
            while let Some(dispatch) = self.scheduler.poll_dispatch(self.now) {
                self.outstanding.push(dispatch.id);
            }
            while self.scheduler.poll_event().is_some() {}
        }
    }

    #[test]
    fn nothing_is_allocated_once_all_flows_and_ids_were_in_use() {
        let mut run = Run::new();
        // Every flow has a request of every slot cost at the same time.
        for app in 0..FLOWS {
            for kib in [4, 512, 1024, 2048] {
                run.enqueue(AppId(app), OpKind::Write, Bytes::kib(kib));
            }
        }
        while let Some(id) = run.free.pop() {
            let request = Request::new(id, AppId(0), OpKind::Metadata, Bytes::kib(10));
            run.scheduler.enqueue(run.now, request);
        }
        for _ in 0..50_000 {
            run.step();
        }
        let mut served = 0;
        let allocated = measure(|| {
            for _ in 0..200_000 {
                let before = run.free.len();
                run.step();
                served += usize::from(run.free.len() > before);
            }
        });
        assert_eq!(allocated.count_total, 0, "{allocated:?}");
        assert!(served > 50_000, "{served}");
    }
}

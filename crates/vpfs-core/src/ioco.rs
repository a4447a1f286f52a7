//! Coordination by windows of time [IOCO §3]: all servers serve the same application at the same time, without
//! exchanging messages.
//!
//! An access is complete when the last server has done its part. If each server takes the applications in a different
//! order, every application waits for its slowest server; if all take them in the same order, only the last application
//! does (`vpfs reproduce ioco-formulas` shows the gain). So time is divided into windows. The requests of a window are
//! served application by application in an order that is the same everywhere, and older windows come first, so that no
//! application starves.
//!
//! Servers must agree on two things without asking each other:
//! - on **time**: drivers of all servers count [`Time`] from the same origin, for example the Unix epoch, and either
//!   their clocks are synchronised (NTP), or they measure how far the cluster's clock is ahead of their own and set
//!   that by [`Policy::set_clock`](crate::Policy::set_clock);
//! - on the **order** of applications: [`AppPolicy::order`] with [`order_of`] the application's name, from which
//!   [`place_in`] derives its place in each window. An application whose order was never set uses its id, which is
//!   right only if ids are the same everywhere.
//!
//! Beyond the paper: the order of applications differs from window to window. In the paper the smallest number is
//! served first in every window, so one application always waits least and another one most; [`WindowOrder::Paper`]
//! selects that.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::app_policy::AppPolicy;
use crate::engine::{Engine, Handover};
use crate::event::{Event, EventQueue};
use crate::hash::{mix, stable_hash};
use crate::heap::{Heap, Item};
use crate::request::{Dispatch, Request, Rule};
use crate::scheduler::Scheduler;
use crate::settings::{IocoSettings, PolicyKind, Settings, WindowOrder};
use crate::table::Table;
use crate::units::{AppId, Bytes, Depth, RequestId, SlotCost, Time};

/// Orders are below this [IOCO §4.1].
pub const ORDERS: u16 = 32_768;

/// The number of an application, derived from its name alone, so that all servers get the same. Applications with equal
/// numbers are served in order of arrival, which costs speed and nothing else.
pub fn order_of(name: &str) -> u16 {
    order_from(stable_hash(name))
}

#[expect(clippy::cast_possible_truncation, reason = "the value is below 2¹⁵")]
fn order_from(number: u64) -> u16 {
    (number % u64::from(ORDERS)) as u16
}

/// The place of the application with number `order` in a window, smaller first: the same at every server, as if drawn
/// at random for each window. Different numbers have different places. O(1).
pub const fn place_in(window: u64, order: u16) -> u64 {
    // `mix` is a bijection, so different numbers stay different.
    mix(mix(window) ^ order as u64)
}

/// The IOCO scheduler for one storage server: at most `depth` requests outstanding, ordered by window and by the
/// application's place in it, then by arrival.
///
/// O(log n) in queued requests. Weights are accepted and ignored.
#[derive(Debug)]
pub struct Ioco {
    settings: IocoSettings,
    depth: Depth,
    requests: Table<IocoEntry>,
    queue: Heap<Place>,
    /// By application; `None` if its order was not set.
    orders: Vec<Option<u16>>,
    /// How far the cluster's clock is ahead of the caller's.
    clock_ahead_ns: i64,
    arrivals: u64,
    outstanding: usize,
    events: EventQueue,
}

#[derive(Clone, Copy, Debug)]
struct IocoEntry {
    request: Request,
    enqueued_at: Time,
    arrival: u64,
    outstanding: bool,
}

/// The place of a request in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Negative if the cluster's clock is before the origin.
    window: i64,
    /// From [`place_in`], or the application's number.
    in_window: u64,
    arrival: u64,
    id: RequestId,
}

impl Item for Place {
    fn owner(&self) -> usize {
        self.id.index()
    }
}

impl Ioco {
    /// A scheduler for storage with `depth` slots, of which each request takes one, that keeps at most `event_capacity`
    /// events between polls.
    pub fn new(settings: IocoSettings, depth: Depth, event_capacity: usize) -> Self {
        Self {
            settings,
            depth,
            requests: Table::new(),
            queue: Heap::new(),
            orders: Vec::new(),
            clock_ahead_ns: 0,
            arrivals: 0,
            outstanding: 0,
            events: EventQueue::with_capacity(event_capacity),
        }
    }

    /// The parameters of windows.
    pub fn settings(&self) -> IocoSettings {
        self.settings
    }

    /// Changes the number of slots. Outstanding requests stay; while there are more than `depth`, nothing is
    /// dispatched. O(1).
    pub fn set_depth(&mut self, now: Time, depth: Depth) {
        if core::mem::replace(&mut self.depth, depth) != depth {
            self.events.push(now, Event::DepthChanged { depth });
        }
    }

    fn insert(&mut self, enqueued_at: Time, request: Request, outstanding: bool) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.requests.insert(request.id, IocoEntry { request, enqueued_at, arrival, outstanding });
    }

    /// Inserts a request at its place in the queue.
    fn admit(&mut self, arrived: Time, request: Request) {
        self.insert(arrived, request, false);
        self.queue.set(self.place(self.requests.get(request.id)));
    }

    fn place(&self, entry: &IocoEntry) -> Place {
        let IocoEntry { request: Request { id, app, issued_at, .. }, enqueued_at, arrival, .. } = *entry;
        let (window, order) = (self.window(enqueued_at, issued_at), self.order(app));
        let in_window = match self.settings.order {
            WindowOrder::Fair => place_in(window.cast_unsigned(), order),
            WindowOrder::Paper => order.into(),
        };
        Place { window, in_window, arrival, id }
    }

    /// The number of the window of a request by the cluster's clock, from its time of issue as far as that is
    /// plausible.
    fn window(&self, arrived: Time, issued_at: Option<Time>) -> i64 {
        let skew = nanos(self.settings.max_clock_skew);
        let arrived = signed(arrived.as_nanos()).saturating_add(self.clock_ahead_ns);
        let issued = issued_at.map_or(arrived, |issued| signed(issued.as_nanos()));
        let time = issued.clamp(arrived.saturating_sub(skew), arrived.saturating_add(skew));
        time.div_euclid(nanos(self.settings.window).max(1))
    }

    fn order(&self, app: AppId) -> u16 {
        let set = self.orders.get(app.index()).copied().flatten();
        set.unwrap_or_else(|| order_from(app.0.into()))
    }

    fn remove(&mut self, id: RequestId) -> Request {
        let entry = self.requests.remove(id);
        if entry.outstanding {
            self.outstanding -= 1;
        } else {
            self.queue.remove(id.index());
        }
        entry.request
    }

    fn end_if_idle(&mut self, now: Time) {
        if self.queue.len() == 0 && self.outstanding == 0 {
            self.events.push(now, Event::Idle);
        }
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Exact until 292 years after the origin.
fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

impl Engine for Ioco {
    /// With different windows every queued request gets another place.
    fn reconfigure(&mut self, now: Time, _before: &Settings, settings: &Settings) -> bool {
        let same = settings.kind == PolicyKind::Ioco && settings.ioco == self.settings;
        if same {
            self.set_depth(now, settings.depth);
        }
        same
    }

    /// Queued requests move along. Otherwise later ones would go before them while the clock goes back, and never let
    /// them go if it went back again and again.
    fn set_clock(&mut self, ahead_ns: i64) {
        if core::mem::replace(&mut self.clock_ahead_ns, ahead_ns) == ahead_ns {
            return;
        }
        let queued = self.requests.iter().filter(|entry| !entry.outstanding);
        let places: Vec<Place> = queued.map(|entry| self.place(entry)).collect();
        places.into_iter().for_each(|place| self.queue.set(place));
    }

    fn hand_over(self: Box<Self>) -> Handover {
        let mut entries: Vec<IocoEntry> = self.requests.iter().copied().collect();
        entries.sort_unstable_by_key(|entry| entry.arrival);
        let all = |outstanding| {
            let wanted = entries.iter().filter(move |entry| entry.outstanding == outstanding);
            wanted.map(|entry| (entry.enqueued_at, entry.request)).collect()
        };
        Handover { outstanding: all(true), queued: all(false), events: self.events }
    }

    fn request(&self, id: RequestId) -> (Time, Request) {
        let IocoEntry { request, enqueued_at, .. } = *self.requests.get(id);
        (enqueued_at, request)
    }

    fn take_over(&mut self, _now: Time, handover: Handover) {
        self.outstanding = handover.outstanding.len();
        for (enqueued_at, request) in handover.outstanding {
            self.insert(enqueued_at, request, true);
        }
        for (enqueued_at, request) in handover.queued {
            self.admit(enqueued_at, request);
        }
        self.events = handover.events;
    }
}

impl Scheduler for Ioco {
    /// The window is that of [`Request::issued_at`], by the cluster's clock and limited to the time of arrival plus or
    /// minus [`IocoSettings::max_clock_skew`], or else that of arrival [IOCO §3.1].
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        let Request { id, app, cost, .. } = *request;
        self.admit(arrived, *request);
        self.events.push(now, Event::Enqueued { id, app, cost });
    }

    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        if self.outstanding >= self.depth.get() as usize {
            return None;
        }
        let id = self.queue.first()?.id;
        self.queue.remove(id.index());
        self.outstanding += 1;
        let entry = self.requests.get_mut(id);
        entry.outstanding = true;
        let IocoEntry { request: Request { app, .. }, enqueued_at, .. } = *entry;
        let (slot_cost, backfilled) = (SlotCost::ONE, false);
        self.events.push(now, Event::Dispatched { id, app, slot_cost, enqueued_at, backfilled });
        Some(Dispatch { id, app, enqueued_at, slot_cost, backfilled, pieces: None, rule: Rule::Share })
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        assert!(self.requests.get(id).outstanding, "only a dispatched request can be complete");
        let Request { app, cost, .. } = self.remove(id);
        self.events.push(now, Event::Completed { id, app, cost });
        self.end_if_idle(now);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        let Request { app, cost, .. } = self.remove(id);
        self.events.push(now, Event::Cancelled { id, app, cost });
        self.end_if_idle(now);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        let request = &mut self.requests.get_mut(id).request;
        let app = request.app;
        let estimated = request.correct(real);
        self.events.push(now, Event::CostCorrected { id, app, estimated, real });
    }

    /// The order applies to requests that arrive later, and to queued ones when the cluster's clock changes.
    fn set_app(&mut self, now: Time, app: AppId, &AppPolicy { weight, order, .. }: &AppPolicy) {
        self.events.push(now, Event::WeightChanged { app, weight });
        if app.index() >= self.orders.len() {
            self.orders.resize(app.index() + 1, None);
        }
        self.orders[app.index()] = order;
    }

    fn queued(&self) -> usize {
        self.queue.len()
    }

    fn outstanding(&self) -> usize {
        self.outstanding
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::OpKind;
    use crate::testing::Random;

    const WINDOW: Duration = Duration::from_millis(250);

    fn ioco(depth: u32) -> Ioco {
        let settings =
            IocoSettings { window: WINDOW, max_clock_skew: Duration::from_millis(100), order: WindowOrder::Fair };
        Ioco::new(settings, Depth::new(depth).unwrap(), 0)
    }

    fn request(id: u32, app: u32, issued_ms: Option<u64>) -> Request {
        let issued_at = issued_ms.map(Time::from_millis);
        Request { issued_at, ..Request::new(RequestId(id), AppId(app), OpKind::Read, Bytes::kib(64)) }
    }

    /// Serves all queued requests one after the other; returns their applications.
    fn order(ioco: &mut Ioco, now: Time) -> Vec<u32> {
        core::iter::from_fn(|| {
            let dispatch = ioco.poll_dispatch(now)?;
            ioco.complete(now, dispatch.id);
            Some(dispatch.app.0)
        })
        .collect()
    }

    /// The applications in the order in which a window serves them.
    fn in_order<const N: usize>(window: u64, mut apps: [u32; N]) -> [u32; N] {
        apps.sort_by_key(|&app| place_in(window, order_from(app.into())));
        apps
    }

    #[test]
    fn older_windows_first_then_applications_in_order() {
        let mut ioco = ioco(1);
        for (id, (app, at)) in (0..).zip([(2, 10), (1, 249), (2, 100), (1, 250), (0, 499), (0, 500)]) {
            ioco.enqueue(Time::from_millis(at), request(id, app, None));
        }
        let ([first, second], [third, fourth]) = (in_order(0, [1, 2]), in_order(1, [0, 1]));
        let mut expected = alloc::vec![first, second, third, fourth, 0];
        expected.insert(usize::from(first != 2), 2);
        assert_eq!(order(&mut ioco, Time::from_millis(600)), expected);
    }

    fn ordered(order: u16) -> AppPolicy {
        AppPolicy { order: Some(order), ..AppPolicy::default() }
    }

    #[test]
    fn a_set_order_replaces_that_of_the_id() {
        for orders in [[9, 1, 3], [3, 1, 9]] {
            let mut ioco = ioco(1);
            ioco.set_app(Time::ZERO, AppId(0), &ordered(orders[0]));
            ioco.set_app(Time::ZERO, AppId(2), &ordered(orders[2]));
            for (id, app) in (0..).zip([0, 1, 2]) {
                ioco.enqueue(Time::ZERO, request(id, app, None));
            }
            let mut expected = [0, 1, 2];
            expected.sort_by_key(|&app: &u32| place_in(0, orders[app as usize]));
            assert_eq!(order(&mut ioco, Time::ZERO), expected);
        }
    }

    #[test]
    fn in_the_papers_order_the_smallest_number_is_first_in_every_window() {
        let mut ioco = ioco(1);
        ioco.settings.order = WindowOrder::Paper;
        ioco.set_app(Time::ZERO, AppId(0), &ordered(9));
        ioco.set_app(Time::ZERO, AppId(2), &ordered(3));
        for window in 0..20 {
            let now = Time::ZERO + WINDOW * window;
            for (id, app) in (0..).zip([0, 1, 2, 0]) {
                ioco.enqueue(now, request(id, app, None));
            }
            assert_eq!(order(&mut ioco, now), [1, 2, 0, 0]);
        }
    }

    /// Symptom: one application waits least in every window, and one most. Cause: the order of applications was the
    /// same in all windows. Proof: each has each place about equally often.
    #[test]
    fn no_place_belongs_to_one_application() {
        const APPS: u32 = 5;
        const WINDOWS: u32 = 2000;
        let mut ioco = ioco(1);
        let mut counts = [[0; APPS as usize]; APPS as usize];
        for window in 0..WINDOWS {
            let now = Time::ZERO + WINDOW * window;
            for app in 0..APPS {
                ioco.enqueue(now, request(app, app, None));
            }
            for (place, app) in order(&mut ioco, now).into_iter().enumerate() {
                counts[app as usize][place] += 1;
            }
        }
        let fair = WINDOWS / APPS;
        let about_fair = |count: &u32| (fair * 4 / 5..=fair * 6 / 5).contains(count);
        assert!(counts.as_flattened().iter().all(about_fair), "{counts:?}");
    }

    #[test]
    fn the_time_of_issue_counts_as_far_as_clocks_may_differ() {
        let mut ioco = ioco(1);
        let now = Time::from_millis(1030);
        // Windows: 3 (issued 940), 4 (arrived), 3 (cut to 930), 4 (cut to 1130); neither too old nor too new.
        for (id, (app, issued)) in (0..).zip([(3, Some(940)), (2, None), (1, Some(0)), (0, Some(999_999))]) {
            ioco.enqueue(now, request(id, app, issued));
        }
        let expected = [in_order(3, [1, 3]), in_order(4, [0, 2])];
        assert_eq!(order(&mut ioco, now), expected.as_flattened());
    }

    #[test]
    fn no_more_than_depth_are_outstanding() {
        let mut ioco = ioco(3);
        for id in 0..5 {
            ioco.enqueue(Time::ZERO, request(id, 0, None));
        }
        ioco.cancel(Time::ZERO, RequestId(1));
        let ids: Vec<_> =
            core::iter::from_fn(|| ioco.poll_dispatch(Time::ZERO)).map(|dispatch| dispatch.id.0).collect();
        assert_eq!((ids, ioco.queued(), ioco.outstanding()), (alloc::vec![0, 2, 3], 1, 3));
        ioco.cancel(Time::ZERO, RequestId(2));
        assert_eq!(ioco.poll_dispatch(Time::ZERO).map(|dispatch| dispatch.id.0), Some(4));
    }

    /// Servers that get the parts of the same accesses in different orders serve the applications in the same order.
    #[test]
    fn servers_agree_without_messages() {
        let mut random = Random::new(11);
        let names = ["climate", "ocean", "genome", "render", "cfd"];
        let issued: Vec<(u32, u64)> = (0..400).map(|_| (random.below(5), u64::from(random.below(2000)))).collect();
        let orders: Vec<Vec<(u64, u32)>> = (0..6)
            .map(|_| {
                let mut ioco = Ioco { depth: Depth::new(400).unwrap(), ..ioco(1) };
                ioco.settings.max_clock_skew = Duration::from_secs(10);
                // Each server numbers applications and requests itself, and receives requests in a different order.
                let shift = random.below(5);
                let mut ids: Vec<usize> = (0..issued.len()).collect();
                ids.sort_by_cached_key(|_| random.bits());
                for (name, app) in names.iter().zip(0..) {
                    ioco.set_app(Time::ZERO, AppId((app + shift) % 5), &ordered(order_of(name)));
                }
                for &id in &ids {
                    let (app, at) = issued[id];
                    let local = request(u32::try_from(id).unwrap(), (app + shift) % 5, Some(at));
                    ioco.enqueue(Time::from_millis(2000), local);
                }
                let now = Time::from_millis(2000);
                let dispatches = core::iter::from_fn(|| ioco.poll_dispatch(now));
                dispatches.map(|dispatch| issued[dispatch.id.index()]).map(|(app, at)| (at / 250, app)).collect()
            })
            .collect();
        assert!(orders.iter().all(|order| *order == orders[0]));
        let mut switches = orders[0].clone();
        switches.dedup();
        assert_eq!(switches.len(), 8 * 5, "each application once in each window");
    }

    /// Clocks are seconds apart; half of the requests come before the
    /// difference is known.
    #[test]
    fn servers_with_different_clocks_agree_when_they_know_the_difference() {
        let orders = [0_i64, 7_300, -2_150].map(|ahead_ms| {
            let mut ioco = ioco(1);
            let clock = |ms: i64| Time::from_millis((ms - ahead_ms).try_into().unwrap());
            for id in 0..60 {
                if id == 30 {
                    ioco.set_clock(ahead_ms * 1_000_000);
                }
                ioco.enqueue(clock(8000 + i64::from(id) * 40), request(id, id % 5, None));
            }
            order(&mut ioco, clock(11_000))
        });
        assert_eq!(orders[0], orders[1]);
        assert_eq!(orders[0], orders[2]);
    }

    /// A clock that others set back again and again, so that it stands still, makes nobody wait for ever.
    #[test]
    fn older_windows_stay_first_while_the_clock_goes_back() {
        let mut ioco = ioco(1);
        let at = |id: u32| Time::from_millis(u64::from(id) * 250);
        for id in 0..20 {
            ioco.set_clock(-i64::from(id) * 250_000_000);
            ioco.enqueue(at(id), request(id, id % 3, None));
        }
        let ids: Vec<u32> = core::iter::from_fn(|| {
            let id = ioco.poll_dispatch(at(20))?.id;
            ioco.complete(at(20), id);
            Some(id.0)
        })
        .collect();
        assert!(ids.is_sorted() && ids.len() == 20, "{ids:?}");
    }

    /// Daemons of different versions must agree, so these numbers never change.
    #[test]
    fn orders_are_fixed() {
        assert_eq!(["climate", "ocean", "genome"].map(order_of), [23_578, 14_244, 30_353]);
        assert!((0..2000).all(|job: u32| order_of(&alloc::format!("job{job}")) < ORDERS));
        let first_of_three = |window| (0..3).min_by_key(|&order| place_in(window, order)).unwrap();
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(first_of_three), [1, 0, 0, 2, 2, 2, 1, 1]);
    }
}

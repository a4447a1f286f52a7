//! For tests of this and other crates: a slow but obvious oracle, random lists of operations, and scripted storage. Not
//! shipped (feature `testing`).

mod oracle;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::app_policy::AppPolicy;
use crate::dsfq::SharedService;
use crate::event::Event;
use crate::policy::Policy;
use crate::request::{Dispatch, OpKind, Request, ServiceClass, ServiceReport};
use crate::scheduler::Scheduler;
use crate::settings::Settings;
use crate::sfq::Sfq;
use crate::slot_cost::{SizeClass, SlotCostTable};
use crate::units::{AppId, Bytes, Depth, Objects, RequestId, SlotCost, Time, Weight};
pub use oracle::Oracle;

/// One input to a scheduler. A request is selected by a number modulo the candidates, so every list of operations is
/// valid, also a shortened one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the methods of `Scheduler` and their parameters")]
pub enum Op {
    Enqueue {
        app: AppId,
        op: OpKind,
        cost: Bytes,
    },
    /// Polls this many dispatches, or until there are none.
    Dispatch {
        at_most: u32,
    },
    /// Completes an outstanding request.
    Complete {
        pick: u32,
    },
    /// Cancels a request, queued or outstanding.
    Cancel {
        pick: u32,
    },
    /// Corrects the cost of a request, queued or outstanding.
    CorrectCost {
        pick: u32,
        real: Bytes,
    },
    SetWeight {
        app: AppId,
        weight: Weight,
    },
    SetDepth {
        depth: Depth,
    },
    /// Sets another one of [`Op::slot_cost_table`].
    SetSlotCosts {
        table: u32,
    },
    /// Another server reports.
    Peer {
        report: ServiceReport,
    },
    /// A message to the other servers goes out anyway.
    ReportAll,
}

impl Op {
    /// Applications that operations name.
    pub const APPS: u32 = 5;

    /// All costs are multiples of this, so that tags are exact for weights up to 8.
    pub const COST_UNIT: u64 = 840;

    /// The operation encoded by 64 random bits.
    pub fn from_bits(bits: u64) -> Self {
        let mut random = Random::new(bits);
        let app = AppId(random.below(Self::APPS));
        let pick = random.bits().to_le_bytes()[7].into();
        match random.below(22) {
            0..7 => Self::Enqueue { app, op: random_kind(&mut random), cost: random_cost(&mut random) },
            7..11 => Self::Dispatch { at_most: if random.below(3) == 0 { 1 } else { u32::MAX } },
            11..15 => Self::Complete { pick },
            15 => Self::Cancel { pick },
            16 | 17 => Self::CorrectCost { pick, real: random_cost(&mut random) },
            18 => Self::SetWeight { app, weight: Weight::new(1 + random.below(8)).unwrap_or(Weight::ONE) },
            19 | 20 => Self::Peer { report: random_report(&mut random, app) },
            _ => Self::rare(&mut random, pick),
        }
    }

    fn rare(random: &mut Random, pick: u32) -> Self {
        match random.below(3) {
            0 => Self::SetSlotCosts { table: pick },
            1 => Self::ReportAll,
            _ => Self::SetDepth { depth: Depth::new(1 + random.below(16)).unwrap_or(DEFAULT_DEPTH) },
        }
    }

    /// One of a few tables: all ones, the default, costs above the depth, reads different from writes.
    pub fn slot_cost_table(table: u32) -> SlotCostTable {
        let row =
            |kib, slots| SizeClass { up_to: Bytes::kib(kib), slot_cost: SlotCost::new(slots).unwrap_or(SlotCost::ONE) };
        let custom = |reads, writes| SlotCostTable::new(Bytes::kib(128), reads, writes);
        match table % 4 {
            0 => SlotCostTable::uniform(),
            1 => SlotCostTable::default(),
            2 => custom(vec![row(1024, 9), row(2048, 20)], vec![row(2048, 14)]).unwrap_or_default(),
            _ => custom(vec![row(512, 2)], vec![row(512, 4), row(4096, 7)]).unwrap_or_default(),
        }
    }
}

/// D of the paper's storage [vPFS+ §V-A].
const DEFAULT_DEPTH: Depth = match Depth::new(14) {
    Some(depth) => depth,
    None => unreachable!(),
};

/// `length` operations for `seed`.
pub fn random_ops(seed: u64, length: usize) -> Vec<Op> {
    let mut random = Random::new(seed);
    (0..length).map(|_| Op::from_bits(random.bits())).collect()
}

fn random_kind(random: &mut Random) -> OpKind {
    [OpKind::Read, OpKind::Write, OpKind::Write, OpKind::Metadata][random.below(4) as usize]
}

/// Negative reports are rarer than positive ones.
fn random_report(random: &mut Random, app: AppId) -> ServiceReport {
    let class = if random.below(4) == 0 { ServiceClass::Metadata } else { ServiceClass::Data };
    let units = i64::from(random.below(5000)) - 1000;
    ServiceReport { app, class, bytes: units * Op::COST_UNIT.cast_signed() }
}

/// Costs on both sides of each size class, small ones more often.
fn random_cost(random: &mut Random) -> Bytes {
    let units = match random.below(8) {
        0 => 0,
        1..5 => random.below(157),
        5 => 157 + random.below(1000),
        6 => 1157 + random.below(1400),
        _ => 2557 + random.below(5000),
    };
    Bytes(u64::from(units) * Op::COST_UNIT)
}

/// A scheduler whose depth and slot costs a test can change.
pub trait Tunable: Scheduler + SharedService {
    /// Changes the number of slots.
    fn set_depth(&mut self, now: Time, depth: Depth);
    /// Changes the slot costs.
    fn set_slot_costs(&mut self, now: Time, slot_costs: SlotCostTable);
}

impl Tunable for Sfq {
    fn set_depth(&mut self, now: Time, depth: Depth) {
        self.set_depth(now, depth);
    }
    fn set_slot_costs(&mut self, _now: Time, slot_costs: SlotCostTable) {
        self.set_slot_costs(slot_costs);
    }
}

impl Tunable for Oracle {
    fn set_depth(&mut self, now: Time, depth: Depth) {
        self.set_depth(now, depth);
    }
    fn set_slot_costs(&mut self, _now: Time, slot_costs: SlotCostTable) {
        self.set_slot_costs(slot_costs);
    }
}

impl Tunable for Policy {
    fn set_depth(&mut self, now: Time, depth: Depth) {
        let settings = Settings { depth, ..self.settings().clone() };
        self.reconfigure(now, &settings);
    }
    fn set_slot_costs(&mut self, now: Time, slot_costs: SlotCostTable) {
        let settings = Settings { slot_costs, ..self.settings().clone() };
        self.reconfigure(now, &settings);
    }
}

/// Applies operations, a microsecond apart, and keeps its own account of every request.
#[derive(Debug)]
pub struct Runner<S> {
    /// The scheduler under test.
    pub scheduler: S,
    /// The time of the latest operation.
    pub now: Time,
    /// The cost of new requests at other servers, from their cost here; unknown unless a test sets it.
    pub elsewhere: fn(Bytes) -> Option<Bytes>,
    /// All reports to other servers so far.
    pub reports: Vec<ServiceReport>,
    /// All events so far.
    pub events: Vec<(Time, Event)>,
    /// Requests that were enqueued, but not dispatched or cancelled yet; oldest first.
    pub queued: Vec<Request>,
    /// Requests that were dispatched, but not completed or cancelled yet; oldest first.
    pub outstanding: Vec<(Request, SlotCost)>,
    free_ids: Vec<RequestId>,
    ids: u32,
    apps: BTreeMap<AppId, AppPolicy>,
}

impl<S: Tunable> Runner<S> {
    /// A runner for `scheduler`, which must be new and have room for enough events.
    pub fn new(scheduler: S) -> Self {
        let (queued, outstanding) = (Vec::new(), Vec::new());
        Self {
            scheduler,
            now: Time::ZERO,
            elsewhere: |_| None,
            reports: Vec::new(),
            events: Vec::new(),
            queued,
            outstanding,
            free_ids: Vec::new(),
            ids: 0,
            apps: BTreeMap::new(),
        }
    }

    /// Changes parameters of an application, and keeps the others.
    pub fn set_app(&mut self, app: AppId, change: impl FnOnce(&mut AppPolicy)) {
        let policy = self.apps.entry(app).or_default();
        change(policy);
        self.scheduler.set_app(self.now, app, policy);
    }

    /// Calls the timeouts that are due, and applies `op` if there is a request for it. Returns the dispatches.
    pub fn apply(&mut self, op: Op) -> Vec<Dispatch> {
        self.now = Time::from_nanos(self.now.as_nanos() + 1000);
        let now = self.now;
        if self.scheduler.poll_timeout().is_some_and(|at| at <= now) {
            self.scheduler.handle_timeout(now);
        }
        let mut dispatches = Vec::new();
        match op {
            Op::Enqueue { app, op, cost } => self.enqueue(app, op, cost),
            Op::Dispatch { at_most } => {
                let polls = core::iter::from_fn(|| self.poll());
                dispatches = polls.take(at_most as usize).collect();
            }
            Op::Complete { pick } => self.complete(pick),
            Op::Cancel { pick } => {
                if let Some(id) = self.pick(pick) {
                    self.scheduler.cancel(now, id);
                    self.queued.retain(|request| request.id != id);
                    self.outstanding.retain(|(request, _)| request.id != id);
                    self.free_ids.push(id);
                }
            }
            Op::CorrectCost { pick, real } => {
                if let Some(id) = self.pick(pick) {
                    self.scheduler.correct_cost(now, id, real);
                }
            }
            Op::SetWeight { app, weight } => self.set_app(app, |policy| policy.weight = weight),
            Op::SetDepth { depth } => self.scheduler.set_depth(now, depth),
            Op::SetSlotCosts { table } => self.scheduler.set_slot_costs(now, Op::slot_cost_table(table)),
            Op::Peer { report } => self.scheduler.handle_peer(now, report),
            Op::ReportAll => self.scheduler.report_all(),
        }
        self.reports.extend(core::iter::from_fn(|| self.scheduler.poll_report(now)));
        self.events.extend(core::iter::from_fn(|| self.scheduler.poll_event()));
        dispatches
    }

    /// Dispatches and completes until nothing is queued, waiting for timeouts if necessary.
    ///
    /// Panics after a million steps: then a request is never dispatched.
    pub fn finish(&mut self) {
        for _ in 0..1_000_000 {
            self.apply(Op::Dispatch { at_most: u32::MAX });
            if self.scheduler.queued() + self.scheduler.outstanding() == 0 {
                return;
            }
            if self.outstanding.is_empty() {
                self.now = self.scheduler.poll_timeout().unwrap_or(self.now).max(self.now);
            }
            self.apply(Op::Complete { pick: 0 });
        }
        panic!("{} requests are never dispatched", self.scheduler.queued());
    }

    fn enqueue(&mut self, app: AppId, op: OpKind, cost: Bytes) {
        let id = self.free_ids.pop().unwrap_or_else(|| {
            self.ids += 1;
            RequestId(self.ids - 1)
        });
        // Some metadata requests work on several objects.
        let objects = if op == OpKind::Metadata { Objects::new(cost.0 / Op::COST_UNIT % 4) } else { Objects::ONE };
        let piece = Some(Bytes::kib(256));
        let request = Request { elsewhere: (self.elsewhere)(cost), objects, piece, ..Request::new(id, app, op, cost) };
        self.queued.push(request);
        self.scheduler.enqueue(self.now, request);
    }

    /// Panics if the scheduler dispatches a request that is not queued.
    fn poll(&mut self) -> Option<Dispatch> {
        let dispatch = self.scheduler.poll_dispatch(self.now)?;
        let index = self.queued.iter().position(|request| request.id == dispatch.id);
        let request = self.queued.remove(index.unwrap_or_else(|| panic!("{dispatch:?} was not queued")));
        assert_eq!(request.app, dispatch.app);
        self.outstanding.push((request, dispatch.slot_cost));
        Some(dispatch)
    }

    fn complete(&mut self, pick: u32) {
        if !self.outstanding.is_empty() {
            let (Request { id, .. }, _) = self.outstanding.remove(pick as usize % self.outstanding.len());
            self.scheduler.complete(self.now, id);
            self.free_ids.push(id);
        }
    }

    fn pick(&self, pick: u32) -> Option<RequestId> {
        let all = self.queued.iter().chain(self.outstanding.iter().map(|(request, _)| request));
        let count = self.queued.len() + self.outstanding.len();
        all.map(|request| request.id).nth(pick as usize % count.max(1))
    }
}

// Storage with scripted service times, and clients that keep it busy.

/// Serves any number of requests at once; each takes the next time of a repeating script.
#[derive(Debug)]
pub struct Storage {
    script: Vec<Duration>,
    served: usize,
    busy: BTreeMap<(Time, usize), RequestId>,
}

impl Storage {
    /// Storage with the times in `script` (not empty), repeated.
    pub fn new(script: Vec<Duration>) -> Self {
        assert!(!script.is_empty(), "the script says how long a request takes");
        Self { script, served: 0, busy: BTreeMap::new() }
    }

    /// Starts to serve a request.
    pub fn start(&mut self, now: Time, dispatch: &Dispatch) {
        let takes = self.script[self.served % self.script.len()];
        self.busy.insert((now + takes, self.served), dispatch.id);
        self.served += 1;
    }

    /// When the next request is complete.
    pub fn next_completion(&self) -> Option<Time> {
        self.busy.keys().next().map(|&(at, _)| at)
    }

    /// The request that is complete at [`Storage::next_completion`].
    pub fn complete(&mut self) -> Option<RequestId> {
        self.busy.pop_first().map(|(_, id)| id)
    }
}

/// Sends a new request as soon as one completes, so that `concurrency` of them are always in progress.
#[derive(Clone, Debug)]
pub struct Client {
    /// The application it belongs to.
    pub app: AppId,
    /// What it does.
    pub op: OpKind,
    /// The sizes of its requests, drawn at random.
    pub sizes: Vec<Bytes>,
    /// Requests at once.
    pub concurrency: u32,
}

/// Runs `clients` against `scheduler` and `storage` until `until`; returns every completion in order.
pub fn run<S: Scheduler>(
    scheduler: &mut S,
    storage: &mut Storage,
    clients: &[Client],
    until: Time,
) -> Vec<(Time, AppId, Bytes)> {
    let mut random = Random::new(1);
    // By request id: the client and the size.
    let mut requests: Vec<(&Client, Bytes)> = Vec::new();
    let mut completions = Vec::new();
    let mut draw = |client: &Client| {
        let last = u32::try_from(client.sizes.len()).unwrap_or(u32::MAX);
        client.sizes[random.below(last) as usize]
    };
    for client in clients {
        for _ in 0..client.concurrency {
            requests.push((client, draw(client)));
        }
    }
    let mut now = Time::ZERO;
    for (id, &(client, cost)) in (0..).zip(&requests) {
        let piece = Some(Bytes::kib(256));
        scheduler.enqueue(now, Request { piece, ..Request::new(RequestId(id), client.app, client.op, cost) });
    }
    while now <= until {
        while let Some(dispatch) = scheduler.poll_dispatch(now) {
            storage.start(now, &dispatch);
        }
        while scheduler.poll_event().is_some() {}
        let Some(next) = [storage.next_completion(), scheduler.poll_timeout()].into_iter().flatten().min() else {
            break;
        };
        now = now.max(next);
        if scheduler.poll_timeout().is_some_and(|at| at <= now) {
            scheduler.handle_timeout(now);
        } else if let Some(id) = storage.complete() {
            let (client, cost) = &mut requests[id.index()];
            scheduler.complete(now, id);
            completions.push((now, client.app, *cost));
            *cost = draw(client);
            scheduler.enqueue(now, Request::new(id, client.app, client.op, *cost));
        }
    }
    completions
}

/// The xorshift64* generator; equal seeds give equal numbers everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for `seed`; zero counts as one, because it would yield only zeros.
    pub const fn new(seed: u64) -> Self {
        Self(if seed == 0 { 1 } else { seed })
    }

    /// The next 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(2_685_821_657_736_338_717)
    }

    /// A number below `bound`, which must not be zero.
    pub const fn below(&mut self, bound: u32) -> u32 {
        (((self.bits() >> 32) * bound as u64) >> 32) as u32
    }
}

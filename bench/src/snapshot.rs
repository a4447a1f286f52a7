//! The cost of looking into a proxy: a snapshot, for which a server's requests wait, and the text made of it.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use vpfs_core::{AppId, AppPolicy, Depth, Dispatch, OpKind, PolicyKind, ServerId, Settings, SlotCostTable, Time};
use vpfs_node::{Arrival, Event, Node, NodeSettings, Outputs, PeerMessage, RequestKey, Served};
use vpfs_proxy::admin::metrics::{Format, text};
use vpfs_proxy::{AppStatus, ServerStatus, Status, Used};

use crate::{Effort, Measurement};

/// Connections of each application, each with a request.
const CONNECTIONS: u32 = 10;

/// The requests that went to the storage.
#[derive(Default)]
struct Dispatched(Vec<RequestKey>);

impl Outputs<()> for Dispatched {
    fn transmit(&mut self, _: impl Iterator<Item = (ServerId, PeerMessage)>) {}

    fn dispatch(&mut self, (): &(), request: RequestKey, _: &Dispatch) {
        self.0.push(request);
    }

    fn event(&mut self, _: Time, _: Event) {}
}

/// A server of `apps` applications, each of which has been served, waited behind others, and has requests now.
fn node(apps: u32) -> Node<()> {
    let policy = Settings::new(PolicyKind::Isolation, Depth::ONE, SlotCostTable::default());
    let settings = NodeSettings { policy, metadata_cost: vpfs_core::Bytes::kib(8), peers: None };
    let mut node = Node::new(Time::ZERO, ServerId(0), &settings);
    let mut dispatched = Dispatched::default();
    for app in (0..apps).map(AppId) {
        node.set_app(Time::ZERO, app, format!("app{}", app.0).as_str(), &AppPolicy::default());
    }
    let all = || (0..CONNECTIONS).flat_map(|_| (0..apps).map(AppId));
    for app in all() {
        node.enqueue(Time::ZERO, (), &Arrival::new(app, OpKind::Write, 64 << 10));
        node.drain(Time::ZERO, &mut dispatched);
    }
    let mut now = Time::ZERO;
    for (app, op) in all().zip([OpKind::Read, OpKind::Write, OpKind::Metadata].into_iter().cycle()) {
        now = now + Duration::from_micros(300);
        if let Some(request) = dispatched.0.pop() {
            let served = Served { bytes: 64 << 10, ..Served::new(OpKind::Write, Time::ZERO, now) };
            node.complete(now, request, &served);
        }
        node.enqueue(now, (), &Arrival::new(app, op, 64 << 10));
        node.drain(now, &mut dispatched);
    }
    node
}

fn status(node: &RefCell<Node<()>>, apps: u32) -> Status {
    let used = Used { now: 0, limit: 1 };
    let app = |app| AppStatus { name: format!("app{app}"), ..AppStatus::default() };
    let server = ServerStatus {
        name: "s1".to_owned(),
        refused_connections: 0,
        snapshot: node.borrow_mut().snapshot(Time::from_millis(100_000)),
    };
    Status {
        started: Time::ZERO,
        uptime: Duration::from_secs(100),
        memory: used,
        connections: used,
        servers: vec![server],
        apps: (0..apps).map(app).collect(),
        peers: Vec::new(),
        holders: Vec::new(),
        unstored: 0,
        fingerprint: 0,
        observed: None,
    }
}

/// A snapshot, and metrics of it, by number of applications.
pub(crate) fn times(effort: Effort) -> Vec<Measurement> {
    let counts = if effort.quick { vec![10] } else { vec![100, 1000] };
    counts.into_iter().flat_map(|apps| measure(effort, apps)).collect()
}

fn measure(effort: Effort, apps: u32) -> [Measurement; 2] {
    let node = RefCell::new(node(apps));
    let ms = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
    let measurement = |subject, target, sample: &dyn Fn() -> f64| Measurement {
        benchmark: "look into a server",
        subject,
        input: format!("{apps} applications, {} connections", apps * CONNECTIONS),
        unit: "ms",
        samples: (0..effort.runs).map(|_| sample()).collect(),
        target,
        shares_max_min: None,
    };
    let snapshot = || {
        let start = Instant::now();
        black_box(status(&node, apps));
        ms(start)
    };
    let metrics = || {
        let status = status(&node, apps);
        let start = Instant::now();
        black_box(text(status, Vec::new(), Format::OpenMetrics));
        ms(start)
    };
    [measurement("snapshot", Some(5.0), &snapshot), measurement("metrics", None, &metrics)]
}

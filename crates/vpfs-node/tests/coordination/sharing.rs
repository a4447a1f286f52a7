//! Real schedulers on a network with faults: shares hold over all servers while these hear each other, and at each
//! server separately while they do not.

use std::time::Duration;

use vpfs_core::testing::Storage;
use vpfs_core::{
    AppId, Bytes, Depth, OpKind, Policy, PolicyKind, Request, RequestId, Scheduler, ServiceReport, SharedService,
    Sharing, SharingMode, SlotCostTable,
};
use vpfs_node::coordination::{CoordinationSettings, Counted, FlowKey};

use crate::common::World;

const SERVERS: usize = 4;
/// Requests that each application keeps at each server it uses; ids below this are those of the first.
const CONCURRENCY: u32 = 8;
const COST: Bytes = Bytes::mib(1);

struct Node {
    policy: Policy,
    op: OpKind,
    storage: Storage,
    /// Requests complete, by application.
    served: [u64; 2],
}

/// The first application uses half of the servers, the second all. Equal weights.
fn uses(app: usize, server: usize) -> bool {
    app == 1 || server < SERVERS / 2
}

fn app_of(id: RequestId) -> usize {
    usize::from(id.0 >= CONCURRENCY)
}

fn request(op: OpKind, id: u32) -> Request {
    let app = AppId(u32::from(id >= CONCURRENCY));
    Request::new(RequestId(id), app, op, if op == OpKind::Metadata { Bytes::kib(10) } else { COST })
}

fn node(kind: PolicyKind, op: OpKind, server: usize) -> Node {
    let sharing = Sharing { mode: SharingMode::Threshold, metadata_threshold: 10, ..Sharing::default() };
    let settings = vpfs_core::Settings {
        sharing,
        ..vpfs_core::Settings::new(kind, Depth::new(4).unwrap(), SlotCostTable::default())
    };
    let storage = Storage::new(vec![Duration::from_millis(10), Duration::from_millis(11)]);
    let mut node = Node { policy: Policy::new(&settings, 0), op, storage, served: [0; 2] };
    let ids = (0..2 * CONCURRENCY).filter(|id| uses(app_of(RequestId(*id)), server));
    ids.for_each(|id| node.policy.enqueue(vpfs_core::Time::ZERO, request(op, id)));
    node
}

fn step(world: &mut World, me: usize, node: &mut Node) {
    let now = world.now;
    for ((key, counted), bytes) in std::mem::take(&mut world.servers[me].given) {
        let Counted::Service(class) = counted else { panic!("{counted:?}: no totals are reported") };
        let app = AppId(u32::try_from(key.0).unwrap());
        node.policy.handle_peer(now, ServiceReport { app, class, bytes });
    }
    while node.storage.next_completion().is_some_and(|at| at <= now) {
        let id = node.storage.complete().unwrap();
        node.policy.complete(now, id);
        node.served[app_of(id)] += 1;
        node.policy.enqueue(now, request(node.op, id.0));
    }
    while let Some(dispatch) = node.policy.poll_dispatch(now) {
        node.storage.start(now, &dispatch);
    }
    while let Some(report) = node.policy.poll_report(now) {
        world.report(me, (FlowKey(u64::from(report.app.0)), report.class.into()), report.bytes);
    }
}

fn served(nodes: &[Node]) -> [u64; 2] {
    [0, 1].map(|app| nodes.iter().map(|node| node.served[app]).sum())
}

/// The first application's fraction of all service in the last half of `seconds`.
fn share(world: &mut World, nodes: &mut [Node], seconds: u64) -> f64 {
    let mut before = [0; 2];
    for half in 0..2 {
        let until = world.now + Duration::from_millis(seconds * 500);
        while world.now < until {
            let next = nodes.iter().filter_map(|node| node.storage.next_completion()).min();
            world.run_for(next.map_or(Duration::ZERO, |at| at.since(world.now)));
            nodes.iter_mut().enumerate().for_each(|(me, node)| step(world, me, node));
        }
        if half == 0 {
            before = served(nodes);
        }
    }
    let [first, second] = [0, 1].map(|app| served(nodes)[app] - before[app]);
    first as f64 / (first + second) as f64
}

#[test]
fn shares_hold_over_servers_and_degrade_to_local_ones() {
    let mut world = World::new(1, SERVERS, CoordinationSettings::default());
    (world.network.loss_percent, world.network.repeat_percent, world.network.delay_ms_max) = (10, 10, 20);
    let mut nodes: Vec<Node> = (0..SERVERS).map(|server| node(PolicyKind::SfqD, OpKind::Write, server)).collect();
    for (me, node) in nodes.iter_mut().enumerate() {
        step(&mut world, me, node);
    }
    let together = share(&mut world, &mut nodes, 20);
    world.network.groups = (0..4).collect();
    let apart = share(&mut world, &mut nodes, 30);
    world.network.groups.fill(0);
    let again = share(&mut world, &mut nodes, 30);
    // Half is fair over all servers; at each server separately it is half of two servers of four.
    assert!((0.48..0.51).contains(&together), "{together}");
    assert!((0.24..0.26).contains(&apart), "{apart}");
    assert!((0.48..0.51).contains(&again), "{again}");
}

/// That shares of the storage's time do under isolation, which learns it from a device, is tested in the simulator.
#[test]
fn shares_hold_over_servers_for_data_and_metadata() {
    for kind in [PolicyKind::SfqD, PolicyKind::SfqDPlus] {
        for op in [OpKind::Write, OpKind::Metadata] {
            let mut world = World::new(1, SERVERS, CoordinationSettings::default());
            let mut nodes: Vec<Node> = (0..SERVERS).map(|server| node(kind, op, server)).collect();
            for (me, node) in nodes.iter_mut().enumerate() {
                step(&mut world, me, node);
            }
            let share = share(&mut world, &mut nodes, 40);
            assert!((0.48..0.52).contains(&share), "{kind:?}, {op:?}: {share}");
        }
    }
}

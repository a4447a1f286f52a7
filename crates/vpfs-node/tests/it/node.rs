//! A node as its driver sees it: what peers learn about applications.

use std::time::Duration;

use vpfs_core::{
    AppId, AppPolicy, Bytes, Depth, OpKind, PolicyKind, ServerId, Settings, Sharing, SharingMode, SlotCostTable, Time,
    Weight,
};
use vpfs_node::{
    AppName, Arrival, Event, NamedShare, Node, NodeSettings, PeerMessage, PeerService, PeerSettings, Served,
};

use crate::drain;

const SERVERS: [ServerId; 2] = [ServerId(0), ServerId(1)];
const APP: AppId = AppId(0);

fn secs(secs: u64) -> Time {
    Time::from_millis(secs * 1000)
}

fn settings() -> NodeSettings {
    settings_of(PolicyKind::SfqD)
}

fn settings_of(kind: PolicyKind) -> NodeSettings {
    settings_with(kind, Bytes::kib(4))
}

fn settings_with(kind: PolicyKind, broadcast_threshold: Bytes) -> NodeSettings {
    let policy = Settings::new(kind, Depth::new(4).unwrap(), SlotCostTable::default());
    let sharing = Sharing { mode: SharingMode::Threshold, broadcast_threshold, ..policy.sharing };
    let coordination = vpfs_node::coordination::CoordinationSettings {
        max_flows: usize::MAX,
        ..vpfs_node::coordination::CoordinationSettings::default()
    };
    let peers = Some(PeerSettings { incarnation: 1, servers: SERVERS.into(), coordination });
    NodeSettings { policy: Settings { sharing, ..policy }, metadata_cost: Bytes::kib(8), peers }
}

/// Two nodes and a network that loses nothing.
struct Pair {
    nodes: [Node<u32>; 2],
    events: Vec<Event>,
}

impl Pair {
    fn new() -> Self {
        let mut nodes = SERVERS.map(|server| Node::new(Time::ZERO, server, &settings()));
        nodes.iter_mut().for_each(|node| node.set_app(Time::ZERO, APP, "climate", &AppPolicy::default()));
        let mut pair = Self { nodes, events: Vec::new() };
        pair.settle(Time::ZERO);
        pair
    }

    /// Delivers messages until there are none; the second node's events are kept.
    fn settle(&mut self, now: Time) {
        loop {
            let mut sent: Vec<(ServerId, ServerId, PeerMessage)> = Vec::new();
            for (from, node) in SERVERS.into_iter().zip(&mut self.nodes) {
                let drained = drain(node, now);
                sent.extend(drained.messages.into_iter().map(|(to, message)| (from, to, message)));
                self.events.extend(drained.events.into_iter().filter(|_| from == SERVERS[1]));
            }
            if sent.is_empty() {
                return;
            }
            for (from, to, message) in sent {
                self.nodes[to.index()].handle_message(now, from, &message).unwrap();
            }
        }
    }

    /// Lets time pass: each node is called when it asks for it.
    fn run(&mut self, from: Time, to: Time) {
        let mut now = from;
        while let Some(due) = self.nodes.iter().filter_map(Node::poll_timeout).min().filter(|due| *due <= to) {
            now = now.max(due);
            for node in &mut self.nodes {
                if node.poll_timeout().is_some_and(|due| due <= now) {
                    node.handle_timeout(now);
                }
            }
            self.settle(now);
        }
    }

    fn write(&mut self, now: Time, bytes: u64) {
        self.write_of(now, APP, bytes);
    }

    /// A request of `app` arrives at the first node, and is served at once.
    fn write_of(&mut self, now: Time, app: AppId, bytes: u64) {
        let request = self.nodes[0].enqueue(now, 0, &Arrival::new(app, OpKind::Write, bytes));
        self.settle(now);
        self.nodes[0].complete(now, request, &Served { bytes, ..Served::new(OpKind::Write, now, now) });
        self.settle(now);
    }

    fn announced(&self) -> usize {
        let is =
            |event: &&Event| matches!(event, Event::Coordination(vpfs_node::coordination::Event::FlowAnnounced { .. }));
        self.events.iter().filter(is).count()
    }

    fn left(&self) -> usize {
        let is = |event: &&Event| matches!(event, Event::Coordination(vpfs_node::coordination::Event::FlowLeft { .. }));
        self.events.iter().filter(is).count()
    }
}

/// With an application that both know already.
#[test]
fn servers_begin_to_report_after_a_reload() {
    let mut pair = Pair::new();
    let heard = |pair: &Pair| pair.nodes[1].peer_service(APP).heard;
    let mut local = settings();
    local.policy.sharing.mode = SharingMode::Local;
    pair.nodes.iter_mut().for_each(|node| node.reconfigure(Time::ZERO, &local));
    pair.write(secs(1), 1 << 20);
    assert_eq!(heard(&pair), 0);
    pair.nodes.iter_mut().for_each(|node| node.reconfigure(secs(1), &settings()));
    pair.write(secs(2), 1 << 20);
    assert!(heard(&pair) >= 1 << 20, "{}", heard(&pair));
}

/// Symptom: peers of a daemon kept every application for ever. Cause: only the simulator reported to its coordinator
/// which applications arrive and leave. Proof: a peer learns of both, and again if the application comes back.
#[test]
fn peers_hear_of_applications_that_arrive_and_leave() {
    let mut pair = Pair::new();
    pair.write(secs(1), 1 << 20);
    pair.run(secs(1), secs(300));
    assert_eq!((pair.announced(), pair.left()), (1, 0), "it may only pause");
    pair.run(secs(300), secs(700));
    assert_eq!((pair.announced(), pair.left()), (1, 1));
    pair.write(secs(700), 1 << 20);
    pair.run(secs(700), secs(702));
    assert_eq!((pair.announced(), pair.left()), (2, 1));
    assert_eq!(pair.nodes[1].peer_service(APP).heard, 2 << 20);
}

#[test]
fn an_application_with_a_request_stays() {
    let mut pair = Pair::new();
    let now = secs(1);
    pair.nodes[0].enqueue(now, 0, &Arrival::new(APP, OpKind::Read, 1 << 20));
    pair.settle(now);
    pair.run(now, now + Duration::from_secs(3600));
    assert_eq!((pair.announced(), pair.left()), (1, 0));
}

/// Symptom: with automatic applications, what other servers reported went to the newest name. Cause: reports named the
/// group only. Proof: each member has its own service at the other server, whatever the order in which names came.
#[test]
fn members_of_a_group_are_told_apart_at_other_servers() {
    let mut pair = Pair::new();
    for (node, order) in pair.nodes.iter_mut().zip([[1, 2, 3], [3, 1, 2]]) {
        for app in order {
            let name = AppName { name: &format!("uid:{app}"), share: Some(NamedShare::new("auto", Weight::ONE)) };
            node.set_app(Time::ZERO, AppId(app), name, &AppPolicy::default());
        }
    }
    let write = |pair: &mut Pair, at, app| pair.write_of(at, AppId(app), 1 << 20);
    write(&mut pair, secs(1), 1);
    pair.run(secs(1), secs(300));
    write(&mut pair, secs(300), 2);
    pair.run(secs(300), secs(302));
    assert_eq!(pair.announced(), 2);
    let heard = (0..=3).map(|app| pair.nodes[1].peer_service(AppId(app)).heard);
    assert_eq!(heard.collect::<Vec<_>>(), [0, 1 << 20, 1 << 20, 0]);
    pair.run(secs(302), secs(700));
    assert_eq!(pair.left(), 1, "one of two has left");
    // A reload ends the sharing while one is present.
    pair.nodes.iter_mut().for_each(|node| node.set_app(secs(700), AppId(2), "uid:2", &AppPolicy::default()));
    write(&mut pair, secs(700), 2);
    pair.run(secs(700), secs(702));
    assert_eq!((pair.announced(), pair.left()), (3, 2));
    assert_eq!(pair.nodes[1].peer_service(AppId(2)).heard, 2 << 20);
}

/// Symptom: after a reload that allows more automatic applications, the service of the new ones is not reported to
/// other servers. Cause: the coordinator's limit on flows was that of the configuration at its start. Proof: all are
/// announced.
#[test]
fn applications_that_a_reload_allows_are_announced_to_other_servers() {
    const APPS: u32 = 5000;
    let now = Time::from_millis(1);
    let mut node = Node::new(now, SERVERS[0], &settings());
    for app in 0..APPS {
        node.set_app(now, AppId(app), format!("host:{app}").as_str(), &AppPolicy::default());
        node.enqueue(now, app, &Arrival::new(AppId(app), OpKind::Write, 4096));
        drain(&mut node, now);
    }
    let told = PeerService { reported: 4096, heard: 0 };
    assert!((0..APPS).all(|app| node.peer_service(AppId(app)) == told));
}

#[test]
fn a_message_that_is_sent_anyway_reports_what_is_below_the_threshold() {
    let mut pair = Pair::new();
    for node in &mut pair.nodes {
        node.reconfigure(Time::ZERO, &settings_with(PolicyKind::SfqD, Bytes::mib(10)));
    }
    let heard = |pair: &Pair| pair.nodes[1].peer_service(APP).heard;
    pair.write(secs(1), 1 << 20);
    assert_eq!(heard(&pair), 1 << 20, "with the announcement");
    pair.write(secs(2), 2 << 20);
    pair.write(secs(2), 4 << 20);
    assert_eq!(heard(&pair), 1 << 20);
    pair.run(secs(2), secs(4));
    assert_eq!(heard(&pair), 7 << 20, "with the next sign of life");
}

/// However often the cost of a request changes.
#[test]
fn a_request_larger_than_the_threshold_makes_no_more_than_one_report() {
    for kind in [PolicyKind::SfqD, PolicyKind::SfqDPlus, PolicyKind::Isolation] {
        let mut node = Node::new(Time::ZERO, SERVERS[0], &settings_of(kind));
        node.set_app(Time::ZERO, APP, "climate", &AppPolicy::default());
        drain(&mut node, Time::ZERO);
        let mut reports = 0;
        for number in 0..20 {
            let now = Time::from_millis(u64::from(number));
            let mut settle = |node: &mut Node<u32>| reports += drain(node, now).messages.len();
            let request = node.enqueue(now, number, &Arrival::new(APP, OpKind::Write, 1 << 20));
            settle(&mut node);
            node.correct_cost(now, request, 1 << 20);
            settle(&mut node);
            node.complete(now, request, &Served { bytes: 1 << 20, ..Served::new(OpKind::Write, now, now) });
            settle(&mut node);
        }
        assert!((1..=20).contains(&reports), "{kind:?}: {reports} for 20 requests");
        assert_eq!(node.peer_service(APP).reported, 20 << 20, "{kind:?}");
    }
}

/// Proof: the next request at the same place is not the same.
#[test]
fn no_two_requests_are_the_same() {
    let mut node = Node::new(Time::ZERO, SERVERS[0], &settings());
    node.set_app(Time::ZERO, APP, "climate", &AppPolicy::default());
    let mut seen = std::collections::HashSet::new();
    for number in 0..1000 {
        let request = node.enqueue(Time::ZERO, number, &Arrival::new(APP, OpKind::Write, 4096));
        assert_eq!(drain(&mut node, Time::ZERO).dispatched, [(number, request)]);
        assert!(seen.insert(request));
        node.cancel(Time::ZERO, request);
    }
    assert!(node.is_idle());
}

#[test]
fn a_released_request_still_counts_when_it_ends() {
    let mut node = Node::new(Time::ZERO, SERVERS[0], &settings());
    let request = node.enqueue(Time::ZERO, 0, &Arrival::new(APP, OpKind::Write, 4096));
    drain(&mut node, Time::ZERO);
    node.release(Time::ZERO, request);
    assert_eq!((node.outstanding(), node.is_idle()), (0, false));
    node.complete(secs(9), request, &Served { bytes: 4096, ..Served::new(OpKind::Write, Time::ZERO, secs(1)) });
    assert!(node.is_idle());
    assert_eq!(node.snapshot(secs(9)).apps[0].account.write.bytes, 4096);
}

//! Proxies in front of servers: their nodes, built as a scenario specifies, and what these send to each other, with
//! injected faults.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use slab::Slab;
use vpfs_config::Share;
use vpfs_core::{AppId, AppPolicy, Bytes, FileKey, FilePosition, OpKind, ServerId, Time, Weight};
use vpfs_node::coordination::Members;
use vpfs_node::{AppName, Arrival, NamedShare, Node, NodeSettings, PeerMessage, PeerService, PeerSettings, Served};

use crate::calendar::{Calendar, Event};
use crate::network::{Exchange, PeerNetwork};
use crate::results::Series;
use crate::scenario::{App, PolicySpec, RequestTime, Scenario};
use crate::server::{FLOW_BUFFER, Part, Stage};

/// The settings from which the nodes of all servers are built.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    policy: PolicySpec,
    shares: Vec<Share>,
    apps: Vec<PlannedApp>,
    servers: Members,
    coordination: vpfs_node::coordination::CoordinationSettings,
}

#[derive(Clone, Debug)]
struct PlannedApp {
    name: String,
    share: Option<String>,
    policy: AppPolicy,
}

impl NodePlan {
    pub(crate) fn new(policy: PolicySpec, scenario: &Scenario, servers: u32) -> Self {
        let plan = |app: &App| PlannedApp { name: app.name.clone(), share: app.share.clone(), policy: app.policy() };
        let apps = scenario.apps.iter().map(plan).collect();
        let servers = (0..servers).map(ServerId).collect();
        Self { policy, shares: scenario.shares.clone(), apps, servers, coordination: scenario.peers.settings }
    }

    /// The node of a server for its start number `incarnation`; it knows all applications but those in shares.
    pub(crate) fn build(&self, now: Time, server: u32, incarnation: u64) -> Node<u32> {
        let servers = self.servers.clone();
        let peers = PeerSettings { incarnation, servers, coordination: self.coordination };
        let settings = NodeSettings {
            policy: self.policy.settings.clone(),
            metadata_cost: self.policy.metadata_cost,
            peers: Some(peers),
        };
        let mut node = Node::new(now, ServerId(server), &settings).without_accounts();
        node.set_shares(now, self.shares.iter().map(|Share { path, policy }| NamedShare { path, policy: *policy }));
        for (app, planned) in (0..).map(AppId).zip(&self.apps).filter(|(_, app)| app.share.is_none()) {
            node.set_app(now, app, planned.name.as_str(), &planned.policy);
        }
        node
    }

    /// What a proxy knows of when a request was issued.
    fn known_issue(&self, issued: Time) -> Option<Time> {
        (self.policy.request_time == RequestTime::Issue).then_some(issued)
    }

    /// A request of `app` arrives. One in a share is not known before its first one: in the daemon, automatic ones are
    /// created for their first connection.
    fn introduce(&self, now: Time, node: &mut Node<u32>, app: AppId) {
        if !node.knows(app) {
            let PlannedApp { name, share, policy } = &self.apps[app.index()];
            let share = share.as_deref().map(|path| NamedShare::new(path, Weight::ONE));
            node.set_app(now, app, AppName { name, share }, policy);
        }
    }
}

/// The proxy in front of one server: its node, which the simulator drives as the daemon does.
pub(crate) struct Proxy {
    number: u32,
    /// How often it has started.
    incarnation: u64,
    /// The keys of parts wait for dispatches.
    pub(crate) node: Node<u32>,
    wake: Option<Time>,
}

impl Proxy {
    pub(crate) fn new(now: Time, number: u32, plan: &NodePlan) -> Self {
        Self { number, incarnation: 1, node: plan.build(now, number, 1), wake: None }
    }

    /// A request has arrived.
    pub(crate) fn arrive(&mut self, now: Time, key: u32, part: &mut Part, plan: &NodePlan) {
        part.arrived = now;
        let Part { app, op, bytes, object, offset, stage, .. } = *part;
        let Stage::Waiting { issued, elsewhere } = stage else { panic!("what was dispatched does not arrive again") };
        plan.introduce(now, &mut self.node, app);
        let position = (op != OpKind::Metadata).then_some(FilePosition { file: FileKey(object), start: offset });
        let (issued_at, piece) = (plan.known_issue(issued), Some(Bytes(FLOW_BUFFER)));
        let arrival = Arrival { position, elsewhere, issued_at, piece, ..Arrival::new(app, op, bytes) };
        part.request = Some(self.node.enqueue(now, key, &arrival));
    }

    /// It restarts: queued requests arrive again in their old order, and requests at the server are no longer counted.
    /// What was learned is kept.
    pub(crate) fn restart(&mut self, now: Time, parts: &mut Slab<Part>, plan: &NodePlan) {
        let learned = self.node.learned(now);
        self.incarnation += 1;
        self.node = plan.build(now, self.number, self.incarnation);
        if let Some(learned) = learned {
            self.node.remember(now, &learned);
        }
        self.wake = None;
        let here = parts.iter_mut().filter(|(_, part)| part.server == self.number);
        let here = here.filter_map(|(key, part)| part.request.take().map(|request| (request, key, &*part)));
        let waiting = here.filter(|(_, _, part)| part.is_waiting());
        let mut waiting: Vec<_> = waiting.map(|(request, key, part)| (part.arrived, request.serial(), key)).collect();
        waiting.sort_unstable();
        for (_, _, key) in waiting {
            self.arrive(now, u32::try_from(key).expect("a key of the table"), &mut parts[key], plan);
        }
    }

    /// An operation is complete on the wire.
    pub(crate) fn complete(&mut self, now: Time, part: &Part) {
        if let Some(request) = part.request {
            let served = Served { bytes: part.bytes, ..Served::new(part.op, part.arrived, part.work().since) };
            self.node.complete(now, request, &served);
        }
    }

    /// The node's timeout; `false` if the node has set another one since.
    pub(crate) fn wake(&mut self, now: Time) -> bool {
        let due = self.wake == Some(now);
        if due {
            self.wake = None;
            self.node.handle_timeout(now);
        }
        due
    }

    /// The node must be called at this time, if at any.
    pub(crate) fn sleep(&mut self, now: Time, until: Option<Time>, calendar: &mut Calendar) {
        if let Some(at) = until.map(|at| at.max(now))
            && self.wake != Some(at)
        {
            self.wake = Some(at);
            calendar.push(at, Event::NodeWake { server: self.number });
        }
    }
}

/// A message in transit.
struct Underway {
    from: u32,
    to: u32,
    message: PeerMessage,
}

/// The network between the nodes of all servers.
pub(crate) struct Peers {
    network: PeerNetwork,
    random: Xoshiro256PlusPlus,
    underway: Slab<Underway>,
    /// Service reported and heard by nodes before their restart, by server and application.
    before: Vec<Vec<PeerService>>,
    pub(crate) traffic: Traffic,
}

/// Network traffic of coordination.
#[derive(Default)]
pub(crate) struct Traffic {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) messages_series: Series,
    pub(crate) bytes_series: Series,
    pub(crate) unheard_series: Vec<u64>,
}

impl Peers {
    pub(crate) fn new(network: &PeerNetwork, servers: usize, apps: usize, seed: u64) -> Self {
        Self {
            network: network.clone(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            underway: Slab::new(),
            before: vec![vec![PeerService::default(); apps]; servers],
            traffic: Traffic::default(),
        }
    }

    /// Takes a message out of the network and delivers it; returns its receiver and what it costs that server.
    pub(crate) fn deliver(&mut self, now: Time, message: u32, proxies: &mut [Proxy]) -> (u32, Exchange) {
        let Underway { from, to, message } = self.underway.remove(message as usize);
        let cost = self.network.cost(1, message.encoded_len() as u64);
        let handled = proxies[to as usize].node.handle_message(now, ServerId(from), &message);
        debug_assert!(handled.is_ok(), "{handled:?}");
        (to, cost)
    }

    /// A server's proxy restarts.
    pub(crate) fn restart(&mut self, server: u32, proxy: &Proxy) {
        for (app, before) in (0..).map(AppId).zip(&mut self.before[server as usize]) {
            *before = sum(*before, proxy.node.peer_service(app));
        }
    }

    /// Sends a node's messages; returns what they cost its server.
    pub(crate) fn transmit_all(
        &mut self,
        now: Time,
        server: u32,
        messages: impl Iterator<Item = (ServerId, PeerMessage)>,
        calendar: &mut Calendar,
    ) -> Exchange {
        let before = (self.traffic.messages, self.traffic.bytes);
        for (to, message) in messages {
            self.transmit(now, server, to.0, message, calendar);
        }
        self.network.cost(self.traffic.messages - before.0, self.traffic.bytes - before.1)
    }

    /// Passes a message to the network, which may lose or repeat it.
    fn transmit(&mut self, now: Time, from: u32, to: u32, message: PeerMessage, calendar: &mut Calendar) {
        let bytes = message.encoded_len() as u64;
        self.traffic.messages += 1;
        self.traffic.bytes += bytes;
        self.traffic.messages_series.add(1);
        self.traffic.bytes_series.add(bytes);
        if self.network.separates(now, from, to) || self.chance(self.network.loss_ppm) {
            self.traffic.lost += 1;
            return;
        }
        if self.chance(self.network.duplicate_ppm) {
            self.traffic.duplicated += 1;
            self.put(now, Underway { from, to, message: message.clone() }, calendar);
        }
        self.put(now, Underway { from, to, message }, calendar);
    }

    fn put(&mut self, now: Time, underway: Underway, calendar: &mut Calendar) {
        let extra = u64::try_from(self.network.extra_delay.as_nanos()).unwrap_or(u64::MAX);
        let extra = if extra == 0 { 0 } else { self.random.random_range(0..=extra) };
        let message = u32::try_from(self.underway.insert(underway)).expect("messages are bounded by the peers");
        calendar.push(now + self.network.latency + Duration::from_nanos(extra), Event::Deliver { message });
    }

    /// Draws only if the result matters, so that a network without faults does not consume random numbers.
    fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.random.random_range(0..1_000_000) < ppm
    }

    /// An interval of the time series ends.
    pub(crate) fn sample(&mut self, proxies: &[Proxy]) {
        self.traffic.messages_series.close();
        self.traffic.bytes_series.close();
        let unheard = self.unheard(proxies);
        self.traffic.unheard_series.push(unheard);
    }

    /// The largest difference, over all servers, between what it has heard about an application and what the others
    /// gave it.
    pub(crate) fn unheard(&self, proxies: &[Proxy]) -> u64 {
        let apps = self.before.first().map_or(0, Vec::len);
        let off = (0..apps).flat_map(|app| {
            let service = |(proxy, before): (&Proxy, &Vec<PeerService>)| {
                sum(before[app], proxy.node.peer_service(AppId(u32::try_from(app).unwrap_or(u32::MAX))))
            };
            let services: Vec<PeerService> = proxies.iter().zip(&self.before).map(service).collect();
            let total: i64 = services.iter().map(|service| service.reported).sum();
            services.into_iter().map(move |service| (total - service.reported - service.heard).unsigned_abs())
        });
        off.max().unwrap_or(0)
    }
}

fn sum(one: PeerService, other: PeerService) -> PeerService {
    PeerService { reported: one.reported + other.reported, heard: one.heard + other.heard }
}

//! One server behind its proxy: its device, its metadata service and its link.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use slab::Slab;
use vpfs_config::Share;
use vpfs_core::{
    AppId, AppPolicy, Bytes, Depth, Dispatch, FileKey, FilePosition, OpKind, Pieces, ServerId, Settings, Time, Weight,
};
use vpfs_node::coordination::Members;
use vpfs_node::{
    AppName, Arrival, NamedShare, Node, NodeSettings, PeerMessage, PeerService, PeerSettings, RequestKey, Served,
};

use crate::calendar::{Calendar, Event};
use crate::model::device::{Device, Io, IoKind, MetadataOp, MetadataServer, Outstanding};
use crate::network::{Exchange, Link, LinkProfile, PeerNetwork, Span, reserve_both};
use crate::results::{Series, Violation};
use crate::scenario::{App, PolicySpec, RequestTime, Scenario, ServerGroup};

/// Data flows in pieces of this size, OrangeFS's flow buffers. With [`ServerGroup::flow_buffers`], each is an access to
/// the device. Otherwise a request is one access: the device starts a write when the first piece has arrived, and a
/// read's reply lags its device by one piece.
pub(crate) const FLOW_BUFFER: u64 = 256 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) call: u32,
    pub(crate) server: u32,
    pub(crate) app: AppId,
    pub(crate) op: OpKind,
    /// A write waits for the device, also behind a cache.
    pub(crate) stable: bool,
    /// Zero for metadata.
    pub(crate) bytes: u64,
    pub(crate) object: u64,
    pub(crate) offset: u64,
    pub(crate) metadata: MetadataOp,
    pub(crate) node: u32,
    pub(crate) arrived: Time,
    pub(crate) request: Option<RequestKey>,
    pub(crate) stage: Stage,
}

/// What is known of a part until its dispatch, and from then on: most parts wait, so memory for both would be lost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    Waiting { issued: Time, elsewhere: Option<Bytes> },
    Dispatched(Work),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) since: Time,
    pub(crate) slots: u32,
    /// Once it is complete: nanoseconds with an access at the device, or of the operation on metadata.
    pub(crate) stored: u64,
}

impl Part {
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting { .. })
    }

    /// Panics before its dispatch.
    pub(crate) fn work(&self) -> Work {
        let Stage::Dispatched(work) = self.stage else { panic!("only what was dispatched is served") };
        work
    }

    fn set_stored(&mut self, stored: u64) {
        self.stage = Stage::Dispatched(Work { stored, ..self.work() });
    }
}

/// A read or write from its dispatch until its last access is complete. Of all parts of calls, few are: so what only
/// these need is not in [`Part`].
#[derive(Clone, Copy, Debug)]
struct Service {
    part: u32,
    kind: IoKind,
    bytes: u64,
    object: u64,
    offset: u64,
    node: u32,
    dispatched: Time,
    /// When the last byte that was sent has arrived: of a write at the server, of a read at the client.
    data_here: Time,
    /// Bytes of a write that were sent, or of a read that were called for: one piece more than `begun`, or none.
    received: u64,
    pieces: Option<Pieces>,
    began: Time,
    /// Bytes that were passed to it, and how many of them are complete.
    begun: u64,
    served: u64,
    /// Nanoseconds with an access at the device, and when the last such time began.
    stored: u64,
    stored_since: Time,
}

impl Service {
    fn new(now: Time, number: u32, kind: IoKind, part: &Part, pieces: Option<Pieces>) -> Self {
        let Part { bytes, object, offset, node, .. } = *part;
        Self {
            part: number,
            kind,
            bytes,
            object,
            offset,
            node,
            dispatched: now,
            data_here: now,
            received: 0,
            pieces,
            began: now,
            begun: 0,
            served: 0,
            stored: 0,
            stored_since: now,
        }
    }

    /// The next bytes for the device, as offset and length.
    fn next_piece(&self, flow: Flow) -> (u64, u64) {
        let most = self.pieces.map_or(flow.piece(self), |pieces| pieces.size(self.bytes));
        (self.offset + self.begun, most.min(self.bytes - self.begun))
    }
}

/// How a request's data moves: the number of its buffers, zero if it moves at once.
#[derive(Clone, Copy, Debug)]
struct Flow(u32);

impl Flow {
    /// Whether its pieces follow each other as buffers become free; the proxy paces those of others.
    fn is_buffered(self, service: &Service) -> bool {
        self.0 > 0 && service.pieces.is_none()
    }

    fn piece(self, service: &Service) -> u64 {
        if self.is_buffered(service) { FLOW_BUFFER } else { service.bytes }
    }

    /// Whether there is a next piece, and a buffer free for it.
    fn has_room(self, service: &Service) -> bool {
        let Service { bytes, received, served, .. } = *service;
        self.is_buffered(service) && received < bytes && received - served < u64::from(self.0) * FLOW_BUFFER
    }
}

#[derive(Debug)]
pub(crate) struct NodeLink {
    pub(crate) sending: Link,
    pub(crate) receiving: Link,
}

impl NodeLink {
    pub(crate) fn new(profile: LinkProfile) -> Self {
        Self { sending: Link::new(profile), receiving: Link::new(profile) }
    }
}

/// What servers act on beside themselves. The parts of all servers are in one table, where a new one takes the place of
/// one that was complete a moment ago, and is still in the processor's cache.
pub(crate) struct Shared<'a> {
    pub(crate) nodes: &'a mut [NodeLink],
    pub(crate) calendar: &'a mut Calendar,
    pub(crate) parts: &'a mut Slab<Part>,
}

pub(crate) struct Server {
    pub(crate) number: u32,
    services: Slab<Service>,
    device: Box<dyn Device>,
    in_device: Outstanding<(u32, u64)>,
    flow: Flow,
    metadata: MetadataServer,
    in_metadata: Outstanding<u32>,
    pub(crate) link: LinkProfile,
    pub(crate) inward: Link,
    pub(crate) outward: Link,
    device_wake: Option<Time>,
    metadata_wake: Option<Time>,
    limits: CheckedLimits,
    pub(crate) usage: Usage,
}

#[derive(Clone, Copy, Debug)]
struct CheckedLimits {
    /// `None` for policies without slots.
    depth: Option<u32>,
    metadata_depth: Option<u32>,
    wait: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) data_slots: u32,
    pub(crate) metadata_slots: u32,
    /// The number of them in use under one depth at the last check.
    shared_slots: u32,
    pub(crate) depth: u32,
    pub(crate) device_busy: Duration,
    device_busy_since: Option<Time>,
    metadata_busy: Duration,
    metadata_busy_since: Option<Time>,
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    pub(crate) backfilled: u64,
}

impl Server {
    pub(crate) fn new(
        number: u32,
        device: Box<dyn Device>,
        group: &ServerGroup,
        settings: &Settings,
        wait_limit: Duration,
    ) -> Self {
        let limits = CheckedLimits {
            depth: settings.capabilities().has_slots.then_some(settings.depth.get()),
            metadata_depth: settings.metadata_depth.map(|depth| depth.get()),
            wait: wait_limit,
        };
        Self {
            number,
            services: Slab::new(),
            device,
            in_device: Outstanding::default(),
            flow: Flow(group.flow_buffers),
            metadata: MetadataServer::new(group.metadata.clone()),
            in_metadata: Outstanding::default(),
            link: group.link,
            inward: Link::new(group.link),
            outward: Link::new(group.link),
            device_wake: None,
            metadata_wake: None,
            limits,
            usage: Usage { depth: settings.depth.get(), ..Usage::default() },
        }
    }

    pub(crate) fn set_depth(&mut self, depth: Depth) {
        self.usage.depth = depth.get();
        self.limits.depth = self.limits.depth.map(|_| depth.get());
    }

    pub(crate) fn on_restart(&mut self) {
        (self.usage.data_slots, self.usage.metadata_slots) = (0, 0);
    }

    pub(crate) fn begin(
        &mut self,
        now: Time,
        part: u32,
        dispatch: &Dispatch,
        shared: &mut Shared<'_>,
    ) -> Result<(), Check> {
        let entry = &mut shared.parts[part as usize];
        let slots = dispatch.slot_cost.get();
        entry.stage = Stage::Dispatched(Work { since: now, slots, stored: 0 });
        let entry = *entry;
        self.usage.backfilled += u64::from(dispatch.backfilled);
        match entry.op {
            OpKind::Metadata => {
                self.usage.metadata_slots += slots;
                let id = self.metadata.submit(now, entry.metadata);
                self.in_metadata.insert(id, part);
                self.usage.metadata_busy_since.get_or_insert(now);
                self.collect_metadata(now, shared);
            }
            OpKind::Read => {
                self.usage.data_slots += slots;
                let service = self.serve(Service::new(now, part, IoKind::Read, &entry, dispatch.pieces));
                self.submit(now, service, shared);
            }
            OpKind::Write => {
                self.usage.data_slots += slots;
                let kind = if entry.stable { IoKind::StableWrite } else { IoKind::Write };
                let service = self.serve(Service::new(now, part, kind, &entry, dispatch.pieces));
                // Tells the client that it may send.
                self.receive(now + self.link.latency * 2, service, shared);
            }
        }
        let waited = now.since(entry.arrived);
        if waited > self.limits.wait { Err(Check::Starved { app: entry.app, waited }) } else { Ok(()) }
    }

    fn serve(&mut self, service: Service) -> u32 {
        u32::try_from(self.services.insert(service)).expect("parts are bounded by the calls")
    }

    fn receive(&mut self, earliest: Time, service: u32, shared: &mut Shared<'_>) {
        let entry = &mut self.services[service as usize];
        let len = self.flow.piece(entry).min(entry.bytes - entry.received);
        let sender = shared.nodes.get_mut(entry.node as usize).map(|node| &mut node.sending);
        let Span { begin, end } = reserve_both(sender, &mut self.inward, earliest, len);
        entry.received += len;
        entry.data_here = end;
        let first_here = (begin + self.link.transfer_time(len.min(FLOW_BUFFER))).min(end);
        shared.calendar.push(first_here, Event::Submit { server: self.number, service });
    }

    pub(crate) fn submit(&mut self, now: Time, service: u32, shared: &mut Shared<'_>) {
        let (flow, entry) = (self.flow, &mut self.services[service as usize]);
        let (offset, len) = entry.next_piece(flow);
        if entry.begun == 0 {
            entry.began = now;
        }
        if entry.begun == entry.served {
            entry.stored_since = now;
        }
        entry.begun += len;
        entry.received = entry.received.max(entry.begun);
        if let Some(pieces) = entry.pieces.filter(|_| entry.begun < entry.bytes) {
            let next_at = pieces.next_at(entry.began, entry.begun, entry.bytes);
            shared.calendar.push(next_at, Event::Submit { server: self.number, service });
        }
        let io = Io { kind: entry.kind, object: entry.object, offset, len };
        let id = self.device.submit(now, io);
        self.in_device.insert(id, (service, len));
        self.usage.device_busy_since.get_or_insert(now);
        self.go_on(now, service, shared);
        self.collect(now, shared);
    }

    /// Moves the next piece of a request, if a buffer is free and none is underway.
    fn go_on(&mut self, now: Time, service: u32, shared: &mut Shared<'_>) {
        let (flow, entry) = (self.flow, &mut self.services[service as usize]);
        if entry.received > entry.begun || !flow.has_room(entry) {
            return;
        }
        match entry.kind {
            IoKind::Write | IoKind::StableWrite => self.receive(now, service, shared),
            IoKind::Read => {
                entry.received += flow.piece(entry).min(entry.bytes - entry.received);
                shared.calendar.push(now, Event::Submit { server: self.number, service });
            }
        }
    }

    /// The proxy sent messages to other servers. They are small, so they go between the packets of data.
    pub(crate) fn on_messages_sent(&mut self, now: Time, cost: Exchange) {
        self.outward.reserve(now, cost.bytes);
        self.device.occupy(now, cost.work);
    }

    pub(crate) fn on_message_received(&mut self, now: Time, cost: Exchange) {
        self.inward.reserve(now, cost.bytes);
        self.device.occupy(now, cost.work);
    }

    /// The device has completed something, unless its schedule changed in the meantime.
    pub(crate) fn device_wake(&mut self, now: Time, shared: &mut Shared<'_>) {
        if self.device_wake == Some(now) {
            self.device_wake = None;
            self.collect(now, shared);
        }
    }

    /// The metadata service has completed something, unless its schedule changed in the meantime.
    pub(crate) fn metadata_wake(&mut self, now: Time, shared: &mut Shared<'_>) {
        if self.metadata_wake == Some(now) {
            self.metadata_wake = None;
            self.collect_metadata(now, shared);
        }
    }

    fn collect_metadata(&mut self, now: Time, shared: &mut Shared<'_>) {
        while let Some(done) = self.metadata.poll_completed(now) {
            let part = self.in_metadata.remove(done.id).expect("an operation completes once");
            let entry = &mut shared.parts[part as usize];
            entry.set_stored(now.nanos_since(entry.work().since));
            shared.calendar.push(now, Event::Complete { server: self.number, part });
        }
        if self.metadata.outstanding() == 0
            && let Some(since) = self.usage.metadata_busy_since.take()
        {
            self.usage.metadata_busy += now.since(since);
        }
        if let Some(at) = self.metadata.poll_timeout().map(|at| at.max(now))
            && self.metadata_wake != Some(at)
        {
            self.metadata_wake = Some(at);
            shared.calendar.push(at, Event::MetadataWake { server: self.number });
        }
    }

    fn collect(&mut self, now: Time, shared: &mut Shared<'_>) {
        while let Some(done) = self.device.poll_completed(now) {
            let (service, len) = self.in_device.remove(done.id).expect("an access completes once");
            let entry = &mut self.services[service as usize];
            entry.served += len;
            if entry.served == entry.begun {
                entry.stored += done.at.nanos_since(entry.stored_since);
            }
            let is_last = entry.served == entry.bytes;
            if entry.kind == IoKind::Read && (is_last || self.flow.is_buffered(entry)) {
                self.reply(done.at, service, len, shared.nodes);
            }
            if is_last {
                let Service { part, data_here, stored, .. } = self.services.remove(service as usize);
                shared.parts[part as usize].set_stored(stored);
                let complete = data_here.max(done.at).max(now);
                shared.calendar.push(complete, Event::Complete { server: self.number, part });
            } else {
                self.go_on(now, service, shared);
            }
        }
        if self.device.outstanding() == 0
            && let Some(since) = self.usage.device_busy_since.take()
        {
            self.usage.device_busy += now.since(since);
        }
        self.arm_device(now, shared.calendar);
    }

    /// Sends a piece that was read; or all that was, the last flow buffer when the device is done and the others
    /// before.
    fn reply(&mut self, read: Time, service: u32, piece: u64, nodes: &mut [NodeLink]) {
        let entry = &mut self.services[service as usize];
        let len = if self.flow.is_buffered(entry) { piece } else { entry.bytes };
        let ahead = self.link.transfer_time(len.saturating_sub(FLOW_BUFFER));
        let earliest = Time::from_nanos(read.since(Time::ZERO + ahead).as_nanos().try_into().unwrap_or(u64::MAX));
        let receiver = nodes.get_mut(entry.node as usize).map(|node| &mut node.receiving);
        let sent = reserve_both(receiver, &mut self.outward, earliest.max(entry.dispatched), len).end;
        entry.data_here = entry.data_here.max(sent);
    }

    pub(crate) fn complete(&mut self, entry: &Part) {
        self.usage.bytes += entry.bytes;
        self.usage.requests += 1;
        match entry.op {
            _ if entry.request.is_none() => {}
            OpKind::Metadata => self.usage.metadata_slots -= entry.work().slots,
            OpKind::Read | OpKind::Write => self.usage.data_slots -= entry.work().slots,
        }
    }

    fn arm_device(&mut self, now: Time, calendar: &mut Calendar) {
        if let Some(at) = self.device.poll_timeout().map(|at| at.max(now))
            && self.device_wake != Some(at)
        {
            self.device_wake = Some(at);
            calendar.push(at, Event::DeviceWake { server: self.number });
        }
    }

    /// Lowering the depth does not recall requests: the number of slots above it may only decrease.
    pub(crate) fn check_slots(&mut self) -> Result<(), Check> {
        let Usage { data_slots, metadata_slots, .. } = self.usage;
        let (shared, own) = match self.limits.metadata_depth {
            Some(depth) => (data_slots, metadata_slots.saturating_sub(depth)),
            None => (data_slots + metadata_slots, 0),
        };
        let before = std::mem::replace(&mut self.usage.shared_slots, shared);
        match self.limits.depth {
            Some(depth) if shared > depth.max(before) => Err(Check::Depth { used: shared, depth }),
            _ if own > 0 => Err(Check::Depth { used: metadata_slots, depth: metadata_slots - own }),
            _ => Ok(()),
        }
    }

    pub(crate) fn device_busy(&self, now: Time) -> Duration {
        self.usage.device_busy + self.usage.device_busy_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    pub(crate) fn metadata_busy(&self, now: Time) -> Duration {
        self.usage.metadata_busy + self.usage.metadata_busy_since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Check {
    Depth { used: u32, depth: u32 },
    Starved { app: AppId, waited: Duration },
}

impl Check {
    pub(crate) fn named(self, server: u32, apps: &[String], limit: Duration) -> Violation {
        match self {
            Self::Depth { used, depth } => Violation::Depth { server, used, depth },
            Self::Starved { app, waited } => {
                Violation::Starved { server, app: apps[app.index()].clone(), waited, limit }
            }
        }
    }
}

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
    incarnation: u64,
    /// The keys of parts wait for dispatches.
    pub(crate) node: Node<u32>,
    wake: Option<Time>,
}

impl Proxy {
    pub(crate) fn new(now: Time, number: u32, plan: &NodePlan) -> Self {
        Self { number, incarnation: 1, node: plan.build(now, number, 1), wake: None }
    }

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

struct Underway {
    from: u32,
    to: u32,
    message: PeerMessage,
}

pub(crate) struct Peers {
    network: PeerNetwork,
    random: Xoshiro256PlusPlus,
    underway: Slab<Underway>,
    /// Service reported and heard by nodes before their restart, by server and application.
    before: Vec<Vec<PeerService>>,
    pub(crate) traffic: Traffic,
}

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

    pub(crate) fn restart(&mut self, server: u32, proxy: &Proxy) {
        for (app, before) in (0..).map(AppId).zip(&mut self.before[server as usize]) {
            *before = sum(*before, proxy.node.peer_service(app));
        }
    }

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

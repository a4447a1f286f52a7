//! One server: its proxy's node, its device, its metadata service and its link.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use slab::Slab;
use vpfs_core::{AppId, Bytes, Dispatch, Event as SchedulerEvent, OpKind, Pieces, RequestId, Time};
use vpfs_model::device::{Device, Io, IoId, IoKind, MetadataOp, MetadataServer};
use vpfs_node::{Arrival, Event as NodeEvent, Node, Served};

use crate::calendar::{Calendar, Event};
use crate::error::Violation;
use crate::link::{Link, LinkProfile, Span, reserve_both};
use crate::peer_network::Exchange;
use crate::policy::NodePlan;
use crate::scenario::ServerGroup;

/// Data flows in pieces of this size: the device starts a write when the first piece has arrived, and a read's reply
/// lags its device by one piece. OrangeFS's flow buffers have this size.
const FLOW_BUFFER: u64 = 256 << 10;

/// One server's part of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) call: u32,
    pub(crate) app: AppId,
    pub(crate) op: OpKind,
    /// Zero for metadata.
    pub(crate) bytes: u64,
    pub(crate) object: u64,
    pub(crate) offset: u64,
    /// The operation, if it is metadata.
    pub(crate) metadata: MetadataOp,
    pub(crate) node: u32,
    pub(crate) issued: Time,
    pub(crate) elsewhere: Option<Bytes>,
    pub(crate) arrived: Time,
    pub(crate) dispatched: Time,
    pub(crate) slots: u32,
    /// The incarnation of the proxy that counts it.
    pub(crate) incarnation: u64,
    /// When the last byte of a write has arrived.
    pub(crate) data_here: Time,
    /// How its data is passed to the device, if not all at once.
    pub(crate) pieces: Option<Pieces>,
    /// Bytes that were passed to the device, and how many of them are complete.
    pub(crate) begun: u64,
    pub(crate) served: u64,
}

impl Part {
    /// The next bytes for the device, as offset and length: all of them, or a piece.
    fn next_piece(&self) -> (u64, u64) {
        let left = self.bytes - self.begun;
        let most = self.pieces.map_or(left, |pieces| self.bytes.div_ceil(u64::from(pieces.count)));
        (self.offset + self.begun, left.min(most))
    }
}

/// Both directions of a client node's link.
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

pub(crate) struct Server {
    number: u32,
    /// The incarnation of its proxy: how often it has started.
    pub(crate) incarnation: u64,
    pub(crate) node: Node,
    /// The applications of which `node` has seen a request.
    known: BTreeSet<AppId>,
    pub(crate) parts: Slab<Part>,
    device: Box<dyn Device>,
    in_device: InService<(u32, u64)>,
    metadata: MetadataServer,
    in_metadata: InService<u32>,
    pub(crate) link: LinkProfile,
    pub(crate) inward: Link,
    pub(crate) outward: Link,
    device_wake: Option<Time>,
    metadata_wake: Option<Time>,
    node_wake: Option<Time>,
    limits: CheckedLimits,
    pub(crate) usage: Usage,
}

/// The values that checks compare with.
#[derive(Clone, Copy, Debug)]
struct CheckedLimits {
    /// `None` for policies without slots.
    depth: Option<u32>,
    metadata_depth: Option<u32>,
    wait: Duration,
}

/// Counters of a server.
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
    pub(crate) fn new(number: u32, group: &ServerGroup, node: Node, wait_limit: Duration) -> Self {
        let settings = node.settings().clone();
        let limits = CheckedLimits {
            depth: settings.capabilities().has_slots.then_some(settings.depth.get()),
            metadata_depth: settings.metadata_depth.map(|depth| depth.get()),
            wait: wait_limit,
        };
        Self {
            number,
            incarnation: 1,
            node,
            known: BTreeSet::new(),
            parts: Slab::new(),
            device: group.device.build(),
            in_device: InService::new(),
            metadata: MetadataServer::new(group.metadata.clone()),
            in_metadata: InService::new(),
            link: group.link,
            inward: Link::new(group.link),
            outward: Link::new(group.link),
            device_wake: None,
            metadata_wake: None,
            node_wake: None,
            limits,
            usage: Usage { depth: settings.depth.get(), ..Usage::default() },
        }
    }

    /// A request has arrived at the proxy.
    pub(crate) fn arrive(&mut self, now: Time, key: u32, plan: &NodePlan) {
        let part = &mut self.parts[key as usize];
        part.arrived = now;
        part.incarnation = self.incarnation;
        let Part { app, op, bytes, issued, elsewhere, .. } = *part;
        let arrival = Arrival { elsewhere, issued_at: Some(issued), ..Arrival::new(app, op, bytes) };
        if self.known.insert(app) {
            plan.introduce(now, &mut self.node, app);
        }
        self.node.enqueue(now, RequestId(key), &arrival);
    }

    /// The proxy restarts: queued requests arrive again in their old order, and requests at the server are
    /// no longer counted. The ids of the latter are not reused while they are in use. What was learned is kept, unless
    /// it `forgets`.
    pub(crate) fn restart(&mut self, now: Time, plan: &NodePlan, forgets: bool) {
        let learned = self.node.learned(now).filter(|_| !forgets);
        self.incarnation += 1;
        self.node = plan.build(now, self.number, self.incarnation);
        if let Some(learned) = learned {
            self.node.remember(now, &learned);
        }
        self.known.clear();
        self.node_wake = None;
        (self.usage.data_slots, self.usage.metadata_slots) = (0, 0);
        let here = |part: &Part| part.incarnation > 0 && part.slots == 0;
        let mut waiting: Vec<(Time, usize)> =
            self.parts.iter().filter(|(_, part)| here(part)).map(|(key, part)| (part.arrived, key)).collect();
        waiting.sort_unstable();
        for (_, key) in waiting {
            self.arrive(now, u32::try_from(key).expect("a request id"), plan);
        }
    }

    /// The node's timeout; `false` if the node has set another one since.
    pub(crate) fn node_wake(&mut self, now: Time) -> bool {
        let due = self.node_wake == Some(now);
        if due {
            self.node_wake = None;
            self.node.handle_timeout(now);
        }
        due
    }

    /// Lets the node dispatch requests, after every input.
    pub(crate) fn dispatch(
        &mut self,
        now: Time,
        nodes: &mut [NodeLink],
        calendar: &mut Calendar,
        mut dispatched: impl FnMut(&Part),
    ) -> Result<(), Check> {
        while let Some(dispatch) = self.node.poll_dispatch(now) {
            self.begin(now, &dispatch, nodes, calendar)?;
            dispatched(&self.parts[dispatch.id.index()]);
        }
        Ok(())
    }

    /// Takes the node's events and its next deadline, after all other consequences of an input.
    pub(crate) fn settle(&mut self, now: Time, calendar: &mut Calendar) -> Result<(), Check> {
        while let Some((_, event)) = self.node.poll_event() {
            if let NodeEvent::Scheduler(SchedulerEvent::DepthChanged { depth }) = event {
                self.usage.depth = depth.get();
                self.limits.depth = self.limits.depth.map(|_| depth.get());
            }
        }
        if let Some(at) = self.node.poll_timeout().map(|at| at.max(now))
            && self.node_wake != Some(at)
        {
            self.node_wake = Some(at);
            calendar.push(at, Event::NodeWake { server: self.number });
        }
        self.check_slots()
    }

    /// A request was sent to the server.
    fn begin(
        &mut self,
        now: Time,
        dispatch: &Dispatch,
        nodes: &mut [NodeLink],
        calendar: &mut Calendar,
    ) -> Result<(), Check> {
        let (server, part) = (self.number, dispatch.id.0);
        let entry = &mut self.parts[part as usize];
        entry.dispatched = now;
        entry.slots = dispatch.slot_cost.get();
        entry.pieces = dispatch.pieces;
        let entry = *entry;
        self.usage.backfilled += u64::from(dispatch.backfilled);
        match entry.op {
            OpKind::Metadata => {
                self.usage.metadata_slots += entry.slots;
                let id = self.metadata.submit(now, entry.metadata);
                self.in_metadata.insert(id, part);
                self.usage.metadata_busy_since.get_or_insert(now);
                self.collect_metadata(now, calendar);
            }
            OpKind::Read => {
                self.usage.data_slots += entry.slots;
                self.submit(now, part, nodes, calendar);
            }
            OpKind::Write => {
                self.usage.data_slots += entry.slots;
                let first_here = self.receive(now, part, nodes);
                calendar.push(first_here, Event::Submit { server, part });
            }
        }
        let waited = now.since(entry.arrived);
        if waited > self.limits.wait { Err(Check::Starved { app: entry.app, waited }) } else { Ok(()) }
    }

    /// Tells the client that it may send; returns when its first flow buffer arrives.
    fn receive(&mut self, now: Time, part: u32, nodes: &mut [NodeLink]) -> Time {
        let entry = &mut self.parts[part as usize];
        let earliest = now + self.link.latency * 2;
        let sender = nodes.get_mut(entry.node as usize).map(|node| &mut node.sending);
        let Span { begin, end } = reserve_both(sender, &mut self.inward, earliest, entry.bytes);
        entry.data_here = end;
        (begin + self.link.transfer_time(entry.bytes.min(FLOW_BUFFER))).min(end)
    }

    /// Passes an access, or its next piece, to the device.
    pub(crate) fn submit(&mut self, now: Time, part: u32, nodes: &mut [NodeLink], calendar: &mut Calendar) {
        let entry = &mut self.parts[part as usize];
        let kind = if entry.op == OpKind::Read { IoKind::Read } else { IoKind::Write };
        let (offset, len) = entry.next_piece();
        entry.begun += len;
        if let Some(Pieces { every, .. }) = entry.pieces.filter(|_| entry.begun < entry.bytes) {
            calendar.push(now + every, Event::Submit { server: self.number, part });
        }
        let io = Io { kind, object: entry.object, offset, len };
        let id = self.device.submit(now, io);
        self.in_device.insert(id, (part, len));
        self.usage.device_busy_since.get_or_insert(now);
        self.collect(now, nodes, calendar);
    }

    /// The proxy sent messages to other servers. They are small, so they go between the packets of data.
    pub(crate) fn on_messages_sent(&mut self, now: Time, cost: Exchange) {
        self.outward.reserve(now, cost.bytes);
        self.device.occupy(now, cost.work);
    }

    /// A message from another server arrived.
    pub(crate) fn on_message_received(&mut self, now: Time, cost: Exchange) {
        self.inward.reserve(now, cost.bytes);
        self.device.occupy(now, cost.work);
    }

    /// The device has completed something, unless its schedule changed in the meantime.
    pub(crate) fn device_wake(&mut self, now: Time, nodes: &mut [NodeLink], calendar: &mut Calendar) {
        if self.device_wake == Some(now) {
            self.device_wake = None;
            self.collect(now, nodes, calendar);
        }
    }

    /// The metadata service has completed something, unless its schedule changed in the meantime.
    pub(crate) fn metadata_wake(&mut self, now: Time, calendar: &mut Calendar) {
        if self.metadata_wake == Some(now) {
            self.metadata_wake = None;
            self.collect_metadata(now, calendar);
        }
    }

    /// Takes the completed operations of the metadata service.
    fn collect_metadata(&mut self, now: Time, calendar: &mut Calendar) {
        while let Some(done) = self.metadata.poll_completed(now) {
            let part = self.in_metadata.remove(done.id);
            calendar.push(now, Event::Complete { server: self.number, part });
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
            calendar.push(at, Event::MetadataWake { server: self.number });
        }
    }

    /// Takes the completed accesses of the device, and sends the data that was read.
    fn collect(&mut self, now: Time, nodes: &mut [NodeLink], calendar: &mut Calendar) {
        while let Some(done) = self.device.poll_completed(now) {
            let (part, len) = self.in_device.remove(done.id);
            let entry = &mut self.parts[part as usize];
            entry.served += len;
            if entry.served < entry.bytes {
                continue;
            }
            let complete = match entry.op {
                OpKind::Read => self.reply(done.at, part, nodes),
                _ => done.at.max(entry.data_here),
            };
            calendar.push(complete.max(now), Event::Complete { server: self.number, part });
        }
        if self.device.outstanding() == 0
            && let Some(since) = self.usage.device_busy_since.take()
        {
            self.usage.device_busy += now.since(since);
        }
        self.arm_device(now, calendar);
    }

    /// Sends the data that was read, the last flow buffer when the device is done and the others before; returns when
    /// the last byte is sent.
    fn reply(&mut self, read: Time, part: u32, nodes: &mut [NodeLink]) -> Time {
        let entry = &self.parts[part as usize];
        let ahead = self.link.transfer_time(entry.bytes.saturating_sub(FLOW_BUFFER));
        let earliest = Time::from_nanos(read.since(Time::ZERO + ahead).as_nanos().try_into().unwrap_or(u64::MAX));
        let receiver = nodes.get_mut(entry.node as usize).map(|node| &mut node.receiving);
        reserve_both(receiver, &mut self.outward, earliest.max(entry.dispatched), entry.bytes).end.max(read)
    }

    /// An operation is complete on the wire.
    pub(crate) fn complete(&mut self, now: Time, part: u32) -> Part {
        let entry = self.parts.remove(part as usize);
        self.usage.bytes += entry.bytes;
        self.usage.requests += 1;
        if entry.incarnation == self.incarnation {
            match entry.op {
                OpKind::Metadata => self.usage.metadata_slots -= entry.slots,
                OpKind::Read | OpKind::Write => self.usage.data_slots -= entry.slots,
            }
            let served = Served { bytes: entry.bytes, ..Served::new(entry.op, entry.arrived, entry.dispatched) };
            self.node.complete(now, RequestId(part), entry.app, &served);
        }
        entry
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
    fn check_slots(&mut self) -> Result<(), Check> {
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

    /// For how long the device was busy.
    pub(crate) fn device_busy(&self, now: Time) -> Duration {
        self.usage.device_busy + self.usage.device_busy_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// For how long the metadata service was busy.
    pub(crate) fn metadata_busy(&self, now: Time) -> Duration {
        self.usage.metadata_busy + self.usage.metadata_busy_since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

/// A broken rule, before the world adds names.
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

/// The part to which each access of a device or operation of a metadata service belongs, for a device with its bytes.
/// Both number their accesses consecutively, so those in progress lie in a short window.
#[derive(Debug)]
struct InService<T> {
    first: u64,
    entries: VecDeque<Option<T>>,
}

impl<T> InService<T> {
    fn new() -> Self {
        Self { first: 0, entries: VecDeque::new() }
    }

    fn insert(&mut self, id: IoId, entry: T) {
        debug_assert_eq!(id.0, self.first + self.entries.len() as u64);
        self.entries.push_back(Some(entry));
    }

    fn remove(&mut self, id: IoId) -> T {
        let index = usize::try_from(id.0 - self.first).expect("the window is short");
        let entry = self.entries[index].take().expect("an access completes once");
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.first += 1;
        }
        entry
    }
}

//! The simulated cluster: handles one event after another.

use std::ops::{ControlFlow, Range};
use std::time::Duration;

use slab::Slab;
use vpfs_core::hash::mix;
use vpfs_core::{AppId, Bytes, Dispatch, Event as SchedulerEvent, OpKind, ServerId, Time};
use vpfs_node::{Event as NodeEvent, Outputs, PeerMessage, RequestKey};

use crate::bounds;
use crate::calendar::{Calendar, Event};
use crate::layout::Share;
use crate::model::device::MetadataOp;
use crate::model::plan::Call as PlanCall;
use crate::network::Exchange;
use crate::process::{
    AfterPhase, AppState, Next, Process, Recipient, State, file_of, object_of, parent_of, requests_of,
};
use crate::results::{AppMeasures, SimError, Spent, Trace, Transfer, Violation};
use crate::server::{Check, NodeLink, NodePlan, Part, Peers, Proxy, Server, Shared, Stage, Work};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    process: u32,
    issued: Time,
    op: OpKind,
    plan: PlanCall,
    /// How many of its requests were sent, one after another, for metadata.
    stage: usize,
    parts_left: u32,
    /// When the last of the replies so far will be here, and how long its request waited and was served.
    last_reply: (Time, Spent),
    spent: Spent,
}

#[derive(Clone, Copy, Debug)]
struct Access {
    object: u64,
    offset: u64,
    bytes: u64,
    elsewhere: Option<Bytes>,
    metadata: MetadataOp,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) calendar: Calendar,
    pub(crate) settings: WorldSettings,
    pub(crate) servers: Vec<Server>,
    /// Of their links: for a request that is sent to it, nothing of a server itself need be looked at.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) metadata_servers: Vec<u32>,
    pub(crate) nodes: Vec<NodeLink>,
    pub(crate) apps: Vec<AppState>,
    pub(crate) names: Vec<String>,
    pub(crate) measures: Vec<AppMeasures>,
    pub(crate) processes: Vec<Process>,
    pub(crate) calls: Slab<Call>,
    pub(crate) parts: Slab<Part>,
    pub(crate) peers: Option<Peers>,
    pub(crate) plan: NodePlan,
    pub(crate) trace: Trace,
    /// Requests sent; each one's number selects its random delay.
    pub(crate) sent: u64,
    pub(crate) completed: u64,
    pub(crate) samples: Vec<ServerSamples>,
    pub(crate) unfinished: usize,
    pub(crate) events: u64,
    /// When the last interval of the time series ended.
    pub(crate) sampled: Time,
    pub(crate) shares: Vec<Share>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldSettings {
    pub(crate) seed: u64,
    pub(crate) end: Option<Time>,
    pub(crate) interval: Duration,
    pub(crate) jitter: Duration,
    pub(crate) skew: Duration,
    pub(crate) wait_limit: Duration,
    pub(crate) most_intervals: u64,
}

impl WorldSettings {
    /// The random delay of request number `lot` of a process: that which all requests of its application share, that of
    /// its process, and its own.
    fn delay(&self, app: u32, process: u32, lot: u64) -> Duration {
        let draw = |most: Duration, kind: u64, lot: u64| {
            let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
            mix(mix(self.seed ^ kind << 62) ^ lot) % most.saturating_add(1)
        };
        let shared = draw(self.skew, 1, app.into()) + draw(self.skew, 2, process.into());
        Duration::from_nanos(shared + draw(self.jitter, 0, lot))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ServerSamples {
    pub(crate) queued: Vec<u32>,
    pub(crate) outstanding: Vec<u32>,
    pub(crate) depth: Vec<u32>,
}

impl World {
    /// Handles events until the run is over or `progress`, which hears of each, ends it; reports what calls moved to
    /// `transfer`.
    pub(crate) fn run(
        &mut self,
        mut progress: impl FnMut(Time, u64) -> ControlFlow<()>,
        mut transfer: impl FnMut(Transfer),
    ) -> Result<(), SimError> {
        while self.unfinished > 0 || self.settings.end.is_some() {
            let Some((at, event)) = self.calendar.pop() else { return self.check_stuck() };
            if at < self.now {
                return Err(self.violation(Violation::TimeWentBack { to: at }));
            }
            if let Some(end) = self.settings.end.filter(|end| at > *end) {
                self.now = end;
                break;
            }
            self.now = at;
            self.events += 1;
            self.handle(event)?;
            if let Some(transfers) = &mut self.trace.transfers {
                transfers.drain(..).for_each(&mut transfer);
            }
            if progress(at, self.events).is_break() {
                break;
            }
        }
        if self.sampled < self.now {
            self.close_interval();
        }
        self.check_conservation()
    }

    fn handle(&mut self, event: Event) -> Result<(), SimError> {
        match event {
            Event::Start { app } => self.start(app),
            Event::Resume { process } => self.resume(process),
            Event::Arrive { server, part } => self.arrive(server, part),
            Event::Submit { server, service } => {
                let (now, server, mut shared) = self.around(server);
                server.submit(now, service, &mut shared);
                Ok(())
            }
            Event::DeviceWake { server } => {
                let (now, server, mut shared) = self.around(server);
                server.device_wake(now, &mut shared);
                Ok(())
            }
            Event::MetadataWake { server } => {
                let (now, server, mut shared) = self.around(server);
                server.metadata_wake(now, &mut shared);
                Ok(())
            }
            Event::NodeWake { server } => {
                if self.proxies[server as usize].wake(self.now) {
                    self.drain(server)
                } else {
                    Ok(())
                }
            }
            Event::Complete { server, part } => self.complete(server, part),
            Event::Reply { call } => self.reply(call),
            Event::Deliver { message } => {
                let Some(peers) = &mut self.peers else { return Ok(()) };
                let (server, cost) = peers.deliver(self.now, message, &mut self.proxies);
                self.servers[server as usize].on_message_received(self.now, cost);
                self.drain(server)
            }
            Event::Nudge { server } => self.drain(server),
            Event::Restart { server } => self.restart(server),
            Event::Sample => self.sample(),
        }
    }

    fn around(&mut self, server: u32) -> (Time, &mut Server, Shared<'_>) {
        let Self { now, servers, nodes, calendar, parts, .. } = self;
        (*now, &mut servers[server as usize], Shared { nodes, calendar, parts })
    }

    fn start(&mut self, app: u32) -> Result<(), SimError> {
        self.measures[app as usize].began = Some(self.now);
        let state = &self.apps[app as usize];
        for process in state.first_process..state.first_process + state.processes {
            self.advance(process)?;
        }
        Ok(())
    }

    fn resume(&mut self, process: u32) -> Result<(), SimError> {
        self.processes[process as usize].state = State::Running;
        self.advance(process)
    }

    fn advance(&mut self, process: u32) -> Result<(), SimError> {
        while self.processes[process as usize].state == State::Running {
            let entry = &mut self.processes[process as usize];
            let app = entry.app;
            match entry.next(self.now, &self.apps[app as usize]) {
                Next::Nothing => return Ok(()),
                Next::Call(call) => {
                    self.issue(process, call);
                    bounds::check_underway(self.sent - self.completed)?;
                }
                Next::Think(time) => {
                    entry.state = State::Thinking;
                    entry.times.think += time;
                    self.calendar.push(self.now + time, Event::Resume { process });
                }
                Next::Barrier => self.wait(process, State::AtBarrier),
                Next::PhaseEnd => self.wait(process, State::AtPhaseEnd),
                Next::Leave => self.leave(process),
            }
        }
        Ok(())
    }

    fn wait(&mut self, process: u32, state: State) {
        let entry = &mut self.processes[process as usize];
        entry.state = state;
        let app = entry.app;
        self.apps[app as usize].waiting += 1;
        self.open_barrier(app);
    }

    fn leave(&mut self, process: u32) {
        let entry = &mut self.processes[process as usize];
        entry.state = State::Left;
        let app = entry.app;
        self.apps[app as usize].active -= 1;
        self.finish_if_all_left(app);
        self.open_barrier(app);
    }

    fn finish_if_all_left(&mut self, app: u32) {
        let state = &self.apps[app as usize];
        if state.active == 0 {
            self.measures[app as usize].finished = Some(self.now);
            self.unfinished -= usize::from(!state.background);
            self.tell_departure(AppId(app));
        }
    }

    fn tell_departure(&mut self, app: AppId) {
        if self.peers.is_none() {
            return;
        }
        for (number, proxy) in (0..).zip(&mut self.proxies) {
            proxy.node.flow_left(self.now, app);
            // Its messages go out with the next input, which follows at once.
            self.calendar.push(self.now, Event::Nudge { server: number });
        }
    }

    /// If all remaining processes wait, they continue: after the barrier, or with the next phase.
    fn open_barrier(&mut self, app: u32) {
        let state = &mut self.apps[app as usize];
        if state.active == 0 || state.waiting < state.active {
            return;
        }
        state.waiting = 0;
        let mut ended = None;
        for process in state.first_process..state.first_process + state.processes {
            let entry = &mut self.processes[process as usize];
            match entry.state {
                State::AtBarrier => {}
                State::AtPhaseEnd => ended = Some(entry.end_phase(state)),
                State::Running | State::Thinking | State::Left => continue,
            }
            if ended == Some(AfterPhase::Done) {
                entry.state = State::Left;
                state.active -= 1;
            } else {
                self.calendar.push(self.now, Event::Resume { process });
            }
        }
        self.measures[app as usize].rounds += u64::from(ended.is_some_and(|after| after != AfterPhase::Next));
        if ended == Some(AfterPhase::Done) {
            self.finish_if_all_left(app);
        }
    }

    fn issue(&mut self, process: u32, call: PlanCall) {
        self.processes[process as usize].call_issued(self.now);
        let op = match call {
            PlanCall::Write(_) | PlanCall::WriteStrided(_) => OpKind::Write,
            PlanCall::Read(_) | PlanCall::ReadStrided(_) => OpKind::Read,
            _ => OpKind::Metadata,
        };
        let entry = Call {
            process,
            issued: self.now,
            op,
            plan: call,
            stage: 0,
            parts_left: 0,
            last_reply: Default::default(),
            spent: Default::default(),
        };
        let key = u32::try_from(self.calls.insert(entry)).expect("calls are bounded by the processes");
        if op == OpKind::Metadata {
            self.next_metadata(key);
        }
        // The blocks of a strided call are sent all at once.
        for extent in call.extents() {
            let object = file_of(self.app_of(process).salt, extent.file);
            self.move_data(key, object, &(extent.offset..extent.offset + u64::from(extent.bytes)));
        }
    }

    fn app_of(&self, process: u32) -> &AppState {
        &self.apps[self.processes[process as usize].app as usize]
    }

    /// One request at each server that holds a part of `range`, all at once.
    fn move_data(&mut self, call: u32, file: u64, range: &Range<u64>) {
        let mut shares = std::mem::take(&mut self.shares);
        let app = self.processes[self.calls[call as usize].process as usize].app;
        self.apps[app as usize].placement.split(file, range, &mut shares);
        self.measures[app as usize].asked_bytes += range.end - range.start;
        for share in &shares {
            let object = mix(file ^ u64::from(share.datafile));
            let Share { offset, bytes, elsewhere, .. } = *share;
            self.send(call, share.server, Access { object, offset, bytes, elsewhere, metadata: MetadataOp::GetAttr });
        }
        self.shares = shares;
    }

    /// Sends the next requests of a metadata call; returns `false` if there are none.
    fn next_metadata(&mut self, call: u32) -> bool {
        let entry = &mut self.calls[call as usize];
        let (plan_call, process) = (entry.plan, entry.process);
        let Some(&(recipient, metadata)) = requests_of(plan_call).get(entry.stage) else { return false };
        entry.stage += 1;
        let app = self.app_of(process);
        let object = match recipient {
            Recipient::Parent => parent_of(app.salt, plan_call),
            Recipient::Object | Recipient::DataServers => object_of(app.salt, plan_call),
        };
        let access = Access { object, offset: 0, bytes: 0, elsewhere: None, metadata };
        match recipient {
            Recipient::DataServers => {
                for server in app.placement.servers(object) {
                    self.send(call, server, access);
                }
            }
            Recipient::Parent | Recipient::Object => self.send(call, self.metadata_server(object), access),
        }
        true
    }

    fn metadata_server(&self, object: u64) -> u32 {
        let index = mix(object ^ self.settings.seed) % self.metadata_servers.len() as u64;
        self.metadata_servers[usize::try_from(index).expect("below a usize")]
    }

    /// Sends one request of a call to a server.
    fn send(&mut self, call: u32, server: u32, access: Access) {
        let Access { object, offset, bytes, elsewhere, metadata } = access;
        let entry = &mut self.calls[call as usize];
        entry.parts_left += 1;
        let (number, process) = (entry.process, &self.processes[entry.process as usize]);
        let part = Part {
            call,
            server,
            app: AppId(process.app),
            op: entry.op,
            stable: self.apps[process.app as usize].stable,
            bytes,
            object,
            offset,
            metadata,
            node: process.node,
            arrived: self.now,
            request: None,
            stage: Stage::Waiting { issued: entry.issued, elsewhere },
        };
        self.measures[process.app as usize].send(server);
        let at = self.now + self.latencies[server as usize] + self.settings.delay(process.app, number, self.sent);
        self.sent += 1;
        let part = u32::try_from(self.parts.insert(part)).expect("parts are bounded by the calls");
        self.calendar.push(at, Event::Arrive { server, part });
    }

    /// A request has arrived at a server's proxy.
    fn arrive(&mut self, server: u32, part: u32) -> Result<(), SimError> {
        let entry = &mut self.parts[part as usize];
        self.proxies[server as usize].arrive(self.now, part, entry, &self.plan);
        self.drain(server)
    }

    /// Passes the consequences of an input of a server's node on.
    fn drain(&mut self, server: u32) -> Result<(), SimError> {
        let surroundings = Surroundings {
            now: self.now,
            server: &mut self.servers[server as usize],
            shared: Shared { nodes: &mut self.nodes, calendar: &mut self.calendar, parts: &mut self.parts },
            measures: &mut self.measures,
            peers: self.peers.as_mut(),
            checked: Ok(()),
        };
        let checked = surroundings.drain(&mut self.proxies[server as usize]);
        checked.map_err(|check| self.broken(server, check))
    }

    /// The proxy of a server restarts.
    fn restart(&mut self, server: u32) -> Result<(), SimError> {
        let proxy = &mut self.proxies[server as usize];
        if let Some(peers) = &mut self.peers {
            peers.restart(server, proxy);
        }
        self.servers[server as usize].on_restart();
        proxy.restart(self.now, &mut self.parts, &self.plan);
        self.drain(server)
    }

    /// A request is complete on the wire of a server: its slots are free, and its reply goes on to the client.
    fn complete(&mut self, server: u32, part: u32) -> Result<(), SimError> {
        let (entry, part) = (&mut self.servers[server as usize], self.parts.remove(part as usize));
        let latency = entry.link.latency;
        entry.complete(&part);
        self.proxies[server as usize].complete(self.now, &part);
        self.completed += 1;
        let measures = &mut self.measures[part.app.index()];
        let Work { since, stored, .. } = part.work();
        measures.service.record(self.now.since(since));
        measures.complete(self.now, server, part.op, part.bytes);
        self.trace.part(self.now, part.call, server, part.bytes);
        let call = &mut self.calls[part.call as usize];
        let spent = Spent { queued: since.nanos_since(part.arrived), stored };
        if self.now + latency >= call.last_reply.0 {
            call.last_reply = (self.now + latency, spent);
        }
        self.calendar.push(self.now + latency, Event::Reply { call: part.call });
        self.drain(server)
    }

    /// A reply has arrived at the client.
    fn reply(&mut self, call: u32) -> Result<(), SimError> {
        let entry = &mut self.calls[call as usize];
        entry.parts_left -= 1;
        if entry.parts_left > 0 {
            return Ok(());
        }
        entry.spent.add(entry.last_reply.1);
        if self.next_metadata(call) {
            return Ok(());
        }
        let Call { process, issued, op, plan, spent, .. } = self.calls.remove(call as usize);
        let entry = &mut self.processes[process as usize];
        entry.call_done(self.now);
        self.trace.call(self.now, call, (entry.app, entry.number), op, issued);
        if !entry.is_preparing(&self.apps[entry.app as usize]) {
            self.trace.transfer(self.now, plan, (entry.app, entry.number), issued);
        }
        self.measures[entry.app as usize].call(op, self.now.since(issued), spent);
        self.advance(process)
    }

    /// An interval of the time series ends, and the next one starts.
    fn sample(&mut self) -> Result<(), SimError> {
        self.close_interval();
        let intervals = self.samples.first().map_or(0, |samples| samples.depth.len());
        bounds::check_intervals(intervals as u64, self.settings.most_intervals)?;
        self.check_waits()?;
        self.calendar.push(self.now + self.settings.interval, Event::Sample);
        Ok(())
    }

    fn close_interval(&mut self) {
        self.sampled = self.now;
        for measures in &mut self.measures {
            measures.sample();
        }
        for ((server, proxy), samples) in self.servers.iter().zip(&self.proxies).zip(&mut self.samples) {
            samples.queued.push(count(proxy.node.queued()));
            samples.outstanding.push(count(proxy.node.outstanding()));
            samples.depth.push(server.usage.depth);
        }
        if let Some(peers) = &mut self.peers {
            peers.sample(&self.proxies);
        }
    }

    /// Checks whether any undispatched request has waited too long.
    fn check_waits(&self) -> Result<(), SimError> {
        let queued = self.parts.iter().filter(|(_, part)| part.request.is_some() && part.is_waiting());
        let Some((_, part)) = queued.min_by_key(|(_, part)| part.arrived) else { return Ok(()) };
        let waited = self.now.since(part.arrived);
        if waited > self.settings.wait_limit {
            return Err(self.broken(part.server, Check::Starved { app: part.app, waited }));
        }
        Ok(())
    }

    /// Checks that every requested byte was served or is in progress.
    fn check_conservation(&self) -> Result<(), SimError> {
        let mut underway = vec![0; self.apps.len()];
        self.parts.iter().for_each(|(_, part)| underway[part.app.index()] += part.bytes);
        for ((measures, app), underway) in self.measures.iter().zip(&self.names).zip(underway) {
            let (asked, served) = (measures.asked_bytes, measures.served_bytes());
            if asked != served + underway {
                return Err(self.violation(Violation::Conservation { app: app.clone(), asked, served, underway }));
            }
        }
        Ok(())
    }

    /// No events are left: then all applications must have finished.
    fn check_stuck(&self) -> Result<(), SimError> {
        let stuck = (0..self.apps.len()).find(|&app| self.measures[app].finished.is_none());
        match stuck {
            Some(app) => Err(self.violation(Violation::Stuck { app: self.names[app].clone() })),
            None => self.check_conservation(),
        }
    }

    fn broken(&self, server: u32, check: Check) -> SimError {
        self.violation(check.named(server, &self.names, self.settings.wait_limit))
    }

    fn violation(&self, broken: Violation) -> SimError {
        SimError::Violation { seed: self.settings.seed, at: self.now, broken }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// What a server's proxy acts on.
struct Surroundings<'a> {
    now: Time,
    server: &'a mut Server,
    shared: Shared<'a>,
    measures: &'a mut [AppMeasures],
    peers: Option<&'a mut Peers>,
    /// The first rule that a dispatch broke.
    checked: Result<(), Check>,
}

impl Surroundings<'_> {
    /// Passes the consequences of an input of the proxy's node on.
    fn drain(mut self, proxy: &mut Proxy) -> Result<(), Check> {
        let until = proxy.node.drain(self.now, &mut self);
        proxy.sleep(self.now, until, self.shared.calendar);
        self.checked?;
        self.server.check_slots()
    }
}

impl Outputs<u32> for Surroundings<'_> {
    fn transmit(&mut self, messages: impl Iterator<Item = (ServerId, PeerMessage)>) {
        if let Some(peers) = &mut self.peers {
            let cost = peers.transmit_all(self.now, self.server.number, messages, self.shared.calendar);
            if cost != Exchange::default() {
                self.server.on_messages_sent(self.now, cost);
            }
        }
    }

    fn dispatch(&mut self, &part: &u32, _: RequestKey, dispatch: &Dispatch) {
        let checked = self.server.begin(self.now, part, dispatch, &mut self.shared);
        self.checked = std::mem::replace(&mut self.checked, Ok(())).and(checked);
        let Part { app, arrived, .. } = self.shared.parts[part as usize];
        self.measures[app.index()].queue.record(self.now.since(arrived));
    }

    fn event(&mut self, _: Time, event: NodeEvent) {
        if let NodeEvent::Scheduler(SchedulerEvent::DepthChanged { depth }) = event {
            self.server.set_depth(depth);
        }
    }
}

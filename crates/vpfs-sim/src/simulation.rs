//! Runs a scenario and collects its results.

use std::ops::ControlFlow;
use std::time::Duration;

use slab::Slab;
use vpfs_core::hash::{mix, stable_hash};
use vpfs_core::{Settings, Time};

use crate::bounds;
use crate::calendar::{Calendar, Event};
use crate::model::plan::node_of_process;
use crate::model::{Latencies, Latency};
use crate::process::{AppState, Process};
use crate::results::{
    AppAtServer, AppMeasures, AppResults, AtServer, CoordinationResults, Results, ServerResults, SimError, Trace,
    Transfer,
};
use crate::scenario::{App, PolicySpec, Role, Scenario, needs_peers};
use crate::server::{NodeLink, NodePlan, Peers, Proxy, Server};
use crate::world::{ServerSamples, World, WorldSettings};

/// One scenario under one policy, ready to run.
pub struct Simulation {
    world: World,
    scenario: String,
    policy: String,
    weights: Vec<u32>,
}

/// The progress of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub now: Time,
    /// Events handled.
    pub events: u64,
}

/// Events between two calls of a progress function.
const PROGRESS_EVERY: u64 = 1 << 16;

impl Simulation {
    /// Builds the cluster of `scenario` with `policy` at every server.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if the scenario is inconsistent.
    pub fn new(scenario: &Scenario, policy: &PolicySpec) -> Result<Self, SimError> {
        let world = Builder::new(scenario).build(policy)?;
        let weights = scenario.apps.iter().map(|app| app.weight.get()).collect();
        Ok(Self { world, scenario: scenario.name.clone(), policy: policy.name.clone(), weights })
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`SimError::Violation`] if an invariant was broken.
    pub fn run(self) -> Result<Results, SimError> {
        self.run_with(|_| ControlFlow::Continue(()))
    }

    /// [`Simulation::run`], with regular calls of `progress`, for example for a progress line. When one of them says
    /// so, the run ends at that time, as if it were the scenario's duration.
    pub fn run_with(self, progress: impl FnMut(Progress) -> ControlFlow<()>) -> Result<Results, SimError> {
        self.run_observed(progress, |_| {})
    }

    /// [`Simulation::run_with`], with a call of `transfer` for each [`Transfer`], in the order in which they are done.
    /// They are not kept. Those that prepare files ([`crate::model::plan::Phase::Setup`]) are left out.
    pub fn run_traced(
        mut self,
        progress: impl FnMut(Progress) -> ControlFlow<()>,
        transfer: impl FnMut(Transfer),
    ) -> Result<Results, SimError> {
        self.world.trace.transfers = Some(Vec::new());
        self.run_observed(progress, transfer)
    }

    fn run_observed(
        mut self,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
        transfer: impl FnMut(Transfer),
    ) -> Result<Results, SimError> {
        let every_so_often = |now, events| match events % PROGRESS_EVERY {
            0 => progress(Progress { now, events }),
            _ => ControlFlow::Continue(()),
        };
        self.world.run(every_so_often, transfer)?;
        Ok(self.results())
    }

    fn results(self) -> Results {
        let world = &self.world;
        let apps = (0..world.apps.len()).map(|app| app_results(world, app, self.weights[app])).collect();
        let servers = world
            .servers
            .iter()
            .zip(&world.samples)
            .map(|(server, samples)| server_results(server, samples, world.now));
        Results {
            scenario: self.scenario,
            policy: self.policy,
            seed: world.settings.seed,
            elapsed: world.now.since(Time::ZERO),
            events: world.events,
            interval: world.settings.interval,
            apps,
            servers: servers.collect(),
            coordination: world.peers.as_ref().map(|peers| coordination_results(peers, &world.proxies)),
            trace: self.world.trace.done,
        }
    }
}

fn app_results(world: &World, app: usize, weight: u32) -> AppResults {
    let (state, measures) = (&world.apps[app], &world.measures[app]);
    let first = state.first_process as usize;
    let processes = &world.processes[first..first + state.processes as usize];
    let mean = |times: &mut dyn Iterator<Item = Duration>| times.sum::<Duration>() / state.processes;
    let since_start = |at: Time| at.since(Time::ZERO);
    let io_time = mean(&mut processes.iter().map(|process| process.times.io));
    let part = |nanos: u128| io_time.mul_f64(nanos as f64 / measures.called.max(1) as f64);
    AppResults {
        name: world.names[app].clone(),
        weight,
        start: since_start(measures.began.unwrap_or(world.now)),
        finish: measures.finished.map(since_start),
        io_time,
        scheduler_time: part(measures.queued),
        storage_time: part(measures.stored),
        think_time: mean(&mut processes.iter().map(|process| process.times.think)),
        read_bytes: measures.read_bytes,
        written_bytes: measures.written_bytes,
        metadata_requests: measures.metadata_requests,
        calls: measures.calls,
        rounds: measures.rounds,
        read: latency(&measures.read),
        write: latency(&measures.write),
        metadata: latency(&measures.metadata),
        queue: latency(&measures.queue),
        service: latency(&measures.service),
        bytes_series: measures.bytes_series.values.clone(),
        metadata_series: measures.metadata_series.values.clone(),
        by_server: measures.by_server.iter().map(app_at_server).collect(),
    }
}

/// Equal scenarios give the bytes that they always gave, in which the fastest is not stated.
fn latency(measured: &Latencies) -> Latency {
    Latency { min_seconds: None, ..measured.summary() }
}

fn app_at_server(at: &AtServer) -> AppAtServer {
    AppAtServer {
        requests: at.requests,
        bytes: at.bytes,
        last: at.last.since(Time::ZERO),
        bytes_series: at.bytes_series.values.clone(),
        metadata_series: at.metadata_series.values.clone(),
        underway_series: at.underway_series.clone(),
    }
}

fn coordination_results(peers: &Peers, proxies: &[Proxy]) -> CoordinationResults {
    let traffic = &peers.traffic;
    CoordinationResults {
        messages: traffic.messages,
        bytes: traffic.bytes,
        lost: traffic.lost,
        duplicated: traffic.duplicated,
        messages_series: traffic.messages_series.values.clone(),
        bytes_series: traffic.bytes_series.values.clone(),
        unheard_bytes_series: traffic.unheard_series.clone(),
        unheard_bytes: peers.unheard(proxies),
    }
}

fn server_results(server: &Server, samples: &ServerSamples, now: Time) -> ServerResults {
    let elapsed = now.since(Time::ZERO).as_secs_f64().max(1e-9);
    ServerResults {
        bytes: server.usage.bytes,
        requests: server.usage.requests,
        backfilled: server.usage.backfilled,
        device_utilisation: server.device_busy(now).as_secs_f64() / elapsed,
        metadata_utilisation: server.metadata_busy(now).as_secs_f64() / elapsed,
        inward_utilisation: server.inward.busy(now).as_secs_f64() / elapsed,
        outward_utilisation: server.outward.busy(now).as_secs_f64() / elapsed,
        queued_series: samples.queued.clone(),
        outstanding_series: samples.outstanding.clone(),
        depth_series: samples.depth.clone(),
    }
}

struct Builder<'a> {
    scenario: &'a Scenario,
    calendar: Calendar,
    apps: Vec<AppState>,
    processes: Vec<Process>,
    nodes: u32,
}

impl<'a> Builder<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        Self { scenario, calendar: Calendar::default(), apps: Vec::new(), processes: Vec::new(), nodes: 0 }
    }

    fn build(mut self, policy: &PolicySpec) -> Result<World, SimError> {
        let scenario = self.scenario;
        bounds::check(scenario, policy)?;
        let policy = &policy.over(scenario.servers.iter().map(|group| group.count).sum());
        let servers = scenario.servers.iter().map(|group| group.count).sum();
        let plan = NodePlan::new(policy.clone(), scenario, servers);
        let servers = self.servers(&policy.settings);
        let peers = self.peers(policy, count(servers.len()));
        let told_apart = if scenario.by_server { servers.len() } else { 0 };
        let data = bounds::with_role(scenario, |role| role != Role::Metadata);
        for app in &scenario.apps {
            self.app(app, &data)?;
        }
        let interval = scenario.interval.max(Duration::from_millis(1));
        self.calendar.push(Time::ZERO + interval, Event::Sample);
        let nodes = scenario.node_link.iter().flat_map(|&link| (0..self.nodes).map(move |_| NodeLink::new(link)));
        let settings = WorldSettings {
            seed: scenario.seed,
            end: scenario.duration.map(|duration| Time::ZERO + duration),
            interval,
            jitter: scenario.jitter,
            skew: scenario.skew,
            wait_limit: scenario.wait_limit,
            most_intervals: bounds::most_intervals(scenario),
        };
        Ok(World {
            now: Time::ZERO,
            settings,
            samples: vec![ServerSamples::default(); servers.len()],
            proxies: (0..count(servers.len())).map(|server| Proxy::new(Time::ZERO, server, &plan)).collect(),
            latencies: servers.iter().map(|server| server.link.latency).collect(),
            servers,
            metadata_servers: bounds::with_role(scenario, |role| role != Role::Data),
            nodes: nodes.collect(),
            names: scenario.apps.iter().map(|app| app.name.clone()).collect(),
            measures: scenario.apps.iter().map(|_| AppMeasures::new(told_apart)).collect(),
            unfinished: self.apps.iter().filter(|app| !app.background).count(),
            apps: self.apps,
            processes: self.processes,
            calls: Slab::new(),
            parts: Slab::new(),
            calendar: self.calendar,
            peers,
            plan,
            trace: Trace::new(scenario.trace),
            sent: 0,
            completed: 0,
            events: 0,
            sampled: Time::ZERO,
            shares: Vec::new(),
        })
    }

    fn servers(&self, settings: &Settings) -> Vec<Server> {
        let Scenario { seed, wait_limit, .. } = *self.scenario;
        let mut servers = Vec::new();
        for group in &self.scenario.servers {
            for device in group.devices(mix(seed), count(servers.len())) {
                servers.push(Server::new(count(servers.len()), device, group, settings, wait_limit));
            }
        }
        servers
    }

    /// Coordination, if the policy or a total needs it, and the restarts of proxies.
    fn peers(&mut self, policy: &PolicySpec, servers: u32) -> Option<Peers> {
        let network = &self.scenario.peers;
        let end = self.scenario.duration.unwrap_or_default();
        for restart in network.all_restarts(self.scenario.seed, servers, end) {
            self.calendar.push(Time::ZERO + restart.at, Event::Restart { server: restart.server });
        }
        if !needs_peers(policy, self.scenario) {
            return None;
        }
        // A node that starts may have messages to send.
        (0..servers).for_each(|server| self.calendar.push(Time::ZERO, Event::Nudge { server }));
        Some(Peers::new(network, servers as usize, self.scenario.apps.len(), mix(self.scenario.seed)))
    }

    fn app(&mut self, spec: &App, data: &[u32]) -> Result<(), SimError> {
        let (placement, phases) = bounds::fit(spec, data).map_err(|(_, problem)| SimError::Scenario(problem))?;
        let salt = mix(self.scenario.seed ^ mix(stable_hash(&spec.name)));
        let plan = spec.workload.plan(salt);
        let (number, processes) = (count(self.apps.len()), plan.processes());
        let first_process = self.processes(number, processes, spec);
        self.calendar.push(Time::ZERO + spec.start, Event::Start { app: number });
        self.apps.push(AppState {
            plan,
            phases,
            placement,
            salt,
            background: spec.background,
            stable: spec.stable,
            ends: spec.end.map(|end| Time::ZERO + end),
            first_process,
            processes,
            active: processes,
            waiting: 0,
            outstanding: spec.outstanding.max(1),
        });
        Ok(())
    }

    fn processes(&mut self, app: u32, processes: u32, spec: &App) -> u32 {
        let first = count(self.processes.len());
        let nodes = spec.nodes.clamp(1, processes);
        for number in 0..processes {
            let node = self.nodes + node_of_process(number, nodes, processes);
            self.processes.push(Process::new(app, number, node));
        }
        self.nodes += nodes;
        first
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("plans bound their processes")
}

//! The results of a simulation, what is counted for them while it runs, and why there may be none.

use std::time::Duration;

use serde::{Serialize, Serializer};
use vpfs_core::fairness::{jain_index, unfairness};
use vpfs_core::hash::mix;
use vpfs_core::{Bytes, OpKind, Time, Weight};

use crate::model::plan::{Call, Extent};
use crate::model::{Latencies, Latency};

/// The results of one run: one scenario under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The scenario's name.
    pub scenario: String,
    /// The policy's name in the scenario.
    pub policy: String,
    /// The seed of everything random.
    pub seed: u64,
    /// Simulated time.
    #[serde(serialize_with = "seconds", rename = "elapsed_seconds")]
    pub elapsed: Duration,
    /// Events that were handled.
    pub events: u64,
    /// Length of an interval of all series.
    #[serde(serialize_with = "seconds", rename = "interval_seconds")]
    pub interval: Duration,
    /// In the scenario's order.
    pub apps: Vec<AppResults>,
    /// By number.
    pub servers: Vec<ServerResults>,
    /// Coordination between servers, if the policy needs it.
    pub coordination: Option<CoordinationResults>,
    /// Calls that moved data in the order in which they returned, if the scenario asks for it.
    pub trace: Vec<CallTrace>,
}

/// The cost and the effect of coordination.
#[derive(Clone, Debug, Serialize)]
pub struct CoordinationResults {
    /// Messages sent.
    pub messages: u64,
    /// Their bytes, without lower-level headers.
    pub bytes: u64,
    /// Messages that were lost.
    pub lost: u64,
    /// Messages that arrived twice.
    pub duplicated: u64,
    /// Messages in each interval.
    pub messages_series: Vec<u64>,
    /// Bytes in each interval.
    pub bytes_series: Vec<u64>,
    /// At the end of each interval: the largest amount that any server had not heard of the service that all others
    /// gave an application.
    pub unheard_bytes_series: Vec<u64>,
    /// The same at the end of the run.
    pub unheard_bytes: u64,
}

/// One call that moved data.
#[derive(Clone, Debug, Serialize)]
pub struct CallTrace {
    /// Its application, by number.
    pub app: u32,
    /// Its process in the application.
    pub process: u32,
    /// Whether it wrote.
    pub write: bool,
    /// When it was made.
    #[serde(serialize_with = "seconds", rename = "issued_seconds")]
    pub issued: Duration,
    /// When it returned.
    #[serde(serialize_with = "seconds", rename = "finished_seconds")]
    pub finished: Duration,
    /// Its requests, in order of completion.
    pub parts: Vec<PartTrace>,
}

/// One server's part of a call.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PartTrace {
    /// The server.
    pub server: u32,
    /// Its bytes.
    pub bytes: u64,
    /// When it was complete on the wire of the server.
    #[serde(serialize_with = "seconds", rename = "finished_seconds")]
    pub finished: Duration,
}

/// An application's service at one server.
#[derive(Clone, Debug, Serialize)]
pub struct AppAtServer {
    /// Requests completed, of data and metadata.
    pub requests: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// When its last request was complete.
    #[serde(serialize_with = "seconds", rename = "last_seconds")]
    pub last: Duration,
    /// Bytes in each interval.
    pub bytes_series: Vec<u64>,
    /// Metadata requests in each interval.
    pub metadata_series: Vec<u64>,
    /// Requests in transit, queued or being served at the end of each interval: the application's demand at the server.
    pub underway_series: Vec<u32>,
}

/// The results of one application.
#[derive(Clone, Debug, Serialize)]
pub struct AppResults {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: u32,
    /// When its processes started; the end of the run if they did not.
    #[serde(serialize_with = "seconds", rename = "start_seconds")]
    pub start: Duration,
    /// When its last process finished; `None` if the run ended earlier, or it ran in the background.
    #[serde(serialize_with = "optional_seconds", rename = "finish_seconds")]
    pub finish: Option<Duration>,
    /// Mean over its processes of the time with calls outstanding.
    #[serde(serialize_with = "seconds", rename = "io_seconds")]
    pub io_time: Duration,
    /// Mean over its processes of the time spent computing.
    #[serde(serialize_with = "seconds", rename = "think_seconds")]
    pub think_time: Duration,
    /// The part of `io_time` in which calls waited for a scheduler to dispatch them.
    #[serde(serialize_with = "seconds", rename = "scheduler_seconds")]
    pub scheduler_time: Duration,
    /// The part of `io_time` in which calls were at a device or at a service for metadata. The rest is the network's.
    #[serde(serialize_with = "seconds", rename = "storage_seconds")]
    pub storage_time: Duration,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Metadata and synchronisation requests caused by its calls.
    pub metadata_requests: u64,
    /// Calls that returned.
    pub calls: u64,
    /// How often it completed all its phases; more than once only in the background.
    pub rounds: u64,
    /// Latency of its read calls.
    pub read: Latency,
    /// Latency of its write calls.
    pub write: Latency,
    /// Latency of its other calls.
    pub metadata: Latency,
    /// Time of its requests in the proxy.
    pub queue: Latency,
    /// Time of its requests from dispatch to completion.
    pub service: Latency,
    /// Bytes served in each interval.
    pub bytes_series: Vec<u64>,
    /// Metadata requests served in each interval.
    pub metadata_series: Vec<u64>,
    /// Its service at each server, if the scenario asks for it.
    pub by_server: Vec<AppAtServer>,
}

/// The results of one server.
#[derive(Clone, Debug, Serialize)]
pub struct ServerResults {
    /// Data moved.
    pub bytes: u64,
    /// Requests completed.
    pub requests: u64,
    /// Requests dispatched ahead of a larger one that waited for slots.
    pub backfilled: u64,
    /// Fraction of the time in which its device was busy.
    pub device_utilisation: f64,
    /// Fraction of the time in which its metadata service was busy.
    pub metadata_utilisation: f64,
    /// Fraction of the time in which its link was receiving data.
    pub inward_utilisation: f64,
    /// Fraction of the time in which its link was sending data.
    pub outward_utilisation: f64,
    /// Requests queued at the end of each interval.
    pub queued_series: Vec<u32>,
    /// Requests outstanding at the server at the end of each interval.
    pub outstanding_series: Vec<u32>,
    /// Depth at the end of each interval.
    pub depth_series: Vec<u32>,
}

impl AppResults {
    /// From its start to its finish; `None` if it did not finish.
    pub fn run_time(&self) -> Option<Duration> {
        self.finish.map(|finish| finish.saturating_sub(self.start))
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }
}

impl Results {
    /// An application by its name.
    pub fn app(&self, name: &str) -> Option<&AppResults> {
        self.apps.iter().find(|app| app.name == name)
    }

    /// How long an application was there: until it finished, or else until the run ended.
    pub fn active(&self, app: &AppResults) -> Duration {
        app.finish.unwrap_or(self.elapsed).saturating_sub(app.start)
    }

    /// Bytes per second of all applications together over the whole run.
    pub fn throughput(&self) -> f64 {
        self.apps.iter().map(AppResults::bytes).sum::<u64>() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The time in which all applications run, from the last start to the first finish; the whole run if that is
    /// shorter than an interval.
    pub fn common_time(&self) -> (Duration, Duration) {
        let from = self.apps.iter().map(|app| app.start).max().unwrap_or_default();
        let to = self.apps.iter().filter_map(|app| app.finish).min().unwrap_or(self.elapsed);
        if from + self.interval <= to { (from, to) } else { (Duration::ZERO, self.elapsed) }
    }

    /// Bytes of each application in the intervals that start at `from` or later and before `to`.
    pub fn bytes_between(&self, from: Duration, to: Duration) -> Vec<u64> {
        let interval = self.interval.as_nanos().max(1);
        let index = |at: Duration| usize::try_from(at.as_nanos().div_ceil(interval)).unwrap_or(usize::MAX);
        let sum = |app: &AppResults| {
            let end = index(to).min(app.bytes_series.len());
            app.bytes_series.get(index(from).min(end)..end).map_or(0, |values| values.iter().sum())
        };
        self.apps.iter().map(sum).collect()
    }

    /// Each application's fraction of the bytes from `from` to `to`; zeros if nobody got anything.
    pub fn shares_between(&self, from: Duration, to: Duration) -> Vec<f64> {
        let bytes = self.bytes_between(from, to);
        let total = bytes.iter().sum::<u64>().max(1) as f64;
        bytes.into_iter().map(|bytes| bytes as f64 / total).collect()
    }

    /// Jain's index of bytes per weight from `from` to `to` [vPFS+ §V-D].
    pub fn jain_between(&self, from: Duration, to: Duration) -> f64 {
        jain_index(&self.weighted(from, to))
    }

    /// Unfairness of bytes from `from` to `to`, from 0 to 2 [vPFS §IV-C2].
    pub fn unfairness_between(&self, from: Duration, to: Duration) -> f64 {
        unfairness(&self.weighted(from, to))
    }

    fn weighted(&self, from: Duration, to: Duration) -> Vec<(Bytes, Weight)> {
        let bytes = self.bytes_between(from, to).into_iter().map(Bytes);
        bytes.zip(self.apps.iter().map(|app| Weight::new(app.weight).unwrap_or(Weight::ONE))).collect()
    }

    /// The results as JSON; equal runs give equal bytes.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, texts and lists are always JSON")
    }

    /// A short hash of all results; equal for equal runs.
    pub fn digest(&self) -> String {
        let json = self.to_json();
        format!("{:016x}", json.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte))))
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

fn optional_seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

/// Why a simulation ended without results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum SimError {
    #[error("{0}")]
    Scenario(String),
    /// A rule that must hold under every policy was broken: a bug in the simulated code or in the simulator.
    #[error("seed {seed}: at {:.6} s: {broken}", .at.since(Time::ZERO).as_secs_f64())]
    Violation { seed: u64, at: Time, broken: Violation },
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Violation {
    #[error("server {server} uses {used} slots, its depth is {depth}")]
    Depth { server: u32, used: u32, depth: u32 },
    #[error("a request of {app} waited {:.3} s at server {server}; the wait limit is {:.3} s", .waited.as_secs_f64(), .limit.as_secs_f64())]
    Starved { server: u32, app: String, waited: Duration, limit: Duration },
    /// Bytes were lost or duplicated.
    #[error("{app} asked for {asked} bytes, {served} were served and {underway} are in progress")]
    Conservation { app: String, asked: u64, served: u64, underway: u64 },
    #[error("time moved backwards to {:.9} s", .to.since(Time::ZERO).as_secs_f64())]
    TimeWentBack { to: Time },
    #[error("{app} has not finished, but no events are left")]
    Stuck { app: String },
}

const DAY: Duration = Duration::from_secs(86_400);

/// Counters of a running simulation, and latencies of an application's calls and their parts.
pub(crate) struct AppMeasures {
    pub(crate) began: Option<Time>,
    pub(crate) finished: Option<Time>,
    pub(crate) asked_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) metadata_requests: u64,
    pub(crate) calls: u64,
    /// Sums over its calls in nanoseconds: of their times, and of what is in [`Spent`].
    pub(crate) called: u128,
    pub(crate) queued: u128,
    pub(crate) stored: u128,
    pub(crate) rounds: u64,
    pub(crate) read: Latencies,
    pub(crate) write: Latencies,
    pub(crate) metadata: Latencies,
    pub(crate) queue: Latencies,
    pub(crate) service: Latencies,
    pub(crate) bytes_series: Series,
    pub(crate) metadata_series: Series,
    /// By server, if the scenario asks for it.
    pub(crate) by_server: Vec<AtServer>,
}

/// What the time of a call was spent on, in nanoseconds, except its way through the network: of its requests, it waits
/// for the one that is complete last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) queued: u64,
    pub(crate) stored: u64,
}

impl Spent {
    pub(crate) fn add(&mut self, other: Self) {
        self.queued += other.queued;
        self.stored += other.stored;
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct AtServer {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) last: Time,
    pub(crate) bytes_series: Series,
    pub(crate) metadata_series: Series,
    underway: u32,
    pub(crate) underway_series: Vec<u32>,
}

impl AppMeasures {
    pub(crate) fn new(servers: usize) -> Self {
        let latencies = || Latencies::new(2, DAY);
        Self {
            began: None,
            finished: None,
            asked_bytes: 0,
            read_bytes: 0,
            written_bytes: 0,
            metadata_requests: 0,
            calls: 0,
            called: 0,
            queued: 0,
            stored: 0,
            rounds: 0,
            read: latencies(),
            write: latencies(),
            metadata: latencies(),
            queue: latencies(),
            service: latencies(),
            bytes_series: Series::default(),
            metadata_series: Series::default(),
            by_server: vec![AtServer::default(); servers],
        }
    }

    pub(crate) fn call(&mut self, op: OpKind, latency: Duration, spent: Spent) {
        self.calls += 1;
        self.called += latency.as_nanos();
        self.queued += u128::from(spent.queued);
        self.stored += u128::from(spent.stored);
        let latencies = match op {
            OpKind::Read => &mut self.read,
            OpKind::Write => &mut self.write,
            OpKind::Metadata => &mut self.metadata,
        };
        latencies.record(latency);
    }

    pub(crate) fn send(&mut self, server: u32) {
        if let Some(at) = self.by_server.get_mut(server as usize) {
            at.underway += 1;
        }
    }

    pub(crate) fn complete(&mut self, now: Time, server: u32, op: OpKind, bytes: u64) {
        match op {
            OpKind::Read => self.read_bytes += bytes,
            OpKind::Write => self.written_bytes += bytes,
            OpKind::Metadata => self.metadata_requests += 1,
        }
        self.bytes_series.add(bytes);
        self.metadata_series.add(u64::from(op == OpKind::Metadata));
        if let Some(at) = self.by_server.get_mut(server as usize) {
            at.requests += 1;
            at.underway -= 1;
            at.bytes += bytes;
            at.last = now;
            at.bytes_series.add(bytes);
            at.metadata_series.add(u64::from(op == OpKind::Metadata));
        }
    }

    /// An interval of the time series ends.
    pub(crate) fn sample(&mut self) {
        self.bytes_series.close();
        self.metadata_series.close();
        for at in &mut self.by_server {
            at.bytes_series.close();
            at.metadata_series.close();
            at.underway_series.push(at.underway);
        }
    }

    pub(crate) fn served_bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }
}

/// A sum for each sampling interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) values: Vec<u64>,
    current: u64,
}

impl Series {
    pub(crate) fn add(&mut self, amount: u64) {
        self.current += amount;
    }

    pub(crate) fn close(&mut self) {
        self.values.push(std::mem::take(&mut self.current));
    }
}

/// What a call has moved of a file: all that it asked for, unless it was strided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The number of the application in the scenario.
    pub app: u32,
    /// The number of the process in the application.
    pub process: u32,
    /// Whether it wrote.
    pub is_write: bool,
    /// What it moved.
    pub extent: Extent,
    /// When the call was made.
    pub issued: Time,
    /// When it returned.
    pub finished: Time,
}

/// Collects every call with its finish at each server, if a scenario asks for it, and what calls moved, for those who
/// watch.
pub(crate) struct Trace {
    wanted: bool,
    open: Vec<Vec<PartTrace>>,
    pub(crate) done: Vec<CallTrace>,
    /// None if nobody watches; else those since the last look.
    pub(crate) transfers: Option<Vec<Transfer>>,
}

impl Trace {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, open: Vec::new(), done: Vec::new(), transfers: None }
    }

    pub(crate) fn part(&mut self, now: Time, call: u32, server: u32, bytes: u64) {
        if !self.wanted {
            return;
        }
        let call = call as usize;
        if call >= self.open.len() {
            self.open.resize(call + 1, Vec::new());
        }
        self.open[call].push(PartTrace { server, bytes, finished: now.since(Time::ZERO) });
    }

    pub(crate) fn call(&mut self, now: Time, call: u32, (app, process): (u32, u32), op: OpKind, issued: Time) {
        let Some(parts) = self.open.get_mut(call as usize).map(std::mem::take) else { return };
        if op != OpKind::Metadata {
            let (issued, finished) = (issued.since(Time::ZERO), now.since(Time::ZERO));
            self.done.push(CallTrace { app, process, write: op == OpKind::Write, issued, finished, parts });
        }
    }

    /// A call that was not preparation returned.
    pub(crate) fn transfer(&mut self, now: Time, call: Call, (app, process): (u32, u32), issued: Time) {
        let Some(transfers) = &mut self.transfers else { return };
        let is_write = matches!(call, Call::Write(_) | Call::WriteStrided(_));
        transfers.extend(call.extents().map(|extent| Transfer {
            app,
            process,
            is_write,
            extent,
            issued,
            finished: now,
        }));
    }
}

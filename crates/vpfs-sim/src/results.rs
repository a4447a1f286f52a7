//! The results of a simulation.

use std::time::Duration;

use serde::{Serialize, Serializer};
use vpfs_core::fairness::{jain_index, unfairness};
use vpfs_core::hash::mix;
use vpfs_core::{Bytes, Weight};

use crate::model::Latency;

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

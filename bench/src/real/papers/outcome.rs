//! What a case gave its applications, simulated or live.

use serde::{Deserialize, Serialize};
use vpfs_sim::model::Latency;
use vpfs_sim::{App, AppResults, Results};
use vpfs_testbed::load::measure::{PhaseReport, Report};

use super::part::counts;

/// The results of one run of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// In the scenario's order.
    pub(super) apps: Vec<AppOutcome>,
    /// What the proxies used; `None` in a simulation and without them.
    pub(super) proxies: Option<Used>,
    /// What the policy limited the requests in the first server's storage to, in each second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) depth_series: Vec<f64>,
}

/// The results of one application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AppOutcome {
    pub(super) name: String,
    /// From its first call to its last one, with its computation.
    pub(super) seconds: f64,
    /// The mean over its processes of the time in calls.
    pub(super) io_seconds: f64,
    pub(super) bytes: u64,
    pub(super) operations: u64,
    pub(super) mean_latency_seconds: f64,
    /// The latency that 95 in 100 calls keep: of data and of metadata, or of each phase, the largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) p95_latency_seconds: Option<f64>,
    /// Bytes in each second since the start of the first application.
    pub(super) bytes_series: Vec<u64>,
    /// Metadata requests likewise; live, those to the first server, if it has a proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) requests_series: Vec<u64>,
    /// Live: operations and bytes a second by phase.
    pub(super) phases: Vec<PhaseRate>,
}

/// The speed of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PhaseRate {
    pub(super) phase: String,
    pub(super) operations_per_second: f64,
    pub(super) bytes_per_second: f64,
}

/// What all proxies together used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Used {
    /// Time of processors.
    pub(super) processor_seconds: f64,
    /// Time that passed meanwhile.
    pub(super) seconds: f64,
    /// The most memory that each occupied, summed.
    pub(super) memory_bytes: u64,
}

impl Outcome {
    /// An application by its name.
    pub(super) fn app(&self, name: &str) -> Option<&AppOutcome> {
        self.apps.iter().find(|app| app.name == name)
    }

    /// From a simulation.
    pub(super) fn simulated(results: &Results) -> Self {
        let depths = results.servers.first().map(|server| &server.depth_series[..]).unwrap_or_default();
        let depth_series = depths.iter().copied().map(f64::from).collect();
        let apps = results.apps.iter().map(|app| AppOutcome::simulated(app, results)).collect();
        Self { apps, proxies: None, depth_series }
    }
}

impl AppOutcome {
    fn simulated(app: &AppResults, results: &Results) -> Self {
        let seconds = app.run_time().unwrap_or(results.elapsed.saturating_sub(app.start)).as_secs_f64();
        Self {
            name: app.name.clone(),
            seconds,
            io_seconds: app.io_time.as_secs_f64(),
            bytes: app.bytes(),
            operations: app.calls,
            mean_latency_seconds: mean(&[app.read, app.write, app.metadata]),
            p95_latency_seconds: Some(p95(&[app.read, app.write, app.metadata])),
            bytes_series: app.bytes_series.clone(),
            requests_series: app.metadata_series.clone(),
            phases: Vec::new(),
        }
    }

    /// From a live run of `app`: the phases that count.
    pub(super) fn live(app: &App, report: &Report) -> Self {
        let phases: Vec<&PhaseReport> = report.phases.iter().filter(|report| counts(app, report.phase)).collect();
        let latencies: Vec<Latency> = phases.iter().map(|report| report.latency).collect();
        let before = std::iter::repeat_n(0, usize::try_from(app.start.as_secs()).unwrap_or_default());
        let rate = |report: &&PhaseReport| PhaseRate {
            phase: report.phase.to_string(),
            operations_per_second: report.operations_per_second,
            bytes_per_second: report.bytes_per_second,
        };
        Self {
            name: app.name.clone(),
            seconds: phases.iter().map(|report| report.seconds).sum(),
            io_seconds: phases.iter().map(|report| report.io_seconds).sum(),
            bytes: phases.iter().map(|report| report.bytes).sum(),
            operations: phases.iter().map(|report| report.operations).sum(),
            mean_latency_seconds: mean(&latencies),
            p95_latency_seconds: Some(p95(&latencies)),
            bytes_series: before.chain(report.timeline.samples.iter().map(|sample| sample.bytes)).collect(),
            requests_series: Vec::new(),
            phases: phases.iter().map(rate).collect(),
        }
    }

    /// The speed of a phase by its name.
    pub(super) fn phase(&self, name: &str) -> Option<&PhaseRate> {
        self.phases.iter().find(|rate| rate.phase == name)
    }
}

fn mean(latencies: &[Latency]) -> f64 {
    let count: u64 = latencies.iter().map(|latency| latency.count).sum();
    latencies.iter().map(|latency| latency.mean_seconds * latency.count as f64).sum::<f64>() / count.max(1) as f64
}

fn p95(latencies: &[Latency]) -> f64 {
    latencies.iter().map(|latency| latency.p95_seconds).fold(0.0, f64::max)
}

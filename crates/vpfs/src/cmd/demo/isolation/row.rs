//! One run beside what each application gets alone.

use serde::Serialize;
use vpfs_core::fairness::jain_index;
use vpfs_core::{Bytes, Weight};
use vpfs_model::plan::Phase;
use vpfs_testbed::load::measure::Report;

use super::{Management, Trial};

/// One way of sharing.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Which way it is.
    pub(crate) management: Management,
    /// Run time of the small application.
    pub(crate) small_seconds: f64,
    /// Relative to its run time alone.
    pub(crate) small_slowdown: f64,
    /// The paper's value for the same ratio, for comparison only.
    pub(crate) small_slowdown_in_paper: Option<f64>,
    /// Time of the small application in I/O calls, including create and open, mean over its processes. In the run time,
    /// much of it is hidden behind computation.
    pub(crate) small_io_seconds: f64,
    /// Relative to its I/O time alone.
    pub(crate) small_io_slowdown: f64,
    /// Bytes that the small application moves per second of data calls, summed over its processes [vPFS+ Fig. 5].
    pub(crate) small_bytes_per_second: f64,
    /// The 99th percentile of the latency of its data calls.
    pub(crate) small_p99_seconds: f64,
    /// The writer's throughput while the small application ran.
    pub(crate) writer_bytes_per_second: f64,
    /// Relative to its throughput alone.
    pub(crate) writer_relative: f64,
    /// Bytes that both moved per second of the small application's run time.
    pub(crate) total_bytes_per_second: f64,
    /// Jain's index of the two throughputs, each relative to what the application gets alone [vPFS+ §V-D]. Absolute
    /// throughputs would be meaningless here, as the small application does not want more than a few KB/s.
    pub(crate) jain_index: f64,
}

impl Row {
    pub(super) fn new(management: Management, trial: &Trial, alone: &Small, writer_alone: f64) -> Self {
        let small = Small::of(&trial.small);
        let writer = trial.writer_bytes_per_second;
        let writer_relative = ratio(writer, writer_alone);
        Self {
            management,
            small_seconds: small.seconds,
            small_slowdown: ratio(small.seconds, alone.seconds),
            small_slowdown_in_paper: management.slowdown_in_paper(),
            small_io_seconds: small.io_seconds,
            small_io_slowdown: ratio(small.io_seconds, alone.io_seconds),
            small_bytes_per_second: small.bytes_per_second,
            small_p99_seconds: small.p99_seconds,
            writer_bytes_per_second: writer,
            writer_relative,
            total_bytes_per_second: writer + ratio(small.bytes, small.seconds),
            jain_index: jain_of_ratios([ratio(small.bytes_per_second, alone.bytes_per_second), writer_relative]),
        }
    }
}

/// The values in the table for one run of the small application.
pub(super) struct Small {
    pub(super) seconds: f64,
    pub(super) io_seconds: f64,
    bytes: f64,
    pub(super) bytes_per_second: f64,
    pub(super) p99_seconds: f64,
}

impl Small {
    pub(super) fn of(report: &Report) -> Self {
        let data = || [Phase::Write, Phase::Read].into_iter().filter_map(|phase| report.phase(phase));
        let bytes = data().map(|phase| phase.bytes as f64).sum();
        Self {
            seconds: report.run_seconds,
            io_seconds: report.io_seconds,
            bytes,
            bytes_per_second: ratio(bytes, data().map(|phase| phase.io_seconds).sum()),
            p99_seconds: data().map(|phase| phase.latency.p99_seconds).fold(0.0, f64::max),
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Jain's index of relative throughputs, counted in millionths.
fn jain_of_ratios(ratios: [f64; 2]) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ratios are positive and near 1")]
    let services = ratios.map(|ratio| (Bytes((ratio * 1e6) as u64), Weight::ONE));
    jain_index(&services)
}

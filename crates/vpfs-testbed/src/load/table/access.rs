//! An access in the sense of IOR: the write or the read part of a run, with the time to open and close the files.

use serde::Serialize;

use super::MIB;
use vpfs_model::plan::Phase;

use crate::load::measure::{Report, Spread, per_second};

/// One access of one repetition; times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Access {
    /// Bytes divided by `total_seconds`, as in IOR.
    pub(super) mib_per_second: f64,
    /// Calls divided by `transfer_seconds`.
    pub(super) operations_per_second: f64,
    pub(super) latency_seconds: f64,
    pub(super) open_seconds: f64,
    pub(super) transfer_seconds: f64,
    pub(super) close_seconds: f64,
    pub(super) total_seconds: f64,
}

/// All repetitions of an access, with the names of IOR's JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "IOR's words; bandwidths in MiB/s, times in seconds")]
pub struct AccessSummary {
    pub operation: Phase,
    #[serde(rename = "bwMaxMIB")]
    pub bw_max_mib: f64,
    #[serde(rename = "bwMinMIB")]
    pub bw_min_mib: f64,
    #[serde(rename = "bwMeanMIB")]
    pub bw_mean_mib: f64,
    #[serde(rename = "bwStdMIB")]
    pub bw_std_mib: f64,
    #[serde(rename = "OPsMax")]
    pub ops_max: f64,
    #[serde(rename = "OPsMin")]
    pub ops_min: f64,
    #[serde(rename = "OPsMean")]
    pub ops_mean: f64,
    #[serde(rename = "OPsSD")]
    pub ops_sd: f64,
    #[serde(rename = "MeanTime")]
    pub mean_time: f64,
}

/// The write or the read part of a report.
pub(super) fn access(report: &Report, phase: Phase) -> Option<Access> {
    let seconds = |phase| report.phase(phase).map_or(0.0, |phase| phase.seconds);
    let transfer = report.phase(phase)?;
    // Files are opened once, before the first access.
    let is_first = phase == Phase::Write || report.phase(Phase::Write).is_none();
    let open_seconds = if is_first { seconds(Phase::Create) + seconds(Phase::Open) } else { 0.0 };
    let close_seconds = if phase == Phase::Write { seconds(Phase::Sync) } else { 0.0 };
    let total_seconds = open_seconds + transfer.seconds + close_seconds;
    Some(Access {
        mib_per_second: per_second(transfer.bytes, total_seconds) / MIB,
        operations_per_second: transfer.operations_per_second,
        latency_seconds: transfer.latency.mean_seconds,
        open_seconds,
        transfer_seconds: transfer.seconds,
        close_seconds,
        total_seconds,
    })
}

/// Summarises the repetitions of an access; `None` if there was none.
pub fn summarize(repetitions: &[Report], phase: Phase) -> Option<AccessSummary> {
    let accesses: Vec<Access> = repetitions.iter().filter_map(|report| access(report, phase)).collect();
    if accesses.is_empty() {
        return None;
    }
    let spread = |field: fn(&Access) -> f64| Spread::of(&accesses.iter().map(field).collect::<Vec<_>>());
    let bandwidth = spread(|access| access.mib_per_second);
    let operations = spread(|access| access.operations_per_second);
    Some(AccessSummary {
        operation: phase,
        bw_max_mib: bandwidth.max,
        bw_min_mib: bandwidth.min,
        bw_mean_mib: bandwidth.mean,
        bw_std_mib: bandwidth.std_dev,
        ops_max: operations.max,
        ops_min: operations.min,
        ops_mean: operations.mean,
        ops_sd: operations.std_dev,
        mean_time: spread(|access| access.total_seconds).mean,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{phase, report};
    use super::*;

    #[test]
    fn bandwidth_counts_opening_once_and_durability_to_the_write() {
        let report = report(vec![
            phase(Phase::Open, 1.0, 4, 0),
            phase(Phase::Write, 2.0, 100, 40 << 20),
            phase(Phase::Sync, 1.0, 4, 0),
            phase(Phase::Read, 2.0, 100, 40 << 20),
        ]);
        let of = |phase| access(&report, phase).unwrap().mib_per_second;
        assert!((of(Phase::Write) - 10.0).abs() < 1e-9);
        assert!((of(Phase::Read) - 20.0).abs() < 1e-9);
        assert_eq!(access(&report, Phase::Stat), None);
    }
}

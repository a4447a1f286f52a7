//! Measurements in the formats customary in the field.

mod access;
mod btio;
mod interactive;
mod ior;
mod kept;
mod latency;
mod md;

pub use access::{AccessSummary, summarize};
pub use btio::btio;
pub use interactive::interactive;
pub use ior::ior;
pub use kept::{Kept, Pair, kept, side_by_side};
pub use latency::latency;
pub use md::md;

/// Bytes in a MiB, IOR's unit.
const MIB: f64 = 1_048_576.0;
/// Bytes in a MB, the paper's unit.
const MB: f64 = 1_000_000.0;

#[cfg(test)]
mod fixture {
    use crate::load::measure::{Latency, PhaseReport, Report, Timeline, Verification};
    use vpfs_model::plan::Phase;

    pub(super) fn phase(phase: Phase, seconds: f64, operations: u64, bytes: u64) -> PhaseReport {
        let latency = Latency { count: operations, p50_seconds: 0.01, p99_seconds: 1.5, ..Latency::default() };
        PhaseReport {
            phase,
            seconds,
            io_seconds: seconds,
            operations,
            bytes,
            bytes_per_second: bytes as f64 / seconds,
            operations_per_second: operations as f64 / seconds,
            latency: Latency { mean_seconds: seconds / operations as f64, ..latency },
        }
    }

    pub(super) fn report(phases: Vec<PhaseReport>) -> Report {
        Report {
            processes: 4,
            nodes: 2,
            run_seconds: 10.0,
            io_seconds: 3.0,
            think_seconds: 6.0,
            wait_seconds: 1.0,
            phases,
            timeline: Timeline::default(),
            verification: Verification::default(),
        }
    }
}

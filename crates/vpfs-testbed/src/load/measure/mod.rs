//! The measurements of a run: by phase, over time, and the result of the verification.

mod recorder;
mod spread;

use serde::Serialize;

pub use recorder::Progress;
pub(crate) use recorder::Recorder;
pub use spread::Spread;

pub use vpfs_model::Latency;
use vpfs_model::plan::Phase;

/// Everything measured in one run of one application.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Number of processes.
    pub processes: u32,
    /// Number of nodes they ran on.
    pub nodes: u32,
    /// From the first step of the first process to the last step of the last one, without creating and removing the
    /// run's directory.
    pub run_seconds: f64,
    /// Mean over the processes: time in calls.
    pub io_seconds: f64,
    /// Mean over the processes: time in computation.
    pub think_seconds: f64,
    /// Mean over the processes: time waiting for other processes in barriers.
    pub wait_seconds: f64,
    /// The phases in order.
    pub phases: Vec<PhaseReport>,
    /// Throughput over time.
    pub timeline: Timeline,
    /// Result of the verification of data read back.
    pub verification: Verification,
}

impl Report {
    /// The measurements of one phase.
    pub fn phase(&self, phase: Phase) -> Option<&PhaseReport> {
        self.phases.iter().find(|report| report.phase == phase)
    }
}

/// One phase of a run.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Which phase it is.
    pub phase: Phase,
    /// From the start of the first process to the end of the last one.
    pub seconds: f64,
    /// Mean over the processes: time in calls.
    pub io_seconds: f64,
    /// Calls completed.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Over `seconds`.
    pub bytes_per_second: f64,
    /// Over `seconds`.
    pub operations_per_second: f64,
    /// Latency of each call, as seen by the process.
    pub latency: Latency,
}

/// Calls and bytes completed in each interval since the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Length of an interval.
    pub interval_seconds: f64,
    /// The intervals in order, up to the last one in which something completed.
    pub samples: Vec<Sample>,
}

/// Calls and bytes completed in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Calls.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Result of the verification of data read back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Bytes read and compared.
    pub checked_bytes: u64,
    /// Number of reads that returned wrong data.
    pub wrong_reads: u64,
    /// The first of them.
    pub examples: Vec<WrongRead>,
}

impl Verification {
    /// Whether all data read was correct.
    pub fn is_clean(&self) -> bool {
        self.wrong_reads == 0
    }
}

/// A read that returned wrong data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum WrongRead {
    /// Bytes differ.
    #[error("{path}: byte {offset} is {found:#04x} instead of {expected:#04x}, {count} wrong bytes in this read")]
    #[serde(rename = "content")]
    Content { path: String, offset: u64, expected: u8, found: u8, count: u64 },
    /// Bytes are missing.
    #[error("{path}: {found} bytes instead of {expected} at byte {offset}")]
    #[serde(rename = "length")]
    Length { path: String, offset: u64, expected: u64, found: u64 },
}

/// `amount` per second over `seconds`; zero if there was no time.
pub fn per_second(amount: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount as f64 / seconds } else { 0.0 }
}

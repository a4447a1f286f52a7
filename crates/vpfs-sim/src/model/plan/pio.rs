//! The patterns of PIO-Bench: every process reads or writes its part of a shared file, one request after the other.
//!
//! [IOCO §5.1-5.2] uses its sequential reads and writes.

use super::{Call, Extent, Phase, Plan, PlanError, Steps, check_processes, in_step, shared_file};

/// Where the requests of a process are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PioPattern {
    /// One after the other: each process has a segment of the file.
    Segmented,
    /// Interleaved with the other processes, request by request: each round of requests is consecutive.
    Strided,
}

/// Parameters of a PIO-Bench-like run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PioBench {
    /// Number of processes.
    pub processes: u32,
    /// Bytes of one call.
    pub request_bytes: u32,
    /// Number of calls of each process in each phase.
    pub requests: u64,
    /// Where they are in the file.
    pub pattern: PioPattern,
    /// Whether to write.
    pub write: bool,
    /// Whether to read and verify; without `write`, a file that an earlier run with the same parameters kept.
    pub read: bool,
    /// Whether all processes wait for each other after each call.
    pub barrier: bool,
    /// Whether the file is kept.
    pub keep: bool,
}

impl PioBench {
    /// The paper's requests of 128 KiB, 64 by each process, interleaved, written and read [IOCO §5.2].
    ///
    /// The paper states neither the number of requests nor the pattern. It has a barrier between requests; it says so
    /// of IOR, and we assume it for all benchmarks whose requests it measures in the same way.
    pub const fn paper(processes: u32) -> Self {
        Self {
            processes,
            request_bytes: 128 << 10,
            requests: 64,
            pattern: PioPattern::Strided,
            write: true,
            read: true,
            barrier: true,
            keep: false,
        }
    }

    fn calls(&self, process: u32, call: fn(Extent) -> Call) -> Steps {
        let Self { processes, request_bytes: bytes, requests, pattern, .. } = *self;
        let (process, processes) = (u64::from(process), u64::from(processes));
        let place = move |index| match pattern {
            PioPattern::Segmented => process * requests + index,
            PioPattern::Strided => index * processes + process,
        };
        let extent = move |index| Extent { file: shared_file::FILE, offset: place(index) * u64::from(bytes), bytes };
        in_step((0..requests).map(move |index| call(extent(index))), self.barrier)
    }
}

impl Plan for PioBench {
    fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        shared_file::check(self.write, self.read, self.requests)?;
        let request = u128::from(self.request_bytes) * u128::from(self.processes);
        shared_file::check_size("request", request, self.requests)
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        shared_file::phases(self.write, self.read, self.keep)
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match phase {
            Phase::Write => self.calls(process, Call::Write),
            Phase::Read => self.calls(process, Call::Read),
            _ => shared_file::metadata(phase, process, self.write),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::shared_file::testing;

    #[test]
    fn every_pattern_covers_the_file_once() {
        for pattern in [PioPattern::Segmented, PioPattern::Strided] {
            let plan = PioBench { requests: 5, pattern, ..PioBench::paper(8) };
            assert_eq!(plan.validate(), Ok(()));
            testing::covers(&plan, 8 * 5 * (128 << 10));
        }
    }

    #[test]
    fn patterns_differ_in_consecutive_requests() {
        let offsets = |pattern| {
            let plan = PioBench { request_bytes: 10, requests: 3, pattern, ..PioBench::paper(2) };
            testing::extents(&plan, Phase::Write, 1).map(|extent| extent.offset).collect::<Vec<_>>()
        };
        assert_eq!(offsets(PioPattern::Segmented), [30, 40, 50]);
        assert_eq!(offsets(PioPattern::Strided), [10, 30, 50]);
    }

    #[test]
    fn refusals_name_the_option() {
        let option = |plan: PioBench| plan.validate().map_err(|error| error.option);
        assert_eq!(option(PioBench::paper(0)), Err("processes"));
        assert_eq!(option(PioBench { request_bytes: 0, ..PioBench::paper(2) }), Err("request"));
        assert_eq!(option(PioBench { requests: 0, ..PioBench::paper(2) }), Err("requests"));
        assert_eq!(option(PioBench { requests: u64::MAX, ..PioBench::paper(2) }), Err("requests"));
        assert_eq!(option(PioBench { write: false, read: false, ..PioBench::paper(2) }), Err("write"));
    }
}

//! The pattern of Noncontig: a vector of small blocks for each process, interleaved with those of the others.
//!
//! Each call moves a fixed number of bytes that lie in equal pieces, one in each row of the file [IOCO §5.1-5.2].

use super::{Call, Phase, Plan, PlanError, Steps, Strided, check_processes, in_step, refuse_if, shared_file};

/// Parameters of a Noncontig-like run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Noncontig {
    /// Number of processes, which is the number of blocks in a row of the file.
    pub processes: u32,
    /// Bytes of one block.
    pub block_bytes: u32,
    /// Number of blocks moved by one call.
    pub blocks: u32,
    /// Number of calls of each process in each phase.
    pub requests: u64,
    /// Whether to write.
    pub write: bool,
    /// Whether to read and verify; without `write`, a file that an earlier run with the same parameters kept.
    pub read: bool,
    /// Whether all processes wait for each other after each call.
    pub barrier: bool,
    /// Whether the file is kept.
    pub keep: bool,
}

impl Noncontig {
    /// The paper's requests of 128 KiB, in 32 pieces of 4 KiB, 64 by each process, written and read [IOCO §5.2].
    ///
    /// The paper states neither the pieces nor their number. 4 KiB is its stripe size. The barrier is as in
    /// [`super::PioBench::paper`].
    pub const fn paper(processes: u32) -> Self {
        Self {
            processes,
            block_bytes: 4 << 10,
            blocks: 32,
            requests: 64,
            write: true,
            read: true,
            barrier: true,
            keep: false,
        }
    }

    fn calls(&self, process: u32, call: fn(Strided) -> Call) -> Steps {
        let Self { block_bytes, blocks, .. } = *self;
        let stride_bytes = u64::from(block_bytes) * u64::from(self.processes);
        let column = u64::from(process) * u64::from(block_bytes);
        let request = move |index| {
            let offset = index * u64::from(blocks) * stride_bytes + column;
            call(Strided { file: shared_file::FILE, offset, block_bytes, stride_bytes, blocks })
        };
        in_step((0..self.requests).map(request), self.barrier)
    }
}

impl Plan for Noncontig {
    fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        shared_file::check(self.write, self.read, self.requests)?;
        refuse_if(self.blocks == 0, "blocks", "must be at least 1")?;
        let row = u128::from(self.block_bytes) * u128::from(self.processes);
        shared_file::check_size("block", row * u128::from(self.blocks), self.requests)
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        shared_file::phases(self.write, self.read, self.keep)
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match phase {
            Phase::Write => self.calls(process, Call::WriteStrided),
            Phase::Read => self.calls(process, Call::ReadStrided),
            _ => shared_file::metadata(phase, process, self.write),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::shared_file::testing;

    #[test]
    fn the_columns_of_all_processes_cover_the_file_once() {
        let plan = Noncontig { requests: 3, ..Noncontig::paper(8) };
        assert_eq!(plan.validate(), Ok(()));
        testing::covers(&plan, 8 * 3 * (128 << 10));
    }

    #[test]
    fn a_call_is_a_column_of_blocks() {
        let plan = Noncontig { block_bytes: 10, blocks: 2, requests: 2, barrier: false, ..Noncontig::paper(3) };
        let offsets: Vec<_> = testing::extents(&plan, Phase::Read, 1).map(|extent| extent.offset).collect();
        assert_eq!(offsets, [10, 40, 70, 100]);
        assert_eq!(plan.steps(Phase::Read, 1).count(), 2);
    }

    #[test]
    fn refusals_name_the_option() {
        let option = |plan: Noncontig| plan.validate().map_err(|error| error.option);
        assert_eq!(option(Noncontig::paper(0)), Err("processes"));
        assert_eq!(option(Noncontig { blocks: 0, ..Noncontig::paper(2) }), Err("blocks"));
        assert_eq!(option(Noncontig { block_bytes: 0, ..Noncontig::paper(2) }), Err("block"));
        assert_eq!(option(Noncontig { requests: u64::MAX, ..Noncontig::paper(2) }), Err("requests"));
    }
}

//! The pattern of IOR: large transfers back to back, no computation between them.
//!
//! It represents checkpoint files being written or read [vPFS+ §V-A]. The terms are IOR's: a *transfer* is one call, a
//! *block* the consecutive bytes of one process, a *segment* one block of every process.

use std::iter;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::{
    Amount, Call, Dir, Extent, FileId, Limit, Phase, Plan, PlanError, Steps, calls, check_processes, in_step, refuse_if,
};
use vpfs_core::hash::mix;

/// Which process writes where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileMode {
    /// All processes share one file, each has its block in every segment.
    Shared,
    /// Each process has its own file.
    PerProcess,
}

/// The order of the transfers of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By offset.
    Sequential,
    /// Each offset once, shuffled by the seed.
    Random,
}

/// Parameters of an IOR-like run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Ior {
    /// Number of processes.
    pub processes: u32,
    /// Bytes of one call.
    pub transfer_bytes: u32,
    /// Consecutive bytes of one process in one segment, a multiple of the transfer.
    pub block_bytes: u64,
    /// Number of blocks of each process.
    pub segments: u64,
    /// One file, or one for each process.
    pub file_mode: FileMode,
    /// Sequential or random offsets.
    pub order: Order,
    /// Whether to write.
    pub write: bool,
    /// Whether to read and verify; without `write`, files that an earlier run with the same parameters kept.
    pub read: bool,
    /// Whether to end with a phase in which each call draws its offset and whether it reads or writes, both uniformly
    /// [vPFS §IV-C1]; without `write`, on files that an earlier run with the same parameters kept.
    pub mixed: bool,
    /// Offset of the first segment in each file.
    pub start_offset_bytes: u64,
    /// Whether all processes wait for each other after each call [IOCO §5.2].
    pub barrier: bool,
    /// Process p reads what process p + `read_shift` wrote, so that it reads through another client.
    pub read_shift: u32,
    /// Whether each process requests durability after the write phase, in a separate phase.
    pub fsync: bool,
    /// Whether the files are kept.
    pub keep: bool,
    /// How long each phase that moves data lasts; transfers start over when they are used up.
    ///
    /// If what is written is read later, every byte is written at least once, even if that takes longer.
    #[serde(serialize_with = "super::optional_seconds", rename = "time_limit_seconds")]
    pub time_limit: Option<Duration>,
    /// Seed of contents and random order.
    pub seed: u64,
}

/// Distinguishes the mixed phase's random numbers from those of the passes, which are counted from zero.
const MIXED: u64 = 1 << 63;

/// Transfers of all processes together whose random order is kept in memory, four bytes each.
const MAX_SHUFFLED: u64 = 1 << 26;

impl Ior {
    /// Processes that write files of their own from start to end, once.
    pub fn writes(processes: u32, transfer_bytes: u32, block_bytes: u64) -> Self {
        Self {
            processes,
            transfer_bytes,
            block_bytes,
            segments: 1,
            file_mode: FileMode::PerProcess,
            order: Order::Sequential,
            write: true,
            read: false,
            mixed: false,
            start_offset_bytes: 0,
            barrier: false,
            read_shift: 0,
            fsync: false,
            keep: false,
            time_limit: None,
            seed: 1,
        }
    }

    /// Bytes that all processes together write, or read, in one pass over their blocks.
    pub fn total_bytes(&self) -> u64 {
        self.block_bytes * self.segments * u64::from(self.processes)
    }

    fn transfers_per_block(&self) -> u64 {
        self.block_bytes / u64::from(self.transfer_bytes)
    }

    fn transfers_per_process(&self) -> u64 {
        self.transfers_per_block() * self.segments
    }

    fn file(&self, process: u32) -> FileId {
        let number = match self.file_mode {
            FileMode::Shared => 0,
            FileMode::PerProcess => process,
        };
        FileId { dir: Dir::Base, number }
    }

    fn owns_file(&self, process: u32) -> bool {
        self.file_mode == FileMode::PerProcess || process == 0
    }

    /// The extent of transfer `index` of a process, counted in order of offset.
    fn extent(&self, process: u32, index: u64) -> Extent {
        let segment = index / self.transfers_per_block();
        let inside = index % self.transfers_per_block() * u64::from(self.transfer_bytes);
        let block = match self.file_mode {
            FileMode::Shared => segment * u64::from(self.processes) + u64::from(process),
            FileMode::PerProcess => segment,
        };
        let offset = self.start_offset_bytes + block * self.block_bytes + inside;
        Extent { file: self.file(process), offset, bytes: self.transfer_bytes }
    }

    fn extents(&self, process: u32, pass: u64) -> Box<dyn Iterator<Item = Extent> + Send> {
        let plan = self.clone();
        let count = self.transfers_per_process();
        match self.order {
            Order::Sequential => Box::new((0..count).map(move |index| plan.extent(process, index))),
            Order::Random => {
                let count = u32::try_from(count).expect("bounded by `validate`");
                let mut order: Vec<u32> = (0..count).collect();
                let seed = mix(mix(self.seed ^ pass) ^ u64::from(process));
                order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
                Box::new(order.into_iter().map(move |index| plan.extent(process, index.into())))
            }
        }
    }

    /// The extents of `owner`, repeated if there is a time limit.
    fn passes(&self, owner: u32) -> Box<dyn Iterator<Item = Extent> + Send> {
        if self.time_limit.is_none() {
            return self.extents(owner, 0);
        }
        let plan = self.clone();
        Box::new((0..).flat_map(move |pass| plan.extents(owner, pass)))
    }

    /// Calls with random offset and direction, as many as the process has transfers, or without end if there is a time
    /// limit.
    fn mixed_calls(&self, process: u32) -> impl Iterator<Item = Call> + use<> {
        let plan = self.clone();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(mix(mix(self.seed ^ MIXED) ^ u64::from(process)));
        let transfers = self.transfers_per_process();
        let count = if self.time_limit.is_some() { u64::MAX } else { transfers };
        (0..count).map(move |_| {
            let extent = plan.extent(process, random.random_range(0..transfers));
            if random.random() { Call::Read(extent) } else { Call::Write(extent) }
        })
    }

    fn read_owner(&self, process: u32) -> u32 {
        let shifted = (u64::from(process) + u64::from(self.read_shift)) % u64::from(self.processes);
        u32::try_from(shifted).expect("below the number of processes")
    }

    fn opens(&self, process: u32) -> Steps {
        let uses_own = self.mixed || self.write;
        let own = (uses_own && !(self.write && self.owns_file(process))).then_some(self.file(process));
        let read = self.read.then(|| self.file(self.read_owner(process))).filter(|file| own != Some(*file));
        calls(own.into_iter().chain(read).map(Call::Open))
    }
}

impl Plan for Ior {
    fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        refuse_if(self.transfer_bytes == 0, "transfer", "must be at least 1B")?;
        if self.block_bytes == 0 || !self.block_bytes.is_multiple_of(u64::from(self.transfer_bytes)) {
            let problem = format!("must be a multiple of the transfer size, {} bytes", self.transfer_bytes);
            return Err(PlanError::new("block", problem));
        }
        refuse_if(self.segments == 0, "segments", "must be at least 1")?;
        refuse_if(!self.write && !self.read && !self.mixed, "write", "nothing to do; give --write, --read or both")?;
        if self.barrier && self.time_limit.is_some() {
            return Err(PlanError::new("barrier", "processes that end at a time limit cannot wait for each other"));
        }
        let total = self.block_bytes.checked_mul(self.segments).and_then(|b| b.checked_mul(self.processes.into()));
        let Some(total) = total.filter(|&total| i64::try_from(total).is_ok()) else {
            return Err(PlanError::new(
                "block",
                "block times segments times processes exceeds the largest possible file",
            ));
        };
        if self.start_offset_bytes.checked_add(total).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(PlanError::new("start-offset", "the file would exceed the largest possible size"));
        }
        let transfers = total / u64::from(self.transfer_bytes);
        if self.order == Order::Random && transfers > MAX_SHUFFLED {
            let problem = format!(
                "at most {MAX_SHUFFLED} transfers of all processes can be shuffled, not {transfers}; give a larger \
                 --transfer, a smaller --block or --segments, or leave --random out"
            );
            return Err(PlanError::new("random", problem));
        }
        Ok(())
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        let all = [
            (Phase::Create, self.write),
            (Phase::Open, true),
            (Phase::Write, self.write),
            (Phase::Sync, self.write && self.fsync),
            (Phase::Read, self.read),
            (Phase::Mixed, self.mixed),
            (Phase::Remove, !self.keep),
        ];
        all.into_iter().filter_map(|(phase, wanted)| wanted.then_some(phase)).collect()
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match phase {
            Phase::Create if self.owns_file(process) => calls(iter::once(Call::Create(self.file(process)))),
            Phase::Open => self.opens(process),
            Phase::Write => in_step(self.passes(process).map(Call::Write), self.barrier),
            Phase::Sync => calls(iter::once(Call::Sync(self.file(process)))),
            Phase::Read => in_step(self.passes(self.read_owner(process)).map(Call::Read), self.barrier),
            Phase::Mixed => in_step(self.mixed_calls(process), self.barrier),
            Phase::Remove if self.owns_file(process) => calls(iter::once(Call::Remove(self.file(process)))),
            _ => calls(iter::empty()),
        }
    }

    fn limit(&self, phase: Phase) -> Option<Limit> {
        let time = self.time_limit.filter(|_| matches!(phase, Phase::Write | Phase::Read | Phase::Mixed))?;
        let must_finish_pass = phase == Phase::Write && (self.read || self.mixed);
        Some(Limit { time, at_least_steps: if must_finish_pass { self.transfers_per_process() } else { 0 } })
    }

    fn amount(&self, phase: Phase) -> Option<Amount> {
        let files = if self.file_mode == FileMode::Shared { 1 } else { self.processes };
        match phase {
            Phase::Create | Phase::Remove => Some(Amount::Calls(files.into())),
            Phase::Sync => Some(Amount::Calls(self.processes.into())),
            Phase::Write | Phase::Read | Phase::Mixed if self.time_limit.is_none() => {
                Some(Amount::Bytes(self.total_bytes()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::plan::Step;

    fn ior() -> Ior {
        Ior { segments: 2, file_mode: FileMode::Shared, read: true, ..Ior::writes(3, 10, 40) }
    }

    fn offsets(steps: Steps) -> Vec<(u32, u64)> {
        let place = |step| match step {
            Step::Call(Call::Write(extent) | Call::Read(extent)) => (extent.file.number, extent.offset),
            other => panic!("{other:?} in a data phase"),
        };
        steps.map(place).collect()
    }

    #[test]
    fn a_segment_holds_one_block_of_every_process() {
        let expected = [40, 50, 60, 70, 160, 170, 180, 190].map(|offset| (0, offset));
        assert_eq!(offsets(ior().steps(Phase::Write, 1)), expected);
    }

    #[test]
    fn every_byte_is_moved_once_in_every_mode() {
        for file_mode in [FileMode::Shared, FileMode::PerProcess] {
            for order in [Order::Sequential, Order::Random] {
                let plan = Ior { file_mode, order, ..ior() };
                let all: Vec<_> = (0..3).flat_map(|process| offsets(plan.steps(Phase::Write, process))).collect();
                let distinct: BTreeSet<_> = all.iter().collect();
                assert_eq!(distinct.len() as u64 * 10, plan.total_bytes());
                assert_eq!(all.len(), distinct.len());
            }
        }
    }

    #[test]
    fn random_order_follows_the_seed() {
        let plan = |seed| Ior { order: Order::Random, segments: 20, seed, ..ior() };
        let order = |seed| offsets(plan(seed).steps(Phase::Write, 0));
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_ne!(order(1), offsets(Ior { segments: 20, ..ior() }.steps(Phase::Write, 0)));
    }

    #[test]
    fn shifted_readers_read_what_others_wrote() {
        let plan = Ior { file_mode: FileMode::PerProcess, read_shift: 1, ..ior() };
        assert_eq!(offsets(plan.steps(Phase::Read, 2)), offsets(plan.steps(Phase::Write, 0)));
        let opened: Vec<_> = plan.steps(Phase::Open, 2).collect();
        assert_eq!(opened, [Step::Call(Call::Open(FileId { dir: Dir::Base, number: 0 }))]);
    }

    #[test]
    fn a_time_limit_starts_over_and_finishes_what_will_be_read() {
        let plan = Ior { time_limit: Some(Duration::from_secs(1)), ..ior() };
        let steps: Vec<_> = plan.steps(Phase::Write, 0).take(9).collect();
        assert_eq!(steps[8], steps[0]);
        assert_eq!(plan.limit(Phase::Write).map(|limit| limit.at_least_steps), Some(8));
        assert_eq!(plan.limit(Phase::Read).map(|limit| limit.at_least_steps), Some(0));
        assert_eq!(plan.limit(Phase::Remove), None);
        assert_eq!(plan.amount(Phase::Write), None);
    }

    #[test]
    fn mixed_calls_are_half_reads_and_reach_every_place_of_their_own() {
        let plan = Ior { mixed: true, segments: 250, ..ior() };
        let steps: Vec<_> = plan.steps(Phase::Mixed, 1).collect();
        assert_eq!(steps.len(), 1000);
        let reads = steps.iter().filter(|step| matches!(step, Step::Call(Call::Read(_)))).count();
        assert!((400..600).contains(&reads), "{reads}");
        let own: BTreeSet<_> = offsets(plan.steps(Phase::Write, 1)).into_iter().collect();
        let drawn: BTreeSet<_> = offsets(plan.steps(Phase::Mixed, 1)).into_iter().collect();
        assert!(drawn.is_subset(&own) && drawn.len() > own.len() / 2);
        assert_eq!(steps, plan.steps(Phase::Mixed, 1).collect::<Vec<_>>());
        assert_ne!(offsets(plan.steps(Phase::Mixed, 1)), offsets(Ior { seed: 2, ..plan }.steps(Phase::Mixed, 1)));
    }

    #[test]
    fn mixed_alone_opens_what_an_earlier_run_kept() {
        let plan = Ior { mixed: true, write: false, read: false, ..ior() };
        assert_eq!(plan.validate(), Ok(()));
        assert_eq!(plan.phases(), [Phase::Open, Phase::Mixed, Phase::Remove]);
        assert_eq!(plan.steps(Phase::Open, 0).count(), 1);
        let endless = Ior { time_limit: Some(Duration::from_secs(1)), ..plan };
        assert_eq!(endless.steps(Phase::Mixed, 0).take(100).count(), 100, "more than the eight transfers");
    }

    #[test]
    fn a_barrier_follows_each_call() {
        let plan = Ior { barrier: true, ..ior() };
        for phase in [Phase::Write, Phase::Read] {
            let steps: Vec<_> = plan.steps(phase, 2).collect();
            assert_eq!(steps.len(), 16);
            assert!(steps.chunks(2).all(|pair| matches!(pair, [Step::Call(_), Step::Barrier])));
        }
    }

    #[test]
    fn the_first_segment_begins_at_the_start_offset() {
        let moved = offsets(Ior { start_offset_bytes: 1000, ..ior() }.steps(Phase::Write, 1));
        let expected: Vec<_> = offsets(ior().steps(Phase::Write, 1)).iter().map(|(f, at)| (*f, at + 1000)).collect();
        assert_eq!(moved, expected);
    }

    #[test]
    fn a_random_order_must_fit_in_memory() {
        let plan =
            |block_bytes, order| Ior { processes: 4, transfer_bytes: 1, block_bytes, segments: 1, order, ..ior() };
        assert_eq!(plan(1 << 24, Order::Random).validate(), Ok(()));
        assert_eq!(plan(1 << 40, Order::Sequential).validate(), Ok(()));
        let error = plan((1 << 24) + 1, Order::Random).validate().unwrap_err();
        assert_eq!(error.option, "random");
        assert!(error.problem.contains("67108864 transfers") && error.problem.contains("--transfer"), "{error}");
    }
}

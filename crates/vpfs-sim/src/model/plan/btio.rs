//! The pattern of BTIO (NAS Parallel Benchmarks): bursts of I/O with computation between them, then a phase that reads
//! everything back and verifies it [vPFS+ §V-A, §V-B].
//!
//! Each iteration appends one dump of the solution array to a shared file. In the *simple* subtype every process writes
//! its part as many tiny calls, each a row of a few points, interleaved with the rows of the others. In the *full*
//! subtype collective buffering has gathered the data: one process on each node writes a few large pieces.
//!
//! The solver exchanges cell faces in each time step, so the processes compute in step: a barrier ends each burst.

use std::iter;
use std::time::Duration;

use super::{
    Amount, Call, Dir, Extent, FileId, Phase, Plan, PlanError, Step, Steps, calls, check_processes,
    first_process_of_node, pieces, refuse_if,
};
use vpfs_core::hash::mix;

/// How a dump reaches the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subtype {
    /// Each process makes its own tiny calls.
    Simple,
    /// One process on each node makes large calls for all of them.
    Full,
}

/// The two problem sizes that vPFS+ uses, with their subtypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum BtioClass {
    /// 64³ points, 400 MB in 320 B calls, simple subtype.
    A,
    /// 162³ points, 6817 MB in calls of 4 to 16 MiB, full subtype.
    C,
}

/// Parameters of a BTIO-like run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Btio {
    /// Number of processes.
    pub processes: u32,
    /// Number of nodes that the processes run on; with [`Subtype::Full`], one process on each node does I/O.
    pub nodes: u32,
    /// How a dump reaches the file.
    pub subtype: Subtype,
    /// Bursts in each of the two phases.
    pub iterations: u32,
    /// Bytes of all dumps together; rounded down to equal bursts.
    pub total_bytes: u64,
    /// Smallest call.
    pub transfer_min_bytes: u32,
    /// Largest call; the seed chooses sizes between the two.
    pub transfer_max_bytes: u32,
    /// Computation after each burst of writes.
    #[serde(serialize_with = "super::seconds", rename = "think_write_seconds")]
    pub think_write: Duration,
    /// Verification after each burst of reads.
    #[serde(serialize_with = "super::seconds", rename = "think_read_seconds")]
    pub think_read: Duration,
    /// Whether to read back and verify.
    pub read: bool,
    /// Whether the file is kept.
    pub keep: bool,
    /// Seed of contents and call sizes.
    pub seed: u64,
}

const FILE: FileId = FileId { dir: Dir::Base, number: 0 };

impl Btio {
    /// The paper's run of a class: 64 processes on 4 nodes, 40 iterations, 6 s of computation between bursts of writes,
    /// 1 s of verification between bursts of reads [vPFS+ §V-B].
    pub const fn class(class: BtioClass) -> Self {
        let (subtype, total_bytes, min, max) = match class {
            BtioClass::A => (Subtype::Simple, 400_000_000, 320, 320),
            BtioClass::C => (Subtype::Full, 6_817_000_000, 4 << 20, 16 << 20),
        };
        Self {
            processes: 64,
            nodes: 4,
            subtype,
            iterations: 40,
            total_bytes,
            transfer_min_bytes: min,
            transfer_max_bytes: max,
            think_write: Duration::from_secs(6),
            think_read: Duration::from_secs(1),
            read: true,
            keep: false,
            seed: 1,
        }
    }

    /// Bytes that the run actually writes.
    pub fn written_bytes(&self) -> u64 {
        self.burst_bytes() * u64::from(self.writers()) * u64::from(self.iterations)
    }

    /// How many processes do I/O.
    pub fn writers(&self) -> u32 {
        match self.subtype {
            Subtype::Simple => self.processes,
            Subtype::Full => self.nodes,
        }
    }

    fn burst_bytes(&self) -> u64 {
        let share = self.total_bytes / u64::from(self.iterations) / u64::from(self.writers());
        match self.subtype {
            Subtype::Simple => share - share % u64::from(self.transfer_min_bytes),
            Subtype::Full => share,
        }
    }

    /// The index of a process among those that do I/O; `None`: it only computes.
    fn writer(&self, process: u32) -> Option<u32> {
        match self.subtype {
            Subtype::Simple => Some(process),
            // The first process on each node; nodes are filled in blocks.
            Subtype::Full => {
                (0..self.nodes).find(|&node| first_process_of_node(node, self.nodes, self.processes) == process)
            }
        }
    }

    /// Where one process writes in one burst; generated call by call, as there can be any number of calls.
    fn burst(&self, writer: u32, iteration: u32) -> Box<dyn Iterator<Item = Extent> + Send> {
        let writers = u64::from(self.writers());
        let dump = u64::from(iteration) * writers * self.burst_bytes();
        match self.subtype {
            Subtype::Simple => {
                let bytes = self.transfer_min_bytes;
                let row = move |index: u64| dump + (index * writers + u64::from(writer)) * u64::from(bytes);
                let rows = self.burst_bytes() / u64::from(bytes);
                Box::new((0..rows).map(move |index| Extent { file: FILE, offset: row(index), bytes }))
            }
            Subtype::Full => Box::new(self.pieces(writer, iteration, dump + u64::from(writer) * self.burst_bytes())),
        }
    }

    fn pieces(&self, writer: u32, iteration: u32, begin: u64) -> impl Iterator<Item = Extent> + Send + use<> {
        let seed = mix(mix(self.seed ^ u64::from(iteration)) ^ u64::from(writer));
        let sizes = self.transfer_min_bytes..=self.transfer_max_bytes;
        pieces(FILE, begin..begin + self.burst_bytes(), sizes, seed)
    }

    /// All bursts of one process in one phase: compute, wait for the others, then I/O.
    fn bursts(&self, process: u32, think: Duration, call: fn(Extent) -> Call) -> Steps {
        let plan = self.clone();
        let writer = self.writer(process);
        Box::new((0..self.iterations).flat_map(move |iteration| {
            let io = writer.map(|writer| plan.burst(writer, iteration));
            let think = (!think.is_zero()).then_some(Step::Think(think));
            io.into_iter().flatten().map(call).map(Step::Call).chain([Step::Barrier]).chain(think)
        }))
    }
}

impl Plan for Btio {
    fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        if self.nodes == 0 || self.nodes > self.processes {
            return Err(PlanError::new("nodes", "must be at least 1 and at most the number of processes"));
        }
        refuse_if(self.iterations == 0, "iterations", "must be at least 1")?;
        if self.transfer_min_bytes == 0 || self.transfer_min_bytes > self.transfer_max_bytes {
            return Err(PlanError::new("transfer", "must be at least 1B, and a range must go from small to large"));
        }
        if self.subtype == Subtype::Simple && self.transfer_min_bytes != self.transfer_max_bytes {
            return Err(PlanError::new("transfer", "must be one size, not a range, in the simple subtype"));
        }
        if self.burst_bytes() == 0 {
            let least = u128::from(self.transfer_min_bytes) * u128::from(self.writers()) * u128::from(self.iterations);
            let problem = format!("must be at least {least}B: one call for each writing process and iteration");
            return Err(PlanError::new("total", problem));
        }
        refuse_if(i64::try_from(self.total_bytes).is_err(), "total", "exceeds the largest possible file")?;
        Ok(())
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        let all = [
            (Phase::Create, true),
            (Phase::Open, true),
            (Phase::Write, true),
            (Phase::Read, self.read),
            (Phase::Remove, !self.keep),
        ];
        all.into_iter().filter_map(|(phase, wanted)| wanted.then_some(phase)).collect()
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match phase {
            Phase::Create if process == 0 => calls(iter::once(Call::Create(FILE))),
            Phase::Open if process != 0 && self.writer(process).is_some() => calls(iter::once(Call::Open(FILE))),
            Phase::Write => self.bursts(process, self.think_write, Call::Write),
            Phase::Read => self.bursts(process, self.think_read, Call::Read),
            Phase::Remove if process == 0 => calls(iter::once(Call::Remove(FILE))),
            _ => calls(iter::empty()),
        }
    }

    fn amount(&self, phase: Phase) -> Option<Amount> {
        match phase {
            Phase::Create | Phase::Remove => Some(Amount::Calls(1)),
            Phase::Open => Some(Amount::Calls(u64::from(self.writers()) - 1)),
            Phase::Write | Phase::Read => Some(Amount::Bytes(self.written_bytes())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::all_calls;

    fn extents(plan: &Btio, phase: Phase) -> Vec<Extent> {
        all_calls(plan, phase).iter().flat_map(|call| call.extents()).collect()
    }

    /// Whether the calls cover `0..total` without gap or overlap.
    fn tile(mut extents: Vec<Extent>, total: u64) -> bool {
        extents.sort_by_key(|extent| extent.offset);
        let end = extents.iter().try_fold(0, |at, e| (e.offset == at).then(|| at + u64::from(e.bytes)));
        end == Some(total)
    }

    #[test]
    fn classes_are_the_papers() {
        for class in [BtioClass::A, BtioClass::C] {
            let plan = Btio::class(class);
            assert_eq!(plan.validate(), Ok(()));
            let calls = extents(&plan, Phase::Write);
            let full =
                |range: std::ops::RangeInclusive<u32>| calls.iter().filter(|call| range.contains(&call.bytes)).count();
            match class {
                BtioClass::A => {
                    assert_eq!(full(320..=320), calls.len());
                    assert!((396_000_000..=400_000_000).contains(&plan.written_bytes()), "{}", plan.written_bytes());
                }
                // The last piece of a burst takes the remaining bytes.
                BtioClass::C => assert!(full(4 << 20..=16 << 20) * 5 > calls.len() * 4, "of {}", calls.len()),
            }
            assert!(tile(calls, plan.written_bytes()));
        }
    }

    #[test]
    fn each_process_reads_the_data_that_it_wrote() {
        for class in [BtioClass::A, BtioClass::C] {
            let plan = Btio { iterations: 3, total_bytes: 64 << 20, ..Btio::class(class) };
            assert_eq!(extents(&plan, Phase::Write), extents(&plan, Phase::Read));
        }
    }

    #[test]
    fn all_processes_meet_at_the_same_barriers() {
        let plan = Btio { processes: 6, nodes: 2, iterations: 5, ..Btio::class(BtioClass::C) };
        for process in 0..6 {
            let barriers = plan.steps(Phase::Write, process).filter(|step| *step == Step::Barrier).count();
            assert_eq!(barriers, 5);
        }
        assert!(plan.writer(0).is_some() && plan.writer(3).is_some());
        assert_eq!((0..6).filter(|&process| plan.writer(process).is_some()).count(), 2);
    }

    #[test]
    fn the_least_total_may_exceed_64_bits() {
        let most = u32::MAX;
        let plan = Btio {
            processes: 1 << 16,
            iterations: most,
            transfer_min_bytes: most,
            transfer_max_bytes: most,
            ..Btio::class(BtioClass::A)
        };
        let error = plan.validate().unwrap_err();
        assert!(error.problem.contains(&(u128::from(most).pow(2) << 16).to_string()), "{error}");
    }

    #[test]
    fn any_number_of_calls_takes_no_memory() {
        for subtype in [Subtype::Simple, Subtype::Full] {
            let (total_bytes, bytes) = (i64::MAX as u64, 1);
            let plan = Btio {
                subtype,
                total_bytes,
                iterations: 1,
                transfer_min_bytes: bytes,
                transfer_max_bytes: bytes,
                ..Btio::class(BtioClass::A)
            };
            assert_eq!(plan.validate(), Ok(()));
            let first = plan.steps(Phase::Write, 0).next();
            assert_eq!(first, Some(Step::Call(Call::Write(Extent { file: FILE, offset: 0, bytes }))));
        }
    }
}

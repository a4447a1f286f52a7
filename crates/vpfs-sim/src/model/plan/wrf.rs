//! The pattern of WRF, a weather model: small reads and writes through POSIX between computations, and many more
//! requests for attributes than for data [vPFS+ §IV, §V-A, §V-C].
//!
//! The processes read their shares of the input. Then, for each minute of the forecast, they compute in step, each
//! writes a new restart file and its part of the output file that all share. Before each call that moves data the
//! client asks for attributes, as POSIX clients of parallel file systems do.

use std::iter;
use std::ops::Range;
use std::time::Duration;

use super::{
    Call, Dir, Extent, FileId, Phase, Plan, PlanError, Step, Steps, calls, check_processes, pieces, refuse_if,
};
use vpfs_core::hash::mix;

/// Parameters of a WRF-like run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Wrf {
    /// Number of processes.
    pub processes: u32,
    /// Bytes of the input, read once by all processes together.
    pub input_bytes: u64,
    /// Bytes of the output file, over all minutes and processes; rounded down to equal parts.
    pub output_bytes: u64,
    /// Bytes of all restart files; rounded down to equal files.
    pub restart_bytes: u64,
    /// Minutes of the forecast; in each of them every process writes a restart file and a part of the output.
    pub forecast_minutes: u32,
    /// Computation for each minute of the forecast.
    #[serde(serialize_with = "super::seconds", rename = "think_seconds")]
    pub think: Duration,
    /// Smallest call that moves data.
    pub transfer_min_bytes: u32,
    /// Largest call; the seed chooses sizes between the two.
    pub transfer_max_bytes: u32,
    /// Number of requests for attributes before each call that moves data.
    pub stats_per_transfer: u32,
    /// Whether the files are kept.
    pub keep: bool,
    /// Seed of contents and call sizes.
    pub seed: u64,
}

const INPUT: FileId = FileId { dir: Dir::Base, number: 0 };
const OUTPUT: FileId = FileId { dir: Dir::Base, number: 1 };
const FIRST_RESTART: u32 = 2;

impl Wrf {
    /// The paper's run: 64 processes, 50 MB of input, 7 GB of output, 70 GB of restart files, calls of 128 to 512 KiB
    /// [vPFS+ §V-A, §V-C].
    ///
    /// The paper does not state the rest. Sixty minutes is the length of its test case, `em_quarter_ss`, as
    /// distributed. With 5 s of computation for each, half of the ten minutes of the run in Fig. 4 is I/O. Six requests
    /// for attributes before each call make 1.4 million in all, each of a few messages: the paper's "millions of
    /// requests", far more than those for data.
    pub const PAPER: Self = Self {
        processes: 64,
        input_bytes: 50_000_000,
        output_bytes: 7_000_000_000,
        restart_bytes: 70_000_000_000,
        forecast_minutes: 60,
        think: Duration::from_secs(5),
        transfer_min_bytes: 128 << 10,
        transfer_max_bytes: 512 << 10,
        stats_per_transfer: 6,
        keep: false,
        seed: 1,
    };

    /// A run of a different length with the same bytes, calls and computation in each minute. O(1).
    #[must_use]
    pub fn with_minutes(self, forecast_minutes: u32) -> Self {
        let of_all = |bytes: u64| self.minute(bytes).saturating_mul(u64::from(forecast_minutes));
        let (output_bytes, restart_bytes) = (of_all(self.output_bytes), of_all(self.restart_bytes));
        Self { output_bytes, restart_bytes, forecast_minutes, ..self }
    }

    fn minute(&self, bytes: u64) -> u64 {
        bytes.checked_div(u64::from(self.forecast_minutes)).unwrap_or(0)
    }

    fn part(&self, bytes: u64) -> u64 {
        self.minute(bytes) / u64::from(self.processes)
    }

    fn restart(&self, process: u32, minute: u32) -> FileId {
        FileId { dir: Dir::Base, number: FIRST_RESTART + minute * self.processes + process }
    }

    /// Cuts bytes of a file into calls; equal for equal arguments.
    fn pieces(&self, file: FileId, range: Range<u64>) -> impl Iterator<Item = Extent> + Send + use<> {
        let seed = mix(mix(self.seed ^ u64::from(file.number)) ^ range.start);
        pieces(file, range, self.transfer_min_bytes..=self.transfer_max_bytes, seed)
    }

    /// A call that moves data, preceded by requests for the attributes of its file.
    fn with_stats(&self, call: fn(Extent) -> Call) -> impl Fn(Extent) -> Looked + Send + use<> {
        let stats = self.stats_per_transfer as usize;
        move |extent| iter::repeat_n(Call::Stat(extent.file), stats).chain(iter::once(call(extent)))
    }

    /// The process's share of the input; the last one reads what remains.
    fn input(&self, process: u32) -> Steps {
        let share = self.input_bytes / u64::from(self.processes);
        let begin = share * u64::from(process);
        let end = if process + 1 == self.processes { self.input_bytes } else { begin + share };
        calls(self.pieces(INPUT, begin..end).flat_map(self.with_stats(Call::Read)))
    }

    /// Computes in step with the others, then writes the restart file and the part of the output.
    fn forecast(&self, process: u32, minute: u32) -> impl Iterator<Item = Step> + Send + use<> {
        let restart = self.restart(process, minute);
        let part = self.part(self.output_bytes);
        let begin = (u64::from(minute) * u64::from(self.processes) + u64::from(process)) * part;
        let output = self.pieces(OUTPUT, begin..begin + part);
        let data = self.pieces(restart, 0..self.part(self.restart_bytes)).chain(output);
        let calls = iter::once(Call::Create(restart)).chain(data.flat_map(self.with_stats(Call::Write)));
        let think = (!self.think.is_zero()).then_some(Step::Think(self.think));
        think.into_iter().chain([Step::Barrier]).chain(calls.map(Step::Call))
    }

    fn removes(&self, process: u32) -> Steps {
        let plan = self.clone();
        let shared = [INPUT, OUTPUT].into_iter().filter(move |_| process == 0);
        let own = (0..self.forecast_minutes).map(move |minute| plan.restart(process, minute));
        calls(shared.chain(own).map(Call::Remove))
    }
}

/// Requests for attributes and the call that they belong to.
type Looked = iter::Chain<iter::RepeatN<Call>, iter::Once<Call>>;

impl Plan for Wrf {
    fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        refuse_if(self.forecast_minutes == 0, "minutes", "must be at least 1")?;
        if self.transfer_min_bytes == 0 || self.transfer_min_bytes > self.transfer_max_bytes {
            return Err(PlanError::new("transfer", "must be at least 1B, and a range must go from small to large"));
        }
        let files = self.forecast_minutes.checked_mul(self.processes).and_then(|n| n.checked_add(FIRST_RESTART));
        if files.is_none() {
            return Err(PlanError::new("minutes", format!("minutes times processes must be below {}", u32::MAX)));
        }
        let sizes = [("input", self.input_bytes), ("output", self.output_bytes), ("restart", self.restart_bytes)];
        match sizes.into_iter().find(|&(_, bytes)| i64::try_from(bytes).is_err()) {
            Some((option, _)) => Err(PlanError::new(option, "exceeds the largest possible file")),
            None => Ok(()),
        }
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    /// [`Phase::Setup`] creates the input, which WRF itself does not do; [`Phase::Mixed`] is the forecast.
    fn phases(&self) -> Vec<Phase> {
        let mut phases = vec![Phase::Setup, Phase::Create, Phase::Open, Phase::Read, Phase::Mixed];
        phases.extend((!self.keep).then_some(Phase::Remove));
        phases
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match phase {
            Phase::Setup if process == 0 => {
                let data = self.pieces(INPUT, 0..self.input_bytes).map(Call::Write);
                calls(iter::once(Call::Create(INPUT)).chain(data))
            }
            Phase::Create if process == 0 => calls(iter::once(Call::Create(OUTPUT))),
            Phase::Open if process != 0 => calls([INPUT, OUTPUT].into_iter().map(Call::Open)),
            Phase::Read => self.input(process),
            Phase::Mixed => {
                let plan = self.clone();
                Box::new((0..self.forecast_minutes).flat_map(move |minute| plan.forecast(process, minute)))
            }
            Phase::Remove => self.removes(process),
            _ => calls(iter::empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::model::plan::all_calls;

    fn small() -> Wrf {
        Wrf { processes: 3, input_bytes: 1_000_001, ..Wrf::PAPER }.with_minutes(2)
    }

    /// Asserts that the calls cover each file from its start without gap or overlap; returns the sizes by file.
    fn sizes(calls: &[Call]) -> BTreeMap<FileId, u64> {
        let mut extents: Vec<_> = calls.iter().flat_map(|call| call.extents()).collect();
        extents.sort_by_key(|extent| (extent.file, extent.offset));
        let mut sizes = BTreeMap::new();
        for extent in extents {
            let size = sizes.entry(extent.file).or_insert(0);
            assert_eq!(*size, extent.offset);
            *size += u64::from(extent.bytes);
        }
        sizes
    }

    #[test]
    fn one_minute_of_the_papers_run_moves_its_part() {
        assert_eq!(Wrf::PAPER.validate(), Ok(()));
        let plan = Wrf::PAPER.with_minutes(1);
        let calls = all_calls(&plan, Phase::Mixed);
        let total: u64 = sizes(&calls).values().sum();
        assert!((77_000_000_000 / 60 - 200..=77_000_000_000 / 60).contains(&total), "{total}");
        let data = calls.iter().filter(|call| call.extents().next().is_some()).count();
        let stats = calls.iter().filter(|call| matches!(call, Call::Stat(_))).count();
        assert_eq!(stats, 6 * data);
        assert!((1_000_000..3_000_000).contains(&(stats * 60)), "millions of requests: {stats} a minute");
        let all = calls.iter().flat_map(|call| call.extents());
        let large = all.filter(|extent| (128 << 10..=512 << 10).contains(&extent.bytes)).count();
        assert!(large * 10 > data * 8, "{large} of {data}; the last one of a part is what remains");
    }

    #[test]
    fn the_input_is_written_once_and_read_once() {
        let plan = small();
        let expected = BTreeMap::from([(INPUT, 1_000_001)]);
        assert_eq!(sizes(&all_calls(&plan, Phase::Setup)), expected);
        assert_eq!(sizes(&all_calls(&plan, Phase::Read)), expected);
    }

    #[test]
    fn each_process_writes_a_restart_file_each_minute_and_all_share_the_output() {
        let sizes = sizes(&all_calls(&small(), Phase::Mixed));
        assert_eq!(sizes.len(), 3 * 2 + 1);
        assert!(sizes.contains_key(&OUTPUT));
    }

    #[test]
    fn every_file_is_created_before_it_is_used_and_removed_at_the_end() {
        let plan = small();
        let mut files = BTreeSet::new();
        for phase in plan.phases() {
            for call in all_calls(&plan, phase) {
                match call {
                    Call::Create(file) => assert!(files.insert(file)),
                    Call::Remove(file) => assert!(files.remove(&file)),
                    Call::Open(file) | Call::Stat(file) => assert!(files.contains(&file)),
                    other => assert!(other.extents().all(|extent| files.contains(&extent.file))),
                }
            }
        }
        assert!(files.is_empty());
    }

    #[test]
    fn all_processes_meet_at_the_same_barriers() {
        let plan = small();
        for process in 0..3 {
            assert_eq!(plan.steps(Phase::Mixed, process).filter(|step| *step == Step::Barrier).count(), 2);
        }
    }

    #[test]
    fn equal_seeds_give_equal_steps() {
        let steps = |seed| Wrf { seed, ..small() }.steps(Phase::Mixed, 1).collect::<Vec<_>>();
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }
}

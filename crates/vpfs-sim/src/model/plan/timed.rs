//! Applications that do not call as fast as storage answers: they think between calls, keep a pace of their own, or
//! repeat the times of a recorded run.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use vpfs_core::hash::mix;

use super::{
    Amount, Call, Dir, Extent, FileId, Limit, MAX_PROCESSES, Phase, Plan, PlanError, Step, Steps, calls,
    check_processes, refuse_if, shared_file,
};

/// An application that waits for each small call, thinks, and makes the next one: a database, a solver with small
/// reads, a person. A concurrent checkpoint hurts such an application most.
///
/// Small calls at random offsets with think time before each; every process has its own file.
///
/// Each file is filled first, in large calls, so that reads can be verified and writes overwrite existing data.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Interactive {
    /// Number of processes.
    pub processes: u32,
    /// Bytes of a call.
    pub transfer_bytes: u32,
    /// Bytes of each process's file. Offsets are multiples of the call size; a remainder of the file is filled but not
    /// used.
    pub file_bytes: u64,
    /// Mean think time before each call, from the end of the previous one; drawn between half and one and a half times
    /// this.
    #[serde(serialize_with = "super::seconds", rename = "think_seconds")]
    pub think: Duration,
    /// How long new calls are started; [`Duration::MAX`]: without end.
    #[serde(serialize_with = "super::seconds", rename = "time_seconds")]
    pub time: Duration,
    /// Whether to read instead of write.
    pub read: bool,
    /// Whether the files are created, filled and removed again; otherwise they exist, for example from
    /// [`Ior`](super::Ior) with `keep`, and stay.
    pub fills: bool,
    /// Seed of offsets and think times.
    pub seed: u64,
}

const FILL: u64 = 1 << 20;
/// So that one and a half times this is still a valid duration.
const THINK_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Interactive {
    fn file(process: u32) -> FileId {
        FileId { dir: Dir::Base, number: process }
    }

    fn turns(&self, process: u32) -> Steps {
        let Self { transfer_bytes: bytes, file_bytes, think, read, .. } = *self;
        let places = file_bytes / u64::from(bytes);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(mix(mix(self.seed) ^ u64::from(process)));
        let turn = move |_| {
            let offset = random.random_range(0..places) * u64::from(bytes);
            let extent = Extent { file: Self::file(process), offset, bytes };
            let think = think.mul_f64(random.random_range(0.5..1.5));
            [Step::Think(think), Step::Call(if read { Call::Read(extent) } else { Call::Write(extent) })]
        };
        Box::new((0_u64..).flat_map(turn))
    }

    fn fill(&self, process: u32) -> Steps {
        let file_bytes = self.file_bytes;
        let piece = move |index: u64| {
            let offset = index * FILL;
            let bytes = u32::try_from(FILL.min(file_bytes - offset)).expect("at most a MiB");
            Call::Write(Extent { file: Self::file(process), offset, bytes })
        };
        calls((0..file_bytes.div_ceil(FILL)).map(piece))
    }
}

impl Plan for Interactive {
    fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        refuse_if(self.transfer_bytes == 0, "transfer", "must be at least 1B")?;
        refuse_if(self.file_bytes < u64::from(self.transfer_bytes), "file", "must be at least one transfer")?;
        refuse_if(i64::try_from(self.file_bytes).is_err(), "file", "exceeds the largest possible file")?;
        refuse_if(self.think > THINK_MAX, "think", "must be at most a year")?;
        refuse_if(self.time.is_zero(), "time", "must not be zero")?;
        Ok(())
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    /// [`Phase::Setup`] fills the files.
    fn phases(&self) -> Vec<Phase> {
        let turns = if self.read { Phase::Read } else { Phase::Write };
        if self.fills { vec![Phase::Create, Phase::Setup, turns, Phase::Remove] } else { vec![turns] }
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match phase {
            Phase::Create => calls([Call::Create(Self::file(process))].into_iter()),
            Phase::Setup => self.fill(process),
            Phase::Write | Phase::Read => self.turns(process),
            Phase::Remove => calls([Call::Remove(Self::file(process))].into_iter()),
            _ => calls(std::iter::empty()),
        }
    }

    fn limit(&self, phase: Phase) -> Option<Limit> {
        matches!(phase, Phase::Write | Phase::Read).then_some(Limit { time: self.time, at_least_steps: 0 })
    }

    fn amount(&self, phase: Phase) -> Option<Amount> {
        match phase {
            Phase::Create | Phase::Remove => Some(Amount::Calls(self.processes.into())),
            Phase::Setup => Some(Amount::Bytes(self.file_bytes.saturating_mul(self.processes.into()))),
            _ => None,
        }
    }
}

/// The demand of all processes together over time, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Alternates between this rate and nothing.
    OnOff {
        /// Bytes per second while it is on.
        rate: u64,
        /// How long it is on.
        #[serde(serialize_with = "super::seconds", rename = "on_seconds")]
        on: Duration,
        /// How long it is off.
        #[serde(serialize_with = "super::seconds", rename = "off_seconds")]
        off: Duration,
    },
    /// Changes linearly from one rate at the start to another at the end.
    Ramp {
        /// Bytes per second at the start.
        from: u64,
        /// Bytes per second at the end.
        to: u64,
    },
}

/// Calls at a pace that does not depend on the storage, as those of a service or an instrument; the load of
/// [Two-level].
///
/// Transfers at a pace to or from a shared file. The processes take turns; a process whose call takes longer than until
/// its next turn continues at once, so no part of the demand is left out.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Paced {
    /// Number of processes.
    pub processes: u32,
    /// Bytes of a call.
    pub transfer_bytes: u32,
    /// The rate over time.
    pub pace: Pace,
    /// How long new calls are started.
    #[serde(serialize_with = "super::seconds", rename = "time_seconds")]
    pub time: Duration,
    /// Whether to read instead of write.
    pub read: bool,
}

impl Pace {
    /// The rate at `seconds` after the start of a run of length `time`.
    pub fn at(self, seconds: f64, time: Duration) -> f64 {
        match self {
            Self::OnOff { rate, on, off } => {
                let on = on.as_secs_f64();
                if seconds % (on + off.as_secs_f64()) < on { rate as f64 } else { 0.0 }
            }
            Self::Ramp { from, .. } => from as f64 + self.growth(time) * seconds,
        }
    }

    /// When the demand has reached `bytes`, in seconds; not a number if that never happens.
    fn when(self, bytes: f64, time: Duration) -> f64 {
        match self {
            Self::OnOff { rate, on, off } => {
                let period = rate as f64 * on.as_secs_f64();
                let periods = (bytes / period).floor();
                periods * (on + off).as_secs_f64() + (bytes - periods * period) / rate as f64
            }
            Self::Ramp { from, .. } => {
                let (first, growth) = (from as f64, self.growth(time));
                if growth == 0.0 {
                    return bytes / first;
                }
                ((first * first + 2.0 * growth * bytes).sqrt() - first) / growth
            }
        }
    }

    /// Change of the rate, in bytes per second each second.
    fn growth(self, time: Duration) -> f64 {
        match self {
            Self::OnOff { .. } => 0.0,
            Self::Ramp { from, to } => (to as f64 - from as f64) / time.as_secs_f64(),
        }
    }
}

impl Paced {
    fn turns(&self, process: u32) -> Steps {
        let Self { processes, transfer_bytes: bytes, pace, time, read } = *self;
        let turn = move |round: u64| {
            let offset = (round * u64::from(processes) + u64::from(process)) * u64::from(bytes);
            let at = Duration::try_from_secs_f64(pace.when(offset as f64, time)).ok().filter(|at| *at < time)?;
            let extent = Extent { file: shared_file::FILE, offset, bytes };
            let call = if read { Call::Read(extent) } else { Call::Write(extent) };
            Some([Step::Until(at), Step::Call(call)])
        };
        Box::new((0..).map_while(turn).flatten())
    }
}

impl Plan for Paced {
    fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        refuse_if(self.transfer_bytes == 0, "transfer", "must be at least 1B")?;
        refuse_if(self.time.is_zero(), "time", "must not be zero")?;
        match self.pace {
            Pace::OnOff { rate: 0, .. } | Pace::Ramp { from: 0, .. } => {
                Err(PlanError::new("rate", "must be at least 1B/s"))
            }
            Pace::OnOff { on, .. } if on.is_zero() => Err(PlanError::new("on", "must not be zero")),
            _ => Ok(()),
        }
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        shared_file::phases(!self.read, self.read, self.read)
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match phase {
            Phase::Write | Phase::Read => self.turns(process),
            _ => shared_file::metadata(phase, process, !self.read),
        }
    }
}

/// A run that was recorded: steps that are known beforehand, those of each process.
#[derive(Clone, Debug)]
pub struct Replay {
    processes: Vec<Arc<[Step]>>,
}

impl Replay {
    /// The steps of each process, all in [`Phase::Mixed`].
    pub fn new(processes: impl IntoIterator<Item = Vec<Step>>) -> Self {
        Self { processes: processes.into_iter().map(Arc::from).collect() }
    }
}

impl Plan for Replay {
    fn validate(&self) -> Result<(), PlanError> {
        let problem = match self.processes() {
            0 => "has no request that moves bytes; give that of a run that reads or writes".to_owned(),
            ranks if ranks > MAX_PROCESSES => format!("has {ranks} ranks; at most {MAX_PROCESSES} are possible"),
            _ => return Ok(()),
        };
        Err(PlanError::new("log", problem))
    }

    fn processes(&self) -> u32 {
        u32::try_from(self.processes.len()).unwrap_or(u32::MAX)
    }

    fn phases(&self) -> Vec<Phase> {
        vec![Phase::Mixed]
    }

    fn steps(&self, _: Phase, process: u32) -> Steps {
        let steps = Arc::clone(&self.processes[process as usize]);
        Box::new((0..steps.len()).map(move |index| steps[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THINK: Duration = Duration::from_millis(20);

    fn plan() -> Interactive {
        Interactive {
            processes: 3,
            transfer_bytes: 4096,
            file_bytes: (5 << 20) + 1000,
            think: THINK,
            time: Duration::from_secs(60),
            read: true,
            fills: true,
            seed: 1,
        }
    }

    fn turns(plan: &Interactive, process: u32) -> Vec<(Duration, Call)> {
        let steps: Vec<_> = plan.steps(Phase::Read, process).take(10_000).collect();
        let turn = |pair: &[Step]| match *pair {
            [Step::Think(think), Step::Call(call)] => (think, call),
            ref other => panic!("{other:?}"),
        };
        steps.chunks(2).map(turn).collect()
    }

    fn offsets(plan: &Interactive, process: u32) -> Vec<u64> {
        let extents = turns(plan, process).into_iter().flat_map(|(_, call)| call.extents());
        extents.map(|extent| extent.offset).collect()
    }

    #[test]
    fn calls_are_aligned_and_anywhere_inside_the_file() {
        let plan = plan();
        plan.validate().unwrap();
        for process in 0..plan.processes {
            for (_, call) in turns(&plan, process) {
                let Call::Read(extent) = call else { panic!("{call:?}") };
                assert_eq!((extent.file.number, extent.bytes), (process, plan.transfer_bytes));
                assert!(extent.offset.is_multiple_of(4096) && extent.offset + 4096 <= plan.file_bytes, "{extent:?}");
            }
            let offsets = offsets(&plan, process);
            let mean = offsets.iter().sum::<u64>() as f64 / offsets.len() as f64;
            assert!((mean / (plan.file_bytes as f64 / 2.0) - 1.0).abs() < 0.05, "{mean}");
        }
        let one = Interactive { transfer_bytes: 4096, file_bytes: 8191, ..plan };
        one.validate().unwrap();
        assert!(offsets(&one, 0).iter().all(|&offset| offset == 0), "there is one place");
    }

    #[test]
    fn times_to_think_are_around_the_mean() {
        let thinks: Vec<_> = turns(&plan(), 0).into_iter().map(|(think, _)| think).collect();
        assert!(thinks.iter().all(|think| (THINK / 2..=THINK * 3 / 2).contains(think)));
        let mean = thinks.iter().sum::<Duration>().as_secs_f64() / thinks.len() as f64;
        assert!((mean / THINK.as_secs_f64() - 1.0).abs() < 0.02, "{mean}");
        assert!(thinks.iter().min() < Some(&(THINK * 6 / 10)) && thinks.iter().max() > Some(&(THINK * 14 / 10)));
        let hurry = Interactive { think: Duration::ZERO, ..plan() };
        hurry.validate().unwrap();
        assert!(turns(&hurry, 0).iter().all(|(think, _)| think.is_zero()));
    }

    #[test]
    fn equal_seeds_give_equal_steps() {
        let plan = plan();
        assert_eq!(turns(&plan, 1), turns(&plan, 1));
        assert_ne!(offsets(&plan, 1), offsets(&plan, 2));
        assert_ne!(offsets(&plan, 1), offsets(&Interactive { seed: 2, ..plan.clone() }, 1));
        let write = Interactive { read: false, ..plan.clone() };
        assert_eq!(offsets(&plan, 1), offsets(&write, 1), "writes go where reads would");
        assert!(turns(&write, 1).iter().all(|(_, call)| matches!(call, Call::Write(_))));
    }

    #[test]
    fn files_are_filled_before_they_are_used() {
        for file_bytes in [4096, 1 << 20, (1 << 20) + 1, (5 << 20) + 1000] {
            let plan = Interactive { file_bytes, ..plan() };
            let mut end = 0;
            for step in plan.steps(Phase::Setup, 2) {
                let Step::Call(Call::Write(extent)) = step else { panic!("{step:?}") };
                assert_eq!((extent.file.number, extent.offset), (2, end));
                assert!(extent.bytes > 0);
                end += u64::from(extent.bytes);
            }
            assert_eq!(end, file_bytes);
        }
        assert_eq!(plan().phases(), [Phase::Create, Phase::Setup, Phase::Read, Phase::Remove]);
        let write = Interactive { read: false, ..plan() };
        assert_eq!(write.phases(), [Phase::Create, Phase::Setup, Phase::Write, Phase::Remove]);
        assert_eq!(Interactive { fills: false, ..write }.phases(), [Phase::Write]);
        let file = FileId { dir: Dir::Base, number: 2 };
        assert!(plan().steps(Phase::Create, 2).eq([Step::Call(Call::Create(file))]));
        assert!(plan().steps(Phase::Remove, 2).eq([Step::Call(Call::Remove(file))]));
    }

    #[test]
    fn only_the_calls_between_thoughts_end_with_the_time() {
        let limited = |phase| plan().limit(phase).map(|limit| (limit.time, limit.at_least_steps));
        assert_eq!(limited(Phase::Read), Some((Duration::from_secs(60), 0)));
        assert_eq!(plan().amount(Phase::Read), None, "the time is known, not the amount");
        for phase in [Phase::Create, Phase::Setup, Phase::Remove] {
            assert_eq!(limited(phase), None, "{phase}");
        }
    }

    const TIME: Duration = Duration::from_secs(120);

    fn at_pace(pace: Pace) -> Paced {
        Paced { processes: 32, transfer_bytes: 256 << 10, pace, time: TIME, read: false }
    }

    /// The rate of all processes' calls in these seconds.
    fn paced(pace: Pace, from: f64, to: f64) -> f64 {
        let plan = at_pace(pace);
        plan.validate().unwrap();
        let within = |step: &Step| matches!(step, Step::Until(at) if (from..to).contains(&at.as_secs_f64()));
        let calls = |process| plan.steps(Phase::Write, process).filter(within).count();
        (0..plan.processes).map(calls).sum::<usize>() as f64 * f64::from(plan.transfer_bytes) / (to - from)
    }

    #[test]
    fn calls_follow_the_pace_and_end() {
        let seconds = Duration::from_secs;
        let on_off = Pace::OnOff { rate: 30_000_000, on: seconds(20), off: seconds(10) };
        assert!((paced(on_off, 5.0, 15.0) / 30e6 - 1.0).abs() < 0.02);
        assert_eq!(paced(on_off, 21.0, 29.0), 0.0);
        assert!((paced(on_off, 31.0, 49.0) / 30e6 - 1.0).abs() < 0.02);
        for (from, to) in [(5_000_000, 35_000_000), (35_000_000, 5_000_000), (9_000_000, 9_000_000)] {
            let ramp = Pace::Ramp { from, to };
            for second in [10.0, 60.0, 110.0] {
                let mean = ramp.at(second, TIME);
                assert!((paced(ramp, second - 5.0, second + 5.0) / mean - 1.0).abs() < 0.04, "{ramp:?} at {second}");
            }
            assert_eq!(paced(ramp, 120.0, 1e9), 0.0);
        }
    }
}

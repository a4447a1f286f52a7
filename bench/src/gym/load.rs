//! What applications of random cases do.

use std::sync::Arc;
use std::time::Duration;

use vpfs_core::hash::mix;
use vpfs_sim::model::plan::{Call, Dir, Extent, FileId, Phase, Plan, Step, Steps};

/// Calls without end, each after think time that is drawn evenly from half to one and a half of its mean.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) processes: u32,
    pub(super) what: What,
    pub(super) think: Duration,
    /// Calls for so long, then nothing for as long as the second says; `None`: always.
    pub(super) bursts: Option<(Duration, Duration)>,
    pub(super) seed: u64,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Anywhere in a file of the process.
    Random { bytes: u32, read: bool },
    /// The next bytes of a file of the process.
    Sequential { bytes: u32, read: bool },
    /// Attributes of a file.
    Metadata,
}

/// Places in a file; larger than any cache.
const PLACES: u64 = 1 << 20;

impl Load {
    /// The only phase that it has.
    pub(super) const PHASE: Phase = Phase::Mixed;

    /// In words.
    pub(super) fn text(&self) -> String {
        let kib = |bytes: u32, read: bool| format!("{} of {} KiB", if read { "reads" } else { "writes" }, bytes >> 10);
        let what = match self.what {
            What::Random { bytes, read } => format!("random {}", kib(bytes, read)),
            What::Sequential { bytes, read } => kib(bytes, read),
            What::Metadata => "metadata".to_owned(),
        };
        let think = match self.think.as_secs_f64() * 1e3 {
            0.0 => String::new(),
            think => format!(" with {think:.1} ms to think"),
        };
        let bursts = self.bursts.map_or(String::new(), |(on, off)| {
            format!(" in bursts of {:.1} s each {:.1} s", on.as_secs_f64(), (on + off).as_secs_f64())
        });
        format!("{} x {what}{think}{bursts}", self.processes)
    }
}

impl What {
    fn call(self, process: u32, number: u64, random: u64) -> Call {
        let file = FileId { dir: Dir::Base, number: process };
        let extent = |bytes: u32, place: u64| Extent { file, offset: place * u64::from(bytes), bytes };
        match self {
            Self::Random { bytes, read: true } => Call::Read(extent(bytes, random % PLACES)),
            Self::Random { bytes, read: false } => Call::Write(extent(bytes, random % PLACES)),
            Self::Sequential { bytes, read: true } => Call::Read(extent(bytes, number)),
            Self::Sequential { bytes, read: false } => Call::Write(extent(bytes, number)),
            // Files of many directories, so that all servers have some.
            Self::Metadata => {
                let random = u32::try_from(random % (1 << 20)).unwrap_or(0);
                Call::Stat(FileId { dir: Dir::Sub(random % 64), number: random / 64 })
            }
        }
    }
}

impl Plan for Load {
    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        vec![Self::PHASE]
    }

    fn steps(&self, _phase: Phase, process: u32) -> Steps {
        let Self { what, think, bursts, .. } = *self;
        let mut random = mix(self.seed ^ mix(process.into()));
        let mut draw = move || {
            random = mix(random);
            random >> 8
        };
        let step = move |number: u64| {
            let thought =
                (!think.is_zero()).then(|| Step::Think(think / 2 + think.mul_f64((draw() % 1024) as f64 / 1024.0)));
            [thought, Some(Step::Call(what.call(process, number, draw())))]
        };
        let steps = (0..).flat_map(step).flatten();
        match bursts {
            None => Box::new(steps),
            Some((on, off)) => Box::new(Bursts { steps, on, off, calls: 0, burst: 0, each: calls_of(on, think) }),
        }
    }
}

/// Calls of a burst, by the time that each takes at least.
fn calls_of(on: Duration, think: Duration) -> u64 {
    let each = think.max(Duration::from_millis(20));
    u64::try_from(on.as_nanos() / each.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Steps with a pause after so many calls: the next burst begins at its time, or at once if that has passed.
struct Bursts<S> {
    steps: S,
    on: Duration,
    off: Duration,
    calls: u64,
    burst: u32,
    each: u64,
}

impl<S: Iterator<Item = Step>> Iterator for Bursts<S> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.calls == self.each {
            self.calls = 0;
            self.burst += 1;
            return Some(Step::Until((self.on + self.off) * self.burst));
        }
        let step = self.steps.next()?;
        self.calls += u64::from(matches!(step, Step::Call(_)));
        Some(step)
    }
}

/// As a workload of the simulator, with `processes` processes.
pub(super) fn workload(load: &Load, processes: u32) -> vpfs_sim::Workload {
    vpfs_sim::Workload::Plan(Arc::new(Load { processes, ..load.clone() }))
}

//! Calls at a pace that does not depend on the storage, as those of a service or an instrument; the load of
//! [Two-level].

use std::time::Duration;

use super::{Call, Extent, Phase, Plan, PlanError, Step, Steps, check_processes, refuse_if, shared_file};

/// The demand of all processes together over time, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Alternates between this rate and nothing.
    OnOff {
        /// Bytes per second while it is on.
        rate: u64,
        /// How long it is on.
        #[serde(serialize_with = "crate::model::plan::seconds::seconds", rename = "on_seconds")]
        on: Duration,
        /// How long it is off.
        #[serde(serialize_with = "crate::model::plan::seconds::seconds", rename = "off_seconds")]
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
    #[serde(serialize_with = "crate::model::plan::seconds::seconds", rename = "time_seconds")]
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
    /// The turns of a process until the time is over.
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

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(120);

    fn plan(pace: Pace) -> Paced {
        Paced { processes: 32, transfer_bytes: 256 << 10, pace, time: TIME, read: false }
    }

    /// The rate of all processes' calls in these seconds.
    fn paced(pace: Pace, from: f64, to: f64) -> f64 {
        let plan = plan(pace);
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

    #[test]
    fn an_invalid_pace_is_refused() {
        let option = |plan: Paced| plan.validate().unwrap_err().option;
        let steady = Pace::Ramp { from: 1, to: 1 };
        assert_eq!(option(plan(Pace::Ramp { from: 0, to: 5 })), "rate");
        assert_eq!(option(plan(Pace::OnOff { rate: 1, on: Duration::ZERO, off: TIME })), "on");
        assert_eq!(option(Paced { time: Duration::ZERO, ..plan(steady) }), "time");
        assert_eq!(option(Paced { transfer_bytes: 0, ..plan(steady) }), "transfer");
    }
}

//! IOR at a pace: the load of [Two-level], whose slides show rates over time but no numbers for them.

use std::time::Duration;

use vpfs_plan::{Call, Dir, Extent, FileId, Phase, Plan, Step, Steps};

/// Bytes of a call: IOR's default transfer, and a flow buffer of PVFS2.
pub(super) const CALL_BYTES: u32 = 256 << 10;
/// The slides' 64 processes, in halves.
pub(super) const PROCESSES: u32 = 32;

/// Rates over time, in bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rate {
    /// In turn this rate and none, each for so many seconds.
    OnOff { rate: f64, seconds: f64 },
    /// From `first` on, more by `growth` with each second.
    Growing { first: f64, growth: f64 },
}

impl Rate {
    /// At a time in seconds.
    pub(super) fn at(self, seconds: f64) -> f64 {
        match self {
            Self::OnOff { rate, seconds: half } if seconds % (2.0 * half) < half => rate,
            Self::OnOff { .. } => 0.0,
            Self::Growing { first, growth } => first + growth * seconds,
        }
    }

    /// When so many bytes have been asked for.
    fn when(self, bytes: f64) -> f64 {
        match self {
            Self::OnOff { rate, seconds } => {
                let phases = (bytes / (rate * seconds)).floor();
                (2.0 * phases + bytes / (rate * seconds) - phases) * seconds
            }
            Self::Growing { first, growth } => ((first * first + 2.0 * growth * bytes).sqrt() - first) / growth,
        }
    }
}

/// Writes to a shared file at a pace. The processes take turns; one that had to wait longer than until its next turn goes
/// on at once.
#[derive(Clone, Debug)]
pub(super) struct Paced {
    pub(super) rate: Rate,
}

impl Plan for Paced {
    fn processes(&self) -> u32 {
        PROCESSES
    }

    fn phases(&self) -> Vec<Phase> {
        vec![Phase::Write]
    }

    /// Endless.
    fn steps(&self, _: Phase, process: u32) -> Steps {
        let rate = self.rate;
        let turn = move |round: u64| {
            let offset = (round * u64::from(PROCESSES) + u64::from(process)) * u64::from(CALL_BYTES);
            let call = Call::Write(Extent { file: FileId { dir: Dir::Base, number: 0 }, offset, bytes: CALL_BYTES });
            [Step::Until(Duration::from_secs_f64(rate.when(offset as f64))), Step::Call(call)]
        };
        Box::new((0..).flat_map(turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate that the calls of all processes have in these seconds.
    fn paced(rate: Rate, from: f64, to: f64) -> f64 {
        let within = |step: &Step| matches!(step, Step::Until(at) if (from..to).contains(&at.as_secs_f64()));
        let before_end = |step: &Step| !matches!(step, Step::Until(at) if at.as_secs_f64() > to);
        let plan = Paced { rate };
        let calls = |process| plan.steps(Phase::Write, process).take_while(before_end).filter(within).count();
        (0..PROCESSES).map(calls).sum::<usize>() as f64 * f64::from(CALL_BYTES) / (to - from)
    }

    #[test]
    fn calls_follow_the_rate() {
        let on_off = Rate::OnOff { rate: 30e6, seconds: 20.0 };
        assert!((paced(on_off, 5.0, 15.0) / 30e6 - 1.0).abs() < 0.02);
        assert_eq!(paced(on_off, 21.0, 39.0), 0.0);
        assert!((paced(on_off, 41.0, 59.0) / 30e6 - 1.0).abs() < 0.02);
        let growing = Rate::Growing { first: 5e6, growth: 0.25e6 };
        for second in [10.0, 60.0] {
            let mean = growing.at(second);
            assert!((paced(growing, second - 5.0, second + 5.0) / mean - 1.0).abs() < 0.03, "{second}");
        }
    }
}

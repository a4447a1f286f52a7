//! What is asked of a layout.

use crate::regions::CHUNK;
use crate::replay::Spread;
use crate::search::STEP;

/// How requests are priced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// With the requests that are outstanding at once in the trace. What is found by sums is replayed request by
    /// request, and advised only if that is faster as well, also than equal stripes of any size.
    #[default]
    Concurrent,
    /// Each request alone, as in the paper.
    Paper,
}

impl Model {
    /// The gain in percent below which a layout is not worth a change. Nine predictions of ten for random servers and
    /// workloads are less than a fifth off, half of them less than 3 % (`crates/vpfs-report/tests/it/advice.rs`). The
    /// paper's cost leaves out what most of a gain comes from with many processes, so it shows smaller ones.
    pub fn gain_percent(self) -> u32 {
        match self {
            Self::Concurrent => 10,
            Self::Paper => 5,
        }
    }
}

/// What to optimise, and how long to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// How requests are priced.
    pub model: Model,
    /// The number of requests outstanding at once, in thousandths, instead of that of the traces.
    pub outstanding_milli: Option<u64>,
    /// The stripe of every server now, in bytes, not zero.
    pub now: u64,
    /// Distance of the stripes tried, in bytes, not zero; all stripes are multiples of it.
    pub step: u64,
    /// The chunk of the fixed-size division, in bytes.
    pub chunk: u64,
    /// Prices to compute for all regions together, of 0.1 µs each.
    pub budget: u64,
    /// The gain over the layout now, in percent, below which a region keeps it, and the whole file as well.
    pub gain_percent: u32,
}

impl Question {
    /// What is asked if nothing else is said: OrangeFS's stripes now, the paper's step.
    pub fn new(model: Model, budget: u64) -> Self {
        Self {
            model,
            outstanding_milli: None,
            now: 64 << 10,
            step: STEP,
            chunk: CHUNK,
            budget,
            gain_percent: model.gain_percent(),
        }
    }

    /// Too little, or not for certain.
    pub(crate) fn gains_too_little(&self, now: Spread, then: Spread) -> bool {
        then.slowest > now.fastest || then.mean > now.mean.saturating_mul(100) / u128::from(100 + self.gain_percent)
    }
}

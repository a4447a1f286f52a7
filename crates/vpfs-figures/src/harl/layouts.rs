//! The layouts that [HARL §IV] compares: equal stripes, random ones, and those of HARL.

use vpfs_core::hash::mix;
use vpfs_harl::{CHUNK, Model, Question, STEP, advise};
use vpfs_sim::{SimError, parallel};

use super::cluster::Case;

const DEFAULT: u64 = 64 << 10;
const FIXED: [u64; 8] = [16 << 10, 32 << 10, DEFAULT, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
/// Random pairs; the paper does not say how many, nor from which range.
const RANDOM: u64 = 4;
/// Enough for every pair of stripes.
const BUDGET: u64 = 50_000_000;

/// A layout's stripes on disks and flash, and the throughput with it in MB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) stripes: [u64; 2],
    pub(super) rate: f64,
}

/// What one model advises.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advised {
    pub(super) layout: Layout,
    /// Predicted gain over the default, as a factor.
    pub(super) predicted: f64,
}

/// All layouts in one experiment.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    pub(super) fixed: Vec<Layout>,
    pub(super) random: Vec<Layout>,
    /// By the paper's cost.
    pub(super) paper: Advised,
    /// By the cost that knows of concurrency.
    pub(super) concurrent: Advised,
}

impl Layout {
    /// As in the paper: `36K-148K`.
    pub(super) fn name(&self) -> String {
        let [disk, flash] = self.stripes.map(|stripe| stripe >> 10);
        if disk == flash { format!("{disk}K") } else { format!("{disk}K-{flash}K") }
    }
}

impl Comparison {
    pub(super) fn of(case: Case) -> Result<Self, SimError> {
        let (cluster, trace) = (case.cluster()?, case.trace()?);
        let runs = [(trace, 1)];
        let ask = |model, gain_percent| {
            let question = Question {
                model,
                outstanding_milli: None,
                now: DEFAULT,
                step: STEP,
                chunk: CHUNK,
                budget: BUDGET,
                gain_percent,
            };
            let advice = advise(&cluster, &runs, &question).map_err(|error| SimError::Scenario(error.to_string()))?;
            let (now, then) = advice.times();
            let row = advice.table.rows().first().map(|row| [row.stripes[0], row.stripes[1]]);
            Ok::<_, SimError>((row.unwrap_or([DEFAULT; 2]), now as f64 / then as f64))
        };
        let (paper, concurrent) = (ask(Model::Paper, 0)?, ask(Model::Concurrent, 5)?);
        let random = (0..RANDOM).map(|number| [random_stripe(2 * number), random_stripe(2 * number + 1)]);
        let all: Vec<[u64; 2]> =
            FIXED.map(|stripe| [stripe; 2]).into_iter().chain(random).chain([paper.0, concurrent.0]).collect();
        let measure = |&stripes: &[u64; 2]| Ok(Layout { stripes, rate: case.run(stripes)?.throughput() / 1e6 });
        let mut fixed: Vec<Layout> = parallel::map(&all, measure).into_iter().collect::<Result<_, SimError>>()?;
        let mut random = fixed.split_off(FIXED.len());
        let advised = random.split_off(random.len() - 2);
        Ok(Self {
            fixed,
            random,
            paper: Advised { layout: advised[0], predicted: paper.1 },
            concurrent: Advised { layout: advised[1], predicted: concurrent.1 },
        })
    }

    pub(super) fn default_rate(&self) -> f64 {
        self.fixed.iter().find(|layout| layout.stripes == [DEFAULT; 2]).map_or(f64::NAN, |layout| layout.rate)
    }

    /// By how many % the paper's choice is faster than `rate`.
    pub(super) fn gain_over(&self, rate: f64) -> f64 {
        (self.paper.layout.rate / rate - 1.0) * 100.0
    }

    /// All layouts, in the order of the paper's bars.
    pub(super) fn all(&self) -> impl Iterator<Item = Layout> {
        let advised = [self.paper.layout, self.concurrent.layout];
        self.fixed.iter().chain(&self.random).copied().chain(advised)
    }
}

/// The lowest rate of some layouts.
pub(super) fn slowest(layouts: &[Layout]) -> f64 {
    layouts.iter().map(|layout| layout.rate).fold(f64::INFINITY, f64::min)
}

/// A multiple of 4 KiB up to 512 KiB.
fn random_stripe(lot: u64) -> u64 {
    (mix(lot) % 128 + 1) * STEP
}

//! The layouts that [HARL §IV] compares: equal stripes, random ones, and those of HARL.

use vpfs_core::hash::mix;
use vpfs_harl::{BUDGET, Demand, Model, Question, Run, STEP, advise, compare};
use vpfs_report::Measured;
use vpfs_sim::{SimError, parallel};

use super::cluster::{Job, Stripes};
use crate::scenario::SEEDS;

const DEFAULT: u64 = 64 << 10;
const FIXED: [u64; 8] = [16 << 10, 32 << 10, DEFAULT, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
/// Random pairs; the paper does not say how many, nor from which range.
const RANDOM: usize = 100;
/// For Algorithm 2, which prices a sample of the requests with all pairs and the best of these with all
/// requests.
const LETTER_BUDGET: u64 = 1_000_000;

/// A layout, and the throughput with it in MB/s, for each seed; only for the first one if no row needs more.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// By region: its start, and its stripes.
    pub(super) regions: Vec<(u64, Stripes)>,
    pub(super) rates: Vec<f64>,
}

/// What one model advises.
#[derive(Clone, Debug)]
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
    /// By the cost that knows of concurrency, as `vpfs layout advise` has it.
    pub(super) concurrent: Advised,
}

impl Layout {
    pub(super) fn rate(&self) -> Measured {
        Measured::of(self.rates.iter().copied())
    }

    fn is_default(&self) -> bool {
        self.regions == [(0, [DEFAULT; 2])]
    }

    /// As in the paper: `36K-148K`.
    pub(super) fn name(&self) -> String {
        let name = |&(_, [disk, flash]): &(u64, Stripes)| match [disk >> 10, flash >> 10] {
            [disk, flash] if disk == flash => format!("{disk}K"),
            [disk, flash] => format!("{disk}K-{flash}K"),
        };
        self.regions.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

impl Comparison {
    /// Random stripes are tried only if the paper says something of them.
    pub(super) fn of(job: &Job, with_random: bool) -> Result<Self, SimError> {
        let advised = [as_in_the_paper(job)?, advised(job)?];
        let whole = |stripes| vec![(0, stripes)];
        let fixed = FIXED.map(|stripe| whole([stripe; 2]));
        let lots = (0..).step_by(2).take(if with_random { RANDOM } else { 0 });
        let random = lots.map(|lot| whole([random_stripe(lot), random_stripe(lot + 1)]));
        let mut fixed = measured(job, fixed.into(), &SEEDS[..1])?;
        let slowest = fixed.iter().map(|layout| layout.rates[0]).fold(f64::INFINITY, f64::min);
        let is_needed = |layout: &&mut Layout| layout.is_default() || layout.rates[0] <= slowest;
        for layout in fixed.iter_mut().filter(is_needed) {
            let more = measured(job, vec![layout.regions.clone()], &SEEDS[1..])?;
            layout.rates.extend(more.into_iter().flat_map(|layout| layout.rates));
        }
        let random = measured(job, random.collect(), &SEEDS[..1])?;
        // No row of the paper has ours.
        let seeds = [&SEEDS[..], &SEEDS[..1]];
        let advised = advised.into_iter().zip(seeds).map(|((regions, predicted), seeds)| {
            let layout = measured(job, vec![regions], seeds)?.swap_remove(0);
            Ok(Advised { layout, predicted })
        });
        let mut advised = advised.collect::<Result<Vec<_>, SimError>>()?.into_iter();
        let mut next = || advised.next().expect("one for each model");
        Ok(Self { fixed, random, paper: next(), concurrent: next() })
    }

    pub(super) fn default_layout(&self) -> &Layout {
        self.fixed.iter().find(|layout| layout.is_default()).expect("it is one of them")
    }

    /// By how many % the paper's choice is faster than `layout`, seed by seed.
    pub(super) fn gains_over(&self, layout: &Layout) -> Vec<f64> {
        self.paper.layout.rates.iter().zip(&layout.rates).map(|(paper, other)| (paper / other - 1.0) * 100.0).collect()
    }

    /// All layouts in the order of the paper's bars, a few of the random ones.
    pub(super) fn all(&self) -> impl Iterator<Item = &Layout> {
        let advised = [&self.paper.layout, &self.concurrent.layout];
        self.fixed.iter().chain(self.random.iter().take(4)).chain(advised)
    }
}

/// Runs a job with these layouts and seeds.
fn measured(job: &Job, layouts: Vec<Vec<(u64, Stripes)>>, seeds: &[u64]) -> Result<Vec<Layout>, SimError> {
    let runs: Vec<_> = layouts.iter().flat_map(|regions| seeds.iter().map(move |&seed| (regions, seed))).collect();
    let rates = parallel::map(&runs, |&(regions, seed)| Ok(job.run(regions, seed)?.throughput() / 1e6));
    let rates: Vec<f64> = rates.into_iter().collect::<Result<_, SimError>>()?;
    let rates: Vec<_> = rates.chunks(seeds.len()).map(<[f64]>::to_vec).collect();
    Ok(layouts.into_iter().zip(rates).map(|(regions, rates)| Layout { regions, rates }).collect())
}

/// Stripes by region, and the gain over the default that is predicted for them.
type Predicted = (Vec<(u64, Stripes)>, f64);

/// By Algorithm 2 to the letter: flash has the larger stripe, none of the two is larger than the mean request, and the
/// cost is that of each request alone.
fn as_in_the_paper(job: &Job) -> Result<Predicted, SimError> {
    let (cluster, trace) = (job.cluster()?, job.trace()?);
    let (mut regions, mut now, mut then) = (Vec::new(), 0, 0);
    for region in vpfs_harl::divide(&trace, vpfs_harl::CHUNK) {
        let requests = &trace.requests()[region.requests.clone()];
        let demand = Demand::new(vec![Run::new(requests, region.bytes.start, 1, 1000)]);
        let steps = region.mean_size / STEP;
        let pairs = (0..=steps).flat_map(|disk| (disk + 1..=steps).map(move |flash| vec![disk * STEP, flash * STEP]));
        let fastest = |list: &[Vec<u64>]| compare(&cluster, &demand, list, LETTER_BUDGET).into_iter().next();
        let none = || SimError::Scenario("harl.toml: no request is as large as a step of the search".into());
        let best = fastest(&pairs.collect::<Vec<_>>()).ok_or_else(none)?;
        now += fastest(&[vec![DEFAULT; 2]]).ok_or_else(none)?.time;
        then += best.time;
        regions.push((region.bytes.start, [best.stripes[0], best.stripes[1]]));
    }
    regions.dedup_by_key(|(_, stripes)| *stripes);
    Ok((regions, now as f64 / then as f64))
}

/// By `vpfs layout advise`.
fn advised(job: &Job) -> Result<Predicted, SimError> {
    let question = Question { now: DEFAULT, ..Question::new(Model::Concurrent, BUDGET) };
    let advice = advise(&job.cluster()?, &[(job.trace()?, 1)], &question);
    let advice = advice.map_err(|error| SimError::Scenario(error.to_string()))?;
    let (now, then) = advice.times();
    let regions = advice.table.rows().iter().map(|row| (row.bytes.start, [row.stripes[0], row.stripes[1]]));
    Ok((regions.collect(), now as f64 / then as f64))
}

/// A multiple of 4 KiB up to 512 KiB.
fn random_stripe(lot: u64) -> u64 {
    (mix(lot) % 128 + 1) * STEP
}

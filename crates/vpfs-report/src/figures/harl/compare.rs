//! The layouts that [HARL §IV] compares, on servers with and without a cache: equal stripes, random ones, those of
//! Algorithm 2 to the letter, and those of `vpfs layout advise`.

use vpfs_core::hash::mix;
use vpfs_harl::{BUDGET, Demand, Model, Question, Run, STEP, advise, compare};
use vpfs_sim::{SimError, parallel};

use crate::{Axis, Bar, Bars, Measured, Section, Table, number};

use super::cluster::{Job, Storage, Stripes, TEXT};
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};

const DEFAULT: u64 = 64 << 10;
const FIXED: [u64; 8] = [16 << 10, 32 << 10, DEFAULT, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
/// Random pairs; the paper does not say how many, nor from which range.
const RANDOM: usize = 8;
/// For Algorithm 2, which prices a sample of the requests with all pairs and the best of these with all
/// requests.
const LETTER_BUDGET: u64 = 1_000_000;
/// The ways to choose stripes, as names of values have them.
const ADVISERS: [&str; 2] = ["letter", "vpfs"];

/// By region: its start, and its stripes.
type Regions = Vec<(u64, Stripes)>;

/// An experiment of a figure, on both kinds of storage.
pub(super) struct Panel {
    /// In names of values, such as `read`.
    pub(super) name: String,
    pub(super) job: Job,
}

/// A layout, and the throughput with it in MB/s, seed by seed.
struct Layout {
    regions: Regions,
    rates: Vec<f64>,
}

/// All layouts in one panel on one kind of storage: equal and random ones, then those of [`ADVISERS`].
struct Comparison {
    storage: Storage,
    tried: Vec<Layout>,
    advised: Vec<Layout>,
}

/// A figure: its panels measured and drawn.
pub(super) fn figure(intro: Section, panels: &[Panel]) -> Result<(Section, Values), SimError> {
    let comparisons = compared(panels, &SEEDS, advised)?;
    let section = comparisons.iter().fold(intro, |section, (name, comparison)| {
        let title = format!("{name}, {} servers", comparison.storage.name());
        section.figure(chart(&title, comparison), "").table(table(&title, comparison))
    });
    Ok((scenario::assumptions(section, TEXT), values(&comparisons)?))
}

/// The figure's values with one seed where all advice is the same layout: `equal`, 64 KiB everywhere, or `slowest`, the
/// slowest of those tried.
#[cfg(test)]
pub(super) fn changed(panels: &[Panel], change: &str) -> Result<Values, SimError> {
    let mut comparisons = compared(panels, &SEEDS[..1], |_| Ok(vec![whole([DEFAULT; 2]); 2]))?;
    if change == "slowest" {
        for (_, Comparison { tried, advised, .. }) in &mut comparisons {
            let slowest = tried.iter().map(|layout| layout.rates[0]).fold(f64::INFINITY, f64::min);
            advised.iter_mut().for_each(|layout| layout.rates = vec![slowest]);
        }
    }
    values(&comparisons)
}

fn compared(
    panels: &[Panel],
    seeds: &[u64],
    advice: fn(&Job) -> Result<Vec<Regions>, SimError>,
) -> Result<Vec<(String, Comparison)>, SimError> {
    let places: Vec<_> = panels.iter().flat_map(|panel| Storage::ALL.map(|storage| (panel, storage))).collect();
    let compared = places.into_iter().map(|(panel, storage)| -> Result<_, SimError> {
        let job = Job { storage, ..panel.job.clone() };
        let fixed = FIXED.into_iter().map(|stripe| whole([stripe; 2]));
        let random = (0..RANDOM as u64).map(|lot| whole([random_stripe(2 * lot), random_stripe(2 * lot + 1)]));
        let mut tried = measured(&job, fixed.chain(random).chain(advice(&job)?).collect(), seeds)?;
        let advised = tried.split_off(FIXED.len() + RANDOM);
        Ok((panel.name.clone(), Comparison { storage, tried, advised }))
    });
    compared.collect()
}

fn whole(stripes: Stripes) -> Regions {
    vec![(0, stripes)]
}

/// A multiple of 4 KiB up to 512 KiB.
fn random_stripe(lot: u64) -> u64 {
    (mix(lot) % 128 + 1) * STEP
}

/// Runs a job with these layouts and seeds.
fn measured(job: &Job, layouts: Vec<Regions>, seeds: &[u64]) -> Result<Vec<Layout>, SimError> {
    let runs: Vec<_> = layouts.iter().flat_map(|regions| seeds.iter().map(move |&seed| (regions, seed))).collect();
    let rates = parallel::map(&runs, |&(regions, seed)| Ok(job.run(regions, seed)?.throughput() / 1e6));
    let rates: Vec<f64> = rates.into_iter().collect::<Result<_, SimError>>()?;
    let rates: Vec<_> = rates.chunks(seeds.len()).map(<[f64]>::to_vec).collect();
    Ok(layouts.into_iter().zip(rates).map(|(regions, rates)| Layout { regions, rates }).collect())
}

/// What [`ADVISERS`] choose.
fn advised(job: &Job) -> Result<Vec<Regions>, SimError> {
    Ok(vec![to_the_letter(job)?, by_vpfs(job)?])
}

/// By Algorithm 2 to the letter: flash has the larger stripe, none of the two is larger than the mean request, and the
/// cost is that of each request alone, with the paper's parameters.
fn to_the_letter(job: &Job) -> Result<Regions, SimError> {
    let (cluster, trace) = (job.of_paper()?, job.trace()?);
    let mut regions = Vec::new();
    for region in vpfs_harl::divide(&trace, vpfs_harl::CHUNK) {
        let requests = &trace.requests()[region.requests.clone()];
        let demand = Demand::new(vec![Run::new(requests, region.bytes.start, 1, 1000)]);
        let steps = region.mean_size / STEP;
        let pairs = (0..=steps).flat_map(|disk| (disk + 1..=steps).map(move |flash| vec![disk * STEP, flash * STEP]));
        let best = compare(&cluster, &demand, &pairs.collect::<Vec<_>>(), LETTER_BUDGET).into_iter().next();
        let none = || SimError::Scenario("harl.toml: no request is as large as a step of the search".into());
        let stripes = best.ok_or_else(none)?.stripes;
        regions.push((region.bytes.start, [stripes[0], stripes[1]]));
    }
    regions.dedup_by_key(|(_, stripes)| *stripes);
    Ok(regions)
}

/// By `vpfs layout advise` for a new file, with the servers measured under load.
fn by_vpfs(job: &Job) -> Result<Regions, SimError> {
    let question = Question { now: DEFAULT, gain_percent: 0, ..Question::new(Model::Concurrent, BUDGET) };
    let advice = advise(&job.measured()?, &[(job.trace()?, 1)], &question);
    let advice = advice.map_err(|error| SimError::Scenario(error.to_string()))?;
    Ok(advice.table.rows().iter().map(|row| (row.bytes.start, [row.stripes[0], row.stripes[1]])).collect())
}

/// For each storage, panel and adviser, such as `bare.read.letter`: the gain over 64 KiB and over the slowest equal
/// stripes in %, the rate in % of the best of all tried, and the stripes of the first region in KiB. The least `gain`
/// and
/// `best` of all panels without their name, such as `bare.vpfs.best`.
fn values(comparisons: &[(String, Comparison)]) -> Result<Values, SimError> {
    let mut values = Values::default();
    for (panel, Comparison { storage, tried, advised }) in comparisons {
        let (fixed, storage) = (&tried[..FIXED.len()], storage.name());
        for (layout, who) in advised.iter().zip(ADVISERS) {
            let mut set = |what: &str, of: &dyn Fn(usize, f64) -> f64| {
                let name = format!("{storage}.{panel}.{who}.{what}");
                values.set(name, layout.rates.iter().enumerate().map(|(seed, rate)| of(seed, *rate)));
            };
            let default = fixed.iter().find(|layout| layout.regions == whole([DEFAULT; 2])).expect("one of them");
            let slowest = |seed: usize| fixed.iter().map(|layout| layout.rates[seed]).fold(f64::INFINITY, f64::min);
            let best = |seed: usize| tried.iter().map(|layout| layout.rates[seed]).fold(0.0, f64::max);
            set("gain", &|seed, rate| (rate / default.rates[seed] - 1.0) * 100.0);
            set("over slowest", &|seed, rate| (rate / slowest(seed) - 1.0) * 100.0);
            set("best", &|seed, rate| rate / best(seed) * 100.0);
            for (class, name) in ["disk", "flash"].into_iter().enumerate() {
                let stripe = layout.regions.first().map_or(f64::NAN, |(_, stripes)| (stripes[class] >> 10) as f64);
                values.set(format!("{storage}.{panel}.{who}.{name}"), [stripe]);
            }
        }
    }
    for storage in Storage::ALL.map(Storage::name) {
        for (who, what) in ADVISERS.into_iter().flat_map(|who| [(who, "gain"), (who, "best")]) {
            let own = comparisons.iter().filter(|(_, comparison)| comparison.storage.name() == storage);
            let least = values.least(own.map(|(panel, _)| format!("{storage}.{panel}.{who}.{what}")))?;
            values.set(format!("{storage}.{who}.{what}"), least);
        }
    }
    Ok(values)
}

/// As in the paper: `36K-148K`.
fn name(regions: &[(u64, Stripes)]) -> String {
    let name = |&(_, [disk, flash]): &(u64, Stripes)| match [disk >> 10, flash >> 10] {
        [disk, flash] if disk == flash => format!("{disk}K"),
        [disk, flash] => format!("{disk}K-{flash}K"),
    };
    regions.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// All equal stripes, a few of the random ones, and the advised ones.
fn chart(title: &str, Comparison { tried, advised, .. }: &Comparison) -> Bars {
    let shown: Vec<&Layout> = tried.iter().take(FIXED.len() + 4).chain(advised).collect();
    let rates = |layout: &&Layout| Bar::from(Measured::of(layout.rates.iter().copied()));
    Bars::new(title, Axis::linear("throughput", "MB/s"), shown.iter().map(|layout| name(&layout.regions)))
        .series("simulated", shown.iter().map(rates))
}

fn table(title: &str, Comparison { tried, advised, .. }: &Comparison) -> Table {
    let rate = |layout: &Layout| Measured::of(layout.rates.iter().copied()).median();
    let best = tried.iter().map(rate).fold(0.0, f64::max);
    let names = ["HARL to the letter", "as vpfs advises"];
    names.into_iter().zip(advised).fold(
        Table::new([title, "stripes", "MB/s", "of the best tried"]),
        |table, (who, layout)| {
            table.row([who.to_owned(), name(&layout.regions), number(rate(layout)), number(rate(layout) / best)])
        },
    )
}

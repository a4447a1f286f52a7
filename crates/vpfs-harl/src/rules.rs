//! The best layout that a file system with rules of its own can have.

use std::ops::Range;

use crate::advise::{Advice, AdviceError, Candidates, RegionAdvice, fit};
use crate::cluster::Cluster;
use crate::predictor::{File, Question, Spread};
use crate::search::{Choice, Demand, compare};
use crate::trace::Trace;

/// What layouts a file system can have. In none of them do stripes differ within a region: a region lies on the servers
/// of all classes or of one, in equal stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Stripes, and ends of regions, are multiples of this; not zero.
    pub unit: u64,
    /// Stripes are powers of two.
    pub is_power_of_two: bool,
    /// The largest stripe.
    pub stripe_max: u64,
    /// The most servers that a region may lie on.
    pub servers_max: u32,
    /// Whether a region may lie on the servers of one class only.
    pub has_pools: bool,
    /// Whether each region of a file may have a layout of its own; otherwise there is one for the whole file.
    pub has_regions: bool,
}

/// A part of a file with its stripes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Its bytes in the file; the last component also holds what is written beyond its end.
    pub bytes: Range<u64>,
    /// The stripe of all servers used.
    pub stripe: u64,
    /// The only class that is used, or all.
    pub class: Option<usize>,
}

/// A layout within the rules of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapted {
    /// The parts of the file, in order.
    pub components: Vec<Component>,
    /// Predicted time in picoseconds, of the same requests as [`Advice::times`].
    pub time: u128,
    /// Whether it is worth changing the layout now.
    pub is_worth_it: bool,
}

/// The layout within `rules` that minimises the predicted time, for the same regions as `advice`, which answers the
/// same question about the same runs. Ends of regions are moved to the nearest multiple of the stripe before them, and
/// a region that vanishes by this is left to the one before it.
///
/// # Errors
/// If no such layout fits the space of the classes, or each class has more servers than the rules permit.
pub fn adapt(
    cluster: &Cluster,
    runs: &[(Trace, u32)],
    advice: &Advice,
    question: &Question,
    rules: &Rules,
) -> Result<Adapted, AdviceError> {
    let adapting = Adapting { file: File { cluster, runs, question }, rules };
    let groups: Vec<&[RegionAdvice]> =
        if rules.has_regions { advice.regions.chunks(1).collect() } else { vec![&advice.regions] };
    let list = adapting.list(&advice.regions);
    if list.is_empty() {
        return Err(AdviceError::TooManyServers(rules.servers_max));
    }
    let mut candidates = Vec::with_capacity(groups.len());
    for regions in &groups {
        let demand = adapting.demand(regions.iter().map(|region| &region.bytes));
        let choices = compare(cluster, &demand, &list, question.budget / groups.len() as u64);
        candidates.push(Candidates { length: span(regions).end - span(regions).start, choices });
    }
    let chosen = fit(cluster, &candidates)?;
    let choices = candidates.iter().zip(chosen).map(|(candidates, index)| &candidates.choices[index]);
    let mut components = adapting.components(groups.iter().map(|regions| span(regions)).zip(choices));
    // Nothing follows the last one, so its end is free.
    if let Some(last) = components.last_mut() {
        last.bytes.end = last.bytes.end.max(span(&advice.regions).end);
    }
    let then = components.iter().map(|component| adapting.times(advice, component)).sum::<Spread>();
    let now = advice.regions.iter().map(|region| adapting.times_now(region)).sum();
    Ok(Adapted { components, time: then.mean, is_worth_it: !question.gains_too_little(now, then) })
}

/// Whole numbers up to `most`: all up to 512, and from there on 256 evenly spaced ones up to each next power of two, so
/// that the list does not grow with the size of requests and is never more than 0.4 % off.
fn counts(most: u64) -> impl Iterator<Item = u64> {
    let next = |count: &u64| Some(count + (1 << count.ilog2().saturating_sub(8)));
    std::iter::successors(Some(1), next).take_while(move |count| *count <= most)
}

fn span(regions: &[RegionAdvice]) -> Range<u64> {
    let start = regions.first().map_or(0, |first| first.bytes.start);
    start..regions.last().map_or(start, |last| last.bytes.end)
}

struct Adapting<'a> {
    file: File<'a>,
    rules: &'a Rules,
}

impl Adapting<'_> {
    /// Layouts of a region, with stripes up to the mean size of requests, as in the search.
    fn list(&self, regions: &[RegionAdvice]) -> Vec<Vec<u64>> {
        let rules = self.rules;
        let mean = regions.iter().map(|region| region.mean_size).max().unwrap_or(1);
        let most = mean.div_ceil(rules.unit).max(16);
        let stripes = counts(most.next_power_of_two()).map(|count| count * rules.unit);
        let allowed = |stripe: &u64| {
            *stripe <= rules.stripe_max && (!rules.is_power_of_two || (stripe / rules.unit).is_power_of_two())
        };
        let classes = self.file.cluster.classes();
        let few = |servers: u32| servers <= rules.servers_max;
        let mut list = Vec::new();
        for stripe in stripes.filter(allowed) {
            if few(self.file.cluster.servers()) {
                list.push(vec![stripe; classes.len()]);
            }
            // With one class, this is the same.
            for only in (0..classes.len()).filter(|_| rules.has_pools && classes.len() > 1) {
                if few(classes[only].servers) {
                    list.push((0..classes.len()).map(|class| if class == only { stripe } else { 0 }).collect());
                }
            }
        }
        list
    }

    /// What is asked of some parts of the file. Offsets count from its start, as stripes do in these file systems.
    fn demand<'b>(&self, parts: impl Iterator<Item = &'b Range<u64>>) -> Demand {
        Demand::new(parts.flat_map(|bytes| self.file.demand(bytes, 0)).collect())
    }

    /// Components with permitted ends, neighbours with equal stripes as one.
    fn components<'b>(&self, chosen: impl Iterator<Item = (Range<u64>, &'b Choice)>) -> Vec<Component> {
        let mut components: Vec<Component> = Vec::new();
        for (bytes, choice) in chosen {
            let mut used = choice.stripes.iter().enumerate().filter(|(_, stripe)| **stripe > 0);
            let Some((class, &stripe)) = used.next() else { continue };
            let class = if used.next().is_some() || choice.stripes.len() == 1 { None } else { Some(class) };
            let start = components.last().map_or(0, |last| last.bytes.end);
            if bytes.end <= start {
                continue;
            }
            if let Some(last) = components.last_mut().filter(|last| (last.stripe, last.class) == (stripe, class)) {
                last.bytes.end = self.end(last.bytes.start, bytes.end, stripe);
            } else {
                components.push(Component { bytes: start..self.end(start, bytes.end, stripe), stripe, class });
            }
        }
        components
    }

    /// The multiple of `stripe` that is nearest to `end`, and above `start`.
    fn end(&self, start: u64, end: u64, stripe: u64) -> u64 {
        let below = end - end % stripe;
        let above = below.saturating_add(if end == below { 0 } else { stripe });
        if end - below < above - end && below > start { below } else { above }
    }

    fn times(&self, advice: &Advice, component: &Component) -> Spread {
        let is_used = |class: usize| component.class.is_none_or(|only| only == class);
        let stripes: Vec<u64> = self.classes().map(|class| if is_used(class) { component.stripe } else { 0 }).collect();
        let clip = |region: &RegionAdvice| {
            region.bytes.start.max(component.bytes.start)..region.bytes.end.min(component.bytes.end)
        };
        let parts = advice.regions.iter().map(clip).filter(|part| !part.is_empty());
        parts.map(|part| self.file.predictor(&part, 0).times(&stripes)).sum()
    }

    fn times_now(&self, region: &RegionAdvice) -> Spread {
        let stripes: Vec<u64> = self.classes().map(|_| self.file.question.now).collect();
        self.file.predictor(&region.bytes, region.bytes.start).times(&stripes)
    }

    fn classes(&self) -> Range<usize> {
        0..self.file.cluster.classes().len()
    }
}

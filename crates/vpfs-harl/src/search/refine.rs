//! The search for regions with too many groups of requests, or too many stripes, to compare all.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::{Choice, Demand, Kept, Pricer, combinations_of, frontier, grid};

/// Requests of each run in the sample, unless that would take more than the budget.
const SAMPLE: RangeInclusive<u64> = 32..=256;
/// About as many stripes are tried on it.
const TRIED: u64 = 1000;
/// Choices whose neighbours are tried in each round of refinement.
const BEAM: usize = 8;
/// The most choices that are priced with all requests.
const FINALISTS: u64 = 256;

/// The best choice that a coarse grid and its refinement find on a sample, priced with all requests; with limited
/// space, also others.
pub(super) fn refine(pricer: &mut Pricer<'_>, demand: &Demand, step: u64, budget: u64) -> Vec<Choice> {
    let sample = demand.sample((budget / TRIED).clamp(*SAMPLE.start(), *SAMPLE.end()));
    let mut tried = on_sample(pricer, &sample, step, *grid(demand.mean_size(), step).end());
    let groups = demand.groups() as u64;
    let finalists = usize::try_from((budget / groups.max(1)).clamp(2, FINALISTS)).unwrap_or(2);
    let mut chosen = frontier(pricer.cluster, tried.clone());
    chosen.truncate(finalists.div_ceil(2));
    tried.sort_by(Choice::order);
    let others: Vec<Choice> = tried.into_iter().filter(|choice| !chosen.contains(choice)).collect();
    chosen.extend(others.into_iter().take(finalists - chosen.len()));
    let mut kept = Kept::new(pricer);
    for Choice { stripes, .. } in chosen {
        let rival = pricer.rival(demand, &stripes, kept.best.as_ref());
        kept.add(pricer.cluster, rival);
    }
    kept.into_choices()
}

/// All choices tried: a coarse grid up to `most` steps, then the neighbours of the best at half the distance, and so
/// on.
fn on_sample(pricer: &mut Pricer<'_>, sample: &Demand, step: u64, most: u64) -> Vec<Choice> {
    let classes = pricer.cluster.classes().len();
    let coarse = [64, 16, 8, 5][classes - 1];
    let mut distance = most.div_ceil(coarse).next_power_of_two();
    let steps: Vec<u64> = (0..=most.div_ceil(distance)).map(|value| (value * distance).min(most)).collect();
    let mut seen = BTreeSet::new();
    let mut tried = Vec::new();
    let mut try_all = |tried: &mut Vec<Choice>, combinations: Vec<Vec<u64>>| {
        for combination in combinations {
            let stripes: Vec<u64> = combination.iter().map(|value| value * step).collect();
            if seen.insert(combination) {
                tried.extend(pricer.choice(sample, &stripes));
            }
        }
    };
    try_all(&mut tried, combinations_of(&vec![steps; classes]));
    while distance > 1 {
        distance /= 2;
        tried.sort_by(Choice::order);
        let centres: Vec<Vec<u64>> = tried.iter().take(BEAM).map(|choice| choice.stripes.clone()).collect();
        for centre in centres {
            let near = |&stripe: &u64| {
                let value = stripe / step;
                vec![value.saturating_sub(distance), value, (value + distance).min(most)]
            };
            try_all(&mut tried, combinations_of(&centre.iter().map(near).collect::<Vec<_>>()));
        }
    }
    tried
}

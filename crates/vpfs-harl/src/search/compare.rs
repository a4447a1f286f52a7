//! Prices given stripes.

use super::{Choice, Demand, Pricer, frontier};
use crate::cluster::Cluster;

/// The most choices that are priced with all requests, if not all can be.
const FINALISTS: usize = 16;

/// The best of `list` and, if the cluster limits space, those that need less space on a limited class, best first; as
/// [`Found::alternatives`](super::Found::alternatives). Each of the list has a stripe for each class, not all 0.
///
/// If that would take more than `budget` prices, a sample of the requests selects those that are priced with all.
/// Empty only if the list or the demand is.
pub fn compare(cluster: &Cluster, demand: &Demand, list: &[Vec<u64>], budget: u64) -> Vec<Choice> {
    if demand.groups() == 0 {
        return Vec::new();
    }
    let mut pricer = Pricer::new(cluster);
    let sample = demand.sample((budget / (list.len() as u64).max(1)).max(1));
    let mut choices: Vec<Choice> = list.iter().filter_map(|stripes| pricer.choice(&sample, stripes)).collect();
    if sample.requests() < demand.requests() {
        let mut chosen = frontier(cluster, choices.clone());
        chosen.truncate(FINALISTS);
        choices.sort_by(Choice::order);
        choices.truncate(FINALISTS);
        choices.extend(chosen);
        choices = choices.iter().filter_map(|choice| pricer.choice(demand, &choice.stripes)).collect();
    }
    frontier(cluster, choices)
}

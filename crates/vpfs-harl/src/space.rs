//! Choices for all regions that fit the space of each class.

use crate::cluster::Cluster;
use crate::round::Round;
use crate::search::Choice;

/// A region whose stripes are to be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// Bytes of the region.
    pub length: u64,
    /// Its choices, best first: [`Found::alternatives`](crate::Found::alternatives).
    pub choices: Vec<Choice>,
}

/// A class on which the regions do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no layout fits the space of class {class:?}: each of its servers would hold {needed} bytes, but {free} are free; \
     free some space, or add servers"
)]
pub struct NoSpace {
    /// Name of the class.
    pub class: String,
    /// Bytes needed on its fullest server.
    pub needed: u64,
    /// Bytes free on each of its servers.
    pub free: u64,
}

/// The index of a choice for each region, such that the bytes of each server fit the free space of its class. Starts
/// from the best choices; while a class is too full, the region that loses least time for each byte that leaves the
/// class takes another choice. Then regions take back better ones that fit what room that left. Not always the least
/// total time, which is a knapsack problem; it is when nothing has to move. O(moves · regions · choices).
///
/// Beyond the paper, whose discussion [HARL §IV-D] only mentions that flash may run full.
///
/// # Errors
/// If a class stays too full.
///
/// # Panics
/// If a choice has other classes than the cluster, or uses none.
pub fn fit(cluster: &Cluster, regions: &[Candidates]) -> Result<Vec<usize>, NoSpace> {
    let held: Vec<Vec<Vec<u64>>> = regions.iter().map(|region| held(cluster, region)).collect();
    let mut chosen = vec![0; regions.len()];
    while let Some(overfull) = overfull(cluster, &held, &chosen) {
        let Some((region, choice)) = cheapest_move(regions, &held, &chosen, overfull.class) else {
            let class = &cluster.classes()[overfull.class];
            let free = class.free.unwrap_or(u64::MAX);
            return Err(NoSpace { class: class.name.clone(), needed: overfull.needed, free });
        };
        chosen[region] = choice;
    }
    while let Some((region, choice)) = best_return(cluster, regions, &held, &chosen) {
        chosen[region] = choice;
    }
    Ok(chosen)
}

/// Bytes on the fullest server of each class, for each choice of a region.
fn held(cluster: &Cluster, region: &Candidates) -> Vec<Vec<u64>> {
    let servers = || cluster.classes().iter().map(|class| class.servers);
    let of_choice = |choice: &Choice| {
        let round = Round::new(servers(), &choice.stripes).expect("a choice uses at least one class");
        round.held(region.length)
    };
    region.choices.iter().map(of_choice).collect()
}

struct Overfull {
    class: usize,
    needed: u64,
}

/// The first class without space for what is chosen.
fn overfull(cluster: &Cluster, held: &[Vec<Vec<u64>>], chosen: &[usize]) -> Option<Overfull> {
    let needed =
        |class: usize| held.iter().zip(chosen).map(|(held, &choice)| held[choice][class]).fold(0, u64::saturating_add);
    let classes = cluster.classes().iter().enumerate();
    let mut full = classes.filter_map(|(class, limits)| {
        let needed = needed(class);
        limits.free.filter(|free| needed > *free).map(|_| Overfull { class, needed })
    });
    full.next()
}

/// The region and choice with the least loss of time for each byte that leaves `class`. A move is only to a choice that
/// is further down the list of its region, so moves come to an end.
fn cheapest_move(
    regions: &[Candidates],
    held: &[Vec<Vec<u64>>],
    chosen: &[usize],
    class: usize,
) -> Option<(usize, usize)> {
    let mut cheapest: Option<(u128, u128, (usize, usize))> = None;
    for (index, region) in regions.iter().enumerate() {
        let now = chosen[index];
        for next in now + 1..region.choices.len() {
            let freed = u128::from(held[index][now][class].saturating_sub(held[index][next][class]));
            let loss = region.choices[next].time.saturating_sub(region.choices[now].time);
            let is_cheaper =
                |&(least, bytes, _): &(u128, u128, _)| loss.saturating_mul(bytes) < least.saturating_mul(freed);
            if freed > 0 && cheapest.as_ref().is_none_or(is_cheaper) {
                cheapest = Some((loss, freed, (index, next)));
            }
        }
    }
    cheapest.map(|(_, _, place)| place)
}

/// The region and choice with the most time to gain among those that still fit.
fn best_return(
    cluster: &Cluster,
    regions: &[Candidates],
    held: &[Vec<Vec<u64>>],
    chosen: &[usize],
) -> Option<(usize, usize)> {
    let used = |class: usize| -> u64 { held.iter().zip(chosen).map(|(held, &choice)| held[choice][class]).sum() };
    let used: Vec<u64> = (0..cluster.classes().len()).map(used).collect();
    let fits = |region: usize, choice: usize| {
        let parts = held[region][chosen[region]].iter().zip(&held[region][choice]).zip(&used);
        parts
            .zip(cluster.classes())
            .all(|(((now, then), used), class)| class.free.is_none_or(|free| used - now + then <= free))
    };
    let gain = |&(region, choice): &(usize, usize)| {
        let choices: &[Choice] = &regions[region].choices;
        choices[chosen[region]].time.saturating_sub(choices[choice].time)
    };
    let earlier = (0..regions.len()).flat_map(|region| (0..chosen[region]).map(move |choice| (region, choice)));
    let returns = earlier.filter(|place| gain(place) > 0 && fits(place.0, place.1));
    returns.max_by_key(|place| (gain(place), std::cmp::Reverse(*place)))
}

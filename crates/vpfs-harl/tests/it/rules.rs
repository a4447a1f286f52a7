//! Layouts within the rules of a file system.

use vpfs_harl::{
    Adapted, Advice, AdviceError, Cluster, Component, Demand, Model, Op, Pricing, Question, Request, Round, Rules, Run,
    ServerClass, Trace, adapt, advise,
};

use crate::paper;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const LUSTRE: Rules = Rules {
    unit: 64 * KIB,
    is_power_of_two: false,
    stripe_max: 1 << 30,
    servers_max: 2000,
    has_pools: true,
    has_regions: true,
};

fn cluster(flash_free: Option<u64>) -> Cluster {
    paper(6, 2, flash_free)
}

fn question() -> Question {
    Question::new(Model::Paper, 1 << 22)
}

fn reads(parts: &[(u64, u64)]) -> Vec<(Trace, u32)> {
    let mut requests = Vec::new();
    let mut offset = 0;
    for &(count, size) in parts {
        for _ in 0..count {
            requests.push(Request { rank: 0, op: Op::Read, offset, size, start: 0, end: 0 });
            offset += size;
        }
    }
    vec![(Trace::new(requests).unwrap(), 1)]
}

fn adapted(cluster: &Cluster, runs: &[(Trace, u32)], rules: &Rules) -> (Advice, Result<Adapted, AdviceError>) {
    let advice = advise(cluster, runs, &question()).unwrap();
    let adapted = adapt(cluster, runs, &advice, &question(), rules);
    (advice, adapted)
}

fn time(cluster: &Cluster, runs: &[(Trace, u32)], stripes: &[u64]) -> u128 {
    let demand = Demand::new(vec![Run::new(runs[0].0.requests(), 0, 1, 1000)]);
    let round = Round::new(cluster.classes().iter().map(|class| class.servers), stripes).unwrap();
    demand.time(&mut Pricing::new(cluster), &round, u128::MAX).unwrap()
}

#[test]
fn the_best_permitted_stripes_are_found() {
    let runs = reads(&[(400, 512 * KIB)]);
    let cluster = cluster(None);
    let (advice, found) = adapted(&cluster, &runs, &LUSTRE);
    let found = found.unwrap();
    let permitted =
        (1..=16).map(|count| count * 64 * KIB).flat_map(|stripe| [[stripe, stripe], [stripe, 0], [0, stripe]]);
    let best = permitted.map(|stripes| time(&cluster, &runs, &stripes)).min().unwrap();
    assert_eq!(found.time, best);
    assert!(found.time > advice.times().1, "the exact stripes of the paper are better");
}

#[test]
fn regions_end_at_multiples_of_their_stripe() {
    let runs = reads(&[(1601, 100 * KIB), (300, 1000 * KIB), (1601, 100 * KIB)]);
    let (advice, found) = adapted(&cluster(None), &runs, &LUSTRE);
    let found = found.unwrap();
    assert!(advice.regions.len() > 1 && found.components.len() > 1, "{found:?}");
    let mut start = 0;
    for (index, component) in found.components.iter().enumerate() {
        assert_eq!(component.bytes.start, start);
        assert!(component.stripe.is_multiple_of(64 * KIB));
        start = component.bytes.end;
        let is_last = index + 1 == found.components.len();
        assert!(is_last || start.is_multiple_of(component.stripe), "{component:?}");
    }
    assert!(start >= runs[0].0.extent());
}

#[test]
fn without_regions_the_whole_file_has_one_layout() {
    let runs = reads(&[(1600, 128 * KIB), (400, 512 * KIB)]);
    let rules = Rules { has_regions: false, is_power_of_two: true, ..LUSTRE };
    let (_, found) = adapted(&cluster(None), &runs, &rules);
    let found = found.unwrap();
    let [Component { bytes, stripe, .. }] = found.components.as_slice() else { panic!("{found:?}") };
    assert_eq!(*bytes, 0..400 * MIB);
    assert!(stripe.is_power_of_two());
    let without_pools = Rules { has_pools: false, ..rules };
    let (_, equal) = adapted(&cluster(None), &runs, &without_pools);
    let equal = equal.unwrap();
    assert_eq!(equal.components[0].class, None);
    assert!(equal.time >= found.time);
}

#[test]
fn full_classes_and_too_many_servers_are_respected() {
    let runs = reads(&[(1600, 128 * KIB)]);
    let (_, free) = adapted(&cluster(None), &runs, &LUSTRE);
    assert_eq!(free.unwrap().components[0].class, Some(1), "small requests go to flash");
    let (_, full) = adapted(&cluster(Some(30 * MIB)), &runs, &LUSTRE);
    assert_ne!(full.unwrap().components[0].class, Some(1));
    let (_, none) = adapted(&cluster(None), &runs, &Rules { servers_max: 1, ..LUSTRE });
    assert_eq!(none, Err(AdviceError::TooManyServers(1)));
}

#[test]
fn what_is_best_already_is_kept() {
    let class = |name: &str| ServerClass { name: name.into(), ..cluster(None).classes()[0].clone() };
    let equal = Cluster::new(vec![class("one"), class("two")], 1_000_000_000).unwrap();
    let (_, found) = adapted(&equal, &reads(&[(1000, 768 * KIB)]), &LUSTRE);
    assert!(!found.unwrap().is_worth_it);
}

//! Minima, beside a competitor of twenty times the weight, on servers of 210 MB/s each: the application's share is
//! 10 MB/s at each server on which it has load.

use std::time::Duration;

use vpfs_core::{
    AppPolicy, Bytes, Depth, Minimum, PolicyKind, Scope, ServiceClass, Settings, SharePolicy, SlotCostTable, TotalKind,
    Weight,
};
use vpfs_node::coordination::Counted;

use super::cluster::{Cluster, RATE, exaggerate};

/// Before, the servers learn what requests cost, and how many the storage needs at once. Only servers with both
/// applications do.
pub(crate) const LEARNT: u64 = 20;

pub(crate) fn with(seed: u64, count: usize, rate: u64, scope: Scope) -> Cluster {
    let policy = Settings::new(PolicyKind::Isolation, Depth::new(8).unwrap(), SlotCostTable::default());
    let app = AppPolicy { minimum: Some(Minimum { rate: Bytes(rate), scope }), ..AppPolicy::default() };
    let other = AppPolicy::weighted(Weight::new(20).unwrap());
    let mut cluster = Cluster::new(seed, count, 5, &policy, &app).beside(&other);
    cluster.slowness = 5;
    cluster
}

#[test]
fn moving_load_gets_the_whole_minimum() {
    for seed in 1..=10 {
        let mut cluster = with(seed, 4, RATE, Scope::Total);
        cluster.loaded.fill(true);
        cluster.run_for(Duration::from_secs(LEARNT));
        cluster.move_about(60);
        cluster.assert_gets(LEARNT, 0.95..1.1, &format!("seed {seed}"));
    }
}

/// Each server has another member of a share with a minimum.
#[test]
fn a_share_gets_its_minimum_wherever_its_members_ask() {
    let minimum = Some(Minimum { rate: Bytes(RATE), scope: Scope::Total });
    let mut cluster = with(1, 4, RATE, Scope::Server).in_share(&SharePolicy { minimum, ..SharePolicy::NEW });
    cluster.loaded.fill(true);
    cluster.run_for(Duration::from_secs(LEARNT));
    cluster.move_about(60);
    cluster.assert_gets(LEARNT, 0.95..1.1, "");
}

/// At each server, the same rate gives four times as much on four servers, and its quarter too little on one.
#[test]
fn one_server_has_all_of_it_and_four_no_more() {
    let gets = |scope, rate, loaded: [bool; 4]| {
        let mut cluster = with(1, 4, rate, scope);
        cluster.loaded = loaded.to_vec();
        cluster.run_for(Duration::from_secs(40));
        cluster.extremes(LEARNT)
    };
    let (one, four) = ([false, true, false, false], [true; 4]);
    for loaded in [one, four] {
        let (least, most) = gets(Scope::Total, RATE, loaded);
        assert!(least > 0.95 && most < 1.1, "{loaded:?}: {least} to {most}");
    }
    assert!(gets(Scope::Server, RATE / 4, one).1 < 0.3);
    assert!(gets(Scope::Server, RATE, four).0 > 3.6);
}

/// The last server says that a thousand times as much was given there.
#[test]
fn a_peer_that_lies_takes_no_even_part() {
    let mut cluster = with(1, 4, RATE, Scope::Total);
    cluster.loaded = vec![true; 4];
    cluster.lie =
        |server, message| exaggerate(server == 3, message, Counted::Given(TotalKind::Minimum, ServiceClass::Data));
    cluster.run_for(Duration::from_secs(40));
    for server in 0..3 {
        let part = cluster.part_of(server, LEARNT);
        assert!((0.24..0.3).contains(&part), "{server}: {part}");
    }
}

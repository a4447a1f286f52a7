//! Targets, beside a competitor whose promised requests leave no spare capacity: what the application gets is then what
//! passes with credits.

use std::time::Duration;

use vpfs_core::{
    AppPolicy, Bytes, Deadlines, Depth, PolicyKind, Scope, ServiceClass, Settings, SlotCostTable, Target, TotalKind,
    TwoLevelSettings,
};
use vpfs_node::coordination::Counted;

use super::cluster::{Cluster, RATE, SIZE, exaggerate};

const PERIOD_MS: u64 = 200;
const DELAY_MS: u32 = 5;

fn promised(rate: u64, scope: Scope, deadline: Duration) -> AppPolicy {
    let target = Target { rate: Bytes(rate), scope, deadline };
    AppPolicy { target: Some(target), ..AppPolicy::default() }
}

pub(crate) fn with(seed: u64, count: usize, rate: u64, scope: Scope) -> Cluster {
    let mut policy = Settings::new(PolicyKind::TwoLevel, Depth::new(8).unwrap(), SlotCostTable::default());
    let replenish_period = Duration::from_millis(PERIOD_MS);
    policy.two_level =
        TwoLevelSettings { deadlines: Deadlines::Paper, outstanding_max: 8, replenish_period, ..policy.two_level };
    let other = promised(1 << 40, Scope::Server, Duration::from_secs(3600));
    let app = promised(rate, scope, Duration::from_millis(100));
    Cluster::new(seed, count, DELAY_MS, &policy, &app).beside(&other)
}

fn targeted(seed: u64, count: usize) -> Cluster {
    with(seed, count, RATE, Scope::Total)
}

/// The bound of docs/decisions/0014-peers.md, without T · t.
fn bound(servers: u64) -> u64 {
    let kept = RATE * PERIOD_MS / 1000 * (servers + 1) / servers;
    let unknown = RATE / 10 + servers * RATE * u64::from(DELAY_MS) / 1000;
    kept + unknown + servers * SIZE
}

#[test]
fn moving_load_gets_the_whole_promise_and_no_more() {
    for seed in 1..=5 {
        let mut cluster = targeted(seed, 4);
        cluster.move_about(60);
        let ((least, most), beyond) = (cluster.extremes(5), cluster.most_beyond(0));
        assert!(least > 0.95 && most < 1.05, "seed {seed}: {least} to {most}");
        assert!(beyond < bound(4), "seed {seed}: {beyond} bytes");
    }
}

/// A rate at each server gives one server a quarter of it, or all servers four times as much.
#[test]
fn one_server_has_all_of_it_and_four_no_more() {
    let gets = |scope, rate, loaded: [bool; 4]| {
        let mut cluster = with(1, 4, rate, scope);
        cluster.loaded = loaded.to_vec();
        cluster.run_for(Duration::from_secs(20));
        cluster.extremes(5)
    };
    let (one, four) = ([false, true, false, false], [true; 4]);
    for loaded in [one, four] {
        let (least, most) = gets(Scope::Total, RATE, loaded);
        assert!(least > 0.97 && most < 1.03, "{loaded:?}: {least} to {most}");
    }
    assert!(gets(Scope::Server, RATE / 4, one).1 < 0.3);
    assert!(gets(Scope::Server, RATE, four).0 > 3.8);
}

/// Until silence is noticed, after three seconds, each part passes what the other leaves, as far as it knows.
#[test]
fn parts_of_a_divided_cluster_keep_one_promise_together() {
    let mut cluster = targeted(1, 4);
    cluster.loaded = vec![true, false, true, true];
    cluster.run_for(Duration::from_secs(10));
    cluster.parts = vec![0, 0, 1, 1];
    cluster.run_for(Duration::from_secs(24));
    cluster.assert_gets(14, 0.95..1.05, "apart");
    let part = cluster.part_of(0, 14);
    assert!((0.45..0.55).contains(&part), "one of two has what is due to both: {part}");
    cluster.parts.fill(0);
    cluster.run_for(Duration::from_secs(20));
    let (least, most) = cluster.extremes(36);
    // What the other part used is news for both at first.
    assert!(least > 0.85 && most < 1.05, "together: {least} to {most}");
    cluster.assert_gets(41, 0.95..1.05, "later");
}

/// The last server says that a thousand times as much passed there.
#[test]
fn a_peer_that_lies_takes_no_even_part() {
    let mut cluster = targeted(1, 4);
    cluster.loaded = vec![true; 4];
    cluster.lie =
        |server, message| exaggerate(server == 3, message, Counted::Given(TotalKind::Target, ServiceClass::Data));
    cluster.run_for(Duration::from_secs(20));
    for server in 0..3 {
        let part = cluster.part_of(server, 5);
        assert!((0.24..0.27).contains(&part), "{server}: {part}");
    }
    cluster.lie = |_, _| ();
    cluster.loaded = vec![true, false, false, false];
    cluster.run_for(Duration::from_secs(10));
    let part = cluster.part_of(0, 23);
    assert!(part > 0.95, "two seconds after it fell silent: {part}");
}

//! Caps.

use std::time::Duration;

use vpfs_core::{AppPolicy, Bytes, Cap, Depth, PolicyKind, Settings, SharePolicy, SlotCostTable};

use super::cluster::{Cluster, RATE};

/// A share of which each server has another member.
fn capped_share(seed: u64, count: usize) -> Cluster {
    let cap = Cap::new(RATE, Bytes(1)).map(Cap::over_all_servers);
    let policy = Settings::new(PolicyKind::Fifo, Depth::ONE, SlotCostTable::default());
    let cluster = Cluster::new(seed, count, 5, &policy, &AppPolicy::default());
    cluster.in_share(&SharePolicy { cap, ..SharePolicy::NEW })
}

fn capped(seed: u64, count: usize, delay_ms: u32) -> Cluster {
    let policy = Settings::new(PolicyKind::Fifo, Depth::ONE, SlotCostTable::default());
    let cap = Cap::new(RATE, Bytes(1)).unwrap().over_all_servers();
    Cluster::new(seed, count, delay_ms, &policy, &AppPolicy { cap: Some(cap), ..AppPolicy::default() })
}

#[test]
fn moving_load_gets_the_whole_cap_and_no_more() {
    for seed in 1..=5 {
        let mut cluster = capped(seed, 4, 5);
        cluster.move_about(60);
        cluster.assert_gets(5, 0.95..1.05, &format!("seed {seed}"));
    }
}

#[test]
fn a_share_gets_its_cap_wherever_its_members_ask() {
    for seed in 1..=3 {
        let mut cluster = capped_share(seed, 4);
        cluster.move_about(60);
        cluster.assert_gets(5, 0.95..1.05, &format!("seed {seed}"));
    }
    // Over several groups, servers take parts of it.
    let mut cluster = capped_share(1, 40);
    cluster.loaded[3] = true;
    cluster.run_for(Duration::from_secs(15));
    cluster.assert_gets(3, 0.9..1.1, "one server of 40");
    cluster.loaded.fill(true);
    cluster.run_for(Duration::from_secs(15));
    cluster.assert_gets(18, 0.9..1.1, "all of 40");
}

#[test]
fn one_server_alone_gets_all_of_it() {
    let mut cluster = capped(1, 4, 5);
    cluster.loaded[2] = true;
    cluster.run_for(Duration::from_secs(20));
    let (least, most) = cluster.extremes(5);
    // A step of this test is a tenth of the time between two requests.
    assert!(least > 0.95 && most < 1.02, "{least} to {most}");
}

/// Each part takes what is due to it for its number of servers; until silence is noticed, after three seconds, each
/// takes what the others leave, as far as it knows.
#[test]
fn a_divided_cluster_stays_within_the_cap() {
    let mut cluster = capped(1, 4, 5);
    cluster.loaded = vec![true, false, true, true];
    cluster.run_for(Duration::from_secs(10));
    cluster.parts = vec![0, 0, 1, 1];
    cluster.run_for(Duration::from_secs(4));
    cluster.run_for(Duration::from_secs(20));
    cluster.assert_gets(14, 0.9..1.05, "apart");
    cluster.parts.fill(0);
    cluster.run_for(Duration::from_secs(20));
    let (least, most) = cluster.extremes(36);
    // What the other part used is news for both at first.
    assert!(least > 0.85 && most < 1.05, "together: {least} to {most}");
    cluster.assert_gets(41, 0.95..1.05, "later");
}

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

#[test]
fn moving_load_gets_the_whole_cap_and_no_more() {
    let policy = Settings::new(PolicyKind::Fifo, Depth::ONE, SlotCostTable::default());
    let cap = Cap::new(RATE, Bytes(1)).map(Cap::over_all_servers);
    for seed in 1..=2 {
        let mut cluster = Cluster::new(seed, 4, 5, &policy, &AppPolicy { cap, ..AppPolicy::default() });
        cluster.move_about(60);
        cluster.assert_gets(5, 0.95..1.05, &format!("seed {seed}"));
    }
}

#[test]
fn a_share_gets_its_cap_wherever_its_members_ask() {
    let mut cluster = capped_share(1, 4);
    cluster.move_about(60);
    cluster.assert_gets(5, 0.95..1.05, "four servers");
    // Over several groups, servers take parts of it.
    let mut cluster = capped_share(1, 40);
    cluster.loaded[3] = true;
    cluster.run_for(Duration::from_secs(15));
    cluster.assert_gets(3, 0.9..1.1, "one server of 40");
    cluster.loaded.fill(true);
    cluster.run_for(Duration::from_secs(15));
    cluster.assert_gets(18, 0.9..1.1, "all of 40");
}

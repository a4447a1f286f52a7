//! Minima, beside a competitor of twenty times the weight, on servers of 210 MB/s each: the application's share is
//! 10 MB/s at each server on which it has load.

use std::time::Duration;

use vpfs_core::{AppPolicy, Bytes, Depth, Minimum, PolicyKind, Scope, Settings, SharePolicy, SlotCostTable, Weight};

use super::cluster::{Cluster, RATE};

const MINIMUM: Option<Minimum> = Some(Minimum { rate: Bytes(RATE), scope: Scope::Total });

/// Before, the servers learn what requests cost, and how many the storage needs at once. Only servers with both
/// applications do.
pub(crate) const LEARNT: u64 = 20;

pub(crate) fn with(seed: u64, count: usize) -> Cluster {
    let policy = Settings::new(PolicyKind::Isolation, Depth::new(8).unwrap(), SlotCostTable::default());
    let app = AppPolicy { minimum: MINIMUM, ..AppPolicy::default() };
    let other = AppPolicy::weighted(Weight::new(20).unwrap());
    let mut cluster = Cluster::new(seed, count, 5, &policy, &app).beside(&other);
    cluster.slowness = 5;
    cluster
}

#[test]
fn moving_load_gets_the_whole_minimum() {
    for seed in 1..=2 {
        let mut cluster = with(seed, 4);
        cluster.loaded.fill(true);
        cluster.run_for(Duration::from_secs(LEARNT));
        cluster.move_about(60);
        cluster.assert_gets(LEARNT, 0.95..2.0, &format!("seed {seed}"));
    }
}

/// Each server has another member of a share with a minimum.
#[test]
fn a_share_gets_its_minimum_wherever_its_members_ask() {
    let mut cluster = with(1, 4).in_share(&SharePolicy { minimum: MINIMUM, ..SharePolicy::NEW });
    cluster.loaded.fill(true);
    cluster.run_for(Duration::from_secs(LEARNT));
    cluster.move_about(60);
    // A member that is new at a server waits there for what others have in the storage, for a second.
    cluster.assert_gets(LEARNT, 0.2..1.5, "");
}

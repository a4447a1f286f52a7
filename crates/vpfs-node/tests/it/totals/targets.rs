//! Targets, beside a competitor whose promised requests leave no spare capacity: what the application gets is then what
//! passes with credits.

use std::time::Duration;

use vpfs_core::{
    AppPolicy, Bytes, Deadlines, Depth, PolicyKind, Scope, Settings, SlotCostTable, Target, TwoLevelSettings,
};

use super::cluster::{Cluster, RATE, SIZE};

const PERIOD_MS: u64 = 200;
const DELAY_MS: u32 = 5;

fn promised(rate: u64, scope: Scope, deadline: Duration) -> AppPolicy {
    let target = Target { rate: Bytes(rate), scope, deadline };
    AppPolicy { target: Some(target), ..AppPolicy::default() }
}

pub(crate) fn with(seed: u64, count: usize) -> Cluster {
    let mut policy = Settings::new(PolicyKind::TwoLevel, Depth::new(8).unwrap(), SlotCostTable::default());
    let replenish_period = Duration::from_millis(PERIOD_MS);
    policy.two_level =
        TwoLevelSettings { deadlines: Deadlines::Paper, outstanding_max: 8, replenish_period, ..policy.two_level };
    let other = promised(1 << 40, Scope::Server, Duration::from_secs(3600));
    let app = promised(RATE, Scope::Total, Duration::from_millis(100));
    let mut cluster = Cluster::new(seed, count, DELAY_MS, &policy, &app).beside(&other);
    cluster.slowness = 1;
    cluster
}

/// The bound of docs/decisions/0008-peers.md, without T · t.
fn bound(servers: u64) -> u64 {
    let kept = RATE * PERIOD_MS / 1000 * (servers + 1) / servers;
    let unknown = RATE / 10 + servers * RATE * u64::from(DELAY_MS) / 1000;
    kept + unknown + servers * SIZE
}

#[test]
fn moving_load_gets_the_whole_promise_and_no_more() {
    for seed in 1..=2 {
        let mut cluster = with(seed, 4);
        cluster.move_about(30);
        let ((least, most), beyond) = (cluster.extremes(5), cluster.most_beyond(0));
        assert!(least > 0.95 && most < 1.05, "seed {seed}: {least} to {most}");
        assert!(beyond < bound(4), "seed {seed}: {beyond} bytes");
    }
}

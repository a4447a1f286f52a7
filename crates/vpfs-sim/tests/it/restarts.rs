//! A proxy restarts. What its policy has learned is worth most in the first second: see the tests of restarts of the
//! policy itself.

use std::time::Duration;

use vpfs_sim::model::device::{DeviceProfile, HddProfile};
use vpfs_sim::model::plan::{Ior, Phase};
use vpfs_sim::{App, PeerNetwork, Restart, Scenario, ServerGroup};

use crate::common::{ior, run, sfq};

/// Requests that arrived in the same nanosecond go on in the order in which they came. Their places in the simulator's
/// table say nothing of it: in each round, processes take those that were free the other way round.
#[test]
fn a_restart_keeps_the_order_of_arrival() {
    let restarts = (1..50).map(|number| Restart { at: Duration::from_millis(20) * number, server: 0 });
    let writer = Ior { barrier: true, time_limit: None, ..ior(8) };
    let scenario = Scenario {
        duration: Some(Duration::from_secs(1)),
        servers: vec![ServerGroup::new(1, DeviceProfile::Hdd(HddProfile::ONE_HEAD))],
        trace: true,
        apps: vec![App { nodes: 8, phases: vec![Phase::Write], ..App::new("writer", writer) }],
        peers: PeerNetwork { restarts: restarts.collect(), ..PeerNetwork::default() },
        ..Scenario::default()
    };
    let calls = run(&scenario, &sfq(1)).trace;
    let rounds = calls.chunk_by(|one, other| one.issued == other.issued).count();
    assert!(rounds > 3, "{rounds} rounds");
    assert!(calls.is_sorted_by_key(|call| (call.issued, call.process)), "{calls:#?}");
}

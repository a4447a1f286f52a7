//! Requests do not reach all servers at once.

use std::collections::BTreeSet;
use std::time::Duration;

use vpfs_sim::model::device::DeviceProfile;
use vpfs_sim::model::plan::{Ior, Phase};
use vpfs_sim::{App, LinkProfile, PolicySpec, Results, Scenario, ServerGroup};

use crate::common::{ior, run};

const SERVERS: u32 = 4;

/// Eight applications make one call each, of one strip at each server, on servers that take no time.
fn results(seed: u64, jitter: Duration) -> Results {
    let once = Ior { transfer_bytes: 256 << 10, block_bytes: 256 << 10, time_limit: None, ..ior(1) };
    let app = |number| App { phases: vec![Phase::Write], ..App::new(format!("app-{number}"), once.clone()) };
    let servers = ServerGroup { link: LinkProfile::IDEAL, ..ServerGroup::new(SERVERS, DeviceProfile::None) };
    let apps = (0..8).map(app).collect();
    let scenario = Scenario { seed, jitter, trace: true, servers: vec![servers], apps, ..Scenario::default() };
    run(&scenario, &PolicySpec::fifo())
}

/// The applications in the order in which a server completes their requests.
fn order(results: &Results, server: u32) -> Vec<u32> {
    let part = |call: &vpfs_sim::CallTrace| {
        let part = call.parts.iter().find(|part| part.server == server).unwrap();
        (part.finished, call.app)
    };
    let mut done: Vec<_> = results.trace.iter().map(part).collect();
    done.sort_unstable();
    done.into_iter().map(|(_, app)| app).collect()
}

#[test]
fn servers_see_applications_in_different_orders() {
    let with = results(1, Duration::from_millis(10));
    let orders: BTreeSet<_> = (0..SERVERS).map(|server| order(&with, server)).collect();
    assert_eq!(orders.len(), SERVERS as usize, "{orders:?}");
    let without = results(1, Duration::ZERO);
    assert!((1..SERVERS).all(|server| order(&without, server) == order(&without, 0)));
}

#[test]
fn jitter_lies_between_zero_and_its_most_and_follows_the_seed() {
    let most = Duration::from_millis(10);
    let late = |seed| {
        let done = results(seed, most).trace.into_iter().flat_map(|call| call.parts).map(|part| part.finished);
        done.collect::<Vec<_>>()
    };
    let times = late(1);
    let mean = times.iter().sum::<Duration>() / u32::try_from(times.len()).unwrap();
    assert!(times.iter().all(|time| *time <= most + Duration::from_micros(10)), "{times:?}");
    assert!(mean > most * 3 / 10 && mean < most * 7 / 10, "{mean:?}");
    assert_eq!(times, late(1));
    assert_ne!(times, late(2));
}

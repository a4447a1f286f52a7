//! Who gets how much.
#![allow(clippy::unwrap_used, reason = "a test fails with a panic")]

use std::time::Duration;

use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable, Weight};
use vpfs_device::DeviceProfile;
use vpfs_plan::{FileMode, Ior, Order, Phase};
use vpfs_sim::{App, Layout, PolicySpec, Results, Scenario, ServerGroup, Simulation};

fn ior(processes: u32) -> Ior {
    Ior {
        processes,
        transfer_bytes: 1 << 20,
        block_bytes: 64 << 20,
        segments: 1,
        file_mode: FileMode::PerProcess,
        order: Order::Sequential,
        write: true,
        read: false,
        read_shift: 0,
        fsync: false,
        keep: true,
        time_limit: Some(Duration::from_secs(1000)),
        seed: 1,
    }
}

fn app(name: &str, weight: u32) -> App {
    let weight = Weight::new(weight).unwrap();
    App { weight, nodes: 4, layout: Layout::striped(64 << 10), phases: vec![Phase::Write], ..App::new(name, ior(16)) }
}

fn scenario(heavy: u32) -> Scenario {
    Scenario {
        duration: Some(Duration::from_secs(60)),
        servers: vec![ServerGroup::new(4, DeviceProfile::hdd())],
        apps: vec![app("heavy", heavy), app("light", 1)],
        ..Scenario::default()
    }
}

fn sfq(depth: u32) -> PolicySpec {
    PolicySpec::new("sfq-d", Settings::new(PolicyKind::SfqD, Depth::new(depth).unwrap(), SlotCostTable::uniform()))
}

fn run(scenario: &Scenario, policy: &PolicySpec) -> Results {
    Simulation::new(scenario, policy).unwrap().run().unwrap()
}

fn shares(results: &Results) -> Vec<f64> {
    results.shares_between(Duration::from_secs(10), Duration::from_secs(60))
}

#[test]
fn shares_follow_weights_with_sfq_and_not_with_fifo() {
    for (weight, expected) in [(1, 0.5), (2, 2.0 / 3.0)] {
        let fair = run(&scenario(weight), &sfq(4));
        assert!((shares(&fair)[0] - expected).abs() < 0.02, "{:?}", shares(&fair));
        let unfair = run(&scenario(weight), &PolicySpec::fifo());
        assert!((shares(&unfair)[0] - 0.5).abs() < 0.05, "{:?}", shares(&unfair));
    }
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let scenario = Scenario { duration: Some(Duration::from_secs(5)), ..scenario(2) };
    let first = run(&scenario, &sfq(4));
    assert_eq!(first.to_json(), run(&scenario, &sfq(4)).to_json());
    let other = run(&Scenario { seed: 2, ..scenario }, &sfq(4));
    assert_ne!(first.digest(), other.digest());
}

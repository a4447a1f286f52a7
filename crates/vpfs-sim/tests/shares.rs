//! Shares under SFQ and FIFO.
#![allow(clippy::unwrap_used, reason = "a test fails with a panic")]

mod common;

use std::time::Duration;

use common::{app, run, sfq};
use vpfs_model::device::DeviceProfile;
use vpfs_sim::{PolicySpec, Results, Scenario, ServerGroup};

fn scenario(heavy: u32) -> Scenario {
    Scenario {
        duration: Some(Duration::from_secs(60)),
        servers: vec![ServerGroup::new(4, DeviceProfile::hdd())],
        apps: vec![app("heavy", heavy), app("light", 1)],
        ..Scenario::default()
    }
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

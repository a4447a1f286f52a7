//! The checks that must pass in the figures of [HARL].
#![allow(clippy::unwrap_used, reason = "a test fails with a panic")]

use vpfs_report::{Check, Verdict};

/// Asserts that all checks of a figure pass except the paper's gains, which the report explains.
fn assert_holds(id: &str) {
    let section = vpfs_figures::find(id).unwrap().run().unwrap();
    let is_ours = |check: &&Check| !check.what.contains("gain over");
    assert!(section.checks().iter().any(|check| is_ours(&check)));
    let differs = |check: &&Check| check.verdict() == Verdict::Differs;
    let differing: Vec<_> = section.checks().iter().filter(is_ours).filter(differs).collect();
    assert!(differing.is_empty(), "{differing:?}");
}

/// Fig. 1a: with equal stripes, disk servers are busy for 3.5 times as long as flash servers.
#[test]
fn disks_are_busy_for_longer() {
    assert_holds("harl-1a");
}

/// Fig. 7: the paper's stripes by the paper's cost; the advised layout gains what was predicted.
#[test]
fn stripes_are_the_papers() {
    assert_holds("harl-7");
}

/// Fig. 8: what is advised gains what was predicted with any number of processes.
#[test]
fn any_number_of_processes_gains() {
    assert_holds("harl-8");
}

/// Fig. 9: small requests use flash only, large ones all servers.
#[test]
fn small_requests_use_flash_only() {
    assert_holds("harl-9");
}

/// Fig. 10: with six flash servers, disks are left out.
#[test]
fn much_flash_leaves_disks_out() {
    assert_holds("harl-10");
}

/// Fig. 11: four regions are found, and stripes for each.
#[test]
fn regions_are_found() {
    assert_holds("harl-11");
}

/// Fig. 12: reads and writes of BTIO in one layout.
#[test]
fn btio_gains() {
    assert_holds("harl-12");
}

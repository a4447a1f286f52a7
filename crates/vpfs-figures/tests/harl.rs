//! The checks that must pass in the figures of [HARL].
#![allow(clippy::unwrap_used, reason = "a test fails with a panic")]

use vpfs_report::{Check, Verdict};

/// Asserts that all checks of a figure pass except those about `known`, which the report explains.
fn assert_holds(id: &str, known: &[&str]) {
    let section = vpfs_figures::find(id).unwrap().run().unwrap();
    assert!(!section.checks().is_empty());
    let unknown = |check: &&Check| !known.iter().any(|what| check.what.ends_with(what));
    let differs = |check: &&Check| check.verdict() == Verdict::Differs;
    let differing: Vec<_> = section.checks().iter().filter(unknown).filter(differs).collect();
    assert!(differing.is_empty(), "{differing:?}");
}

/// Fig. 1a: with equal stripes, disk servers are busy for 3.5 times as long as flash servers.
#[test]
fn disks_are_busy_for_longer() {
    assert_holds("harl-1a", &[]);
}

/// Fig. 7: the paper's stripes by the paper's cost; the advised layout gains what was predicted.
#[test]
fn stripes_are_the_papers() {
    assert_holds("harl-7", &["gain over 64K", "gain over fixed stripes", "gain over random stripes"]);
}

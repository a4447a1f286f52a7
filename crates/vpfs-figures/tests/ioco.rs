//! The checks that must pass in the figures of [IOCO].
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

/// Fig. 3 and 5: applications complete sooner, and servers finish with each of them at more nearly the same time.
#[test]
fn servers_are_done_together() {
    assert_holds("ioco-3", &["max/min finish time, original", "max/min finish time, coordinated"]);
}

/// Simulated servers follow formulas (1) to (3).
#[test]
fn formulas_hold() {
    assert_holds("ioco-formulas", &[]);
}

/// Fig. 6: completion times are 8 to 46 % lower, and lower with more applications.
#[test]
fn completion_gains_with_applications() {
    assert_holds("ioco-6", &["HDD: reduction with 2 applications"]);
}

/// Fig. 7: completion times are 8 to 46 % lower, and lower with more servers.
#[test]
fn completion_gains_with_servers() {
    assert_holds("ioco-7", &["HDD: reduction with 2 servers"]);
}

/// The last applications run alone, and do not use all disks.
const WHOLE_RUN: &str = "HDD: least change of bytes by the time of the whole run, window of 1000 ms";

/// Fig. 8: completion times are 8 to 46 % lower, and bandwidth is within 1.2 % or better, with the paper's best
/// windows.
#[test]
fn bandwidth_is_kept() {
    assert_holds("ioco-8", &["best window", "HDD: least reduction, any window", WHOLE_RUN]);
}

//! What must hold of the figures of [IOCO].
#![allow(clippy::unwrap_used, reason = "a test fails with a panic")]

use vpfs_report::{Check, Verdict};

/// Asserts that all checks of a figure hold but those about `known`, which the report explains.
fn assert_holds(id: &str, known: &[&str]) {
    let section = vpfs_figures::find(id).unwrap().run().unwrap();
    assert!(!section.checks().is_empty());
    let unknown = |check: &&Check| !known.iter().any(|what| check.what.ends_with(what));
    let differs = |check: &&Check| check.verdict() == Verdict::Differs;
    let differing: Vec<_> = section.checks().iter().filter(unknown).filter(differs).collect();
    assert!(differing.is_empty(), "{differing:?}");
}

/// Fig. 3 and 5: applications complete sooner, and servers are done with one at more nearly the same time.
#[test]
fn servers_are_done_together() {
    assert_holds("ioco-3", &["max/min finish time, original", "max/min finish time, coordinated"]);
}

/// Formulas (1) to (3) are what simulated servers do.
#[test]
fn formulas_hold() {
    assert_holds("ioco-formulas", &[]);
}

/// Fig. 6: 8 to 46 % less, and the more the more applications there are.
#[test]
fn completion_gains_with_applications() {
    assert_holds("ioco-6", &["HDD: reduction with 2 applications"]);
}

/// Fig. 7: 8 to 46 % less, and the more the more servers there are.
#[test]
fn completion_gains_with_servers() {
    assert_holds("ioco-7", &["HDD: reduction with 2 servers"]);
}

/// The last applications run alone, and do not use all disks.
const WHOLE_RUN: &str = "HDD: least change of bytes by the time of the whole run, window of 1000 ms";

/// Fig. 8: 8 to 46 % less, and bandwidth within 1.2 % or better, with the paper's best windows.
#[test]
fn bandwidth_is_kept() {
    assert_holds("ioco-8", &["best window", "HDD: least reduction, any window", WHOLE_RUN]);
}

//! The checks that must pass in the figures of [Two-level].
#![allow(clippy::unwrap_used, reason = "a test fails with a panic")]

use vpfs_report::Verdict;

/// The limit follows the load up and down; the class with the tight deadline misses it ten times less often than the
/// other one.
#[test]
fn all_checks_hold() {
    for id in ["two-level-depth", "two-level-latency"] {
        let section = vpfs_figures::find(id).unwrap().run().unwrap();
        assert!(!section.checks().is_empty());
        let differing: Vec<_> = section.checks().iter().filter(|check| check.verdict() == Verdict::Differs).collect();
        assert!(differing.is_empty(), "{differing:?}");
    }
}

//! The checks that must pass in the figures of [vPFS+].
#![allow(clippy::unwrap_used, reason = "a test fails with a panic")]

use vpfs_report::{Check, Verdict};

/// The checks of a figure that fail.
fn differing(id: &str) -> Vec<Check> {
    let section = vpfs_figures::find(id).unwrap().run().unwrap();
    assert!(!section.checks().is_empty());
    section.checks().iter().filter(|check| check.verdict() == Verdict::Differs).cloned().collect()
}

/// D, the small threshold and L are the paper's; only the curve of 512 KiB saturates later.
#[test]
fn the_profile_is_the_papers() {
    let differing = differing("vpfs-plus-2");
    assert!(differing.iter().all(|check| check.what == "knee of 512 KiB"), "{differing:?}");
}

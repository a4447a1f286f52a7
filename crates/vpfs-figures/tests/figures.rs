//! How many rows agree in the figures that are quick enough: a changed number is a reviewed difference.
//!
//! No row is skipped. That rows differ when the policy is taken away is tested beside each figure.
#![allow(clippy::unwrap_used, reason = "a test fails with a panic")]

use vpfs_report::Tally;

/// Figure; rows of evidence that agree, of all; other rows that hold, of all.
const COUNTS: [(&str, [usize; 4]); 8] = [
    ("vpfs-7", [0, 8, 5, 8]),
    ("vpfs-plus-2", [0, 2, 4, 4]),
    ("vpfs-plus-5", [0, 6, 2, 7]),
    ("two-level-depth", [0, 0, 4, 4]),
    ("two-level-latency", [0, 2, 3, 3]),
    ("ioco-3", [0, 6, 1, 2]),
    ("ioco-formulas", [0, 0, 3, 3]),
    ("harl-1a", [0, 1, 0, 0]),
];

#[test]
fn as_many_rows_agree_as_before() {
    let differing = COUNTS.into_iter().filter_map(|(id, [agree, evidence, hold, others])| {
        let section = vpfs_figures::find(id).unwrap().run().unwrap();
        let ours = Tally::of(section.checks());
        (ours != Tally { agree, evidence, hold, others }).then_some((id, ours))
    });
    let differing: Vec<_> = differing.collect();
    assert!(differing.is_empty(), "{differing:#?}");
}

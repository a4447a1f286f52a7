//! The checks that must pass in the figures that are quick enough.
#![allow(clippy::unwrap_used, reason = "a test fails with a panic")]

use vpfs_report::{Check, Verdict};

/// A figure, what its checks say, and which of them may differ because the section explains it.
type Figure = (&'static str, &'static str, fn(&str) -> bool);

const NONE: fn(&str) -> bool = |_| false;
/// The paper's gains.
const GAINS: fn(&str) -> bool = |what| what.contains("gain over");

/// Asserts that all checks hold but those that may differ, of which a figure does not consist.
fn assert_hold(figures: &[Figure]) {
    for (id, what, may_differ) in figures {
        let section = vpfs_figures::find(id).unwrap().run().unwrap();
        let must_hold = |check: &&Check| !may_differ(&check.what);
        assert!(section.checks().iter().any(|check| must_hold(&check)), "{id}");
        let differs = |check: &&Check| check.verdict() == Verdict::Differs;
        let differing: Vec<_> = section.checks().iter().filter(must_hold).filter(differs).collect();
        assert!(differing.is_empty(), "{id}, {what}: {differing:?}");
    }
}

#[test]
fn vpfs() {
    assert_hold(&[
        ("vpfs-5", "all ratios, with both thresholds, in three runs", NONE),
        (
            "vpfs-6",
            "unfairness over 60 s below 9 % always and below 4 % after the last arrival, and spikes over 5 s",
            NONE,
        ),
        ("vpfs-7", "shares help the small application, and a cap shields it", |what| {
            what.ends_with("native") || what.contains("Layout-DSFQ")
        }),
        (
            "vpfs-table-2",
            "a message for each request costs about as much as in the paper; both schemes are fair",
            |what| what.contains("deviation"),
        ),
    ]);
}

#[test]
fn vpfs_plus() {
    // Only the curve of 512 KiB saturates later.
    assert_hold(&[("vpfs-plus-2", "D, the small threshold and L are the paper's", |what| what == "knee of 512 KiB")]);
}

#[test]
fn two_level() {
    assert_hold(&[
        ("two-level-depth", "the limit follows the load up and down", NONE),
        ("two-level-latency", "the tight deadline is missed ten times less often than the other one", NONE),
    ]);
}

#[test]
fn ioco() {
    assert_hold(&[
        ("ioco-3", "applications complete sooner, servers finish with each at more nearly the same time", |what| {
            what.ends_with("max/min finish time, original") || what.ends_with("max/min finish time, coordinated")
        }),
        ("ioco-formulas", "simulated servers follow formulas (1) to (3)", NONE),
        ("ioco-6", "completion times are 8 to 46 % lower, and lower with more applications", |what| {
            what.ends_with("HDD: reduction with 2 applications")
        }),
        ("ioco-7", "completion times are 8 to 46 % lower, and lower with more servers", |what| {
            what.ends_with("HDD: reduction with 2 servers")
        }),
        (
            "ioco-8",
            "completion times are 8 to 46 % lower, bandwidth within 1.2 % or better, with the best windows",
            |what| {
                // The last applications run alone, and do not use all disks.
                let whole_run = "HDD: least change of bytes by the time of the whole run, window of 1000 ms";
                ["best window", "HDD: least reduction, any window", whole_run].iter().any(|known| what.ends_with(known))
            },
        ),
    ]);
}

#[test]
fn harl() {
    assert_hold(&[
        ("harl-1a", "with equal stripes, disk servers are busy for 3.5 times as long as flash servers", GAINS),
        ("harl-7", "the paper's stripes by the paper's cost; the advised layout gains what was predicted", GAINS),
        ("harl-8", "what is advised gains what was predicted with any number of processes", GAINS),
        ("harl-9", "small requests use flash only, large ones all servers", GAINS),
        ("harl-10", "with six flash servers, disks are left out", GAINS),
        ("harl-11", "four regions are found, and stripes for each", GAINS),
        ("harl-12", "reads and writes of BTIO in one layout", GAINS),
    ]);
}

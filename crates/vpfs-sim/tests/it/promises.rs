//! What Two-level promises a class with a short deadline, beside one that asks for as much as it can get.
//!
//! `cargo test -p vpfs-sim --test it promises -- --nocapture` prints the table.

use std::time::Duration;

use vpfs_core::{Bytes, PolicyKind, Scope, Target};
use vpfs_sim::model::device::{DeviceProfile, VolumeProfile};
use vpfs_sim::model::plan::{Ior, Phase};
use vpfs_sim::{App, Layout, LinkProfile, PolicySpec, Results, Scenario, ServerGroup};

use crate::{ior, random_writes, run, settings};

const SECONDS: u64 = 60;
const ALL: [u64; 2] = [0, u64::MAX];
const MODES: [&str; 2] = ["policy = \"two-level\"", "policy = \"two-level\", deadlines = \"paper\""];

/// One disk server of about 50 MB/s. The tight class asks for three quarters of its `target` in MB/s and is promised
/// 100 ms; the greedy one asks for everything.
fn scenario(scheduler: &str, target: u32, deadline_ms: u32) -> Scenario {
    let asked = target * 3 / 4;
    let text = format!(
        r#"
        duration = "{SECONDS}s"
        trace = "on"
        [[servers]]
        device = "two-level-server"
        [[policy]]
        name = "p"
        scheduler = {{ {scheduler} }}
        [[app]]
        name = "tight"
        target_rate = "{target}MB/s"
        deadline = "100ms"
        phases = ["write"]
        paced = {{ processes = 16, rate = "{asked}MB/s", time = "{SECONDS}s" }}
        [[app]]
        name = "greedy"
        target_rate = "{target}MB/s"
        deadline = "{deadline_ms}ms"
        phases = ["write"]
        paced = {{ processes = 32, rate = "1000MB/s", time = "{SECONDS}s" }}
        "#
    );
    Scenario::parse("promises.toml", &text).unwrap()
}

/// The number of the first application's calls that took longer than this and ended in these seconds, and of all.
fn late(results: &Results, millis: u64, [from, to]: [u64; 2]) -> (usize, usize) {
    let within = Duration::from_secs(from)..Duration::from_secs(to);
    let calls = || results.trace.iter().filter(|call| call.app == 0 && within.contains(&call.finished));
    let late = calls().filter(|call| call.finished - call.issued > Duration::from_millis(millis)).count();
    (late, calls().count())
}

/// The number of the second application's calls that ended in these seconds.
fn copied(results: &Results, from: u64, to: u64) -> usize {
    let within = Duration::from_secs(from)..Duration::from_secs(to);
    results.trace.iter().filter(|call| call.app == 1 && within.contains(&call.finished)).count()
}

fn rates(results: &Results) -> [f64; 2] {
    [0, 1].map(|app| results.apps[app].written_bytes as f64 / (SECONDS as f64 * 1e6))
}

fn measure(scheduler: &str, deadline_ms: u32) -> (usize, [f64; 2]) {
    measure_with(scheduler, 20, deadline_ms)
}

fn measure_with(scheduler: &str, target: u32, deadline_ms: u32) -> (usize, [f64; 2]) {
    let scenario = scenario(scheduler, target, deadline_ms);
    let results = run(&scenario, &scenario.policies[0]);
    let ((late, all), rates) = (late(&results, 100, ALL), rates(&results));
    let late = late * 1000 / all;
    println!("{scheduler:22} greedy at {deadline_ms:3} ms: {late:3} of 1000 late, {rates:.1?} MB/s");
    (late, rates)
}

/// Symptom: beside a greedy class the tight one missed half of its deadlines, as with FIFO. Cause: excess was treated
/// like requests within the rates, the outstanding limit rose because of the waits of the excess, and 100 requests are
/// no limit for a disk. Proof: at most 25 of 1000 are late, those of the first seconds in which the limit is found, and
/// the greedy class gets nine tenths of the remaining 35 MB/s.
#[test]
fn the_tight_class_keeps_its_deadline_beside_a_greedy_one() {
    let (late, _) = measure("policy = \"fifo\"", 100);
    assert!(late >= 300, "{late} of 1000 without control");
    for (deadline_ms, policy) in [50, 400].into_iter().flat_map(|deadline| MODES.map(|mode| (deadline, mode))) {
        let (late, [tight, greedy]) = measure(policy, deadline_ms);
        assert!(late <= 25, "{policy}: {late} of 1000 beside {deadline_ms} ms");
        assert!(tight >= 14.9 && greedy >= 31.5, "{policy}: {tight} and {greedy} MB/s beside {deadline_ms} ms");
    }
}

/// A deadline that this disk can never keep takes nothing from the other class.
#[test]
fn a_promise_that_cannot_be_kept_costs_no_other() {
    for policy in MODES {
        let (late, [tight, _]) = measure(policy, 25);
        assert!(late <= 25 && tight >= 14.9, "{policy}: {late} of 1000, {tight} MB/s");
    }
}

/// Both are promised all that the storage has: not all deadlines can be kept then, and the storage must not be left
/// idle.
#[test]
fn promises_that_exceed_the_storage_cost_no_throughput() {
    let [ours, fifo] =
        [MODES[1], "policy = \"fifo\""].map(|policy| measure_with(policy, 52, 100).1.iter().sum::<f64>());
    assert!(ours >= 0.97 * fifo, "{ours} of {fifo} MB/s");
}

/// Four writers of 8 KiB, promised 20 ms within 10 MB/s, beside twelve whose calls of `large_mib` are striped over
/// all of four servers.
fn beside_large_requests(large_mib: u32) -> Results {
    let large = Ior { transfer_bytes: large_mib << 20, block_bytes: 1 << 30, ..ior(12) };
    let target = Target { rate: Bytes(10_000_000), scope: Scope::Total, deadline: Duration::from_millis(20) };
    let of = |app: App| App { layout: Layout::striped(64 << 10), phases: vec![Phase::Write], ..app };
    let link = LinkProfile { bytes_per_second: 10_000_000_000, latency: Duration::from_micros(20) };
    let device = DeviceProfile::Volume(VolumeProfile::THROTTLED_DISK);
    let scenario = Scenario {
        duration: Some(Duration::from_secs(40)),
        servers: vec![ServerGroup { link, ..ServerGroup::new(4, device) }],
        trace: true,
        apps: vec![
            of(App { nodes: 4, target: Some(target), ..App::new("small", random_writes(4, 8)) }),
            of(App { nodes: 12, ..App::new("large", large) }),
        ],
        ..Scenario::default()
    };
    run(&scenario, &PolicySpec::new("two-level", settings(PolicyKind::TwoLevel)))
}

/// Symptom: beside calls of 1 and of 16 MiB, the large application had half of its rate for ten seconds. Cause: bulk
/// was put to its floor, at which the best latency is measured that a deadline has no use for, and rose from there by
/// its requests that did no harm, which are few. Proof: it has 40 MB/s of the 48 that the small one leaves, from the
/// start.
#[test]
fn a_deadline_leaves_the_rest_to_large_requests() {
    for large_mib in [1, 16] {
        let results = beside_large_requests(large_mib);
        for [from, to] in [[2, 12], [12, 40]] {
            let (late, all) = late(&results, 20, [from, to]);
            let rate = copied(&results, from, to) as f64 * f64::from(large_mib) * 1.048_576 / (to - from) as f64;
            assert!(late * 20 <= all, "{late} late beside {large_mib} MiB from {from} to {to} s");
            // A rate is known after a few calls, of which there are few of 16 MiB.
            let least = if large_mib == 16 && from < 12 { 15.0 } else { 40.0 };
            assert!(rate >= least, "{rate} MB/s beside {large_mib} MiB from {from} to {to} s");
        }
    }
}

/// Symptom: the copy of `scenarios/promised-latency.toml` had half of what the slides' control leaves it, though both
/// kept the promise. Cause: of the eleven requests of a window, a single late one counted as more than one in twenty.
/// Proof: it has four fifths of that, 8.7 MB/s.
#[test]
fn a_deadline_leaves_the_rest_of_a_serial_disk() {
    let text = include_str!("../../../../scenarios/promised-latency.toml");
    let scenario = Scenario::parse("promised-latency.toml", text).unwrap();
    let policy = scenario.policies.iter().find(|policy| policy.name == "two-level").unwrap();
    let results = run(&Scenario { trace: true, ..scenario.clone() }, policy);
    let (late, all) = late(&results, 100, ALL);
    let copied = results.apps[1].written_bytes as f64 / 60e6;
    println!("{late} of {all} late, the copy {copied:.1} MB/s");
    assert!(late * 20 <= all, "{late} of {all}");
    assert!(copied >= 7.0, "{copied} MB/s");
}

/// Symptom: when an application with a promise began, bulk started at its floor and needed nine seconds until it had
/// again what the promise leaves. Cause: at the first call it was not yet known that a deadline tells directly how much
/// that is.
#[test]
fn bulk_keeps_what_a_promise_leaves_when_that_begins() {
    let text = include_str!("../../../../scenarios/papers/two-level-beside.toml");
    let mut scenario = Scenario::parse("two-level-beside.toml", text).unwrap();
    scenario.trace = true;
    let policy = scenario.policies.iter().find(|policy| policy.name == "two-level").unwrap();
    let results = run(&scenario, policy);
    let (first, later) = (copied(&results, 5, 10), copied(&results, 20, 25));
    assert!(first * 4 >= later * 3, "{first} calls in seconds 5 to 10, {later} in 20 to 25");
    let (late, all) = late(&results, 20, ALL);
    assert!(late * 20 <= all, "{late} late of {all}");
}

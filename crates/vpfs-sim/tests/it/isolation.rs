//! The guarantees of the policy `isolation`, on models of a disk, of flash and of volumes, with no configuration but
//! weights.
//!
//! `cargo test --release -p vpfs-sim --test it isolation -- --nocapture` prints the measurements.

use std::time::Duration;

use vpfs_core::{PolicyKind, Protection, Settings, Weight};
use vpfs_sim::model::device::{DeviceProfile, HddProfile, VolumeProfile};
use vpfs_sim::model::plan::{Btio, BtioClass, Interactive, Ior, Phase};
use vpfs_sim::{
    App, Layout, LinkProfile, Partition, PeerNetwork, PolicySpec, Restart, Results, Scenario, ServerGroup, Workload,
};

use crate::{ior, random_writes, run, settings};

/// A small application that thinks between its calls, beside twelve writers.
#[derive(Clone)]
struct Case {
    device: DeviceProfile,
    servers: u32,
    small_processes: u32,
    think: Duration,
    large_kib: u32,
    large_processes: u32,
    weights: (u32, u32),
    /// Promised to the small application.
    latency: Option<Duration>,
    peers: PeerNetwork,
    protection: Protection,
}

impl Case {
    fn on(device: DeviceProfile) -> Self {
        let think = Duration::from_millis(2);
        Self {
            device,
            servers: 1,
            small_processes: 1,
            think,
            large_kib: 1024,
            large_processes: 12,
            weights: (1, 1),
            latency: None,
            peers: PeerNetwork::default(),
            protection: Protection::default(),
        }
    }

    fn spread(self, servers: u32) -> Self {
        Self { servers, small_processes: 4, ..self }
    }

    fn small(&self) -> App {
        let plan = Interactive { think: self.think, ..random_writes(self.small_processes, 4) };
        App { latency: self.latency, ..app("small", plan, self.small_processes, self.weights.0) }
    }

    fn large(&self) -> App {
        let plan = Ior {
            transfer_bytes: (self.large_kib << 10) * self.servers,
            block_bytes: 128 << 20,
            ..ior(self.large_processes)
        };
        app("large", plan, self.large_processes, self.weights.1)
    }

    fn run(&self, kind: PolicyKind, apps: Vec<App>) -> Results {
        let link = LinkProfile { bytes_per_second: 10_000_000_000, latency: Duration::from_micros(20) };
        let group = ServerGroup { link, ..ServerGroup::new(self.servers, self.device.clone()) };
        let protection = self.protection;
        let settings = Settings { protection, ..settings(kind) };
        let scenario = Scenario {
            duration: Some(Duration::from_secs(40)),
            servers: vec![group],
            trace: true,
            apps,
            peers: self.peers.clone(),
            ..Scenario::default()
        };
        run(&scenario, &PolicySpec::new("policy", settings))
    }

    /// The results of both under `kind`, each relative to running alone.
    fn kept(&self, kind: PolicyKind) -> Kept {
        let alone = |app: App| Measured::of(&self.run(PolicyKind::Fifo, vec![app]), 0);
        let (small_alone, large_alone) = (alone(self.small()), alone(self.large()));
        let together = self.run(kind, vec![self.small(), self.large()]);
        let (small, large) = (Measured::of(&together, 0), Measured::of(&together, 1));
        Kept {
            small: small.rate / small_alone.rate,
            large: large.rate / large_alone.rate,
            mean: small.mean / small_alone.mean,
            p90_ms: small.p90 * 1e3,
            p99_ms: small.p99 * 1e3,
        }
    }
}

fn app(name: &str, plan: impl Into<Workload>, nodes: u32, weight: u32) -> App {
    let (weight, layout) = (Weight::new(weight).unwrap(), Layout::striped(64 << 10));
    App { weight, nodes, layout, phases: vec![Phase::Write], ..App::new(name, plan) }
}

/// Results relative to running alone.
#[derive(Debug)]
struct Kept {
    small: f64,
    large: f64,
    mean: f64,
    p90_ms: f64,
    p99_ms: f64,
}

impl Kept {
    /// What the policy looks for: what both keep, multiplied.
    fn product(&self) -> f64 {
        self.small * self.large
    }
}

/// An application's results after ten seconds of warm-up.
struct Measured {
    rate: f64,
    mean: f64,
    p90: f64,
    p99: f64,
}

impl Measured {
    fn of(results: &Results, app: u32) -> Self {
        let warm = Duration::from_secs(10);
        let calls = results.trace.iter().filter(|call| call.app == app && call.finished > warm);
        let mut latencies: Vec<f64> = calls.map(|call| (call.finished - call.issued).as_secs_f64()).collect();
        latencies.sort_by(f64::total_cmp);
        let count = latencies.len();
        assert!(count > 0, "application {app} stands still");
        let rate = count as f64 / (results.elapsed - warm).as_secs_f64();
        let mean = latencies.iter().sum::<f64>() / count as f64;
        Self { rate, mean, p90: latencies[count * 90 / 100], p99: latencies[count * 99 / 100] }
    }
}

fn one_head() -> DeviceProfile {
    DeviceProfile::Hdd(HddProfile::ONE_HEAD)
}

fn throttled() -> DeviceProfile {
    DeviceProfile::Volume(VolumeProfile::THROTTLED_DISK)
}

fn cloud() -> DeviceProfile {
    DeviceProfile::Volume(VolumeProfile::CLOUD)
}

/// Prints what both keep, and asserts that it is at least `small` and `large`.
fn assert_kept(name: &str, case: &Case, small: f64, large: f64) -> Kept {
    let kept = case.kept(PolicyKind::Isolation);
    println!("{name:40} {:.3} {kept:?}", kept.product());
    assert!(kept.small >= small && kept.large >= large, "{name}: {kept:?}");
    kept
}

/// One head serves one request after another: each application gets its weight's share of the time, and does about as
/// well as if the rest of the time were not used.
#[test]
fn on_a_disk_both_get_their_share() {
    for (weights, small, large, both) in
        [((1, 1), 0.5, 0.45, 0.25), ((4, 1), 0.75, 0.18, 0.13), ((1, 4), 0.24, 0.72, 0.18)]
    {
        let case = Case { weights, ..Case::on(one_head()) };
        let kept = assert_kept(&format!("disk {weights:?}"), &case, small, large);
        // One write of 1 MiB takes 22.5 ms; the small request waits for at most two of them and takes 5 ms itself.
        assert!(kept.p99_ms <= 50.0 && kept.product() >= both, "{kept:?}");
    }
    assert_kept("disk, think 0.2 ms", &Case { think: Duration::from_micros(200), ..Case::on(one_head()) }, 0.48, 0.45);
    // Alone this writer needs no seeks, so with half of the time it reaches 0.39 of its rate alone.
    assert_kept("disk, one writer", &Case { large_processes: 1, ..Case::on(one_head()) }, 0.45, 0.35);
}

/// A volume has several limits, so together the applications get more than the share of each.
#[test]
fn on_a_volume_the_small_one_hardly_notices() {
    for (name, device, small, large) in [("throttled", throttled(), 0.78, 0.85), ("cloud", cloud(), 0.92, 0.9)] {
        for weights in [(4, 1), (1, 4)] {
            // Bulk with four fifths of the weight may slow it down more, and bulk with one fifth be slowed down more.
            let small = if weights == (1, 4) { small * 0.85 } else { small };
            let large = if weights == (4, 1) { large * 0.7 } else { large };
            assert_kept(&format!("{name} {weights:?}"), &Case { weights, ..Case::on(device.clone()) }, small, large);
        }
    }
    let kept = assert_kept("cloud", &Case::on(cloud()), 0.92, 0.9);
    assert!(kept.mean <= 2.0 && kept.product() >= 0.82, "{kept:?}");
    for (name, case, least) in
        [("throttled", Case::on(throttled()), 0.7), ("throttled x 4", Case::on(throttled()).spread(4), 0.6)]
    {
        let kept = assert_kept(name, &case, 0.0, 0.0);
        assert!(kept.product() >= least, "{kept:?}");
    }
}

#[test]
fn on_flash_the_small_one_hardly_notices_small_bulk() {
    let kept = assert_kept("flash, 256 KiB", &Case { large_kib: 256, ..Case::on(DeviceProfile::ssd()) }, 0.8, 0.9);
    assert!(kept.mean <= 2.5 && kept.product() >= 0.65, "{kept:?}");
    // A write of 1 MiB keeps all channels busy for five times as long as a small one.
    let kept = assert_kept("flash, 1 MiB", &Case::on(DeviceProfile::ssd()), 0.7, 0.85);
    assert!(kept.product() >= 0.58, "{kept:?}");
}

/// Each server sees the small application only every few milliseconds.
#[test]
fn it_holds_over_many_servers() {
    let on = |device| Case::on(device).spread(16);
    // More than half of the time for each: with requests at all disks, they have seldom something to do for both.
    assert_kept("disk x 16", &on(one_head()), 0.35, 0.75);
    assert_kept("throttled x 16", &on(throttled()), 0.8, 0.85);
    assert_kept("cloud x 16", &on(cloud()), 0.9, 0.9);
    assert_kept("flash x 16", &on(DeviceProfile::ssd()), 0.7, 0.85);
}

/// A writer owes the small application 32 of 33 parts, but that asks for a third of what the disks can do.
#[test]
fn what_others_leave_is_found_within_seconds() {
    let think = Duration::from_millis(10);
    let case = Case { weights: (32, 1), think, ..Case::on(throttled()).spread(4) };
    let first_calls = |results: &Results, app| {
        let first = Duration::from_secs(15);
        results.trace.iter().filter(|call| call.app == app && call.finished < first).count() as f64
    };
    let alone = case.run(PolicyKind::Fifo, vec![case.large()]);
    let together = case.run(PolicyKind::Isolation, vec![case.small(), case.large()]);
    let large = first_calls(&together, 1) / first_calls(&alone, 0);
    println!("large, first 15 s: {large}");
    assert!(large >= 0.3, "{large}");
}

/// An application that asks each of sixteen servers so rarely, beside large requests, that none of them would wait for
/// it.
#[test]
fn an_application_with_rare_requests_is_protected() {
    let rare = Case { servers: 16, ..Case::on(throttled()) };
    assert_kept("throttled x 16, one process", &rare, 0.85, 0.9);
}

/// Calls that keep a disk busy for 75 and 285 ms, at every server.
#[test]
fn long_writes_let_others_in_between() {
    for large_kib in [4096, 16384] {
        let long = Case { servers: 4, large_kib, ..Case::on(one_head()) };
        let kept = assert_kept(&format!("disk x 4, {large_kib} KiB"), &long, 0.33, 0.42);
        assert!(kept.p99_ms <= 110.0, "{kept:?}");
    }
}

/// Other policies do not keep this promise, so the test can fail.
#[test]
fn others_do_not_isolate() {
    for kind in [PolicyKind::Fifo, PolicyKind::SfqDPlus] {
        let kept = Case::on(throttled()).spread(4).kept(kind);
        assert!(kept.small < 0.05, "{kind:?}: {kept:?}");
    }
}

#[test]
fn alone_bulk_loses_nothing() {
    let devices =
        [("disk", one_head()), ("flash", DeviceProfile::ssd()), ("throttled", throttled()), ("cloud", cloud())];
    for (name, device) in devices {
        for (large_kib, least) in [(256, 0.97), (1024, if name == "cloud" { 0.97 } else { 0.98 }), (4096, 0.97)] {
            let case = Case { large_kib, ..Case::on(device.clone()) };
            let rate = |kind| Measured::of(&case.run(kind, vec![case.large()]), 0).rate;
            let relative = rate(PolicyKind::Isolation) / rate(PolicyKind::Fifo);
            println!("{name} {large_kib} KiB: {relative:.3}");
            assert!(relative >= least, "{name} {large_kib} KiB: {relative}");
        }
    }
}

/// Two applications that always have 64 requests pending, of sizes that do not differ by much, share by weight what
/// these cost: 64 KiB and the bytes of each.
#[test]
fn backlogged_applications_share_by_weight() {
    let (disk, flash, volume) = (Case::on(one_head()), Case::on(DeviceProfile::ssd()), Case::on(throttled()));
    let pairs = [
        (&disk, (1024, 1024), (8, 1)),
        (&disk, (64, 128), (32, 1)),
        (&flash, (4, 64), (32, 1)),
        (&flash, (1024, 2048), (8, 1)),
        (&volume, (1024, 1024), (1, 1)),
        (&volume, (64, 128), (8, 1)),
    ];
    for (case, sizes, weights) in pairs {
        let backlogged = |name: &str, kib, weight| app(name, random_writes(64, kib), 64, weight);
        let first = || backlogged("first", sizes.0, weights.0);
        let second = || backlogged("second", sizes.1, weights.1);
        let alone = |app: App| Measured::of(&case.run(PolicyKind::Isolation, vec![app]), 0).rate;
        let together = case.run(PolicyKind::Isolation, vec![first(), second()]);
        let rate = |index| Measured::of(&together, index).rate;
        let used = rate(0) / alone(first()) + rate(1) / alone(second());
        let cost = |index, kib: u32| rate(index) * f64::from(kib + 64);
        let ratio = cost(0, sizes.0) / cost(1, sizes.1) * f64::from(weights.1) / f64::from(weights.0);
        println!("{sizes:?} KiB {weights:?}: {ratio:.3} of the weights, {used:.3} of the storage");
        assert!((0.9..=1.1).contains(&ratio), "{sizes:?} {weights:?}: {ratio} of the weights");
        // To order the requests of both, fewer are outstanding than would keep all channels busy.
        assert!(used >= 0.75, "{sizes:?} {weights:?}: {used} of the storage");
    }
}

/// Symptom: five processes with calls of 1 MiB got 0.30 of a disk where their weight owes them 0.20, because they have
/// less pending than the forty of the other application. Cause: what had taken more than its share was ordered by
/// weight for a moment, seen to take no more than its share then, and protected again.
///
/// Symptom: one or two processes with calls of 4 MiB got up to 0.47. Cause: while their cost was a guess they were
/// protected, so the costs of both applications were learned from time that was divided wrongly, and then believed.
/// By device time they are owed up to 0.24 of the bytes, because longer calls need fewer seeks.
#[test]
fn few_processes_with_large_calls_get_no_more_than_their_share() {
    for (name, case) in [("one head", Case::on(one_head())), ("disk", Case::on(DeviceProfile::hdd()))] {
        for (few, mib, most) in [(5, 1, 0.26), (2, 4, 0.28)] {
            let writer = |name: &str, processes, mib: u32, weight| {
                app(name, random_writes(processes, mib << 10), processes, weight)
            };
            let both = vec![writer("few", few, mib, 1), writer("many", 40, 1, 4)];
            let results = case.run(PolicyKind::Isolation, both);
            let [few_rate, many] = [0, 1].map(|app| Measured::of(&results, app).rate);
            let bytes = few_rate * f64::from(mib);
            let share = bytes / (bytes + many);
            println!("{name}, {few} processes, {mib} MiB: {share:.3}");
            assert!((0.16..=most).contains(&share), "{name}, {few} processes, {mib} MiB: {share}");
        }
    }
}

/// A call of bulk waits for the slowest of its servers, so what a pace is worth shows only if all servers change theirs
/// together.
#[test]
fn servers_decide_together() {
    let together = Case::on(throttled()).spread(16);
    // None hears of any other.
    let apart = |server| Partition { from: Duration::ZERO, to: Duration::MAX, servers: vec![server] };
    let peers = PeerNetwork { partitions: (0..16).map(apart).collect(), ..PeerNetwork::default() };
    let apart = Case { peers, ..together.clone() }.kept(PolicyKind::Isolation);
    let together = together.kept(PolicyKind::Isolation);
    println!("together {together:?}, apart {apart:?}");
    assert!(together.small >= 0.8 && together.large >= 0.85, "{together:?}");
    assert!(together.product() >= 1.15 * apart.product(), "{together:?} {apart:?}");
}

/// Messages get lost, the server that decides restarts, and another one is unreachable for a time: all stay near what
/// they knew.
#[test]
fn a_common_pace_outlives_faults() {
    let seconds = Duration::from_secs;
    let calm = Case::on(throttled()).spread(4);
    let peers = PeerNetwork {
        loss_ppm: 100_000,
        restarts: vec![Restart { at: seconds(15), server: 0 }],
        partitions: vec![Partition { from: seconds(22), to: seconds(28), servers: vec![2] }],
        ..PeerNetwork::default()
    };
    let faulty = Case { peers, ..calm.clone() };
    let [calm, faulty] = [calm, faulty].map(|case| case.kept(PolicyKind::Isolation));
    let [one, other] = [&calm, &faulty].map(Kept::product);
    println!("calm {one:.3} {calm:?}, with faults {other:.3} {faulty:?}");
    assert!(other >= 0.85 * one, "{calm:?} {faulty:?}");
}

#[test]
fn a_common_pace_takes_few_messages() {
    let case = Case::on(throttled()).spread(4);
    let results = case.run(PolicyKind::Isolation, vec![case.small(), case.large()]);
    let bytes = results.coordination.expect("they coordinate").bytes as f64 / results.elapsed.as_secs_f64();
    println!("{:.0} B/s of each application at each server", bytes / 8.0);
    assert!(bytes / 8.0 <= 1000.0, "{bytes}");
}

/// An application that tolerates more latency than it would have leaves more to bulk.
#[test]
fn a_promised_latency_is_kept_and_no_more_than_that() {
    let four = || Case::on(throttled()).spread(4);
    for (name, case, millis) in
        [("throttled x 4", four(), 12), ("throttled x 4", four(), 40), ("disk", Case::on(one_head()), 20)]
    {
        let (any, latency) = (case.kept(PolicyKind::Isolation), Duration::from_millis(millis));
        let kept = Case { latency: Some(latency), ..case }.kept(PolicyKind::Isolation);
        println!("{name:20} {any:?}, with a promise of {latency:?} {kept:?}");
        assert!(kept.p90_ms <= latency.as_secs_f64() * 1e3, "{name}: {kept:?}");
        let leaves_more = kept.large >= any.large - 0.02 && kept.small >= any.small - 0.1;
        assert!(millis != 40 || leaves_more, "{any:?} {kept:?}");
    }
}

/// With equal weights nobody gets less than its due on a disk; who wants more protection takes it from bulk.
#[test]
fn protection_is_a_choice() {
    for (name, device) in [("disk", one_head()), ("throttled", throttled()), ("flash", DeviceProfile::ssd())] {
        let balanced = Case::on(device);
        let strong = Case { protection: Protection::Strong, ..balanced.clone() };
        let [balanced, strong] = [balanced, strong].map(|case| case.kept(PolicyKind::Isolation));
        println!("{name:10} balanced {balanced:?}, strong {strong:?}");
        assert!(balanced.small >= 0.47 && balanced.large >= 0.47, "{name}: {balanced:?}");
        assert!(strong.small >= balanced.small - 0.02 && strong.large <= balanced.large + 0.02, "{name}: {strong:?}");
    }
}

/// What the second job of `scenarios/stalling-disks.toml` had of its share in each second from the third on, with seeds
/// 1 to 20, where disks stand still for 150 ms each second.
fn parts(policy: usize) -> Vec<f64> {
    let text = include_str!("../../../../scenarios/stalling-disks.toml");
    let stalls = "every = \"5s\", length = \"300ms\"";
    assert!(text.contains(stalls) && text.contains("seed = 1\n"), "what is replaced");
    let text = text.replacen(stalls, "every = \"1s\", length = \"150ms\"", 1);
    let second = Duration::from_secs(1);
    let of_seed = |seed: u64| {
        let text = text.replacen("seed = 1\n", &format!("seed = {seed}\n"), 1);
        let scenario = Scenario::parse("stalling-disks.toml", &text).unwrap();
        let results = run(&scenario, &scenario.policies[policy]);
        (2..40).map(move |at: u32| results.shares_between(second * at, second * (at + 1))[1] * 4.0)
    };
    (1..=20).flat_map(of_seed).collect()
}

/// Symptom: on disks that stand still for moments, the smaller of two jobs of 3:1 had twice its share for seconds.
/// Cause: while a job waits at another server it is interactive here, and when it comes back, what it takes showed
/// nothing, because after a standstill costs are learned too high, so all together seemed to take more time than there
/// was. Proof: it has hardly more than with strict order by tags, which gives it 1.029 of its share and at most 1.33 in
/// a second; 1.059 and 2.49 before, 1.048 now.
#[test]
fn a_standstill_does_not_make_bulk_interactive_for_long() {
    let mean = |parts: &[f64]| parts.iter().sum::<f64>() / parts.len() as f64;
    let [strict, ours] = [0, 1].map(parts);
    assert!(mean(&ours) < mean(&strict) + 0.025, "{} and {}", mean(&ours), mean(&strict));
    let most = ours.iter().copied().fold(0.0, f64::max);
    assert!(most < 1.9, "{most}");
}

/// Of the small application of `vpfs demo`.
const CALL: u64 = 320;

/// BTIO's small calls in bursts, with computation between them.
fn small(iterations: u32) -> App {
    let plan = Btio {
        processes: 8,
        nodes: 4,
        iterations,
        total_bytes: 8 * u64::from(iterations) * CALL,
        think_write: Duration::from_millis(750),
        think_read: Duration::from_millis(450),
        keep: true,
        ..Btio::class(BtioClass::A)
    };
    App { nodes: 4, layout: Layout::striped(CALL), ..App::new("small", plan) }
}

/// A checkpoint of 56 processes, `servers` times 2 MiB in a call.
fn checkpoint(servers: u32) -> App {
    let call = servers * (2 << 20);
    let time_limit = Some(Duration::from_secs(3600));
    let plan = Ior { keep: true, time_limit, seed: 2, ..Ior::writes(56, call, call.into()) };
    App { nodes: 4, background: true, layout: Layout::striped(64 << 10), ..App::new("checkpoint", plan) }
}

fn run_on(servers: u32, apps: Vec<App>, duration: Option<Duration>) -> Results {
    let disk = HddProfile { extent_bytes: 128 << 20, ..HddProfile::SAS_7200 };
    let link = LinkProfile { bytes_per_second: 10_000_000_000, latency: Duration::from_micros(50) };
    let group = ServerGroup { link, ..ServerGroup::new(servers, DeviceProfile::Hdd(disk)) };
    let scenario = Scenario { duration, servers: vec![group], apps, ..Scenario::default() };
    run(&scenario, &PolicySpec::new("policy", settings(PolicyKind::Isolation)))
}

/// How many times as long as alone the small application takes, and what the checkpoint keeps: means of eight runs, in
/// which the small one comes at different moments.
fn outcome(servers: u32) -> (f64, f64) {
    let run_time = |results: &Results| results.app("small").unwrap().run_time().unwrap().as_secs_f64();
    let alone = run_time(&run_on(servers, vec![small(4)], None));
    let large = run_on(servers, vec![App { background: false, ..checkpoint(servers) }], Some(Duration::from_secs(6)));
    let large = large.apps[0].bytes() as f64 / 6.0;
    let outcomes = (0..8).map(|moment| {
        let start = Duration::from_millis(1500 + 70 * moment);
        let both = run_on(servers, vec![App { start, ..small(4) }, checkpoint(servers)], None);
        let took = run_time(&both);
        [took / alone, both.apps[1].bytes() as f64 / (took + start.as_secs_f64()) / large]
    });
    outcomes.fold((0.0, 0.0), |sum, one| (sum.0 + one[0] / 8.0, sum.1 + one[1] / 8.0))
}

/// `vpfs demo` as a simulation: what the default policy promises there holds.
///
/// Symptom: with a common decision, the small job took 1.26 times as long, and the checkpoint kept 57 %. Cause: who was
/// not named in a decision counted as interactive at a server, also who came after it, so 54 of the checkpoint's 56
/// writes went at once; and a job that pauses for 0.6 s counted as gone. Proof: both keep as much as with the policy
/// before, 1.08 and 87 %.
#[test]
fn the_small_application_takes_a_tenth_longer_and_the_checkpoint_keeps_eight_tenths() {
    for servers in [4, 1] {
        let (times, kept) = outcome(servers);
        println!("{servers} servers: {times:.2} times as long, {kept:.2} kept");
        assert!(times <= 1.12 && kept >= 0.8, "{servers} servers: {times:.2}, {kept:.2}");
    }
}

//! Depth and slot costs found from completions, on device models: compared with the best depth that a sweep finds.
//!
//! `cargo test --release -p vpfs-model --test adaptive -- --nocapture` prints the tables of docs/guide/policies.md.

mod changing;
mod closed_loop;

use std::time::Duration;

use changing::{Change, Replaced, Scaled};
use closed_loop::{Clients, Trace, run};
use vpfs_core::{AppId, Bytes, Depth, Learned, OpKind, Policy, PolicyKind, Settings, SlotCostTable, Time};
use vpfs_model::device::{Device, DeviceProfile, HddProfile, IoKind, SsdProfile};

/// Application 0 always has more to do, application 1 is small and sends little.
#[derive(Clone)]
struct Load {
    name: &'static str,
    device: DeviceProfile,
    clients: [Clients; 2],
    /// By then the depth has settled, regardless of its initial value.
    settled: Time,
    until: Time,
}

const SMALL: AppId = AppId(1);
const SWEEP: [u32; 12] = [1, 4, 8, 10, 12, 14, 16, 20, 30, 36, 52, 64];

fn secs(seconds: u64) -> Time {
    Time::from_millis(seconds * 1000)
}

fn clients(kind: IoKind, kib: u64, processes: u32, think_ms: u64) -> Clients {
    Clients { kind, sizes: vec![Bytes::kib(kib)], processes, think: Duration::from_millis(think_ms) }
}

fn on_disk(name: &'static str, heavy: Clients, think_ms: u64) -> Load {
    let clients = [heavy, clients(IoKind::Write, 64, 1, think_ms)];
    Load { name, device: DeviceProfile::hdd(), clients, settled: secs(40), until: secs(140) }
}

fn on_flash(name: &'static str, heavy: Clients, seconds: u64) -> Load {
    let clients = [heavy, clients(IoKind::Read, 4, 1, 5)];
    Load { name, device: DeviceProfile::ssd(), clients, settled: secs(6), until: secs(seconds) }
}

fn small_on_disk() -> Load {
    on_disk("disk, 64 KiB writes", clients(IoKind::Write, 64, 64, 0), 50)
}

fn small_on_flash() -> Load {
    on_flash("flash, 64 KiB writes", clients(IoKind::Write, 64, 64, 0), 26)
}

fn loads() -> [Load; 5] {
    [
        small_on_disk(),
        on_disk("disk, 2 MiB writes", clients(IoKind::Write, 2048, 32, 0), 500),
        small_on_flash(),
        on_flash("flash, 2 MiB writes", clients(IoKind::Write, 2048, 32, 0), 46),
        on_flash("flash, 4 KiB reads", clients(IoKind::Read, 4, 128, 0), 16),
    ]
}

fn policy(depth: u32, adaptive: bool) -> Policy {
    let depth = Depth::new(depth).expect("not zero");
    let settings = Settings::new(PolicyKind::SfqDPlus, depth, SlotCostTable::default());
    Policy::new(&Settings { adaptive, ..settings }, 0)
}

impl Load {
    fn run(&self, depth: u32, adaptive: bool) -> Trace {
        self.run_on(&mut *self.device.build(), depth, adaptive)
    }

    fn run_on(&self, device: &mut dyn Device, depth: u32, adaptive: bool) -> Trace {
        run(&mut policy(depth, adaptive), device, &self.clients, 1, self.until)
    }

    /// Total throughput, and that of the small application.
    fn score(&self, trace: &Trace) -> (f64, f64) {
        (trace.bandwidth(self.settled, self.until), trace.rate(SMALL, self.settled, self.until))
    }

    /// The best static depth: the smallest one that reaches 95 % of the highest throughput of any [vPFS+ §III-B].
    fn best(&self) -> (u32, (f64, f64)) {
        let scores = SWEEP.map(|depth| (depth, self.score(&self.run(depth, false))));
        let most = scores.iter().map(|(_, (throughput, _))| *throughput).fold(0.0, f64::max);
        *scores.iter().find(|(_, (throughput, _))| *throughput >= 0.95 * most).expect("the largest one does")
    }
}

/// Seconds until the depth stays within a third of its final value.
fn settled_after(trace: &Trace) -> f64 {
    let (_, end) = *trace.depths.last().expect("a depth was found");
    let near = |depth: u32| 3 * depth.abs_diff(end) <= end.max(3);
    let last_far = trace.depths.iter().rposition(|&(_, depth)| !near(depth));
    last_far.map_or(0.0, |last| trace.depths[last + 1].0.since(Time::ZERO).as_secs_f64())
}

/// From far too small and from far too large values, the depth settles where both applications get what they get at the
/// best static depth.
#[test]
fn it_is_as_good_as_the_best_static_depth() {
    println!("load                  best D  from      found  settled after  throughput  isolation");
    let mut failures = 0;
    for load in loads() {
        let (best, (throughput, rate)) = load.best();
        for start in [1, 256] {
            let trace = load.run(start, true);
            let (least, most) = trace.band(load.settled);
            let score = load.score(&trace);
            let (throughput, rate) = (score.0 / throughput * 100.0, score.1 / rate * 100.0);
            let (name, found, settled) = (load.name, format!("{least}-{most}"), settled_after(&trace));
            println!("{name:20} {best:7} {start:5} {found:>10} {settled:12.1} s {throughput:9.1} % {rate:8.1} %");
            let stays = most <= least + least / 2 + 1;
            failures += u32::from(!stays || throughput < 95.0 || rate < 95.0);
        }
    }
    assert_eq!(failures, 0, "loads whose results differ from the expected table");
}

/// Total throughput and the small application's rate after `from`, relative to those of `best`.
fn relative(trace: &Trace, best: &Trace, from: Time, until: Time) -> (f64, f64) {
    let of = |trace: &Trace| (trace.bandwidth(from, until), trace.rate(SMALL, from, until));
    let (ours, best) = (of(trace), of(best));
    (ours.0 / best.0, ours.1 / best.1)
}

/// A device that becomes four times slower or faster needs the same depth: it is kept, or found again at once.
#[test]
fn the_depth_stays_when_the_device_changes_its_speed() {
    for (load, seconds) in [(small_on_disk(), 120), (small_on_flash(), 12)] {
        for (faster, slower) in [(1, 4), (4, 1)] {
            let load = Load { until: load.settled + Duration::from_secs(seconds), ..load.clone() };
            let change = Change { at: load.settled, faster, slower };
            let run = |depth, adaptive| load.run_on(&mut Scaled::new(load.device.build(), change), depth, adaptive);
            let trace = run(256, true);
            let (least, most) = trace.band(load.settled);
            let best = if load.settled == small_on_disk().settled { 14 } else { 30 };
            let (throughput, rate) = relative(&trace, &run(best, false), load.settled, load.until);
            println!("{}: {faster}/{slower}: depth {least}-{most}, {throughput:.3} {rate:.3}", load.name);
            assert!(least >= best / 2 && most <= best + best / 4, "{:?}", trace.depths);
            assert!(throughput >= 0.95 && rate >= 0.95, "{throughput} {rate}");
        }
    }
}

/// Flash with four times as many channels, or a quarter of them, needs a different depth; it is found within seven
/// seconds.
#[test]
fn the_depth_follows_the_device() {
    let flash = |channels| Load {
        device: DeviceProfile::Ssd(SsdProfile { channels, ..SsdProfile::PCIE_X4 }),
        ..small_on_flash()
    };
    for (before, after) in [(8, 2), (2, 8), (8, 32)] {
        let (old, new) = (flash(before), flash(after));
        let (best, _) = new.best();
        let run = |depth, adaptive| {
            old.run_on(&mut Replaced::new(old.device.build(), old.settled, new.device.build()), depth, adaptive)
        };
        let trace = run(14, true);
        let from = old.settled + Duration::from_secs(7);
        let (throughput, rate) = relative(&trace, &run(best, false), from, old.until);
        println!("{before} to {after} channels: best {best}, {:?}, {throughput:.3} {rate:.3}", trace.band(from));
        assert!(throughput >= 0.95 && rate >= 0.95, "{before} to {after}: {throughput} {rate} {:?}", trace.depths);
    }
}

/// On disks that need more or less time for each byte, large requests get slot costs to match.
#[test]
fn slot_costs_follow_the_disk() {
    let found = |bytes_per_second| {
        let profile = HddProfile { bytes_per_second, ..HddProfile::SAS_7200 };
        let mut policy = policy(14, true);
        let clients = [clients(IoKind::Write, 2048, 32, 0), clients(IoKind::Write, 64, 4, 50)];
        run(&mut policy, &mut *DeviceProfile::Hdd(profile).build(), &clients, 1, secs(120));
        let Some(Learned::Slots { slot_costs, .. }) = policy.learned(Time::ZERO) else { panic!("they are looked for") };
        [64, 2048].map(|kib| slot_costs.slot_cost(OpKind::Write, Bytes::kib(kib)).get())
    };
    let costs = [18_000_000, 72_000_000, 288_000_000].map(found);
    println!("{costs:?}");
    assert!(costs.iter().all(|[small, _]| *small == 1), "{costs:?}");
    let [slow, paper, fast] = costs.map(|[_, large]| large);
    assert!((9..=18).contains(&slow) && (4..=6).contains(&paper) && (1..=3).contains(&fast), "{costs:?}");
}

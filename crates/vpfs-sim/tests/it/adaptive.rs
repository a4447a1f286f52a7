//! Random workloads under every policy. Every run checks conservation, depth and waiting times; these tests check that
//! all applications finish, and that equal runs are equal.

use std::time::Duration;

use crate::common::{ior, run, sfq};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use vpfs_core::{Bytes, Cap, Depth, PolicyKind, Scope, Settings, SharingMode, SlotCostTable, Target, Weight};
use vpfs_model::device::DeviceProfile;
use vpfs_model::plan::{Btio, BtioClass, FileMode, Interactive, Ior, Md, Order, Phase};
use vpfs_sim::{App, Layout, PolicySpec, Scenario, ServerGroup, Workload};

fn policies() -> Vec<PolicySpec> {
    let plain = |kind| Settings::new(kind, Depth::new(8).unwrap(), SlotCostTable::default());
    let shared = |mode| {
        let mut settings = plain(PolicyKind::SfqDPlus);
        settings.sharing.mode = mode;
        settings.sharing.broadcast_threshold = Bytes::kib(256);
        settings
    };
    let mut policies = vec![
        PolicySpec::fifo(),
        sfq(4),
        PolicySpec::new("sfq-d-plus", plain(PolicyKind::SfqDPlus)),
        PolicySpec::new("threshold", shared(SharingMode::Threshold)),
        PolicySpec::new("layout", shared(SharingMode::Layout)),
        PolicySpec::new("two-level", plain(PolicyKind::TwoLevel)),
        PolicySpec::new("ioco", plain(PolicyKind::Ioco)),
        PolicySpec::new("isolation", plain(PolicyKind::Isolation)),
    ];
    let adaptive = Settings { adaptive: true, ..plain(PolicyKind::SfqDPlus) };
    policies.push(PolicySpec::new("adaptive", adaptive));
    let own_queue = Settings { metadata_depth: Depth::new(2), ..plain(PolicyKind::SfqDPlus) };
    policies.push(PolicySpec::new("metadata queue", own_queue));
    policies
}

fn workload(random: &mut Xoshiro256PlusPlus) -> Workload {
    let processes = random.random_range(1..9);
    match random.random_range(0..4) {
        0 => {
            let think_write = Duration::from_millis(50);
            let class = Btio { processes, nodes: 1, iterations: 3, total_bytes: 100_000, ..Btio::class(BtioClass::A) };
            Btio { think_write, think_read: think_write, ..class }.into()
        }
        1 => {
            let shared_directory = random.random();
            Md { processes, items: random.random_range(1..20), listings: 1, shared_directory, data: None }.into()
        }
        _ => {
            let transfer_bytes: u32 = 4096 << random.random_range(0..10);
            Ior {
                transfer_bytes,
                block_bytes: u64::from(transfer_bytes) * random.random_range(1..20),
                read: random.random(),
                order: if random.random() { Order::Random } else { Order::Sequential },
                file_mode: if random.random() { FileMode::Shared } else { FileMode::PerProcess },
                time_limit: None,
                ..ior(processes)
            }
            .into()
        }
    }
}

fn app(number: u32, random: &mut Xoshiro256PlusPlus) -> App {
    let first = random.random_range(0..5);
    let layout = Layout::striped(4096 << random.random_range(0..6)).over(first..random.random_range(first + 1..7));
    let capped = random.random_range(0..4) == 0;
    let deadline = Duration::from_millis(random.random_range(10..500));
    let scope = if random.random_bool(0.5) { Scope::Server } else { Scope::Total };
    App {
        weight: Weight::new(random.random_range(1..33)).unwrap(),
        cap: capped.then(|| Cap::new(20_000_000, Bytes::mib(1)).unwrap()),
        target: random.random_bool(0.5).then_some(Target { rate: Bytes::mib(10), scope, deadline }),
        start: Duration::from_millis(random.random_range(0..500)),
        nodes: random.random_range(1..4),
        outstanding: random.random_range(1..4),
        layout,
        ..App::new(format!("app {number}"), workload(random))
    }
}

#[test]
fn random_workloads_get_done_under_every_policy() {
    let devices = [DeviceProfile::hdd(), DeviceProfile::ssd(), DeviceProfile::by_name("vpfs-server").unwrap()];
    for seed in 0..6 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let apps = (0..random.random_range(1..6)).map(|number| app(number, &mut random)).collect();
        let device = devices[random.random_range(0..devices.len())].clone();
        let servers = vec![ServerGroup::new(6, device)];
        let wait_limit = Duration::from_secs(60);
        let scenario = Scenario { seed, servers, apps, wait_limit, ..Scenario::default() };
        for policy in policies() {
            println!("seed {seed}, {}", policy.name);
            let results = run(&scenario, &policy);
            assert!(results.apps.iter().all(|app| app.finish.is_some()));
            assert_eq!(results.digest(), run(&scenario, &policy).digest());
        }
    }
}

/// Symptom: "server 0 uses 33 slots, its depth is 14" under `adaptive`. Cause: when a comparison with a larger depth
/// ends, the smaller one applies at once, while requests dispatched before are still in the storage; the check took
/// that for a broken rule. Proof: this run ended with that message.
#[test]
fn a_depth_that_is_lowered_takes_nothing_back() {
    let adaptive = Settings {
        adaptive: true,
        ..Settings::new(PolicyKind::SfqDPlus, Depth::new(14).unwrap(), SlotCostTable::default())
    };
    let layout = Layout::striped(64 << 10);
    let small = Interactive {
        processes: 1,
        transfer_bytes: 8 << 10,
        file_bytes: 256 << 20,
        think: Duration::from_millis(2),
        time: Duration::from_secs(100),
        read: false,
        seed: 1,
    };
    let scenario = Scenario {
        duration: Some(Duration::from_secs(2)),
        servers: vec![ServerGroup::new(4, DeviceProfile::by_name("one-head").unwrap())],
        apps: vec![
            App { layout: layout.clone(), phases: vec![Phase::Write], ..App::new("small", small) },
            App { layout, phases: vec![Phase::Write], ..App::new("large", Ior { transfer_bytes: 4 << 20, ..ior(12) }) },
        ],
        ..Scenario::default()
    };
    let results = run(&scenario, &PolicySpec::new("adaptive", adaptive));
    assert!(results.apps.iter().all(|app| app.written_bytes > 0));
}

//! Random workloads under every policy. Conservation, depth and waiting times are checked in every run; here, that all get
//! done, and equal runs are equal.
#![allow(clippy::unwrap_used, reason = "a test fails with a panic")]

mod common;

use std::time::Duration;

use common::{ior, run, sfq};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use vpfs_core::{Bytes, Cap, Depth, PolicyKind, Settings, SharingMode, SlotCostTable, Target, Weight};
use vpfs_device::DeviceProfile;
use vpfs_plan::{Btio, BtioClass, FileMode, Ior, Md, Order};
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
    App {
        weight: Weight::new(random.random_range(1..33)).unwrap(),
        cap: capped.then(|| Cap::new(20_000_000, Bytes::mib(1)).unwrap()),
        target: random.random_bool(0.5).then_some(Target { rate: Bytes::mib(10), deadline }),
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

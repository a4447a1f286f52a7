//! Scenarios shared by the tests.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::time::Duration;

use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable, Weight};
use vpfs_model::plan::{FileMode, Ior, Order, Phase};
use vpfs_sim::{App, Layout, PolicySpec, Results, Scenario, Simulation};

pub(crate) fn ior(processes: u32) -> Ior {
    Ior {
        processes,
        transfer_bytes: 1 << 20,
        block_bytes: 64 << 20,
        segments: 1,
        file_mode: FileMode::PerProcess,
        order: Order::Sequential,
        write: true,
        read: false,
        mixed: false,
        start_offset_bytes: 0,
        barrier: false,
        read_shift: 0,
        fsync: false,
        keep: true,
        time_limit: Some(Duration::from_secs(1000)),
        seed: 1,
    }
}

pub(crate) fn app(name: &str, weight: u32) -> App {
    let weight = Weight::new(weight).unwrap();
    App { weight, nodes: 4, layout: Layout::striped(64 << 10), phases: vec![Phase::Write], ..App::new(name, ior(16)) }
}

pub(crate) fn sfq(depth: u32) -> PolicySpec {
    PolicySpec::new("sfq-d", Settings::new(PolicyKind::SfqD, Depth::new(depth).unwrap(), SlotCostTable::uniform()))
}

pub(crate) fn run(scenario: &Scenario, policy: &PolicySpec) -> Results {
    Simulation::new(scenario, policy).unwrap().run().unwrap()
}

//! The integration tests of vpfs-sim, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod devices;
mod isolation;
mod promises;
mod runs;
mod scenarios;
mod sharing;

use std::time::Duration;

use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable, Weight};
use vpfs_sim::model::plan::{Interactive, Ior, Phase};
use vpfs_sim::{App, Layout, PolicySpec, Results, Scenario, Simulation};

fn ior(processes: u32) -> Ior {
    let time_limit = Some(Duration::from_secs(1000));
    Ior { keep: true, time_limit, ..Ior::writes(processes, 1 << 20, 64 << 20) }
}

fn app(name: &str, weight: u32) -> App {
    let weight = Weight::new(weight).unwrap();
    App { weight, nodes: 4, layout: Layout::striped(64 << 10), phases: vec![Phase::Write], ..App::new(name, ior(16)) }
}

fn sfq(depth: u32) -> PolicySpec {
    PolicySpec::new("sfq-d", Settings::new(PolicyKind::SfqD, Depth::new(depth).unwrap(), SlotCostTable::uniform()))
}

fn run(scenario: &Scenario, policy: &PolicySpec) -> Results {
    Simulation::new(scenario, policy).unwrap().run().unwrap()
}

/// With D = 14, the paper's disk.
fn settings(kind: PolicyKind) -> Settings {
    Settings::new(kind, Depth::new(14).unwrap(), SlotCostTable::default())
}

/// Processes that write all the time, at random offsets.
fn random_writes(processes: u32, kib: u32) -> Interactive {
    Interactive {
        processes,
        transfer_bytes: kib << 10,
        file_bytes: 256 << 20,
        think: Duration::ZERO,
        time: Duration::MAX,
        read: false,
        fills: true,
        seed: 1,
    }
}

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
use vpfs_sim::model::plan::{Ior, Phase};
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

//! Scenarios shared by the tests.

use std::time::Duration;

use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable, Weight};
use vpfs_sim::model::plan::{Ior, Phase};
use vpfs_sim::{App, Layout, PolicySpec, Results, Scenario, Simulation};

pub(crate) fn ior(processes: u32) -> Ior {
    let time_limit = Some(Duration::from_secs(1000));
    Ior { keep: true, time_limit, ..Ior::writes(processes, 1 << 20, 64 << 20) }
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

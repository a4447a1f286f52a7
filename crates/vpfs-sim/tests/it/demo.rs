//! `vpfs demo` as a simulation: what the default policy promises there holds.

use std::time::Duration;

use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable};
use vpfs_sim::model::device::{DeviceProfile, HddProfile};
use vpfs_sim::model::plan::{Btio, BtioClass, Ior};
use vpfs_sim::{App, Layout, PolicySpec, Results, Scenario, ServerGroup};

use crate::common::run;

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
    let link = vpfs_sim::LinkProfile { bytes_per_second: 10_000_000_000, latency: Duration::from_micros(50) };
    let group = ServerGroup { link, ..ServerGroup::new(servers, DeviceProfile::Hdd(disk)) };
    let scenario = Scenario { duration, servers: vec![group], apps, ..Scenario::default() };
    let settings = Settings::new(PolicyKind::Isolation, Depth::new(14).unwrap(), SlotCostTable::default());
    run(&scenario, &PolicySpec::new("policy", settings))
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

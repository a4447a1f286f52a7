//! What a simulation tells: what the time of an application is spent on, and transfers while it runs.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use vpfs_sim::model::device::DeviceProfile;
use vpfs_sim::model::plan::{Call, Extent, Interactive, Ior, Noncontig, Phase, Plan, Step};
use vpfs_sim::{App, AppResults, PolicySpec, Scenario, ServerGroup, Simulation, Transfer, Workload};

use crate::ior;

/// The parts of the calls' time in scheduler, storage and network, of all processes on one server.
fn parts(server: &str, scheduler: &str, ior: &str) -> [f64; 3] {
    let text = format!(
        "[[servers]]\n{server}\n[[policy]]\nname = \"p\"\nscheduler = {{ {scheduler} }}\n\
         [[app]]\nname = \"a\"\nior = {{ block = \"8MiB\", file = \"per-process\", {ior} }}\n"
    );
    let scenario = Scenario::parse("my.toml", &text).unwrap();
    let results = Simulation::new(&scenario, &scenario.policies[0]).unwrap().run().unwrap();
    let AppResults { io_time, scheduler_time, storage_time, .. } = &results.apps[0];
    let network = io_time.checked_sub(*scheduler_time + *storage_time).unwrap();
    [*scheduler_time, *storage_time, network].map(|time| time.as_secs_f64() / io_time.as_secs_f64())
}

const ONE: &str = "policy = \"sfq-d\", depth = 1, slot_cost = []";

#[test]
fn calls_wait_where_the_bottleneck_is() {
    let hdd = "device = \"hdd\"";
    let [scheduler, storage, network] = parts(hdd, ONE, "processes = 8");
    assert!(scheduler > 0.7 && storage < 0.3 && network < 0.1, "{scheduler} {storage} {network}");
    let [scheduler, storage, network] = parts(hdd, "policy = \"fifo\"", "processes = 8");
    assert!(scheduler == 0.0 && storage > 0.9, "{scheduler} {storage} {network}");
    for rw in ["read = \"off\"", "read = \"on\", write = \"off\""] {
        let slow = "device = \"none\"\nlink_rate = \"1MB/s\"";
        let [scheduler, storage, network] = parts(slow, "policy = \"fifo\"", &format!("processes = 2, {rw}"));
        assert!(scheduler == 0.0 && storage < 0.01 && network > 0.99, "{rw}: {scheduler} {storage} {network}");
    }
}

/// Once, it was said to have waited for its own processes for the whole run.
#[test]
fn an_application_that_never_starts_spends_no_time() {
    let text = "duration = \"2s\"\n[[servers]]\n[[policy]]\nname = \"p\"\nscheduler = { policy = \"fifo\" }\n\
                [[app]]\nname = \"now\"\nior = { block = \"1MiB\" }\n[[app]]\nname = \"never\"\nstart = \"3s\"\nior = {}\n";
    let scenario = Scenario::parse("my.toml", text).unwrap();
    let results = Simulation::new(&scenario, &scenario.policies[0]).unwrap().run().unwrap();
    let [now, never] = [0, 1].map(|app| results.active(&results.apps[app]));
    assert!(!now.is_zero() && never.is_zero(), "{now:?} {never:?}");
}

/// Eight calls at a time, one of which is served: each waits while seven others move data and are stored.
#[test]
fn with_one_slot_each_waits_for_all_others() {
    let [scheduler, storage, network] = parts("device = \"one-head\"", ONE, "processes = 8, transfer = \"64KiB\"");
    let waits = scheduler / (storage + network);
    assert!((6.5..7.1).contains(&waits), "{waits}");
}

fn transfers(apps: Vec<App>) -> Vec<Transfer> {
    transfers_on(ServerGroup::new(3, DeviceProfile::hdd()), apps)
}

fn transfers_on(servers: ServerGroup, apps: Vec<App>) -> Vec<Transfer> {
    let servers = vec![servers];
    let simulation = Simulation::new(&Scenario { servers, apps, ..Scenario::default() }, &PolicySpec::fifo()).unwrap();
    let mut all: Vec<Transfer> = Vec::new();
    simulation.run_traced(|_| ControlFlow::Continue(()), |transfer| all.push(transfer)).unwrap();
    assert!(all.windows(2).all(|pair| pair[0].finished <= pair[1].finished), "not in the order of their ends");
    assert!(all.iter().all(|transfer| transfer.issued < transfer.finished));
    all
}

/// What the processes of a plan move in a phase, sorted.
fn moved(plan: &impl Plan, phase: Phase) -> Vec<(u32, bool, Extent)> {
    let calls = (0..plan.processes()).flat_map(|process| plan.steps(phase, process).map(move |step| (process, step)));
    let extents = calls.filter_map(|(process, step)| match step {
        Step::Call(call) => {
            let is_write = matches!(call, Call::Write(_) | Call::WriteStrided(_));
            Some(call.extents().map(move |extent| (process, is_write, extent)))
        }
        _ => None,
    });
    sorted(extents.flatten())
}

fn sorted(transfers: impl Iterator<Item = (u32, bool, Extent)>) -> Vec<(u32, bool, Extent)> {
    let mut all: Vec<_> = transfers.collect();
    all.sort_by_key(|(process, is_write, extent)| (extent.file, extent.offset, *is_write, *process));
    all
}

#[test]
fn every_block_of_every_application_is_told_once() {
    let ior = Ior { block_bytes: 8 << 20, read: true, time_limit: None, ..ior(4) };
    let noncontig = Noncontig { requests: 8, ..Noncontig::paper(4) };
    let all = transfers(vec![App::new("a", ior.clone()), App::new("b", Workload::Plan(Arc::new(noncontig.clone())))]);
    let of = |app| {
        let own = all.iter().filter(move |transfer| transfer.app == app);
        sorted(own.map(|transfer| (transfer.process, transfer.is_write, transfer.extent)))
    };
    let both = |plan: &dyn Fn(Phase) -> Vec<(u32, bool, Extent)>| {
        sorted([Phase::Write, Phase::Read].into_iter().flat_map(plan))
    };
    assert_eq!(of(0), both(&|phase| moved(&ior, phase)));
    assert_eq!(of(1), both(&|phase| moved(&noncontig, phase)));
}

#[test]
fn preparation_is_not_told() {
    let plan = Interactive {
        processes: 2,
        transfer_bytes: 4096,
        file_bytes: 1 << 20,
        think: Duration::from_millis(1),
        time: Duration::from_secs(1),
        read: true,
        fills: true,
        seed: 1,
    };
    let all = transfers(vec![App::new("a", plan)]);
    assert!(all.len() > 10 && all.iter().all(|transfer| !transfer.is_write && transfer.extent.bytes == 4096));
}

/// Once, a read asked for its next piece both when one was submitted and when one was done. On storage that answers at
/// once, pieces were asked for twice, the last one of them after the read was done: the simulator panicked.
#[test]
fn reads_in_pieces_end_once_where_storage_takes_no_time() {
    let memory = ServerGroup { flow_buffers: 8, ..ServerGroup::new(3, DeviceProfile::None) };
    let ior = Ior { transfer_bytes: 8 << 20, block_bytes: 16 << 20, read: true, time_limit: None, ..ior(4) };
    let all = transfers_on(memory, vec![App::new("a", ior)]);
    assert_eq!(all.iter().filter(|transfer| !transfer.is_write).count(), 8);
}

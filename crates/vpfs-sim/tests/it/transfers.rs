//! Transfers that are told while a simulation runs.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::common;

use vpfs_sim::model::device::DeviceProfile;
use vpfs_sim::model::plan::{Call, Extent, Interactive, Ior, Noncontig, Phase, Plan, Step};
use vpfs_sim::{App, PolicySpec, Scenario, ServerGroup, Simulation, Transfer, Workload};

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
    let ior = Ior { block_bytes: 8 << 20, read: true, time_limit: None, ..common::ior(4) };
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
    let ior = Ior { transfer_bytes: 8 << 20, block_bytes: 16 << 20, read: true, time_limit: None, ..common::ior(4) };
    let all = transfers_on(memory, vec![App::new("a", ior)]);
    assert_eq!(all.iter().filter(|transfer| !transfer.is_write).count(), 8);
}

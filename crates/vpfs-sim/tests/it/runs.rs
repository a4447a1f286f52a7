//! Whole simulations: cases with a known answer, requests that do not reach all servers at once, what coordination by
//! windows of time needs to know of their times, steps that wait for a time, and what a simulation tells.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable};
use vpfs_sim::model::device::{DeviceProfile, NullAioProfile};
use vpfs_sim::model::plan::{Call, Dir, Extent, FileId, Interactive, Ior, Noncontig, Phase, Plan, Step, Steps};
use vpfs_sim::{
    App, AppResults, CallTrace, Layout, LinkProfile, PolicySpec, RequestTime, Results, Scenario, ServerGroup,
    Simulation, Transfer, Workload,
};

use crate::{ior, run};

const GIGABIT: LinkProfile = LinkProfile::GIGABIT;
const MIB: u64 = 1 << 20;

fn scenario(servers: ServerGroup, phase: Phase, ior: Ior) -> Scenario {
    let app = App { phases: vec![phase], layout: Layout::striped(64 << 10), ..App::new("app", ior) };
    Scenario { servers: vec![servers], apps: vec![app], ..Scenario::default() }
}

/// One call of 1 MiB on an idle server with flash.
fn one_call(phase: Phase, link: LinkProfile) -> Duration {
    let one = Ior { processes: 1, block_bytes: MIB, time_limit: None, read: true, ..ior(1) };
    let group = ServerGroup { link, ..ServerGroup::new(1, DeviceProfile::ssd()) };
    run(&scenario(group, phase, one), &PolicySpec::fifo()).apps[0].run_time().unwrap()
}

/// Eight channels take four pieces of 32 KiB each.
fn flash(base_us: u64, bytes_per_second: u64) -> Duration {
    let transfer = Duration::from_nanos((32 << 10) * 1_000_000_000 / bytes_per_second);
    (Duration::from_micros(base_us) + transfer) * 4
}

#[test]
fn one_client_takes_exactly_what_the_models_say() {
    // There and back, and for a write once more, since the client sends only when permitted.
    let ways = |count| GIGABIT.latency * count;
    assert_eq!(one_call(Phase::Write, GIGABIT), ways(4) + GIGABIT.transfer_time(MIB));
    assert_eq!(one_call(Phase::Read, GIGABIT), ways(2) + GIGABIT.transfer_time(MIB));
    let ideal = LinkProfile::IDEAL;
    let first_buffer = ideal.transfer_time(256 << 10);
    assert_eq!(one_call(Phase::Write, ideal), first_buffer + flash(250, 150_000_000));
    assert_eq!(one_call(Phase::Read, ideal), flash(60, 115_000_000) + first_buffer);
}

#[test]
fn links_limit_throughput() {
    for phase in [Phase::Write, Phase::Read] {
        let load = Ior { time_limit: None, block_bytes: 64 * MIB, read: true, ..ior(8) };
        let servers = scenario(ServerGroup::new(2, DeviceProfile::None), phase, load);
        let two = run(&servers, &PolicySpec::fifo()).throughput();
        assert!((0.95..=1.0).contains(&(two / 234e6)), "{two}");
        let one_node = Scenario { node_link: Some(GIGABIT), ..servers };
        let one = run(&one_node, &PolicySpec::fifo()).throughput();
        assert!((0.95..=1.0).contains(&(one / 117e6)), "{one}");
    }
}

#[test]
fn more_calls_outstanding_hide_latency() {
    let slow = LinkProfile { latency: Duration::from_millis(5), ..GIGABIT };
    let group = ServerGroup { link: slow, ..ServerGroup::new(1, DeviceProfile::None) };
    let load = Ior { processes: 1, time_limit: None, block_bytes: 16 * MIB, ..ior(1) };
    let one = scenario(group, Phase::Write, load);
    let mut four = one.clone();
    four.apps[0].outstanding = 4;
    let time = |scenario| run(scenario, &PolicySpec::fifo()).apps[0].run_time().unwrap();
    assert_eq!(time(&one), (slow.latency * 4 + slow.transfer_time(MIB)) * 16);
    assert!(time(&four) < time(&one) / 2);
}

const SERVERS: u32 = 4;

/// Eight applications make one call each, of one strip at each server, on servers that take no time.
fn results(seed: u64, jitter: Duration) -> Results {
    let once = Ior { transfer_bytes: 256 << 10, block_bytes: 256 << 10, time_limit: None, ..ior(1) };
    let app = |number| App { phases: vec![Phase::Write], ..App::new(format!("app-{number}"), once.clone()) };
    let servers = ServerGroup { link: LinkProfile::IDEAL, ..ServerGroup::new(SERVERS, DeviceProfile::None) };
    let apps = (0..8).map(app).collect();
    let scenario = Scenario { seed, jitter, trace: true, servers: vec![servers], apps, ..Scenario::default() };
    run(&scenario, &PolicySpec::fifo())
}

/// The applications in the order in which a server completes their requests.
fn order(results: &Results, server: u32) -> Vec<u32> {
    let part = |call: &CallTrace| {
        let part = call.parts.iter().find(|part| part.server == server).unwrap();
        (part.finished, call.app)
    };
    let mut done: Vec<_> = results.trace.iter().map(part).collect();
    done.sort_unstable();
    done.into_iter().map(|(_, app)| app).collect()
}

#[test]
fn servers_see_applications_in_different_orders() {
    let with = results(1, Duration::from_millis(10));
    let orders: BTreeSet<_> = (0..SERVERS).map(|server| order(&with, server)).collect();
    assert_eq!(orders.len(), SERVERS as usize, "{orders:?}");
    let without = results(1, Duration::ZERO);
    assert!((1..SERVERS).all(|server| order(&without, server) == order(&without, 0)));
}

#[test]
fn jitter_lies_between_zero_and_its_most_and_follows_the_seed() {
    let most = Duration::from_millis(10);
    let late = |seed| {
        let done = results(seed, most).trace.into_iter().flat_map(|call| call.parts).map(|part| part.finished);
        done.collect::<Vec<_>>()
    };
    let times = late(1);
    let mean = times.iter().sum::<Duration>() / u32::try_from(times.len()).unwrap();
    assert!(times.iter().all(|time| *time <= most + Duration::from_micros(10)), "{times:?}");
    assert!(mean > most * 3 / 10 && mean < most * 7 / 10, "{mean:?}");
    assert_eq!(times, late(1));
    assert_ne!(times, late(2));
}

const SERVICE: Duration = Duration::from_secs(1);

/// The orders in which servers serve eight applications that make one call each at the same moment, while a ninth one
/// keeps all servers busy; their parts arrive up to `apart` later.
fn orders(request_time: RequestTime, apart: Duration) -> BTreeSet<Vec<u32>> {
    let once = Ior::writes(1, 256 << 10, 256 << 10);
    let app =
        |(number, start)| App { start, phases: vec![Phase::Write], ..App::new(format!("app-{number}"), once.clone()) };
    let starts = [0, 600, 600, 600, 600, 600, 600, 600, 600].map(Duration::from_millis);
    let device = DeviceProfile::NullAio(NullAioProfile { per_access: SERVICE, bytes_per_second: u64::MAX });
    let scenario = Scenario {
        jitter: apart,
        trace: true,
        servers: vec![ServerGroup { link: LinkProfile::IDEAL, ..ServerGroup::new(SERVERS, device) }],
        apps: (0..).zip(starts).map(app).collect(),
        ..Scenario::default()
    };
    let mut settings = Settings::new(PolicyKind::Ioco, Depth::new(1).unwrap(), SlotCostTable::uniform());
    settings.ioco.window = Duration::from_millis(250);
    let results = run(&scenario, &PolicySpec { request_time, ..PolicySpec::new("ioco", settings) });
    (0..SERVERS).map(|server| order(&results, server)).collect()
}

/// As long as the parts of a call are apart for less than a window, and no window ends between them, arrival is as good
/// as the time of issue.
#[test]
fn servers_agree_by_arrival_unless_a_window_ends_between_the_parts() {
    assert_eq!(orders(RequestTime::Issue, Duration::from_millis(390)).len(), 1);
    assert_eq!(orders(RequestTime::Arrival, Duration::from_millis(140)).len(), 1);
    assert!(orders(RequestTime::Arrival, Duration::from_millis(390)).len() > 1);
}

/// Writes at the given seconds of the phase.
#[derive(Debug)]
struct Paced(&'static [u64]);

impl Plan for Paced {
    fn processes(&self) -> u32 {
        1
    }

    fn phases(&self) -> Vec<Phase> {
        vec![Phase::Write]
    }

    fn steps(&self, _: Phase, _: u32) -> Steps {
        let call = Call::Write(Extent { file: FileId { dir: Dir::Base, number: 0 }, offset: 0, bytes: 1 });
        Box::new(self.0.iter().flat_map(move |&at| [Step::Until(Duration::from_secs(at)), Step::Call(call)]))
    }
}

/// Each call takes three seconds.
#[test]
fn a_process_waits_for_its_time_and_does_not_if_it_is_late() {
    let device = NullAioProfile { per_access: Duration::from_secs(3), bytes_per_second: u64::MAX };
    let link = LinkProfile::IDEAL;
    let app = App { start: Duration::from_secs(10), ..App::new("a", Workload::Plan(Arc::new(Paced(&[1, 2, 20])))) };
    let scenario = Scenario {
        trace: true,
        servers: vec![ServerGroup { link, ..ServerGroup::new(1, DeviceProfile::NullAio(device)) }],
        apps: vec![app],
        ..Scenario::default()
    };
    let results = run(&scenario, &PolicySpec::fifo());
    let issued: Vec<u64> = results.trace.iter().map(|call| call.issued.as_secs()).collect();
    assert_eq!(issued, [11, 14, 30], "the second one is late, the third one is not");
}

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

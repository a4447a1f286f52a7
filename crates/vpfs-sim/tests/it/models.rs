//! The models of devices, links and clients combined, in cases with a known answer.

use std::time::Duration;

use vpfs_sim::model::device::DeviceProfile;
use vpfs_sim::model::plan::{Ior, Phase};
use vpfs_sim::{App, Layout, LinkProfile, PolicySpec, Results, Scenario, ServerGroup};

use crate::common::{ior, run};

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

fn rate(results: &Results) -> f64 {
    results.throughput()
}

#[test]
fn links_limit_throughput() {
    for phase in [Phase::Write, Phase::Read] {
        let load = Ior { time_limit: None, block_bytes: 64 * MIB, read: true, ..ior(8) };
        let servers = scenario(ServerGroup::new(2, DeviceProfile::None), phase, load);
        let two = rate(&run(&servers, &PolicySpec::fifo()));
        assert!((0.95..=1.0).contains(&(two / 234e6)), "{two}");
        let one_node = Scenario { node_link: Some(GIGABIT), ..servers };
        let one = rate(&run(&one_node, &PolicySpec::fifo()));
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

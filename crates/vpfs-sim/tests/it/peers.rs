//! Sharing over servers, with failing coordination.

use std::time::Duration;

use crate::common;
use vpfs_core::{Bytes, PolicyKind, SharingMode};
use vpfs_sim::model::device::DeviceProfile;
use vpfs_sim::{App, Layout, Partition, PeerNetwork, PolicySpec, Results, Scenario, ServerGroup};

use crate::common::{app, run, sfq};

fn dsfq(mode: SharingMode) -> PolicySpec {
    let mut policy = sfq(4);
    policy.settings.sharing.mode = mode;
    policy.settings.sharing.broadcast_threshold = Bytes::mib(1);
    policy
}

/// One application has files on half of the servers, the other on all.
fn skewed() -> Scenario {
    let half = Layout::striped(64 << 10).over(0..4);
    Scenario {
        duration: Some(Duration::from_secs(60)),
        servers: vec![ServerGroup::new(8, DeviceProfile::hdd())],
        apps: vec![App { layout: half, ..app("half", 1) }, app("all", 1)],
        ..Scenario::default()
    }
}

fn ratio(results: &Results) -> f64 {
    let bytes = results.bytes_between(Duration::from_secs(20), Duration::from_secs(60));
    bytes[0] as f64 / bytes[1] as f64
}

/// Isolation shares the storage's time. Parts of equal size take about the same time, so bytes show it; with reports
/// each server charges what the part took, so the application that is alone on a server pays for its shorter queue.
#[test]
fn shares_of_device_time_hold_over_servers() {
    for (mode, tolerance) in [(SharingMode::Threshold, 0.15), (SharingMode::Layout, 0.05)] {
        let mut policy = dsfq(mode);
        policy.settings.kind = PolicyKind::Isolation;
        let total = ratio(&run(&equal_parts(), &policy));
        assert!((total - 1.0).abs() < tolerance, "{mode:?}: {total}");
    }
}

/// The same with requests whose parts have the same size on all servers.
fn equal_parts() -> Scenario {
    let mut scenario = skewed();
    scenario.apps[0].workload = vpfs_sim::model::plan::Ior { transfer_bytes: 512 << 10, ..common::ior(16) }.into();
    scenario
}

/// Groups of a tree share as well as all servers with each other: what is known late on each level is made up for.
#[test]
fn groups_share_as_well_as_all_pairs() {
    const SERVERS: u32 = 64;
    let fairness = |mode, group_size| {
        let mut scenario = skewed();
        scenario.duration = Some(Duration::from_secs(30));
        scenario.servers = vec![ServerGroup::new(SERVERS, DeviceProfile::hdd())];
        scenario.apps[0].layout = Layout::striped(64 << 10).over(0..SERVERS / 2);
        for app in &mut scenario.apps {
            app.workload = vpfs_sim::model::plan::Ior { transfer_bytes: 2 << 20, ..common::ior(128) }.into();
        }
        scenario.peers.settings.group_size = group_size;
        let results = run(&scenario, &dsfq(mode));
        let bytes = results.bytes_between(Duration::from_secs(10), Duration::from_secs(30));
        bytes[0] as f64 / bytes[1] as f64
    };
    let local = fairness(SharingMode::Local, 16);
    assert!(local < 0.8, "{local}: there is something to share");
    let [pairs, two_levels, three_levels] = [64, 16, 4].map(|size| fairness(SharingMode::Threshold, size));
    println!("half : all = {pairs:.3} by pairs, {two_levels:.3} in groups of 16, {three_levels:.3} in groups of 4");
    for ratio in [pairs, two_levels, three_levels] {
        assert!((0.95..1.05).contains(&ratio), "{pairs} {two_levels} {three_levels}");
    }
}

/// As above, in three levels of groups, while messages are lost, repeated and overtake each other, a part of the
/// cluster is cut off for ten seconds, and as many proxies as half of all restart. Restarts and cuts lose what was not
/// known yet, and no more.
#[test]
fn groups_share_again_after_faults() {
    const SERVERS: u32 = 64;
    let mut scenario = skewed();
    scenario.servers = vec![ServerGroup::new(SERVERS, DeviceProfile::hdd())];
    scenario.apps[0].layout = Layout::striped(64 << 10).over(0..SERVERS / 2);
    for app in &mut scenario.apps {
        app.workload = vpfs_sim::model::plan::Ior { transfer_bytes: 2 << 20, ..common::ior(128) }.into();
    }
    let cut = |from, to, servers: std::ops::Range<u32>| Partition {
        from: Duration::from_secs(from),
        to: Duration::from_secs(to),
        servers: servers.collect(),
    };
    scenario.peers = PeerNetwork {
        loss_ppm: 20_000,
        duplicate_ppm: 10_000,
        extra_delay: Duration::from_millis(100),
        partitions: vec![cut(10, 20, 20..44)],
        random_restarts: SERVERS / 2,
        ..PeerNetwork::default()
    };
    scenario.peers.settings.group_size = 4;
    let results = run(&scenario, &dsfq(SharingMode::Threshold));
    let coordination = results.coordination.as_ref().unwrap();
    assert!(coordination.lost > 1000 && coordination.duplicated > 500, "{coordination:?}");
    let fair = ratio(&results);
    println!("half : all = {fair:.3}");
    assert!((0.95..1.05).contains(&fair), "{fair}");
}

/// A threshold 20 times as large takes far fewer messages, although peers must hear of each other every other second:
/// keep-alives and acknowledgements ride on reports, here of servers that make one in 0.6 and in 1.7 seconds.
#[test]
fn a_larger_threshold_sends_far_fewer_messages_at_the_same_fairness() {
    let mut scenario = equal_parts();
    scenario.servers = vec![ServerGroup::new(4, DeviceProfile::hdd())];
    scenario.apps[0].layout = Layout::striped(64 << 10).over(0..2);
    let [small, large] = [Bytes::kib(512), Bytes::mib(10)].map(|threshold| {
        let mut policy = dsfq(SharingMode::Threshold);
        policy.settings.sharing.broadcast_threshold = threshold;
        let results = run(&scenario, &policy);
        assert!((ratio(&results) - 1.0).abs() < 0.03, "{threshold:?}: {}", ratio(&results));
        results.coordination.unwrap().messages
    });
    assert!(large > 0 && large * 10 < small, "{large} of {small} messages");
}

/// The fraction of time that a server spends on messages is lost to its storage.
#[test]
fn messages_cost_a_server_without_storage_its_work() {
    let servers = vec![ServerGroup::new(8, DeviceProfile::by_name("null-aio").unwrap())];
    let scenario = Scenario { servers, apps: vec![app("all", 1)], ..skewed() };
    let work = Duration::from_millis(1);
    let with = |message_work, mode| {
        let peers = PeerNetwork { message_work, ..PeerNetwork::default() };
        run(&Scenario { peers, ..scenario.clone() }, &dsfq(mode))
    };
    let (free, paid) = (with(Duration::ZERO, SharingMode::Threshold), with(work, SharingMode::Threshold));
    // Each message costs its sender and its receiver.
    let messages = 2.0 * paid.coordination.as_ref().unwrap().messages as f64 / 8.0;
    let spent = messages * work.as_secs_f64() / paid.elapsed.as_secs_f64();
    assert!(spent > 0.05, "{spent}");
    assert!((paid.throughput() / free.throughput() - (1.0 - spent)).abs() < 0.02, "{spent} spent");
    // A keep-alive a second to and from each of seven peers, which takes 1.4 % of the time.
    let silent = with(work, SharingMode::Layout).throughput();
    assert!(silent > 0.98 * free.throughput(), "{silent}");
}

const STRIPED: &str = r#"
duration = "15s"
[[servers]]
count = 24
device = "null-aio"
[[policy]]
name = "threshold"
scheduler = { policy = "sfq-d", depth = 8, sharing = "threshold", broadcast_threshold = "4KiB" }
[[policy]]
name = "layout"
scheduler = { policy = "sfq-d", depth = 8, sharing = "layout" }
[[app]]
name = "app"
copies = 8
phases = ["write"]
ior = { processes = 32, transfer = "24MiB", block = "24GiB", time_limit = "1h" }
"#;

/// Symptom: with a report for each request, shares over seconds were far off (and with 96 servers half of the
/// throughput was lost). Cause: reports moved queued requests back, so that queues were served in one piece, in a
/// different order at each server, and every call waited for the last server. Proof: shares are as good as without
/// reports.
#[test]
fn reports_do_not_set_servers_apart() {
    let scenario = Scenario::parse("striped.toml", STRIPED).unwrap();
    let [told, silent] = [0, 1].map(|policy| {
        let results = run(&scenario, &scenario.policies[policy]);
        let unfairness =
            |second| results.unfairness_between(Duration::from_secs(second), Duration::from_secs(second + 5));
        unfairness(5).max(unfairness(10))
    });
    assert!(told < silent + 0.05, "{told} against {silent}");
}

//! The list of servers changes on one host after the other, whose proxy starts again with the newer file: shares hold
//! again for the sum over all servers.
//!
//! In virtual time: devices are slow, everything else takes no time.

use std::time::Duration;

use tokio::time::sleep;
use tracing::Level;
use vpfs_testbed::CreateOptions;

use crate::common::cluster::{Cluster, slow_servers};
use crate::common::load::Load;
use crate::common::log::Log;

const SERVERS: usize = 5;
const STRIP: usize = 16 << 10;
const CONCURRENCY: usize = 16;
/// After the last host, shares hold again within this time.
const HEALS_WITHIN: Duration = Duration::from_secs(5);

/// Five servers whose devices take 16 KiB in 16 ms, one after the other. Applications of equal weight.
async fn cluster() -> Cluster {
    let settings = "[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\nsharing = \"threshold\"\n\
                    broadcast_threshold = \"16KiB\"\n[[app]]\nname = \"wide\"\n[[app]]\nname = \"narrow\"\n";
    let (files, key) = (tempfile::TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n");
    Cluster::prepare(slow_servers(SERVERS, 1_000_000), &[Some("wide"), Some("narrow")], settings, files, key).await
}

/// The wide application reads from all of `servers`, the narrow one from the first two.
async fn load_on(cluster: &Cluster, servers: &[usize], name: &str) -> Load {
    let mut load = Load::new();
    let (wide, narrow) = (cluster.client(0).await, cluster.client(1).await);
    let stripes = CreateOptions::simple_stripe(STRIP as u64);
    let all = stripes.clone().on_servers(servers.to_vec());
    load.add(&wide, &format!("/wide{name}"), &all, servers.len() * STRIP, CONCURRENCY).await;
    let two = stripes.on_servers(servers[..2].to_vec());
    load.add(&narrow, &format!("/narrow{name}"), &two, 2 * STRIP, CONCURRENCY).await;
    load
}

async fn assert_fair(load: &mut Load, cluster: &Cluster, when: &str) {
    let bytes = || ["wide", "narrow"].map(|app| cluster.bytes(app) as f64);
    let before = bytes();
    load.pass(1500).await;
    let after = bytes();
    let ratio = (after[0] - before[0]) / (after[1] - before[1]);
    assert!((ratio - 1.0).abs() < 0.03, "{when}: {ratio:.3}");
}

/// These hosts get the newer file, with a pause before each.
async fn change(cluster: &mut Cluster, servers: [usize; 4], listed: &[usize]) {
    for server in servers {
        sleep(Duration::from_secs(4)).await;
        cluster.start_with(server, listed).await;
    }
    sleep(HEALS_WITHIN).await;
}

/// The first server is removed, so that all others change their positions, and added again at the end.
#[tokio::test(start_paused = true)]
async fn a_server_is_removed_and_added_while_clients_work() {
    let log = Log::of(Level::WARN);
    let told = || log.with("do not have a server of this process").len();
    let mut cluster = cluster().await.running().await;
    let mut load = load_on(&cluster, &[1, 2, 3, 4], "1").await;
    sleep(HEALS_WITHIN).await;
    assert_fair(&mut load, &cluster, "before").await;

    change(&mut cluster, [4, 1, 3, 2], &[1, 2, 3, 4]).await;
    assert_fair(&mut load, &cluster, "without the first").await;
    assert_eq!(cluster.reached(1).await, ["s2", "s3", "s4"]);
    assert!(cluster.reached(0).await.is_empty(), "its proxy still runs");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(told(), 4, "once by each of the others");

    // The new one has to wait for the others.
    cluster.start_with(0, &[1, 2, 3, 4, 0]).await;
    change(&mut cluster, [2, 4, 1, 3], &[1, 2, 3, 4, 0]).await;
    cluster.all_connected().await;
    drop(load);
    let mut load = load_on(&cluster, &[0, 1, 2, 3, 4], "2").await;
    sleep(HEALS_WITHIN).await;
    assert_fair(&mut load, &cluster, "with the first at the end").await;
}

/// As SIGUSR2 does it: the successor has another file, in which its server has another position.
#[tokio::test(start_paused = true)]
async fn a_successor_may_have_another_list() {
    let mut cluster = cluster().await.running().await;
    cluster.succeed_with(1, &[1, 2, 3, 4]).await;
    for (server, others) in [(0, ["s2", "s3", "s4"]), (1, ["s2", "s3", "s4"])] {
        while cluster.reached(server).await != others {
            sleep(Duration::from_millis(10)).await;
        }
    }
    cluster.succeed_with(1, &[0, 1, 2, 3, 4]).await;
    cluster.all_connected().await;
}

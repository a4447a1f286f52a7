//! Shares of the sum over all servers, with a daemon of its own for each server: they report to each other over
//! authenticated connections.
//!
//! In virtual time: devices are slow, everything else takes no time.

use std::time::Duration;

use vpfs_testbed::CreateOptions;

use crate::common::cluster::{Cluster, slow_servers};
use crate::common::load::Load;

const SERVERS: usize = 4;
const STRIP: usize = 16 << 10;
/// Concurrent requests of each application.
const CONCURRENCY: usize = 16;

fn settings(sharing: &str, weight: u32) -> String {
    format!(
        "[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\nsharing = \"{sharing}\"\nbroadcast_threshold = \"16KiB\"\n\
         [[app]]\nname = \"wide\"\nweight = {weight}\n[[app]]\nname = \"narrow\"\n"
    )
}

async fn cluster(sharing: &str, weight: u32) -> Cluster {
    Cluster::start(slow_servers(SERVERS, 2_500_000), &[Some("wide"), Some("narrow")], &settings(sharing, weight)).await
}

/// Two applications: one on all servers, one on the first two.
async fn load_on(cluster: &Cluster) -> Load {
    let mut load = Load::new();
    let (wide, narrow) = (cluster.client(0).await, cluster.client(1).await);
    let stripes = CreateOptions::simple_stripe(STRIP as u64);
    load.add(&wide, "/wide", &stripes, SERVERS * STRIP, CONCURRENCY).await;
    load.add(&narrow, "/narrow", &stripes.on_servers([0, 1]), 2 * STRIP, CONCURRENCY).await;
    load
}

/// The bytes of the wide application for each one of the narrow one, for `count` operations after `skipped` ones.
async fn wide_to_narrow(load: &mut Load, cluster: &Cluster, skipped: u64, count: u64) -> f64 {
    load.pass(skipped).await;
    let bytes = || ["wide", "narrow"].map(|app| cluster.bytes(app) as f64);
    let before = bytes();
    load.pass(count).await;
    let after = bytes();
    (after[0] - before[0]) / (after[1] - before[1])
}

/// A report tells service here and elsewhere, and how all others are reached.
async fn assert_reported(cluster: &Cluster) {
    let report = cluster.daemons[0].as_ref().unwrap().observer().status().await.peers_report();
    let app = |name: &str| report.apps.iter().find(|app| app.app == name).unwrap();
    assert!(app("narrow").here > 0 && app("narrow").elsewhere > 0, "{report:?}");
    assert!(app("wide").elsewhere > 2 * app("wide").here, "{report:?}");
    for peer in &report.peers {
        assert!(peer.connected && peer.received.messages > 0 && peer.sent.messages > 0, "{report:?}");
        assert!(peer.news_age_seconds.is_some_and(|age| age < 5.0) && peer.clock_ahead_seconds.is_some(), "{report:?}");
    }
}

/// A daemon that ends takes its connections with it; the others continue, and shares hold again when it is back.
#[tokio::test(start_paused = true)]
async fn a_daemon_that_was_gone_shares_again() {
    let mut cluster = cluster("threshold", 2).await;
    let mut load = load_on(&cluster).await;
    wide_to_narrow(&mut load, &cluster, 200, 500).await;
    assert_reported(&cluster).await;
    drop(cluster.daemons[3].take());
    while cluster.reached(0).await != ["s1", "s2"] {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The wide application waits for server 3, so the narrow one gets all it wants.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let begin = tokio::time::Instant::now();
    cluster.start_one(3).await;
    cluster.all_connected().await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let ratio = wide_to_narrow(&mut load, &cluster, 1000, 3000).await;
    assert!((ratio / 2.0 - 1.0).abs() < 0.03, "{ratio:.3}");
}

/// By layout, shares hold for the sum over processes, and all messages are keep-alives: at most one a second for each
/// pair.
#[tokio::test(start_paused = true)]
async fn layouts_need_no_reports() {
    let cluster = cluster("layout", 2).await;
    let mut load = load_on(&cluster).await;
    wide_to_narrow(&mut load, &cluster, 400, 100).await;
    let sent = async || {
        let report = cluster.daemons[0].as_ref().unwrap().observer().status().await.peers_report();
        report.peers.iter().map(|peer| peer.sent.messages).sum::<u64>()
    };
    let (before, begin) = (sent().await, tokio::time::Instant::now());
    let ratio = wide_to_narrow(&mut load, &cluster, 0, 1200).await;
    assert!((ratio / 2.0 - 1.0).abs() < 0.03, "{ratio:.3}");
    let (messages, seconds) = (sent().await - before, begin.elapsed().as_secs_f64());
    assert!(messages as f64 <= 3.0 * (seconds + 1.0), "{messages} messages in {seconds:.0} s");
}

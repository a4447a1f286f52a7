//! Shares of the sum over all servers, with a daemon of its own for each server: they report to each other over
//! authenticated connections.
//!
//! In virtual time: devices are slow, everything else takes no time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use vpfs_model::device::{DeviceProfile, SsdProfile};
use vpfs_testbed::{Client, ClusterConfig, CreateOptions, DeviceClock};

use crate::common::cluster::Cluster;
use crate::common::pattern;

const SERVERS: usize = 4;
const STRIP: usize = 64 << 10;
/// Concurrent requests of each application.
const CONCURRENCY: u64 = 16;
const PIECES: u64 = 16;

/// Servers whose devices take 64 KiB in 6.6 ms, one after the other.
fn slow() -> ClusterConfig {
    let device = SsdProfile { channels: 1, read_bytes_per_second: 10_000_000, ..SsdProfile::PCIE_X4 };
    ClusterConfig {
        devices: vec![DeviceProfile::Ssd(device)],
        clock: DeviceClock::Tokio,
        metadata_write_bytes: 0,
        ..ClusterConfig::new(SERVERS)
    }
}

fn settings(sharing: &str, weight: u32) -> String {
    format!(
        "[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\nsharing = \"{sharing}\"\nbroadcast_threshold = \"64KiB\"\n\
         [[app]]\nname = \"wide\"\nweight = {weight}\n[[app]]\nname = \"narrow\"\n"
    )
}

async fn cluster(sharing: &str, weight: u32) -> Cluster {
    Cluster::start(slow(), &[Some("wide"), Some("narrow")], &settings(sharing, weight)).await
}

/// Reads files of `width` strips for ever and verifies them.
async fn read_for_ever(
    client: &Client,
    path: &str,
    options: &CreateOptions,
    width: usize,
    done: &Arc<watch::Sender<u64>>,
) {
    let piece = width * STRIP;
    let file = client.create(path, options).await.unwrap();
    let content = pattern(width as u64, piece * PIECES as usize);
    client.write_at(&file, 0, content.clone()).await.unwrap();
    for reader in 0..CONCURRENCY {
        let (client, file, done, content) = (client.clone(), file.clone(), Arc::clone(done), content.clone());
        tokio::spawn(async move {
            for number in reader.. {
                let at = (number % PIECES) as usize * piece;
                let read = client.read_at(&file, at as u64, piece).await.unwrap();
                assert!(read[..] == content[at..at + piece], "wrong bytes");
                done.send_modify(|count| *count += 1);
            }
        });
    }
}

/// Two applications without end: one on all servers, one on the first two.
async fn load(cluster: &Cluster) -> Arc<watch::Sender<u64>> {
    let done = Arc::new(watch::Sender::new(0));
    let (wide, narrow) = (cluster.client(0).await, cluster.client(1).await);
    let all = CreateOptions::simple_stripe(STRIP as u64);
    read_for_ever(&wide, "/wide", &all, SERVERS, &done).await;
    let two = CreateOptions::simple_stripe(STRIP as u64).on_servers([0, 1]);
    read_for_ever(&narrow, "/narrow", &two, 2, &done).await;
    done
}

/// The bytes of the wide application for each one of the narrow one, for `count` operations after `skipped` ones.
async fn wide_to_narrow(cluster: &Cluster, done: &watch::Sender<u64>, skipped: u64, count: u64) -> f64 {
    let mut completed = done.subscribe();
    let begin = *completed.borrow_and_update() + skipped;
    let mut after = async |count: u64| {
        completed.wait_for(|done| *done >= begin + count).await.unwrap();
        ["wide", "narrow"].map(|app| cluster.bytes(app) as f64)
    };
    let (before, after) = (after(0).await, after(count).await);
    (after[0] - before[0]) / (after[1] - before[1])
}

#[tokio::test(start_paused = true)]
async fn shares_hold_for_the_sum_over_processes() {
    for sharing in ["threshold", "layout"] {
        for weight in [1, 2, 8] {
            let cluster = cluster(sharing, weight).await;
            let done = load(&cluster).await;
            let ratio = wide_to_narrow(&cluster, &done, 400, 3000).await;
            let wanted = f64::from(weight);
            assert!((ratio / wanted - 1.0).abs() < 0.03, "{sharing}: {ratio:.3} instead of {wanted}");
        }
    }
}

/// Without `[peers]` shares hold at each server: 2:1 on two, all of the others.
#[tokio::test(start_paused = true)]
async fn a_report_shows_service_here_and_elsewhere() {
    let cluster = cluster("threshold", 2).await;
    let done = load(&cluster).await;
    wide_to_narrow(&cluster, &done, 0, 1000).await;
    let report = cluster.daemons[0].as_ref().unwrap().peers().await;
    let app = |name: &str| report.apps.iter().find(|app| app.app == name).unwrap();
    assert!(app("narrow").here > 0 && app("narrow").elsewhere > 0, "{report:?}");
    assert!(app("wide").elsewhere > 2 * app("wide").here, "{report:?}");
    for peer in &report.peers {
        assert!(peer.connected && peer.received.messages > 10 && peer.sent.messages > 10, "{report:?}");
        assert!(peer.news_age_seconds.is_some_and(|age| age < 5.0), "{report:?}");
        // All clocks are this machine's; in virtual time nothing is under way for long.
        assert!(peer.clock_ahead_seconds.is_some_and(|ahead| ahead.abs() < 0.05), "{report:?}");
    }
}

/// A daemon that ends takes its connections with it; the others continue, and shares hold again when it is back.
#[tokio::test(start_paused = true)]
async fn a_daemon_that_was_gone_shares_again() {
    let mut cluster = cluster("threshold", 2).await;
    let done = load(&cluster).await;
    wide_to_narrow(&cluster, &done, 200, 500).await;
    drop(cluster.daemons[3].take());
    while cluster.reached(0).await != ["s1", "s2"] {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The wide application waits for server 3, so the narrow one gets all it wants.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let begin = tokio::time::Instant::now();
    cluster.start_one(3).await;
    cluster.all_connected().await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let ratio = wide_to_narrow(&cluster, &done, 1000, 3000).await;
    assert!((ratio / 2.0 - 1.0).abs() < 0.03, "{ratio:.3}");
}

/// All messages of steady state without `threshold` are keep-alives: at most one a second for each pair.
#[tokio::test(start_paused = true)]
async fn layouts_need_no_reports() {
    let cluster = cluster("layout", 2).await;
    let done = load(&cluster).await;
    wide_to_narrow(&cluster, &done, 400, 100).await;
    let sent = async || {
        let report = cluster.daemons[0].as_ref().unwrap().peers().await;
        report.peers.iter().map(|peer| peer.sent.messages).sum::<u64>()
    };
    let (before, begin) = (sent().await, tokio::time::Instant::now());
    wide_to_narrow(&cluster, &done, 0, 3000).await;
    let (messages, seconds) = (sent().await - before, begin.elapsed().as_secs_f64());
    assert!(messages as f64 <= 3.0 * (seconds + 1.0), "{messages} messages in {seconds:.0} s");
}

//! Shares of the sum over all servers, with a daemon of its own for each server: they report to each other over
//! authenticated connections.
//!
//! In virtual time: devices are slow, everything else takes no time.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use vpfs_core::ServerId;
use vpfs_model::device::{DeviceProfile, SsdProfile};
use vpfs_proxy::{Daemon, Inheritance};
use vpfs_testbed::{Client, ClusterConfig, CreateOptions, DeviceClock};

use crate::common::cluster::Cluster;
use crate::common::pattern;

const SERVERS: usize = 4;
const STRIP: usize = 16 << 10;
/// Concurrent requests of each application.
const CONCURRENCY: u64 = 16;
const PIECES: u64 = 16;

/// Servers whose devices take 16 KiB in 6.6 ms, one after the other.
fn slow() -> ClusterConfig {
    let device = SsdProfile { channels: 1, read_bytes_per_second: 2_500_000, ..SsdProfile::PCIE_X4 };
    ClusterConfig {
        devices: vec![DeviceProfile::Ssd(device)],
        clock: DeviceClock::Tokio,
        metadata_write_bytes: 0,
        ..ClusterConfig::new(SERVERS)
    }
}

fn settings(sharing: &str, weight: u32) -> String {
    format!(
        "[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\nsharing = \"{sharing}\"\nbroadcast_threshold = \"16KiB\"\n\
         [[app]]\nname = \"wide\"\nweight = {weight}\n[[app]]\nname = \"narrow\"\n"
    )
}

async fn cluster(sharing: &str, weight: u32) -> Cluster {
    Cluster::start(slow(), &[Some("wide"), Some("narrow")], &settings(sharing, weight)).await
}

/// Applications that read for ever. Dropping it ends them.
struct Load {
    done: Arc<watch::Sender<u64>>,
    readers: JoinSet<()>,
}

impl Load {
    /// Two applications: one on all servers, one on the first two.
    async fn on(cluster: &Cluster) -> Self {
        let mut load = Self { done: Arc::new(watch::Sender::new(0)), readers: JoinSet::new() };
        let (wide, narrow) = (cluster.client(0).await, cluster.client(1).await);
        let stripes = CreateOptions::simple_stripe(STRIP as u64);
        load.add(&wide, "/wide", &stripes, SERVERS).await;
        load.add(&narrow, "/narrow", &stripes.on_servers([0, 1]), 2).await;
        load
    }

    /// Reads pieces of `width` strips, and verifies them.
    async fn add(&mut self, client: &Client, path: &str, options: &CreateOptions, width: usize) {
        let piece = width * STRIP;
        let file = client.create(path, options).await.unwrap();
        let content = pattern(width as u64, piece * PIECES as usize);
        client.write_at(&file, 0, content.clone()).await.unwrap();
        for reader in 0..CONCURRENCY {
            let (client, file, content) = (client.clone(), file.clone(), content.clone());
            let done = Arc::clone(&self.done);
            self.readers.spawn(async move {
                for number in reader.. {
                    let at = (number % PIECES) as usize * piece;
                    let read = client.read_at(&file, at as u64, piece).await.unwrap();
                    assert!(read[..] == content[at..at + piece], "wrong bytes");
                    done.send_modify(|count| *count += 1);
                }
            });
        }
    }

    /// The bytes of the wide application for each one of the narrow one, for `count` operations after `skipped` ones.
    async fn wide_to_narrow(&mut self, cluster: &Cluster, skipped: u64, count: u64) -> f64 {
        let mut completed = self.done.subscribe();
        let begin = *completed.borrow_and_update() + skipped;
        let mut after = async |count: u64| {
            completed.wait_for(|done| *done >= begin + count).await.unwrap();
            ["wide", "narrow"].map(|app| cluster.bytes(app) as f64)
        };
        let (before, after) = (after(0).await, after(count).await);
        assert!(self.readers.try_join_next().is_none(), "a reader failed");
        (after[0] - before[0]) / (after[1] - before[1])
    }
}

#[tokio::test(start_paused = true)]
async fn shares_hold_for_the_sum_over_processes() {
    for sharing in ["threshold", "layout"] {
        for weight in [1, 2, 8] {
            let cluster = cluster(sharing, weight).await;
            let mut load = Load::on(&cluster).await;
            let ratio = load.wide_to_narrow(&cluster, 200, 1200).await;
            let wanted = f64::from(weight);
            assert!((ratio / wanted - 1.0).abs() < 0.03, "{sharing}: {ratio:.3} instead of {wanted}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_shows_service_here_and_elsewhere() {
    let cluster = cluster("threshold", 2).await;
    let mut load = Load::on(&cluster).await;
    load.wide_to_narrow(&cluster, 0, 1000).await;
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
    let mut load = Load::on(&cluster).await;
    load.wide_to_narrow(&cluster, 200, 500).await;
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
    let ratio = load.wide_to_narrow(&cluster, 1000, 3000).await;
    assert!((ratio / 2.0 - 1.0).abs() < 0.03, "{ratio:.3}");
}

/// All messages of steady state without `threshold` are keep-alives: at most one a second for each pair.
#[tokio::test(start_paused = true)]
async fn layouts_need_no_reports() {
    let cluster = cluster("layout", 2).await;
    let mut load = Load::on(&cluster).await;
    load.wide_to_narrow(&cluster, 400, 100).await;
    let sent = async || {
        let report = cluster.daemons[0].as_ref().unwrap().peers().await;
        report.peers.iter().map(|peer| peer.sent.messages).sum::<u64>()
    };
    let (before, begin) = (sent().await, tokio::time::Instant::now());
    load.wide_to_narrow(&cluster, 0, 3000).await;
    let (messages, seconds) = (sent().await - before, begin.elapsed().as_secs_f64());
    assert!(messages as f64 <= 3.0 * (seconds + 1.0), "{messages} messages in {seconds:.0} s");
}

/// The successor has the same port: peers that connected to the older daemon find it there.
#[tokio::test(start_paused = true)]
async fn a_successor_takes_the_port_of_peers_over() {
    let mut cluster = cluster("threshold", 2).await;
    let (ours, theirs) = UnixStream::pair().unwrap();
    let receiving = tokio::task::spawn_blocking(|| Inheritance::receive(theirs).unwrap());
    let old = cluster.daemons[1].take().unwrap();
    let config = cluster.network().config(cluster.settings());
    let (offer, successor) = tokio::join!(old.offer(ours), async {
        Daemon::succeed(config, &[ServerId(1)], receiving.await.unwrap()).await.unwrap()
    });
    cluster.daemons[1] = Some(successor);
    old.hand_over(offer.unwrap()).await;
    cluster.all_connected().await;
}

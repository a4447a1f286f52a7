//! A newer configuration is applied while clients work, or not at all.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Level;
use vpfs_core::PolicyKind;
use vpfs_proxy::ReloadError;
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, CreateOptions};

use crate::common::log::Log;
use crate::common::raw;
use crate::common::{Front, Network, Site, pattern};

/// Writes and verifies pieces of a file until stopped; returns their number.
async fn work(client: Client, number: u64, progress: Arc<watch::Sender<u64>>, stop: watch::Receiver<bool>) -> u64 {
    const LEN: usize = 200_000;
    let file = client.create(&format!("/{number}"), &CreateOptions::simple_stripe(16 << 10)).await.unwrap();
    let mut rounds = 0;
    while !*stop.borrow() {
        let data = pattern(number << 32 | rounds, LEN);
        client.write_at(&file, rounds % 8 * LEN as u64, data.clone()).await.unwrap();
        assert!(client.read_at(&file, rounds % 8 * LEN as u64, LEN).await.unwrap() == data);
        client.stat(&format!("/{number}")).await.unwrap();
        rounds += 1;
        progress.send_modify(|count| *count += 1);
    }
    rounds
}

/// Clients that do not retry, so that the loss of a connection is noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_changes_under_load_without_losing_anything() {
    let settings = |policy: &str, depth: u32| format!("[scheduler]\npolicy = \"{policy}\"\ndepth = {depth}\n");
    let mut site = Site::start(3, &settings("fifo", 1)).await;
    let (progress, stop) = (Arc::new(watch::Sender::new(0)), watch::Sender::new(false));
    let mut tasks = JoinSet::new();
    for number in 0..6 {
        let client = Client::connect(ClientOptions { retry_limit: Some(0), ..site.options(0) }).await.unwrap();
        tasks.spawn(work(client, number, Arc::clone(&progress), stop.subscribe()));
    }
    let kinds = [("fifo", PolicyKind::Fifo), ("sfq-d-plus", PolicyKind::SfqDPlus), ("sfq-d", PolicyKind::SfqD)];
    let mut done = progress.subscribe();
    for round in 1..=12_u32 {
        let (policy, kind) = kinds[round as usize % 3];
        site.reload(&settings(policy, round % 4 * 3 + 1)).await;
        assert_eq!(site.daemon.config().scheduler.policy.kind, kind);
        done.wait_for(|count| *count >= u64::from(round) * 10).await.unwrap();
    }
    stop.send_replace(true);
    let rounds: u64 = tasks.join_all().await.iter().sum();
    let totals = site.totals("host:127.0.0.1");
    assert_eq!((totals.failed, totals.bytes), (0, rounds * 400_000));
}

/// The order in which held requests are dispatched reveals how the reload treated them.
#[tokio::test]
async fn held_requests_survive_a_change_of_policy() {
    let mut front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n").await;
    let (mut client, mut server) = front.pair().await;
    for tag in 1..=5 {
        client.send(raw::metadata(tag)).await;
    }
    client.send(raw::noop(6)).await;
    let mut first = [server.tag().await.0, server.tag().await.0];
    first.sort_unstable();
    assert_eq!(first, [1, 6]);
    // FIFO has no depth: everything is dispatched at once.
    front.reload("[scheduler]\npolicy = \"fifo\"\n").await;
    for tag in 2..=5 {
        assert_eq!(server.tag().await.0, tag);
    }
    // Outstanding requests stay outstanding: with one slot, nothing new is dispatched before all of them are answered.
    front.reload("[scheduler]\npolicy = \"sfq-d-plus\"\ndepth = 1\n").await;
    client.send(raw::metadata(7)).await;
    for tag in [5, 3, 1, 2, 6, 4] {
        server.send(raw::done(vpfs_wire::bmi::Tag(tag))).await;
        assert_eq!(client.tag().await.0, tag);
    }
    assert_eq!(server.tag().await.0, 7);
}

#[tokio::test]
async fn a_refused_configuration_changes_nothing() {
    let older = "[scheduler]\ndepth = 3\n[[app]]\nname = \"a\"\nclients = \"127.0.0.0/8\"\n";
    let mut site = Site::of(ClusterConfig::new(2), &[None], older).await;
    let client = site.client().await;
    let servers: Vec<String> = site.cluster.addresses().iter().map(ToString::to_string).collect();

    let moved = Network::new(&servers, &[None]).config("[scheduler]\ndepth = 9\n");
    let refused = site.daemon.reload(moved).await.unwrap_err();
    assert!(matches!(&refused, ReloadError::NeedsRestart(what) if what.contains("listener.1")), "{refused}");

    assert_eq!(site.daemon.config().scheduler.policy.depth.get(), 3);
    client.create("/f", &CreateOptions::default()).await.unwrap();
    assert_eq!(site.served(), ["a"]);
    site.reload("[scheduler]\ndepth = 9\n").await;
    assert_eq!(site.daemon.config().scheduler.policy.depth.get(), 9);
}

/// Symptom: with `log.level` raised to debug, a running daemon still did not log its schedulers' events. Cause: whether
/// to keep these events was decided at the start.
#[tokio::test]
async fn decisions_are_logged_as_soon_as_the_level_permits() {
    let site = Site::start(1, "").await;
    let client = site.client().await;
    client.mkdir("/before", 0o755).await.unwrap();
    let log = Log::of(Level::DEBUG);
    client.mkdir("/after", 0o755).await.unwrap();
    assert!(!log.with("Dispatched").is_empty());
    assert!(log.with("Lost").is_empty());
}

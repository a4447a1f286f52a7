//! A newer configuration is applied while clients work, or not at all.

use tracing::Level;
use vpfs_proxy::ReloadError;
use vpfs_testbed::{ClusterConfig, CreateOptions};

use crate::common::log::Log;
use crate::common::raw;
use crate::common::{Front, Network, Site};

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

//! The promise of weights: shares of a busy server, within the bound of the scheduler.
//!
//! These tests run in virtual time: the device is slow, everything else takes no time, so applications with more
//! concurrent requests than the server has slots always have some queued.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use vpfs_core::fairness::service_gap_bound;
use vpfs_core::{Bytes, Depth, Weight};
use vpfs_testbed::{Client, ClusterConfig, CreateOptions, File};

use crate::common::cluster::slow_servers;
use crate::common::{Site, pattern};

const PIECE: usize = 64 << 10;
const PIECES: u64 = 32;
/// Concurrent requests of an application, more than there are slots.
const CONCURRENCY: u64 = 16;
const DEPTH: u32 = 4;

/// One server whose device takes 64 KiB in 6.6 ms, one after the other.
pub(crate) fn slow() -> ClusterConfig {
    slow_servers(1, 10_000_000)
}

fn scheduler(policy: &str) -> String {
    format!("[scheduler]\npolicy = \"{policy}\"\ndepth = {DEPTH}\n")
}

/// An application that reads continuously.
struct Reader {
    client: Client,
    file: File,
    next: AtomicU64,
}

impl Reader {
    /// Both files are written before the first reader starts: a large write would count against its application.
    async fn pair(clients: [Client; 2]) -> Arc<watch::Sender<u64>> {
        let done = Arc::new(watch::Sender::new(0));
        let mut readers = Vec::new();
        for (client, path) in clients.into_iter().zip(["/one", "/other"]) {
            readers.push(Self::new(client, path).await);
        }
        readers.iter().for_each(|reader| reader.start(&done));
        done
    }

    async fn new(client: Client, path: &str) -> Arc<Self> {
        let file = client.create(path, &CreateOptions::basic()).await.unwrap();
        client.write_at(&file, 0, pattern(1, PIECE * PIECES as usize)).await.unwrap();
        Arc::new(Self { client, file, next: AtomicU64::new(0) })
    }

    fn start(self: &Arc<Self>, done: &Arc<watch::Sender<u64>>) {
        for _ in 0..CONCURRENCY {
            let (reader, done) = (Arc::clone(self), Arc::clone(done));
            tokio::spawn(async move {
                loop {
                    reader.read().await;
                    done.send_modify(|count| *count += 1);
                }
            });
        }
    }

    async fn read(&self) {
        let piece = self.next.fetch_add(1, Ordering::Relaxed) % PIECES;
        let read = self.client.read_at(&self.file, piece * PIECE as u64, PIECE).await.unwrap();
        assert_eq!(read.len(), PIECE);
    }
}

/// The bytes of two applications between two moments: when they had completed `from` operations together, and when they
/// had completed `to`.
async fn bytes_between(site: &Site, done: &watch::Sender<u64>, [from, to]: [u64; 2], apps: [&str; 2]) -> [u64; 2] {
    let mut completed = done.subscribe();
    let base = *completed.borrow_and_update();
    completed.wait_for(|count| *count >= base + from).await.unwrap();
    let before = apps.map(|app| site.totals(app).bytes);
    completed.wait_for(|count| *count >= base + to).await.unwrap();
    let after = apps.map(|app| site.totals(app).bytes);
    [after[0] - before[0], after[1] - before[1]]
}

fn assert_shares(bytes: [u64; 2], weights: [u32; 2], what: &str) {
    let largest = weights.map(|weight| (Bytes(PIECE as u64), Weight::new(weight).unwrap()));
    let bound = service_gap_bound(Depth::new(DEPTH).unwrap(), largest);
    let [one, other] = [0, 1].map(|app| bytes[app] as f64 / f64::from(weights[app]));
    assert!((one - other).abs() <= bound, "{what}: {bytes:?} for {weights:?}, more apart than {bound}");
}

#[tokio::test(start_paused = true)]
async fn applications_of_two_listeners_share_by_weight() {
    for policy in ["sfq-d", "sfq-d-plus"] {
        let text = scheduler(policy) + "[[app]]\nname = \"big\"\nweight = 4\n[[app]]\nname = \"small\"\nweight = 1\n";
        let site = Site::of(slow(), &[Some("big"), Some("small")], &text).await;
        let [big, small] = [0, 1].map(|listener| Client::connect(site.options(listener)));
        let done = Reader::pair([big.await.unwrap(), small.await.unwrap()]).await;
        let bytes = bytes_between(&site, &done, [2 * CONCURRENCY, 1000], ["big", "small"]).await;
        assert_shares(bytes, [4, 1], policy);
    }
}

#[tokio::test(start_paused = true)]
async fn applications_of_two_addresses_share_by_weight() {
    let text = scheduler("sfq-d")
        + "[apps]\nauto_weight = 7\n[[app]]\nname = \"two\"\nweight = 2\nclients = [\"127.0.0.2\"]\n";
    let site = Site::of(slow(), &[None], &text).await;
    let done = Reader::pair([site.client_at([127, 0, 0, 2]).await, site.client_at([127, 0, 0, 3]).await]).await;
    let bytes = bytes_between(&site, &done, [2 * CONCURRENCY, 1000], ["two", "host:127.0.0.3"]).await;
    assert_shares(bytes, [2, 7], "one by name, one automatic");
}

/// Symptom: 20 addresses turned 4:1 into 1:5. Cause: each was an application with a weight of its own.
#[tokio::test(start_paused = true)]
async fn twenty_addresses_share_one_weight() {
    for (share, weights) in [("together", [4, 1]), ("network", [4, 1]), ("each", [1, 5])] {
        let text = scheduler("sfq-d")
            + &format!("[apps]\nauto_share = \"{share}\"\n")
            + "[[app]]\nname = \"named\"\nweight = 4\nclients = \"127.0.0.2\"\n";
        let site = Site::of(slow(), &[None], &text).await;
        let done = Arc::new(watch::Sender::new(0));
        let mut readers = Vec::new();
        for host in 2..=22 {
            let client = site.client_at([127, 0, 0, host]).await;
            readers.push(Reader::new(client, &format!("/{host}")).await);
        }
        readers.iter().for_each(|reader| reader.start(&done));
        let mut completed = done.subscribe();
        let bytes = || {
            let others: u64 = (3..=22).map(|host| site.totals(&format!("host:127.0.0.{host}")).bytes).sum();
            [site.totals("named").bytes, others]
        };
        completed.wait_for(|count| *count >= 30 * CONCURRENCY).await.unwrap();
        let before = bytes();
        completed.wait_for(|count| *count >= 30 * CONCURRENCY + 5000).await.unwrap();
        let [named, others] = [bytes()[0] - before[0], bytes()[1] - before[1]];
        let (got, wanted) = (named as f64 / others as f64, f64::from(weights[0]) / f64::from(weights[1]));
        assert!((got / wanted - 1.0).abs() < 0.05, "{share}: {got:.3} instead of {wanted}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_weight_holds_for_busy_applications() {
    let text = |weight: u32| {
        scheduler("sfq-d") + &format!("[[app]]\nname = \"a\"\nweight = {weight}\nclients = \"127.0.0.2\"\n")
    };
    let mut site = Site::of(slow(), &[None], &text(1)).await;
    let done = Reader::pair([site.client_at([127, 0, 0, 2]).await, site.client_at([127, 0, 0, 3]).await]).await;
    for weight in [1, 8, 2] {
        site.reload(&text(weight)).await;
        // Requests outstanding at the change are not counted.
        let bytes = bytes_between(&site, &done, [2 * CONCURRENCY, 500], ["a", "host:127.0.0.3"]).await;
        assert_shares(bytes, [weight, 1], "after the reload");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_application_leaves_its_share_to_the_other() {
    let text = scheduler("sfq-d-plus") + "[[app]]\nname = \"idle\"\nweight = 1000\nclients = \"127.0.0.2\"\n";
    let site = Site::of(slow(), &[None], &text).await;
    let _idle = site.client_at([127, 0, 0, 2]).await;
    let done = Arc::new(watch::Sender::new(0));
    Reader::new(site.client_at([127, 0, 0, 3]).await, "/busy").await.start(&done);
    let begin = tokio::time::Instant::now();
    let bytes = bytes_between(&site, &done, [0, 300], ["idle", "host:127.0.0.3"]).await;
    // Virtual time: the device was never idle, except for its fixed costs and the clock's milliseconds.
    let transfers = bytes[1] as f64 / 10_000_000.0;
    assert!(transfers > 0.8 * begin.elapsed().as_secs_f64(), "{bytes:?} in {:?}", begin.elapsed());
    assert_eq!(bytes[0], 0);
}

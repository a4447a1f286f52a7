//! The promise of weights: shares of a busy server, within the bound of the scheduler.
//!
//! These tests run in virtual time: the device is slow, everything else takes no time, so applications with more
//! concurrent requests than the server has slots always have some queued.

use vpfs_core::fairness::service_gap_bound;
use vpfs_core::{Bytes, Depth, Weight};
use vpfs_testbed::{Client, ClusterConfig, CreateOptions};

use crate::common::Site;
use crate::common::cluster::slow_servers;
use crate::common::load::{Load, Written};

const PIECE: usize = 64 << 10;
/// Concurrent requests of an application, more than there are slots.
const CONCURRENCY: usize = 16;
const DEPTH: u32 = 4;

/// One server whose device takes 64 KiB in 6.6 ms, one after the other.
pub(crate) fn slow() -> ClusterConfig {
    slow_servers(1, 10_000_000)
}

fn scheduler(policy: &str) -> String {
    format!("[scheduler]\npolicy = \"{policy}\"\ndepth = {DEPTH}\n")
}

/// Clients that read continuously. All files are written before: a large write would count against its application.
async fn load(clients: &[Client]) -> Load {
    let (mut load, mut files) = (Load::new(), Vec::new());
    for (number, client) in clients.iter().enumerate() {
        files.push(Written::new(client, &format!("/{number}"), &CreateOptions::basic(), PIECE).await);
    }
    files.iter().for_each(|file| load.read(file, CONCURRENCY));
    load
}

/// The bytes of two applications between two moments: when they had completed `from` operations together, and when they
/// had completed `to`.
async fn bytes_between(site: &Site, load: &mut Load, [from, to]: [u64; 2], apps: [&str; 2]) -> [u64; 2] {
    load.pass(from).await;
    let before = apps.map(|app| site.totals(app).bytes);
    load.pass(to - from).await;
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
async fn applications_of_two_addresses_share_by_weight() {
    let text = scheduler("sfq-d")
        + "[apps]\nauto_weight = 7\n[[app]]\nname = \"two\"\nweight = 2\nclients = [\"127.0.0.2\"]\n";
    let site = Site::of(slow(), &[None], &text).await;
    let mut load = load(&[site.client_at([127, 0, 0, 2]).await, site.client_at([127, 0, 0, 3]).await]).await;
    let bytes = bytes_between(&site, &mut load, [2 * CONCURRENCY as u64, 1000], ["two", "host:127.0.0.3"]).await;
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
        let mut clients = Vec::new();
        for host in 2..=22 {
            clients.push(site.client_at([127, 0, 0, host]).await);
        }
        let mut load = load(&clients).await;
        let bytes = || {
            let others: u64 = (3..=22).map(|host| site.totals(&format!("host:127.0.0.{host}")).bytes).sum();
            [site.totals("named").bytes, others]
        };
        load.pass(30 * CONCURRENCY as u64).await;
        let before = bytes();
        load.pass(5000).await;
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
    let mut load = load(&[site.client_at([127, 0, 0, 2]).await, site.client_at([127, 0, 0, 3]).await]).await;
    for weight in [1, 8, 2] {
        site.reload(&text(weight)).await;
        // Requests outstanding at the change are not counted.
        let bytes = bytes_between(&site, &mut load, [2 * CONCURRENCY as u64, 500], ["a", "host:127.0.0.3"]).await;
        assert_shares(bytes, [weight, 1], "after the reload");
    }
}

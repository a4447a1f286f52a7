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
const SCHEDULER: &str = "[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\n";

/// One server whose device takes 64 KiB in 6.6 ms, one after the other.
pub(crate) fn slow() -> ClusterConfig {
    slow_servers(1, 10_000_000)
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

/// Symptom: 20 addresses turned 4:1 into 1:5. Cause: each was an application with a weight of its own.
#[tokio::test(start_paused = true)]
async fn automatic_applications_share_one_weight() {
    let text = SCHEDULER.to_owned()
        + "[apps]\nauto_weight = 3\n[[app]]\nname = \"named\"\nweight = 2\nclients = [\"127.0.0.2\"]\n";
    let site = Site::of(slow(), &[None], &text).await;
    let mut clients = Vec::new();
    for host in 2..=5 {
        clients.push(site.client_at([127, 0, 0, host]).await);
    }
    let mut load = load(&clients).await;
    let bytes = || {
        let automatic = (3..=5).map(|host| site.totals(&format!("host:127.0.0.{host}")).bytes);
        [site.totals("named").bytes, automatic.sum()]
    };
    load.pass(8 * CONCURRENCY as u64).await;
    let before = bytes();
    load.pass(1500).await;
    let [named, automatic] = [bytes()[0] - before[0], bytes()[1] - before[1]];
    let ratio = named as f64 / automatic as f64;
    assert!((ratio * 3.0 / 2.0 - 1.0).abs() < 0.05, "{ratio:.3}");
}

#[tokio::test(start_paused = true)]
async fn a_newer_weight_holds_for_busy_applications() {
    let text = |weight: u32| {
        SCHEDULER.to_owned() + &format!("[[app]]\nname = \"a\"\nweight = {weight}\nclients = \"127.0.0.2\"\n")
    };
    let mut site = Site::of(slow(), &[None], &text(1)).await;
    let mut load = load(&[site.client_at([127, 0, 0, 2]).await, site.client_at([127, 0, 0, 3]).await]).await;
    for weight in [1, 8, 2] {
        site.reload(&text(weight)).await;
        // Requests outstanding at the change are not counted.
        load.pass(2 * CONCURRENCY as u64).await;
        let bytes = || ["a", "host:127.0.0.3"].map(|app| site.totals(app).bytes);
        let before = bytes();
        load.pass(500).await;
        let [one, other] = [0, 1].map(|app| (bytes()[app] - before[app]) as f64);
        let largest = [weight, 1].map(|weight| (Bytes(PIECE as u64), Weight::new(weight).unwrap()));
        let bound = service_gap_bound(Depth::new(DEPTH).unwrap(), largest);
        assert!((one / f64::from(weight) - other).abs() <= bound, "{one} and {other} for {weight}:1, bound {bound}");
    }
}

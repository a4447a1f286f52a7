//! Shares of the sum over all servers: the gates of one daemon report to each other, or requests reveal their layout.

use std::sync::Arc;

use tokio::sync::watch;
use vpfs_testbed::{Client, CreateOptions};

use crate::common::cluster::slow_servers;
use crate::common::{Site, pattern};

const SERVERS: usize = 4;
const STRIP: usize = 64 << 10;
/// Concurrent requests of each application.
const CONCURRENCY: u64 = 16;

/// Reads a file in pieces for ever, `CONCURRENCY` at a time, and counts them.
async fn read_for_ever(
    client: Client,
    path: &str,
    options: &CreateOptions,
    piece: usize,
    done: &Arc<watch::Sender<u64>>,
) {
    const PIECES: u64 = 16;
    let file = client.create(path, options).await.unwrap();
    client.write_at(&file, 0, pattern(1, piece * PIECES as usize)).await.unwrap();
    for reader in 0..CONCURRENCY {
        let (client, file, done) = (client.clone(), file.clone(), Arc::clone(done));
        tokio::spawn(async move {
            for number in reader.. {
                let read = client.read_at(&file, number % PIECES * piece as u64, piece).await.unwrap();
                assert_eq!(read.len(), piece);
                done.send_modify(|count| *count += 1);
            }
        });
    }
}

/// The bytes of an application that stripes over all servers, divided by those of one that uses a single server; both
/// have more concurrent requests than there are slots.
async fn wide_to_narrow(site: &Site) -> f64 {
    let done = Arc::new(watch::Sender::new(0));
    let [wide, narrow] = [0, 1].map(|listener| Client::connect(site.options(listener)));
    let all = CreateOptions::simple_stripe(STRIP as u64);
    let one = CreateOptions::basic().on_servers([0]);
    read_for_ever(wide.await.unwrap(), "/wide", &all, SERVERS * STRIP, &done).await;
    read_for_ever(narrow.await.unwrap(), "/narrow", &one, STRIP, &done).await;
    let mut completed = done.subscribe();
    let mut after = async |count: u64| {
        completed.wait_for(|done| *done >= count).await.unwrap();
        ["wide", "narrow"].map(|app| site.totals(app).bytes as f64)
    };
    let (before, after) = (after(200).await, after(2000).await);
    (after[0] - before[0]) / (after[1] - before[1])
}

fn text(sharing: &str) -> String {
    format!(
        "[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\nsharing = \"{sharing}\"\nbroadcast_threshold = \"64KiB\"\n\
         [[app]]\nname = \"wide\"\nweight = 2\n[[app]]\nname = \"narrow\"\n"
    )
}

async fn site(sharing: &str) -> Site {
    Site::of(slow_servers(SERVERS, 10_000_000), &[Some("wide"), Some("narrow")], &text(sharing)).await
}

/// Weights 2:1 hold on the one server that both use, and the wide application has three more: 8:1.
#[tokio::test(start_paused = true)]
async fn local_shares_hold_at_each_server() {
    let ratio = wide_to_narrow(&site("local").await).await;
    assert!((7.5..8.5).contains(&ratio), "{ratio}");
}

#[tokio::test(start_paused = true)]
async fn servers_that_tell_each_other_share_their_sum() {
    let ratio = wide_to_narrow(&site("threshold").await).await;
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

#[tokio::test(start_paused = true)]
async fn requests_that_tell_their_layout_share_the_sum() {
    let ratio = wide_to_narrow(&site("layout").await).await;
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

/// Servers start to report to each other after a reload, with applications that they already knew.
#[tokio::test(start_paused = true)]
async fn sharing_is_taken_over_while_running() {
    let mut site = site("local").await;
    site.reload(&text("threshold")).await;
    let ratio = wide_to_narrow(&site).await;
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

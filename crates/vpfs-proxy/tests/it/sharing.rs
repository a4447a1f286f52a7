//! Shares of the sum over all servers: the gates of one daemon report to each other, or requests reveal their layout.

use vpfs_testbed::{Client, CreateOptions};

use crate::common::Site;
use crate::common::cluster::slow_servers;
use crate::common::load::Load;

const SERVERS: usize = 4;
const STRIP: usize = 64 << 10;
/// Concurrent requests of each application.
const CONCURRENCY: usize = 16;

/// The bytes of an application that stripes over all servers, divided by those of one that uses a single server; both
/// have more concurrent requests than there are slots.
async fn wide_to_narrow(site: &Site) -> f64 {
    let [wide, narrow] = [0, 1].map(|listener| Client::connect(site.options(listener)));
    let all = CreateOptions::simple_stripe(STRIP as u64);
    let one = CreateOptions::basic().on_servers([0]);
    let mut load = Load::new();
    load.add(&wide.await.unwrap(), "/wide", &all, SERVERS * STRIP, CONCURRENCY).await;
    load.add(&narrow.await.unwrap(), "/narrow", &one, STRIP, CONCURRENCY).await;
    let bytes = || ["wide", "narrow"].map(|app| site.totals(app).bytes as f64);
    load.pass(200).await;
    let before = bytes();
    load.pass(1800).await;
    let after = bytes();
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

/// Servers start to report to each other after a reload, with applications that they already knew.
#[tokio::test(start_paused = true)]
async fn sharing_is_taken_over_while_running() {
    let mut site = site("local").await;
    site.reload(&text("threshold")).await;
    let ratio = wide_to_narrow(&site).await;
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

//! Totals over all servers with a daemon of its own for each of them, in virtual time.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use vpfs_testbed::CreateOptions;

use crate::common::cluster::{Cluster, slow_servers};
use crate::common::load::Load;

const SERVERS: usize = 4;
const STRIP: usize = 16 << 10;

/// What the first application gets on `servers`, in MB/s, while the other one always has promised requests at each
/// server: what passes with credits.
async fn promised(target: &str, servers: usize) -> f64 {
    let settings = format!(
        "[scheduler]\npolicy = \"two-level\"\ndeadlines = \"paper\"\ndepth = 4\noutstanding_max = 4\nsharing = \"local\"\n\
         [[app]]\nname = \"a\"\n{target} = \"1MB/s\"\ndeadline = \"100ms\"\n\
         [[app]]\nname = \"b\"\nserver_target_rate = \"1GB/s\"\ndeadline = \"1h\"\n"
    );
    let cluster = Cluster::start(slow_servers(SERVERS, 5_000_000), &[Some("a"), Some("b")], &settings).await;
    let [a, b] = [cluster.client(0).await, cluster.client(1).await];
    let stripes = CreateOptions::simple_stripe(STRIP as u64);
    let mut load = Load::new();
    load.add(&b, "/b", &stripes, SERVERS * STRIP, 32).await;
    let some = stripes.on_servers((0..servers).collect::<Vec<_>>());
    load.add(&a, "/a", &some, servers * STRIP, 16).await;
    sleep(Duration::from_secs(2)).await;
    let (before, begin) = (cluster.bytes("a"), Instant::now());
    sleep(Duration::from_secs(10)).await;
    let rate = (cluster.bytes("a") - before) as f64 / begin.elapsed().as_secs_f64();
    load.pass(1).await;
    rate / 1e6
}

#[tokio::test(start_paused = true)]
async fn a_target_is_the_total_over_all_servers_and_a_server_target_is_not() {
    for (target, servers, due) in [
        ("target_rate", 1, 1.0),
        ("target_rate", 4, 1.0),
        ("server_target_rate", 1, 1.0),
        ("server_target_rate", 4, 4.0),
    ] {
        let rate = promised(target, servers).await;
        assert!((rate / due - 1.0).abs() < 0.05, "{target}, {servers} servers: {rate:.3} MB/s instead of {due}");
    }
}

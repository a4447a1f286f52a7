//! A server never has more requests outstanding than slots, and caps are kept.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use vpfs_testbed::{ClusterConfig, CreateOptions};
use vpfs_wire::bmi::Tag;

use crate::common::raw::{self, Peer};
use crate::common::{Front, Site, pattern};

/// The requests dispatched so far, of those that `client` has sent.
///
/// A request that is never held overtakes queued ones. Once the first such request is answered, everything sent before
/// it has been classified. All requests that reach the server before the second one have been dispatched.
async fn let_go(client: &mut Peer, server: &mut Peer) -> Vec<u64> {
    let mut tags = Vec::new();
    for fence in [1_000_001, 1_000_002] {
        client.send(raw::noop(fence)).await;
        tags.extend(server.tags_before(fence).await);
        server.send(raw::done(Tag(fence))).await;
        assert_eq!(client.tag().await, Tag(fence));
    }
    tags
}

#[tokio::test]
async fn a_server_sees_no_more_requests_than_slots() {
    let front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 3\n").await;
    let (mut client, mut server) = front.pair().await;
    let (mut client_2, mut server_2) = front.pair().await;
    for tag in 1..=10 {
        client.send(raw::metadata(tag)).await;
    }
    assert_eq!(let_go(&mut client, &mut server).await, [1, 2, 3]);
    client_2.send(raw::metadata(1)).await;
    assert_eq!(let_go(&mut client_2, &mut server_2).await, [0_u64; 0]);
    for tag in 4..=10 {
        server.send(raw::done(Tag(tag - 3))).await;
        assert_eq!(client.tag().await, Tag(tag - 3));
        assert_eq!(let_go(&mut client, &mut server).await, [tag]);
        assert_eq!(let_go(&mut client_2, &mut server_2).await, [0_u64; 0]);
    }
    server.send(raw::done(Tag(9))).await;
    assert_eq!(server_2.tag().await, Tag(1));
}

/// Virtual time, so that rates are exact.
#[tokio::test(start_paused = true)]
async fn a_cap_can_be_set_changed_and_lifted_while_requests_wait() {
    const PIECE: u64 = 64 << 10;
    let capped =
        |rate: &str| format!("[[app]]\nname = \"a\"\nclients = \"127.0.0.0/8\"\ncap = \"{rate}\"\nburst = \"64KiB\"\n");
    let free = "[[app]]\nname = \"a\"\nclients = \"127.0.0.0/8\"\n";
    let mut site = Site::of(ClusterConfig::new(1), &[None], free).await;
    let client = site.client().await;
    let file = client.create("/f", &CreateOptions::basic()).await.unwrap();
    client.write_at(&file, 0, pattern(1, 1 << 20)).await.unwrap();
    let read_all = async |times: u64| {
        let begin = Instant::now();
        for piece in 0..16 * times {
            client.read_at(&file, piece % 16 * PIECE, PIECE as usize).await.unwrap();
        }
        begin.elapsed()
    };
    assert!(read_all(4).await < Duration::from_millis(100), "nothing takes time without a cap");
    // In a time t at most rate · t + burst + one request pass, and no less for an application that always has requests.
    for (rate, per_second) in [("1MiB/s", 1 << 20), ("4MiB/s", 4 << 20)] {
        site.reload(&capped(rate)).await;
        let took = read_all(2).await.as_secs_f64();
        let due = (2 << 20) as f64 / f64::from(per_second);
        let burst = 2.0 * PIECE as f64 / f64::from(per_second);
        assert!(took >= due - burst && took <= due * 1.1, "{rate}: {took} s instead of {due} s");
    }
    site.reload(&capped("1KiB/s")).await;
    let (client, file) = (client.clone(), file.clone());
    let mut waiting = tokio::spawn(async move {
        for piece in 0..16 {
            client.read_at(&file, piece * PIECE, PIECE as usize).await.unwrap();
        }
    });
    assert!(timeout(Duration::from_secs(200), &mut waiting).await.is_err(), "1 MiB takes 1000 s");
    let begin = Instant::now();
    site.reload(free).await;
    waiting.await.unwrap();
    assert!(begin.elapsed() < Duration::from_millis(100), "lifting the cap dispatches everything at once");
}

/// Symptom: requests that an application's cap held stayed at it for ever after the application was removed, renamed,
/// or lost its clients to another one, while new requests of the same client passed. Cause: a request belonged to the
/// application that it was enqueued for, and an application that was gone kept its cap.
#[tokio::test(start_paused = true)]
async fn what_waits_goes_by_the_rules_in_force() {
    let held = "[[app]]\nname = \"a\"\nclients = \"127.9.0.1\"\ncap = \"1B/s\"\nburst = \"1B\"\n";
    let in_share = "[[share]]\nname = \"p\"\ncap = \"1B/s\"\nburst = \"1B\"\n\
                    [[app]]\nname = \"a\"\nclients = \"127.9.0.1\"\nshare = \"p\"\n";
    let renamed = "[[app]]\nname = \"b\"\nclients = \"127.9.0.1\"\n";
    let moved = format!("{renamed}{}", held.replace("127.9.0.1", "127.9.0.2"));
    for policy in ["isolation", "sfq-d", "two-level", "fifo"] {
        let policy = format!("[scheduler]\npolicy = \"{policy}\"\n");
        for before in [held, in_share] {
            for after in ["", renamed, &moved] {
                let mut site = Site::start(1, "[apps]\nauto = \"off\"\n").await;
                let client = site.client_at([127, 9, 0, 1]).await;
                let file = client.create("/f", &CreateOptions::basic()).await.unwrap();
                site.reload(&format!("{before}{policy}")).await;
                let mut waiting = JoinSet::new();
                for at in 0..8 {
                    let (client, file) = (client.clone(), file.clone());
                    waiting.spawn(async move { client.write_at(&file, at * 9_000, pattern(1, 9_000)).await.unwrap() });
                }
                let all = async |waiting: &mut JoinSet<_>| while waiting.join_next().await.is_some() {};
                assert!(timeout(Duration::from_secs(60), all(&mut waiting)).await.is_err(), "{before} holds it");
                site.reload(&format!("{after}{policy}")).await;
                let ended = timeout(Duration::from_secs(1), all(&mut waiting)).await;
                assert!(ended.is_ok(), "{policy} {before} {after}: it still waits");
            }
        }
    }
}

/// Virtual time, so that rates are exact. The file is striped over all servers, so each serves a quarter of it.
#[tokio::test(start_paused = true)]
async fn a_cap_is_the_total_over_all_servers_and_a_server_cap_is_not() {
    const PIECE: u64 = 256 << 10;
    for (key, servers, due) in [("cap", 1, 2.0), ("cap", 4, 2.0), ("server_cap", 4, 0.5)] {
        let capped =
            format!("[[app]]\nname = \"a\"\nclients = \"127.0.0.0/8\"\n{key} = \"4MiB/s\"\nburst = \"64KiB\"\n");
        let site = Site::of(ClusterConfig::new(servers), &[None], &capped).await;
        let client = site.client().await;
        let layout = CreateOptions::simple_stripe(64 << 10).on_servers((0..servers).collect::<Vec<_>>());
        let file = client.create("/f", &layout).await.unwrap();
        client.write_at(&file, 0, pattern(1, 1 << 20)).await.unwrap();
        let begin = Instant::now();
        let mut reads = JoinSet::new();
        for piece in 0..32 {
            let (client, file) = (client.clone(), file.clone());
            reads.spawn(async move { client.read_at(&file, piece % 4 * PIECE, PIECE as usize).await.unwrap() });
        }
        reads.join_all().await;
        let took = begin.elapsed().as_secs_f64();
        println!("{key}, {servers} servers: {took:.2} s");
        assert!((due * 0.9..due * 1.15).contains(&took), "{key}, {servers} servers: {took} s instead of {due} s");
    }
}

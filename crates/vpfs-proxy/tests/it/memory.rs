//! What clients send never takes up more memory than configured, and all of it is served nevertheless.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::Level;
use vpfs_proxy::Daemon;
use vpfs_wire::bmi::{Header, Mode, Tag};

use crate::common::log::Log;
use crate::common::raw::{self, FakeServer, Peer};
use crate::common::{Front, Network, pattern};

const MIB: usize = 1 << 20;
/// Bytes of data in a request: nearly the maximum.
const SMALL: usize = 16_000;
/// Data of the write with tag 1.
const LARGE: usize = 300_000;

fn limits(depth: usize) -> String {
    format!(
        "[scheduler]\npolicy = \"sfq-d\"\ndepth = {depth}\n\
         [limits]\nmemory = \"16MiB\"\nhost_memory = \"16MiB\"\nrequest_bytes = \"32MiB\"\noperations = 2000\n"
    )
}

/// Waits until the memory held is in the given state. Returns the largest amount held meanwhile.
async fn until(daemon: &Daemon, mut condition: impl FnMut(usize) -> bool) -> usize {
    let mut most = 0;
    loop {
        let held = daemon.held_memory();
        most = most.max(held);
        if condition(held) {
            return most;
        }
        tokio::task::yield_now().await;
    }
}

/// Sends all of `bytes` and receives replies meanwhile, until `replies` of them have arrived. Returns whether the
/// connection stayed open.
async fn exchange(client: Peer, bytes: Vec<u8>, replies: usize) -> bool {
    let (mut from, mut to) = client.stream.into_split();
    let sending = tokio::spawn(async move { to.write_all(&bytes).await.map(|()| to) });
    for _ in 0..replies {
        let mut header = [0; Header::LEN];
        if from.read_exact(&mut header).await.is_err() {
            return false;
        }
        let size = Header::decode(&header).unwrap().size;
        from.read_exact(&mut vec![0; usize::try_from(size).unwrap()]).await.unwrap();
    }
    sending.await.unwrap().is_ok()
}

/// Answers small writes at once, the others with an acknowledgement and, when their data is there, a completion.
async fn serve(mut server: Peer) {
    while let Ok((Header { mode, tag, .. }, payload)) = server.receive().await {
        let answer = match (mode, tag) {
            (Mode::Unexpected, Tag(1)) => raw::ack(tag, 0),
            (Mode::Unexpected, _) => raw::small_written(tag, SMALL),
            (..) => {
                assert!(payload == pattern(1, LARGE));
                raw::completion(tag, LARGE)
            }
        };
        server.send(answer).await;
    }
}

fn small_writes(tags: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    tags.flat_map(|tag| raw::small_write(tag, tag, pattern(tag, SMALL).to_vec())).collect()
}

/// Symptom: a few connections took all memory of the host. Cause: bytes were bounded for each connection alone.
#[tokio::test]
async fn many_connections_share_one_bound() {
    const CLIENTS: usize = 10;
    const REQUESTS: u64 = 250;
    let log = Log::of(Level::WARN);
    let Front { server: fake, network, daemon } = Front::start(&limits(1)).await;
    let (go, mut clients) = (Arc::new(Notify::new()), JoinSet::new());
    for _ in 0..CLIENTS {
        let (client, server) = fake.pair(network.address(0, 0)).await;
        clients.spawn(exchange(client, small_writes(2..=REQUESTS + 1), REQUESTS as usize));
        let go = Arc::clone(&go);
        tokio::spawn(async move {
            go.notified().await;
            serve(server).await;
        });
    }
    // 38 MiB are sent, and nothing is answered.
    until(&daemon, |held| held >= 14 * MIB).await;
    let mut turns = 0..1000;
    let before = until(&daemon, |_| turns.next().is_none()).await;
    go.notify_waiters();
    let served = tokio::spawn(clients.join_all());
    let after = until(&daemon, |_| served.is_finished()).await;
    assert!(before < 16 * MIB && after < 16 * MIB, "{before} {after}");
    assert_eq!(served.await.unwrap(), [true; CLIENTS]);
    until(&daemon, |held| held == 0).await;
    let lines = log.with("");
    assert!(lines.len() == 1 && lines[0].contains("limits.memory is nearly exhausted"), "{lines:?}");
}

/// Two connections whose writes have all slots, each with `count` requests in front of its data. Returns which ones
/// were served.
async fn two_writers(fake: &FakeServer, network: &Network, count: usize) -> Vec<bool> {
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (mut client, server) = fake.pair(network.address(0, 0)).await;
        tokio::spawn(serve(server));
        client.send(raw::write(1, 1, LARGE)).await;
        assert_eq!(client.tag().await, Tag(1), "acknowledged");
        clients.push(client);
    }
    let mut tasks = JoinSet::new();
    let bytes = [small_writes(2..=count as u64 + 1), raw::data(Tag(1), &pattern(1, LARGE))].concat();
    for client in clients {
        tasks.spawn(exchange(client, bytes.clone(), count + 1));
    }
    tasks.join_all().await
}

async fn before_two_writers() -> (FakeServer, Network, Daemon) {
    let Front { server: fake, network, daemon } = Front::start(&limits(2)).await;
    (fake, network, daemon)
}

/// If the data of a dispatched write had to wait for memory, each connection would hold what the other one needs.
#[tokio::test]
async fn two_connections_at_the_bound_both_finish() {
    let (fake, network, daemon) = before_two_writers().await;
    let log = Log::of(Level::WARN);
    // 15 MiB together, more than the seven eighths at which others wait.
    assert_eq!(two_writers(&fake, &network, 475).await, [true, true]);
    until(&daemon, |held| held == 0).await;
    assert!(log.with("limits.memory is nearly exhausted").len() == 1 && log.with("").len() == 1, "{:?}", log.with(""));
}

/// With more in front of the data than the bound allows, one connection has to be closed, and only one.
#[tokio::test]
async fn a_connection_that_cannot_wait_at_the_bound_is_closed() {
    let (fake, network, daemon) = before_two_writers().await;
    let log = Log::of(Level::WARN);
    let mut served = two_writers(&fake, &network, 800).await;
    served.sort_unstable();
    assert_eq!(served, [false, true]);
    until(&daemon, |held| held == 0).await;
    assert_eq!(log.with("is used up while write data is expected").len(), 1);
}

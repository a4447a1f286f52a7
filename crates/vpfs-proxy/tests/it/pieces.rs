//! The data of a long write is sent to the server in pieces while another application is protected, and all of it
//! arrives.

use std::time::Duration;

use tokio::time::{Instant, advance, timeout};
use vpfs_wire::bmi::Tag;

use crate::common::raw::{self, FakeServer, Peer};
use crate::common::{Network, pattern};

/// Unknown requests are assumed to take 10 ns for each byte: the long write takes more than 140 ms, the first one less.
const FIRST: usize = 4 << 20;
const LONG: usize = 16 << 20;
/// Small enough for the buffers of the sockets, which are emptied in real time.
const MESSAGE: usize = 32 << 10;

/// One small read from its request to its end.
async fn read(client: &mut Peer, server: &mut Peer, tag: u64) {
    client.send(raw::read(tag, 9, 4096)).await;
    assert_eq!(server.tag().await, Tag(tag));
    server.send(raw::ack(Tag(tag), 0)).await;
    assert_eq!(client.tag().await, Tag(tag));
}

/// Sends the data of a write that the server has, and completes it; returns how long the data took.
async fn pass_data(client: &mut Peer, server: &mut Peer, tag: u64, len: usize) -> Duration {
    server.send(raw::ack(Tag(tag), 0)).await;
    assert_eq!(client.tag().await, Tag(tag));
    let (sent, began) = (pattern(tag, len), Instant::now());
    let mut received = Vec::new();
    for message in sent.chunks(MESSAGE) {
        // The client sends nothing else while the data has to wait.
        client.send(raw::data(Tag(tag), message)).await;
        received.extend(server.receive().await.unwrap().1);
    }
    assert!(received == sent, "the data of write {tag}");
    let took = began.elapsed();
    server.send(raw::completion(Tag(tag), len)).await;
    assert_eq!(client.tag().await, Tag(tag));
    took
}

async fn write_beside_a_reader() {
    let fake = FakeServer::start().await;
    let network = Network::new(&[fake.address().to_string()], &[Some("small"), Some("large")]);
    let _daemon = network
        .daemon("[[app]]\nname = \"small\"\n[[app]]\nname = \"large\"\n[scheduler]\npolicy = \"isolation\"\n")
        .await;
    let (mut small, mut small_server) = fake.pair(network.address(0, 0)).await;
    let (mut large, mut large_server) = fake.pair(network.address(1, 0)).await;
    large.send(raw::write(1, 9, FIRST)).await;
    assert_eq!(large_server.tag().await, Tag(1));
    // Four seconds in which most of the pending work is the large application's, so that it counts as bulk and its cost
    // is measured.
    for tag in 1..=80 {
        read(&mut small, &mut small_server, tag).await;
        advance(Duration::from_millis(50)).await;
    }
    let short = pass_data(&mut large, &mut large_server, 1, FIRST).await;
    assert!(short < Duration::from_millis(35), "a write that takes 40 ms passes as it arrives: {short:?}");
    // A request of the small application is pending, so it is protected.
    small.send(raw::read(81, 9, 4096)).await;
    assert_eq!(small_server.tag().await, Tag(81));
    large.send(raw::write(2, 9, LONG)).await;
    assert_eq!(large_server.tag().await, Tag(2));
    let long = pass_data(&mut large, &mut large_server, 2, LONG).await;
    assert!(long >= Duration::from_millis(105), "three of four pieces wait, each at least 35 ms: {long:?}");
    assert!(long <= Duration::from_secs(1), "{long:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_write_is_sent_in_pieces_and_arrives() {
    timeout(Duration::from_secs(60), write_beside_a_reader()).await.expect("data does not wait for ever");
}

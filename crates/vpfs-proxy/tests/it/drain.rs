//! A daemon stops in good order, or by force.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::net::TcpStream;
use vpfs_wire::bmi::Tag;

use crate::common::raw::{self, Peer};
use crate::common::{Front, Network};

#[tokio::test]
async fn operations_in_progress_finish_and_no_new_ones_start() {
    let Front { server: fake, network, daemon } = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 2\n").await;
    let address = network.address(0, 0);
    let (mut client, mut server) = fake.pair(address).await;
    let (mut idle, mut idle_server) = fake.pair(address).await;
    for request in [raw::write(1, 1, 5), raw::metadata(2), raw::metadata(3)] {
        client.send(request).await;
    }
    assert_eq!([server.tag().await, server.tag().await], [Tag(1), Tag(2)]);
    let draining = tokio::spawn(daemon.drain());
    // An idle connection ends soon, and on both sides.
    assert_eq!(idle.end().await, Some(ErrorKind::ConnectionReset));
    assert_eq!(idle_server.end().await, None);
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    // The write is acknowledged, so its data must pass; the held request must be sent; new requests must not.
    server.send(raw::ack(Tag(1), 0)).await;
    assert_eq!(client.tag().await, Tag(1));
    client.send(raw::data(Tag(1), b"bytes")).await;
    assert_eq!(server.receive().await.unwrap().1, b"bytes");
    client.send(raw::metadata(4)).await;
    server.send([raw::completion(Tag(1), 5), raw::done(Tag(2))].concat()).await;
    assert_eq!([client.tag().await, client.tag().await], [Tag(1), Tag(2)]);
    assert_eq!(server.tag().await, Tag(3));
    assert!(!draining.is_finished());
    server.send(raw::done(Tag(3))).await;
    assert!(server.receive().await.is_err(), "the later request is not passed on");
    // The reset does not overtake the last reply.
    assert_eq!(client.tag().await, Tag(3));
    assert_eq!(client.end().await, Some(ErrorKind::ConnectionReset));
    drop(client);
    assert_eq!(draining.await.unwrap(), 0);
}

#[tokio::test]
async fn a_dropped_daemon_closes_everything() {
    let Front { server: fake, network, daemon } = Front::start("").await;
    let (mut client, mut server) = fake.pair(network.address(0, 0)).await;
    client.send(raw::metadata(1)).await;
    assert_eq!(server.tag().await, Tag(1));
    drop(daemon);
    assert_eq!(client.end().await, Some(ErrorKind::ConnectionReset));
    assert!(server.receive().await.is_err());
    while TcpStream::connect(network.address(0, 0)).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

/// A server that accepts no connections: its queue is full, so the system does not answer further attempts.
async fn deaf_server() -> (std::net::SocketAddr, Vec<TcpStream>, socket2::Socket) {
    use socket2::{Domain, Socket, Type};
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut queued = Vec::new();
    while let Ok(connected) = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(address)).await {
        queued.push(connected.unwrap());
    }
    (address, queued, listener)
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_still_to_be_made_does_not_hold_up_the_end() {
    let (address, _queued, _listener) = deaf_server().await;
    let network = Network::before(address);
    let daemon = network.daemon("[limits]\nconnect_timeout = \"1min\"\n").await;
    let mut client = Peer::connect(network.address(0, 0)).await;
    client.send(raw::noop(1)).await;
    // Nothing happens while the proxy waits for the server.
    assert!(tokio::time::timeout(Duration::from_secs(30), client.receive()).await.is_err());
    assert_eq!(daemon.drain().await, 0);
    assert!(client.receive().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_looks_dead_after_a_while() {
    let (address, _queued, _listener) = deaf_server().await;
    let network = Network::before(address);
    let _daemon = network.daemon("[limits]\nconnect_timeout = \"1min\"\n").await;
    let mut client = Peer::connect(network.address(0, 0)).await;
    client.send(raw::noop(1)).await;
    let begin = tokio::time::Instant::now();
    assert_eq!(client.end().await, Some(ErrorKind::ConnectionReset));
    assert_eq!(begin.elapsed().as_secs(), 60);
}

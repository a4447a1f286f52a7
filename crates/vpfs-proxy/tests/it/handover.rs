//! A daemon hands everything over to its successor.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tokio::net::TcpStream;
use vpfs_proxy::Daemon;
use vpfs_wire::bmi::Tag;

use crate::common::raw::{self, FakeServer};
use crate::common::{Front, Network, start_successor};

/// A successor with these settings that has confirmed, and how many connections were handed over and cut off.
async fn upgrade(network: &Network, daemon: Daemon, settings: &str) -> (Daemon, (usize, usize)) {
    let (successor, offer) = start_successor(&daemon, async |from| network.succeed(settings, from).await).await;
    (successor, daemon.hand_over(offer).await)
}

#[tokio::test]
async fn requests_continue_where_they_were() {
    let settings = "[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n";
    let Front { server: fake, network, daemon } = Front::start(settings).await;
    let (mut client, mut server) = fake.pair(network.address(0, 0)).await;
    // One write is sent, one request is queued, and one arrives in part.
    let last = raw::metadata(3);
    client.send([raw::write(1, 1, 5), raw::metadata(2)].concat()).await;
    assert_eq!(server.tag().await, Tag(1));
    let (successor, offer) = start_successor(&daemon, async |from| network.succeed(settings, from).await).await;
    let handing_over = tokio::spawn(daemon.hand_over(offer));
    // The connection notices that before its write ends.
    tokio::task::yield_now().await;
    server.send(raw::ack(Tag(1), 0)).await;
    assert_eq!(client.tag().await, Tag(1));
    client.send([&raw::data(Tag(1), b"bytes")[..], &last[..20]].concat()).await;
    assert_eq!(server.receive().await.unwrap().1, b"bytes");
    assert!(successor.is_taking_over(), "the connection has not arrived");
    server.send(raw::completion(Tag(1), 5)).await;
    assert_eq!(client.tag().await, Tag(1));
    assert_eq!(handing_over.await.unwrap(), (1, 0));
    assert_eq!(server.tag().await, Tag(2), "over the same connection");
    client.send(&last[20..]).await;
    server.send(raw::done(Tag(2))).await;
    assert_eq!(server.tag().await, Tag(3));
    server.send(raw::done(Tag(3))).await;
    assert_eq!([client.tag().await, client.tag().await], [Tag(2), Tag(3)]);
    while successor.is_taking_over() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut_off_and_the_rest_is_handed_over() {
    let settings = "[limits]\ndrain_timeout = \"100ms\"\n";
    let Front { server: fake, network, daemon } = Front::start(settings).await;
    let (mut stuck, mut stuck_server) = fake.pair(network.address(0, 0)).await;
    stuck.send(raw::metadata(1)).await;
    assert_eq!(stuck_server.tag().await, Tag(1));
    let (mut idle, mut idle_server) = fake.pair(network.address(0, 0)).await;
    let (_successor, counts) = upgrade(&network, daemon, settings).await;
    assert_eq!(counts, (1, 1));
    assert_eq!(stuck.end().await, Some(ErrorKind::ConnectionReset));
    idle.send(raw::metadata(2)).await;
    assert_eq!(idle_server.tag().await, Tag(2));
}

/// What a successor does not serve ends; what it serves does not.
#[tokio::test]
async fn a_successor_may_have_other_listeners() {
    let fake = FakeServer::start().await;
    let servers = [fake.address().to_string()];
    let network = Network::new(&servers, &[None, None]);
    let daemon = network.daemon("").await;
    let (mut kept, mut kept_server) = fake.pair(network.address(0, 0)).await;
    let (mut closed, _closed_server) = fake.pair(network.address(1, 0)).await;
    let fewer = network.first_listener();
    let (_successor, counts) = upgrade(&fewer, daemon, "").await;
    assert_eq!(counts, (2, 0));
    assert_eq!(closed.end().await, Some(ErrorKind::ConnectionReset));
    kept.send(raw::metadata(1)).await;
    assert_eq!(kept_server.tag().await, Tag(1));
    let refused = TcpStream::connect(network.address(1, 0)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

/// Symptom: any byte from the successor counted as "ready", and the proxy gave up its sockets to a program that did not
/// serve them. Cause: the answer was one byte, whatever it was.
#[tokio::test]
async fn only_a_successor_that_says_so_is_ready() {
    let Front { server: fake, network, daemon } = Front::start("").await;
    let framed = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
    let answers = [
        vec![1],
        b"ready\n".to_vec(),
        (0..=255).collect(),
        framed("{\"Ready\":0}"),
        framed("\"Offered\""),
        framed("{\"Format\":1}"),
        Vec::new(),
    ];
    for answer in answers {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&answer).unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        assert!(daemon.offer(ours).await.is_err(), "{answer:?}");
    }
    let (mut client, mut server) = fake.pair(network.address(0, 0)).await;
    client.send(raw::metadata(1)).await;
    assert_eq!(server.tag().await, Tag(1), "this process continues");
    let (successor, _) = start_successor(&daemon, async |from| network.succeed("", from).await).await;
    drop(successor);
}

/// Symptom: a successor that hung kept its predecessor waiting for a minute, and for ever if it sent a byte now and
/// then. Cause: only the wait for each byte was bounded. The thread that waits ends, too.
#[tokio::test(start_paused = true)]
async fn a_successor_that_hangs_is_given_up() {
    let Front { daemon, .. } = Front::start("").await;
    for is_cancelled in [true, false] {
        let (ours, mut hanging) = UnixStream::pair().unwrap();
        hanging.write_all(&[0, 0]).unwrap();
        let offering = tokio::spawn(daemon.offer(ours));
        tokio::task::yield_now().await;
        if is_cancelled {
            offering.abort();
        } else {
            tokio::time::advance(Duration::from_secs(21)).await;
            let error = offering.await.unwrap().err().expect("it is not ready");
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
        let closed = tokio::task::spawn_blocking(move || hanging.read_to_end(&mut Vec::new()));
        // By a reset if the thread had not read what was sent.
        let end = closed.await.unwrap();
        assert!(end.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |_| true), "{end:?}");
    }
}

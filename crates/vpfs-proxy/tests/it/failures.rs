//! Servers and proxies fail and return: clients see the behaviour of a dead server, and continue.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::task::JoinSet;
use tracing::Level;
use vpfs_testbed::CreateOptions;
use vpfs_wire::bmi::Tag;

use crate::common::log::Log;
use crate::common::raw::{self, Peer};
use crate::common::{Front, Site, pattern};

/// Pieces of a file are written and read, four at a time, while servers are killed and restarted in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_recover_when_servers_are_killed_and_restarted() {
    const PIECE: usize = 150_000;
    let site = Site::start(3, "[scheduler]\ndepth = 5\n").await;
    let client = site.client().await;
    let file = client.create("/f", &CreateOptions::default()).await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..4 {
        let (client, file) = (client.clone(), file.clone());
        tasks.spawn(async move {
            for piece in (task..100).step_by(4) {
                let (data, at) = (pattern(piece, PIECE), piece * PIECE as u64);
                client.write_at(&file, at, data.clone()).await.unwrap();
                assert!(client.read_at(&file, at, PIECE).await.unwrap() == data, "{piece}");
            }
        });
    }
    for kill in 1..=4 {
        while site.totals("host:127.0.0.1").bytes < kill * 5_000_000 {
            assert!(tasks.try_join_next().is_none_or(|task| task.is_ok()));
            tokio::task::yield_now().await;
        }
        site.cluster.stop_server(kill as usize % 3).await;
        site.cluster.restart_server(kill as usize % 3).await.unwrap();
    }
    tasks.join_all().await;
    // All slots are free again, otherwise this would wait for ever.
    let file = client.create("/after", &CreateOptions::simple_stripe(1000)).await.unwrap();
    client.write_at(&file, 0, pattern(9, 8_000_000)).await.unwrap();
    assert!(client.read_at(&file, 0, 8_000_000).await.unwrap() == pattern(9, 8_000_000));
}

#[tokio::test]
async fn a_dead_server_shows_as_a_reset_and_is_logged_once() {
    let log = Log::of(Level::INFO);
    let site = Site::start(2, "").await;
    let address = site.network.address(0, 1);
    for _ in 0..2 {
        let before = log.with("cannot be reached").len();
        site.cluster.stop_server(1).await;
        for _ in 0..3 {
            let mut client = Peer::connect(address).await;
            assert_eq!(client.end().await, Some(ErrorKind::ConnectionReset));
        }
        let lines = log.with("cannot be reached");
        assert_eq!(lines.len(), before + 1, "{lines:?}");
        assert!(lines[before].contains("server=s1") && lines[before].contains("refused"), "{lines:?}");
        site.cluster.restart_server(1).await.unwrap();
        let mut client = Peer::connect(address).await;
        client.send(raw::noop(1)).await;
        assert_eq!(client.tag().await, Tag(1));
        assert_eq!(log.with("can be reached again").len(), before + 1);
    }
}

/// Requests that are outstanding at a failed server, or queued for it, do not keep their slots.
#[tokio::test(start_paused = true)]
async fn slots_are_freed_when_either_side_disconnects() {
    let front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 2\n").await;
    for server_dies in [true, false] {
        let (mut client, mut server) = front.pair().await;
        for request in [raw::read(1, 1, 5000), raw::metadata(2), raw::metadata(3), raw::write(4, 2, 5000)] {
            client.send(request).await;
        }
        assert_eq!([server.tag().await, server.tag().await], [Tag(1), Tag(2)]);
        server.send(raw::ack(Tag(1), 5000)).await;
        client.tag().await;
        if server_dies {
            drop(server);
            client.end().await;
        } else {
            drop(client);
            // A server closes a connection that its client has closed.
            assert!(server.receive().await.is_err());
            drop(server);
        }
        let (mut client, mut server) = front.pair().await;
        client.send([raw::metadata(1), raw::metadata(2)].concat()).await;
        assert_eq!([server.tag().await, server.tag().await], [Tag(1), Tag(2)]);
        server.send([raw::done(Tag(1)), raw::done(Tag(2))].concat()).await;
        assert_eq!([client.tag().await, client.tag().await], [Tag(1), Tag(2)]);
    }
    let failed: u64 = front.daemon.totals().iter().map(|(_, totals)| totals.failed).sum();
    assert_eq!(failed, 4, "two of each round were sent; cancelled ones are not counted");
}

#[tokio::test]
async fn a_client_that_half_closes_gets_its_replies() {
    use tokio::io::AsyncWriteExt;

    let front = Front::start("").await;
    let (mut client, mut server) = front.pair().await;
    client.send([raw::metadata(1), raw::read(2, 1, 5000)].concat()).await;
    assert_eq!([server.tag().await, server.tag().await], [Tag(1), Tag(2)]);
    client.stream.shutdown().await.unwrap();
    server.send([raw::ack(Tag(2), 5000), raw::done(Tag(1)), raw::data(Tag(2), &pattern(1, 5000))].concat()).await;
    assert_eq!([client.tag().await, client.tag().await], [Tag(2), Tag(1)]);
    assert_eq!(client.receive().await.unwrap().1, pattern(1, 5000));
    assert_eq!(client.end().await, None);
    assert_eq!(server.receive().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

/// Virtual time: an operation that the server never ends.
#[tokio::test(start_paused = true)]
async fn an_operation_without_progress_ends_with_its_connection() {
    let log = Log::of(Level::WARN);
    let limits = "[limits]\nreply_timeout = \"5min\"\nflow_timeout = \"40s\"\n";
    let front = Front::start(&format!("[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n{limits}")).await;
    for (tag, request, patience) in [(1, raw::metadata(1), 300), (2, raw::read(2, 1, 9000), 40)] {
        let (mut client, mut server) = front.pair().await;
        client.send(request).await;
        server.tag().await;
        if tag == 2 {
            server.send(raw::ack(Tag(2), 9000)).await;
            client.tag().await;
        }
        let begin = tokio::time::Instant::now();
        assert_eq!(client.end().await, Some(ErrorKind::ConnectionReset));
        // It is checked four times within the shorter timeout.
        let waited = begin.elapsed();
        assert!(waited >= Duration::from_secs(patience) && waited <= Duration::from_secs(patience + 11), "{waited:?}");
        assert!(server.receive().await.is_err());
        // The next line about this host is due.
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let lines = log.with("no progress");
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("peer=127.0.0.1:")), "{lines:?}");
}

/// A client that has not read what its server sent, `len` bytes of a read; the proxy has all of it.
async fn pair_with_unread(front: &Front, len: usize) -> (raw::Peer, raw::Peer) {
    let (mut client, mut server) = front.pair().await;
    client.send(raw::read(1, 1, len)).await;
    server.tag().await;
    server.send(raw::ack(Tag(1), len)).await;
    for _ in 0..len >> 18 {
        server.send(raw::data(Tag(1), &pattern(1, 1 << 18))).await;
    }
    // The proxy has read all that was sent before this, and its answer would be next.
    client.send(raw::metadata(2)).await;
    assert_eq!(server.tag().await, Tag(2));
    (client, server)
}

/// Symptom: a proxy used a whole processor. Cause: the timer for a session's operations was always due once its server
/// had closed while the client was not reading. Virtual time would not advance here.
#[tokio::test(start_paused = true)]
async fn what_a_dead_server_has_sent_waits_for_its_client_but_not_for_ever() {
    const LEN: usize = 64 << 20;
    let limits = "[limits]\nconnections = 1\nflow_timeout = \"40s\"\nbuffer = \"64MiB\"\n";
    let front = Front::start(limits).await;
    let (mut client, server) = pair_with_unread(&front, LEN).await;
    drop(server);
    // The only permit becomes free when the client's time limit expires.
    let begin = tokio::time::Instant::now();
    let mut other = raw::Peer::connect_from([127, 0, 0, 9], front.network.address(0, 0)).await;
    let mut server = front.server.accept().await;
    other.send(raw::noop(1)).await;
    server.tag().await;
    assert!((40..52).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    assert_eq!(client.end().await, Some(ErrorKind::ConnectionReset));
}

/// Symptom: a slow client lost the last megabytes of a read that its server had sent in full. Cause: a reset by the
/// server reset the client's connection at once.
#[tokio::test]
async fn what_a_server_has_sent_arrives_although_it_resets_its_connection() {
    const LEN: usize = 32 << 20;
    for resets in [false, true] {
        let front = Front::start("[limits]\nbuffer = \"64MiB\"\n").await;
        let (mut client, server) = pair_with_unread(&front, LEN).await;
        if resets {
            socket2::SockRef::from(&server.stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        drop(server);
        let mut received = 0;
        while received < LEN {
            let (header, payload) = client.receive().await.unwrap();
            assert_eq!(header.tag, Tag(1));
            received += if payload.len() == 1 << 18 { payload.len() } else { 0 };
        }
        assert_eq!(client.end().await, None);
    }
}

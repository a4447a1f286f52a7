//! Misbehaving peers affect only themselves.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Level;
use vpfs_testbed::CreateOptions;
use vpfs_wire::bmi::{Header, Mode, Tag};

use crate::common::log::Log;
use crate::common::raw::{self, Peer};
use crate::common::{Front, Site, pattern};

/// Bytes that no client sends, each with part of the reason that is logged; more are in the tests of vpfs-session.
fn garbage() -> [(Vec<u8>, &'static str); 4] {
    let header = |size| Header { mode: Mode::Unexpected, tag: Tag(1), size }.encode().to_vec();
    [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "wrong magic"),
        (header(u64::MAX), "more than 16384"),
        ([header(8), vec![0xff; 8]].concat(), "malformed"),
        ([raw::metadata(1), raw::metadata(1)].concat(), "tag"),
    ]
}

#[tokio::test]
async fn hostile_clients_are_cut_off_and_others_continue() {
    let log = Log::of(Level::WARN);
    let site = Site::start(1, "[scheduler]\npolicy = \"sfq-d\"\ndepth = 2\n").await;
    let client = site.client().await;
    let file = client.create("/f", &CreateOptions::default()).await.unwrap();
    let working = tokio::spawn(async move {
        for piece in 0..30 {
            let data = pattern(piece, 200_000);
            client.write_at(&file, piece * 200_000, data.clone()).await.unwrap();
            assert!(client.read_at(&file, piece * 200_000, 200_000).await.unwrap() == data);
        }
    });
    for (host, (bytes, reason)) in (1..).zip(garbage()) {
        // Lines are limited for each host.
        let mut hostile = Peer::connect_from([127, 0, 1, host], site.network.address(0, 0)).await;
        let peer = hostile.stream.local_addr().unwrap();
        // Also after a valid message.
        hostile.send([raw::noop(7), bytes].concat()).await;
        assert_eq!(hostile.end().await, Some(ErrorKind::ConnectionReset), "{reason}");
        let lines = log.with(&format!("peer={peer}"));
        assert!(lines.len() == 1 && lines[0].contains(reason), "{reason}: {lines:?}");
    }
    working.await.unwrap();
    assert_eq!(log.with("").len(), garbage().len(), "no other client was cut off");
}

/// Symptom: a host that was cut off and connected again a thousand times a second wrote a thousand lines a second.
/// Virtual time.
#[tokio::test(start_paused = true)]
async fn the_log_has_one_line_a_minute_for_each_host_and_kind() {
    let log = Log::of(Level::WARN);
    let front = Front::start("").await;
    let cut_off = async |host, bytes: &[u8]| {
        let mut client = Peer::connect_from([127, 0, 1, host], front.address()).await;
        client.send(bytes).await;
        assert_eq!(client.end().await, Some(ErrorKind::ConnectionReset));
    };
    for _ in 0..30 {
        cut_off(1, b"GET / HTTP/1.1\r\n\r\n\r\n\r\n").await;
        cut_off(1, &[raw::metadata(1), raw::metadata(1)].concat()).await;
        cut_off(2, b"GET / HTTP/1.1\r\n\r\n\r\n\r\n").await;
    }
    assert_eq!(log.with("connection closed").len(), 3, "{:?}", log.with(""));
    assert!(log.with("suppressed").is_empty());
    tokio::time::sleep(Duration::from_secs(60)).await;
    cut_off(1, b"GET / HTTP/1.1\r\n\r\n\r\n\r\n").await;
    let lines = log.with("suppressed=29");
    assert!(lines.len() == 1 && lines[0].contains("peer=127.0.1.1:") && lines[0].contains("wrong magic"), "{lines:?}");
}

/// Virtual time, because lines are limited for each server.
#[tokio::test(start_paused = true)]
async fn a_hostile_server_is_cut_off_and_the_client_sees_a_dead_one() {
    let log = Log::of(Level::WARN);
    let front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n").await;
    let garbage = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "wrong magic"),
        (raw::metadata(1), "a request"),
        (raw::data(Tag(1), b"no reply at all"), "malformed"),
    ];
    for (bytes, reason) in &garbage {
        let (mut client, mut server) = front.pair().await;
        let peer = client.stream.local_addr().unwrap();
        client.send(raw::read(1, 1, 100)).await;
        server.tag().await;
        server.send(bytes).await;
        assert_eq!(client.end().await, Some(ErrorKind::ConnectionReset), "{reason}");
        server.end().await;
        let lines = log.with(&format!("peer={peer}"));
        assert!(lines.len() == 1 && lines[0].contains(reason) && lines[0].contains("server=s0"), "{reason}: {lines:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

/// Sends file data until the proxy accepts no more; in virtual time, a timeout means exactly that.
async fn send_until_stuck(server: &mut Peer, tag: Tag) -> usize {
    let chunk = raw::data(tag, &pattern(1, CHUNK));
    let mut chunks = 0;
    while timeout(Duration::from_secs(1), server.send(&chunk)).await.is_ok() {
        chunks += 1;
        assert!(chunks * CHUNK < 128 << 20, "the proxy takes everything");
    }
    chunks
}

const CHUNK: usize = 256 << 10;
/// More than any number of buffers holds.
const ENDLESS: usize = 512 << 20;

/// Slots are given back after a second, which is checked twice a second.
const RELEASED: Duration = Duration::from_millis(1600);

/// Virtual time. A client that does not read takes all slots but one, and later all others: it loses them soon, and
/// still gets everything when it reads again.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_does_not_stall_others() {
    let front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 2\n").await;
    let (mut stalled, mut stalled_server) = front.pair().await;
    let (mut client, mut server) = front.pair().await;
    stalled.send(raw::read(1, 1, ENDLESS)).await;
    let tag = stalled_server.tag().await;
    stalled_server.send(raw::ack(tag, ENDLESS)).await;
    let chunks = send_until_stuck(&mut stalled_server, tag).await;
    let begin = tokio::time::Instant::now();
    for tag in 1..=5 {
        client.send(raw::read(tag, 2, CHUNK)).await;
        server.tag().await;
        server.send([raw::ack(Tag(tag), CHUNK), raw::data(Tag(tag), &pattern(tag, CHUNK))].concat()).await;
        assert_eq!(client.tag().await, Tag(tag));
        assert!(client.receive().await.unwrap().1 == pattern(tag, CHUNK));
    }
    assert!(begin.elapsed() < RELEASED, "there was one slot more");

    for tag in 2..=9 {
        stalled.send(raw::read(tag, 1, ENDLESS)).await;
        assert_eq!(stalled_server.tag().await, Tag(tag));
    }
    client.send(raw::metadata(6)).await;
    assert_eq!(server.tag().await, Tag(6));
    assert!(begin.elapsed() <= 2 * RELEASED, "{:?}", begin.elapsed());
    tokio::time::sleep(Duration::from_secs(120)).await;
    stalled.tag().await;
    for _ in 0..chunks {
        assert!(stalled.receive().await.unwrap().1 == pattern(1, CHUNK));
    }
}

/// Symptom: an honest client that was stopped for 75 s stopped all others for 72 s. Cause: its writes kept their slots
/// while their data did not come. Virtual time.
#[tokio::test(start_paused = true)]
async fn clients_that_stop_in_the_middle_of_writes_do_not_stall_others() {
    let front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 2\n").await;
    let begin = tokio::time::Instant::now();
    let mut stopped = Vec::new();
    for half in [0, CHUNK / 2] {
        let (mut client, mut server) = front.pair().await;
        client.send(raw::write(1, 1, CHUNK)).await;
        assert_eq!(server.tag().await, Tag(1));
        server.send(raw::ack(Tag(1), 0)).await;
        assert_eq!(client.tag().await, Tag(1));
        let data = raw::data(Tag(1), &pattern(1, CHUNK));
        client.send(&data[..half]).await;
        stopped.push((client, server, data[half..].to_vec()));
    }
    let (mut client, mut server) = front.pair().await;
    for tag in 1..=100 {
        client.send(raw::metadata(tag)).await;
        assert_eq!(server.tag().await, Tag(tag));
        server.send(raw::done(Tag(tag))).await;
        assert_eq!(client.tag().await, Tag(tag));
    }
    assert!(begin.elapsed() <= RELEASED, "{:?}", begin.elapsed());
    tokio::time::sleep(Duration::from_secs(75)).await;
    for (mut client, mut server, rest) in stopped {
        client.send(rest).await;
        assert!(server.receive().await.unwrap().1 == pattern(1, CHUNK), "it continues where it stopped");
        server.send(raw::completion(Tag(1), CHUNK)).await;
        assert_eq!(client.tag().await, Tag(1));
    }
}

/// Symptom: writes without data, each over a new connection, held the only slot for a second each, so others had it
/// once a second. Virtual time.
#[tokio::test(start_paused = true)]
async fn clients_that_stall_again_and_again_lose_their_slots_sooner() {
    let front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n").await;
    let (mut client, mut server) = front.pair().await;
    let begin = tokio::time::Instant::now();
    let mut stalled = Vec::new();
    for tag in 1..=40 {
        let (mut hostile, mut hostile_server) = front.pair().await;
        hostile.send(raw::write(1, 1, CHUNK)).await;
        assert_eq!(hostile_server.tag().await, Tag(1));
        hostile_server.send(raw::ack(Tag(1), 0)).await;
        stalled.push((hostile, hostile_server));
        client.send(raw::metadata(tag)).await;
        assert_eq!(server.tag().await, Tag(tag));
        server.send(raw::done(Tag(tag))).await;
        assert_eq!(client.tag().await, Tag(tag));
    }
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?} instead of 40 s", begin.elapsed());
}

/// Virtual time. Otherwise such connections, and what was read from them, would stay for ever.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_complete_its_request_is_cut_off() {
    let log = Log::of(Level::WARN);
    let front = Front::start("[limits]\nrequest_timeout = \"20s\"\n").await;
    let (mut idle, mut idle_server) = front.pair().await;
    let (mut client, mut server) = front.pair().await;
    client.send([raw::noop(1), raw::metadata(2)[..30].to_vec()].concat()).await;
    assert_eq!(server.tag().await, Tag(1));
    let begin = tokio::time::Instant::now();
    assert_eq!(client.end().await, Some(ErrorKind::ConnectionReset));
    assert_eq!(begin.elapsed().as_secs(), 20);
    assert!(server.receive().await.is_err());
    assert_eq!(log.with("did not complete its request").len(), 1);
    idle.send(raw::noop(1)).await;
    assert_eq!(idle_server.tag().await, Tag(1), "a connection between messages may be idle");
}

/// Virtual time. The rest of its request is in the socket; the proxy does not read it.
#[tokio::test(start_paused = true)]
async fn a_client_that_has_to_wait_in_a_request_is_not_cut_off() {
    let front = Front::start("[limits]\noperations = 1\n").await;
    let (mut client, mut server) = front.pair().await;
    let second = raw::metadata(2);
    client.send([&raw::metadata(1)[..], &second[..30]].concat()).await;
    assert_eq!(server.tag().await, Tag(1));
    client.send(&second[30..]).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    server.send(raw::done(Tag(1))).await;
    assert_eq!(client.tag().await, Tag(1));
    assert_eq!(server.tag().await, Tag(2));
}

/// The same for a server that does not read.
#[tokio::test(start_paused = true)]
async fn a_slow_server_makes_its_client_wait_not_the_proxy_grow() {
    let front = Front::start("[limits]\nbuffer = \"1MiB\"\n").await;
    let (mut client, mut server) = front.pair().await;
    client.send(raw::write(1, 1, ENDLESS)).await;
    server.tag().await;
    server.send(raw::ack(Tag(1), ENDLESS)).await;
    client.tag().await;
    let chunks = send_until_stuck(&mut client, Tag(1)).await;
    assert!(chunks * CHUNK > 1 << 20, "{chunks}");
    for _ in 0..chunks {
        assert!(server.receive().await.unwrap().1 == pattern(1, CHUNK));
    }
}

#[tokio::test]
async fn at_the_limit_of_connections_clients_wait() {
    let log = Log::of(Level::WARN);
    let mut site = Site::start(1, "[limits]\nconnections = 2\n").await;
    let [first, second] = [site.client().await, site.client().await];
    let mut waiting = JoinSet::new();
    for _ in 0..3 {
        let options = site.options(0);
        waiting.spawn(async move { vpfs_testbed::Client::connect(options).await.unwrap() });
    }
    // Connected clients work as before, and no further ones are accepted meanwhile.
    for round in 0..20 {
        first.mkdir(&format!("/{round}"), 0o755).await.unwrap();
        second.stat(&format!("/{round}")).await.unwrap();
    }
    assert!(waiting.try_join_next().is_none());
    drop(first);
    let third = waiting.join_next().await.unwrap().unwrap();
    assert_eq!(third.readdir("/").await.unwrap().len(), 20);
    second.mkdir("/more", 0o755).await.unwrap();
    assert!(waiting.try_join_next().is_none());
    site.reload("[limits]\nconnections = 4\n").await;
    assert_eq!(waiting.join_all().await.len(), 2);
    assert_eq!(log.with("limits.connections").len(), 1);
}

/// Symptom: 5,000 idle connections of one host left no place for a client of another. Cause: only the number of all
/// connections was limited.
#[tokio::test]
async fn one_host_does_not_use_up_all_connections() {
    let log = Log::of(Level::WARN);
    let mut site = Site::start(1, "[limits]\nconnections = 5\nconnections_per_host = 3\n").await;
    let address = site.network.address(0, 0);
    let works = async |client: &mut Peer| {
        client.send(raw::noop(1)).await;
        assert_eq!(client.tag().await, Tag(1));
    };
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(Peer::connect_from([127, 0, 1, 1], address).await);
        works(idle.last_mut().unwrap()).await;
    }
    for _ in 0..20 {
        let mut further = Peer::connect_from([127, 0, 1, 1], address).await;
        let ended = timeout(Duration::from_secs(60), further.end()).await.expect("an end at once");
        assert_eq!(ended, Some(ErrorKind::ConnectionReset));
    }
    let mut other = Peer::connect_from([127, 0, 1, 2], address).await;
    works(&mut other).await;
    let lines = log.with("limits.connections_per_host is reached");
    assert!(lines.len() == 1 && lines[0].contains("peer=127.0.1.1:"), "{lines:?}");
    site.reload("[limits]\nconnections = 5\nconnections_per_host = 4\n").await;
    works(&mut Peer::connect_from([127, 0, 1, 1], address).await).await;
    for peer in &mut idle {
        works(peer).await;
    }
}

/// Symptom: four addresses with a quarter of all connections each, idle, left every new client waiting. Cause: places
/// were free only when somebody left.
#[tokio::test]
async fn a_new_client_gets_in_whatever_idle_hosts_hold() {
    let site = Site::start(1, "[limits]\nconnections = 9\nconnections_per_host = 2\n").await;
    let address = site.network.address(0, 0);
    let works = async |client: &mut Peer| {
        client.send(raw::noop(1)).await;
        assert_eq!(client.tag().await, Tag(1));
    };
    let mut active = Peer::connect_from([127, 0, 2, 9], address).await;
    works(&mut active).await;
    let mut idle = Vec::new();
    for number in 0..8 {
        idle.push(Peer::connect_from([127, 0, 2, 1 + number / 2], address).await);
        works(idle.last_mut().unwrap()).await;
    }
    let told = site.daemon.observer().status().await.holders;
    assert!(told.len() == 4 && told.iter().all(|told| told.port == "clients"), "{told:?}");
    let mut new = Peer::connect_from([127, 0, 2, 10], address).await;
    works(&mut new).await;
    works(&mut active).await;
    assert_eq!(idle[0].end().await, Some(ErrorKind::ConnectionReset), "idle for longest, of a host with most");
    works(&mut idle[1]).await;
}

/// Symptom: a thousand connects in a row took a second more than the same to HAProxy. Cause: the queue of the listening
/// socket held 128 of them, and the kernel repeats what it drops after one second, then two, then four.
#[tokio::test]
async fn the_connects_of_a_jobs_start_fit_the_queue() {
    let front = Front::start("").await;
    let kernel_limit = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let burst = kernel_limit.trim().parse::<usize>().unwrap().min(1000);
    // Blocking calls: the proxy runs on this thread, too, and accepts nothing before the end. Without a place in the
    // queue, a connect fails after two minutes.
    let clients: Vec<_> = (0..burst).map(|_| std::net::TcpStream::connect(front.address()).unwrap()).collect();
    let mut server = front.server.accept().await;
    std::io::Write::write_all(&mut &clients[0], &raw::noop(1)).unwrap();
    assert_eq!(server.tag().await, Tag(1));
}

/// Symptom: a client that had disconnected kept its permit. Cause: the proxy also waited for the server to close.
#[tokio::test]
async fn a_disconnected_client_frees_its_permit_whatever_the_server_does() {
    let front = Front::start("[limits]\nconnections = 1\n").await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let (mut client, mut server) = front.pair().await;
        client.send(raw::noop(1)).await;
        server.tag().await;
        server.send(raw::done(Tag(1))).await;
        client.tag().await;
        // This server never closes a connection.
        open.push(server);
    }
}

/// Requests that take much computation are taken a few at a time, with turns of other connections in between. Nothing
/// else arrives after them, and yet all are taken, without waiting for any time limit. Virtual time.
#[tokio::test(start_paused = true)]
async fn requests_with_long_descriptions_are_all_taken() {
    const COUNT: u64 = 100;
    let front = Front::start("[scheduler]\npolicy = \"fifo\"\n").await;
    let (mut client, mut server) = front.pair().await;
    let all: Vec<u8> = (1..=COUNT).flat_map(|tag| raw::scattered_read(tag, 7)).collect();
    let sent = tokio::time::Instant::now();
    client.send(all).await;
    for tag in 1..=COUNT {
        assert_eq!(server.tag().await, Tag(tag));
    }
    assert!(sent.elapsed() < Duration::from_millis(500), "{:?}", sent.elapsed());
}

//! Servers and proxies fail and return: clients see the behaviour of a dead server, and continue.

use std::fs::File;
use std::io::ErrorKind;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::Level;
use vpfs_protocol::wire::bmi::{Header, Mode, Tag};
use vpfs_proxy::Daemon;
use vpfs_testbed::CreateOptions;

use crate::common::raw::{FakeServer, Peer};
use crate::common::{Front, Log, Network, Site, pattern, raw};

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

const MIB: usize = 1 << 20;

/// Bytes of data in a request: nearly the maximum.
const SMALL: usize = 16_000;

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

/// Set in the process that runs only this test.
const ALONE: &str = "VPFS_TEST_ALONE";

fn set_limit(limit: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum }).unwrap();
}

/// Takes all descriptors but `left` ones. No task of the runtime runs meanwhile.
fn take_descriptors(left: usize) -> Vec<File> {
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken.truncate(taken.len() - left);
    taken
}

/// A proxy without file descriptors says so, and continues when there are some again. In a process of its own, because
/// the limit is that of the process.
///
/// Symptom: a proxy that was out of descriptors logged that its server cannot be reached.
#[test]
fn being_out_of_descriptors_is_said_as_such() {
    if std::env::var_os(ALONE).is_none() {
        let name = "failures::being_out_of_descriptors_is_said_as_such";
        let alone = Command::new(std::env::current_exe().unwrap()).args([name, "--exact"]).env(ALONE, "1").output();
        let alone = alone.unwrap();
        let report = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success() && report.contains("1 passed"), "{report}");
        return;
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(out_of_descriptors());
}

async fn out_of_descriptors() {
    set_limit(64);
    let log = Log::of(Level::WARN);
    let fake = FakeServer::start().await;
    let network = Network::before(fake.address());
    let _daemon = network.daemon("[limits]\nconnections = 150\n").await;
    assert!(getrlimit(Resource::Nofile).current.unwrap() > 300, "raised as far as necessary, if that is permitted");
    assert_eq!(log.with(""), [""; 0]);

    set_limit(200);
    // One descriptor is left: the client is accepted, and no connection to the server can be made.
    let client = std::net::TcpStream::connect(network.address(0, 0)).unwrap();
    let taken = take_descriptors(1);
    client.set_nonblocking(true).unwrap();
    let mut client = Peer { stream: tokio::net::TcpStream::from_std(client).unwrap() };
    assert_eq!(client.end().await, Some(ErrorKind::ConnectionReset));
    let lines = log.with("out of file descriptors (limit 200): raise LimitNOFILE=");
    assert!(lines.len() == 1 && lines[0].contains("server=s0") && log.with("").len() == 1, "{:?}", log.with(""));
    drop(taken);

    // None is left: the client waits until there are some.
    let client = std::net::TcpStream::connect(network.address(0, 0)).unwrap();
    let taken = take_descriptors(0);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(taken);
    client.set_nonblocking(true).unwrap();
    let mut client = Peer { stream: tokio::net::TcpStream::from_std(client).unwrap() };
    let mut server = fake.accept().await;
    client.send(raw::noop(1)).await;
    assert_eq!(server.tag().await, Tag(1));
    assert_eq!(log.with("").len(), 1, "limited like all lines: {:?}", log.with(""));

    // A limit that cannot be raised far enough.
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(250) }).unwrap();
    let network = Network::before(fake.address());
    let _daemon = network.daemon("[limits]\nconnections = 150\n").await;
    let lines = log.with("limits.connections needs 620 file descriptors, two for each, but the limit is 250");
    assert_eq!(lines.len(), 1, "{:?}", log.with(""));
}

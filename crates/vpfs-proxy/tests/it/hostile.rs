//! Misbehaving peers affect only themselves.

use std::fs;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Level;
use vpfs_config::PeerSecurity;
use vpfs_core::ServerId;
use vpfs_node::frames::{Frame, Hello};
use vpfs_protocol::wire::bmi::{Header, Mode, Tag};
use vpfs_proxy::{Askers, Daemon, StartError, connect_to_ask};
use vpfs_testbed::{ClusterConfig, CreateOptions};

use crate::common::raw::Peer;
use crate::common::{Cluster, Front, KEY, Load, Log, Site, pattern, raw, slow_servers, write_key};

/// Bytes that no client sends, each with part of the reason that is logged; more are in the tests of vpfs-protocol.
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

async fn works(client: &mut Peer) {
    client.send(raw::noop(1)).await;
    assert_eq!(client.tag().await, Tag(1));
}

/// Symptom: 5,000 idle connections of one host left no place for a client of another. Cause: only the number of all
/// connections was limited.
#[tokio::test]
async fn one_host_does_not_use_up_all_connections() {
    let log = Log::of(Level::WARN);
    let mut site = Site::start(1, "[limits]\nconnections = 5\nconnections_per_host = 3\n").await;
    let address = site.network.address(0, 0);
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

const SHARED: &str = "[scheduler]\npolicy = \"sfq-d\"\nsharing = \"threshold\"\n";

async fn two(files: TempDir, security: &str) -> Cluster {
    Cluster::prepare(ClusterConfig::new(2), &[None], SHARED, files, security).await
}

/// A daemon for server 1 with other settings than that of server 0; after a while they are not connected.
async fn stays_alone(mut cluster: Cluster, from: &str, to: &str) {
    let settings = cluster.settings().replace(from, to);
    assert_ne!(settings, cluster.settings());
    let log = Log::of(tracing::Level::WARN);
    cluster.start_one(0).await;
    let other = cluster.try_start(1, &settings).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(cluster.reached(0).await.is_empty(), "the stranger is a peer");
    assert!(other.observer().status().await.peers_report().peers.iter().all(|peer| !peer.connected));
    let refused = log.with("was refused");
    assert!((1..=4).contains(&refused.len()), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn another_key() {
    let files = TempDir::new().unwrap();
    write_key(&files, "other.key", &KEY.replace('0', "1"));
    stays_alone(two(files, "shared_key = \"{}/peers.key\"\n").await, "peers.key", "other.key").await;
}

const CERTIFICATES: &str = "security = \"certificates\"\nauthority = \"{}/ca.pem\"\ncertificate = \"{}/good.pem\"\n\
                            private_key = \"{}/good.key\"\n";

fn issue(files: &TempDir, authority: &str, name: &str, hosts: Vec<String>) {
    issue_all(files, authority, vec![(name, hosts)]);
}

fn issue_all(files: &TempDir, authority: &str, certificates: Vec<(&str, Vec<String>)>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let write = |name: &str, text: String| fs::write(files.path().join(name), text).unwrap();
    write(&format!("{authority}.pem"), issuer.pem());
    for (name, hosts) in certificates {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(hosts).unwrap().signed_by(&key, &issuer).unwrap();
        write(&format!("{name}.pem"), certificate.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}

fn host(address: SocketAddr) -> String {
    address.ip().to_string()
}

async fn two_with_certificates() -> Cluster {
    let cluster = two(TempDir::new().unwrap(), CERTIFICATES).await;
    issue(&cluster.files, "ca", "good", vec![host(cluster.peers[0])]);
    cluster
}

#[tokio::test(start_paused = true)]
async fn certificates_of_one_authority_are_enough() {
    let cluster = two_with_certificates().await.running().await;
    assert_eq!(cluster.reached(0).await, ["s1"]);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_of_another_authority() {
    let cluster = two_with_certificates().await;
    issue(&cluster.files, "other", "bad", vec![host(cluster.peers[0])]);
    stays_alone(cluster, "good", "bad").await;
}

/// It would do in one direction: the daemon that connects is not asked for its host by TLS.
#[tokio::test(start_paused = true)]
async fn a_certificate_for_another_host() {
    let cluster = two(TempDir::new().unwrap(), CERTIFICATES).await;
    issue(&cluster.files, "ca", "good", vec!["127.0.0.99".into()]);
    let log = Log::of(tracing::Level::WARN);
    let cluster = {
        let mut cluster = cluster;
        cluster.start_one(0).await;
        cluster.start_one(1).await;
        cluster
    };
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(cluster.reached(0).await.is_empty() && cluster.reached(1).await.is_empty());
    assert!(!log.with("certificate").is_empty());
}

async fn asked(cluster: &Cluster) -> (Daemon, Askers) {
    let mut daemon = cluster.try_start(0, &cluster.settings()).await.unwrap();
    let askers = daemon.take_askers().unwrap();
    (daemon, askers)
}

/// Whether a daemon lets somebody ask who has this instead of its own.
async fn may_ask((daemon, askers): &mut (Daemon, Askers), security: Option<PeerSecurity>) -> bool {
    let mut peers = daemon.config().peers.clone().unwrap();
    peers.security = security.unwrap_or(peers.security);
    let asker = connect_to_ask(&peers, ServerId(0)).await;
    let admitted = tokio::time::timeout(Duration::from_secs(10), poll_fn(|cx| askers.poll_next(cx))).await;
    let (Ok(mut asker), Ok((_, mut admitted))) = (asker, admitted) else { return false };
    admitted.write_all(b"answer").await.unwrap();
    admitted.flush().await.unwrap();
    let mut answer = [0; 6];
    asker.read_exact(&mut answer).await.unwrap();
    &answer == b"answer"
}

#[tokio::test(start_paused = true)]
async fn who_asks_needs_the_key() {
    let files = TempDir::new().unwrap();
    write_key(&files, "other.key", &KEY.replace('0', "1"));
    let other = files.path().join("other.key");
    let cluster = two(files, "shared_key = \"{}/peers.key\"\n").await;
    let mut asked = asked(&cluster).await;
    assert!(may_ask(&mut asked, None).await);
    assert!(!may_ask(&mut asked, Some(PeerSecurity::SharedKey(other))).await);
}

#[tokio::test(start_paused = true)]
async fn without_keys_nobody_may_ask() {
    let mut asked = asked(&two(TempDir::new().unwrap(), "security = \"none\"\n").await).await;
    assert!(!may_ask(&mut asked, None).await);
}

#[tokio::test(start_paused = true)]
async fn who_asks_needs_a_certificate_for_the_host_of_a_server() {
    let cluster = two(TempDir::new().unwrap(), CERTIFICATES).await;
    let good = vec![host(cluster.peers[0])];
    issue_all(&cluster.files, "ca", vec![("good", good), ("guest", vec!["127.0.0.99".into()])]);
    let mut asked = asked(&cluster).await;
    assert!(may_ask(&mut asked, None).await);
    let [authority, certificate, private_key] =
        ["ca.pem", "guest.pem", "guest.key"].map(|name| cluster.files.path().join(name));
    assert!(!may_ask(&mut asked, Some(PeerSecurity::Certificates { authority, certificate, private_key })).await);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let cluster = two(TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n").await;
    let key = cluster.files.path().join("peers.key");
    for (mode, text, expected) in [(0o644, KEY, "chmod 640"), (0o600, "abc", "64 hexadecimal digits")] {
        fs::write(&key, text).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let refused = cluster.try_start(0, &cluster.settings()).await.map(drop).unwrap_err();
        assert!(matches!(refused, StartError::Peers(_)) && refused.to_string().contains(expected), "{refused}");
    }
}

/// Connects and sends `bytes`; what comes back until the end.
async fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The daemon may close the connection before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer).await {
        Ok(_) => {}
        Err(error) => assert!(matches!(error.kind(), ErrorKind::ConnectionReset), "{error}"),
    }
    answer
}

/// The first frame of a daemon says which servers there are: strangers do not get even that.
#[tokio::test(start_paused = true)]
async fn garbage_silence_and_plain_text_get_nothing() {
    let mut cluster = two(TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n").await;
    cluster.start_one(0).await;
    let mut hello = Vec::new();
    Frame::Hello(Hello::new("vpfs".into(), 1, vec!["s1".into()]).unwrap()).encode(&mut hello);
    for bytes in [&hello[..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 70_000], &[0; 100], b"\x16\x03\x01\x40\x00", b""] {
        let begin = tokio::time::Instant::now();
        let answer = send(cluster.peers[0], bytes).await;
        // An alert of TLS, if anything.
        assert!(answer.len() <= 7 && !answer.windows(4).any(|part| part == b"vpfs"), "{answer:?}");
        assert!(begin.elapsed() <= Duration::from_secs(6), "{:?}", begin.elapsed());
    }
    cluster.start_one(1).await;
    cluster.all_connected().await;
}

/// A hundred connections that say nothing: eight of them are kept, for five seconds; then a peer gets in.
#[tokio::test(start_paused = true)]
async fn strangers_use_up_little() {
    let mut cluster = two(TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n").await;
    cluster.start_one(0).await;
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(TcpStream::connect(cluster.peers[0]).await.unwrap());
    }
    let mut kept = 0;
    for stream in &mut open {
        let mut byte = [0];
        let ended = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
        kept += usize::from(ended.is_err());
    }
    assert_eq!(kept, 8);
    cluster.start_one(1).await;
    cluster.all_connected().await;
}

/// From addresses of their own, 81 of them had all places, so that an owner's pushes were refused and its set expired.
#[tokio::test(start_paused = true)]
async fn who_has_the_key_gets_in_whatever_strangers_hold() {
    let cluster = two(TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n").await;
    let mut asked = asked(&cluster).await;
    let mut open = Vec::new();
    for number in 0..81 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 9, 9, 1 + number % 9], 0).into()).unwrap();
        open.push(socket.connect(cluster.peers[0]).await.unwrap());
    }
    assert!(may_ask(&mut asked, None).await);
    let told = asked.0.observer().status().await.holders;
    assert!(told.iter().any(|told| told.port == "peers" && told.holder.starts_with("127.9.9.")), "{told:?}");
}

/// Symptom: with one NFS server, or one process for all servers, nothing listened at the port of peers, so that agents
/// and `--remote` were refused. Cause: the table counted only if there were servers in other processes.
#[tokio::test]
async fn the_port_of_peers_is_open_wherever_the_table_is() {
    let cluster = two(TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n").await;
    let config = cluster.network().config(&cluster.settings());
    let mut daemon = Daemon::start(config, &[ServerId(0), ServerId(1)]).await.unwrap();
    assert!(daemon.observer().status().await.peers.is_empty(), "there are no other processes");
    let mut asked = (daemon.take_askers().unwrap(), daemon);
    for server in [ServerId(0), ServerId(1)] {
        let peers = asked.1.config().peers.clone().unwrap();
        let (asker, _) = tokio::join!(connect_to_ask(&peers, server), poll_fn(|cx| asked.0.poll_next(cx)));
        asker.unwrap();
    }
    let cluster = two(TempDir::new().unwrap(), "").await;
    let config = cluster.network().config("");
    let _alone = Daemon::start(config, &[ServerId(0)]).await;
    let refused = TcpStream::connect(cluster.peers[0]).await.map(drop).unwrap_err().kind();
    assert_eq!(refused, ErrorKind::ConnectionRefused, "without the table");
}

// Shares of the sum over all servers, with a daemon of its own for each server: they report to each other over
// authenticated connections.
//
// In virtual time: devices are slow, everything else takes no time.

const SERVERS: usize = 4;

const STRIP: usize = 16 << 10;

const CONCURRENCY: usize = 16;

fn settings(sharing: &str, weight: u32) -> String {
    format!(
        "[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\nsharing = \"{sharing}\"\nbroadcast_threshold = \"16KiB\"\n\
         [[app]]\nname = \"wide\"\nweight = {weight}\n[[app]]\nname = \"narrow\"\n"
    )
}

async fn cluster(sharing: &str, weight: u32) -> Cluster {
    Cluster::start(slow_servers(SERVERS, 2_500_000), &[Some("wide"), Some("narrow")], &settings(sharing, weight)).await
}

async fn load_on(cluster: &Cluster) -> Load {
    let mut load = Load::new();
    let (wide, narrow) = (cluster.client(0).await, cluster.client(1).await);
    let stripes = CreateOptions::simple_stripe(STRIP as u64);
    load.add(&wide, "/wide", &stripes, SERVERS * STRIP, CONCURRENCY).await;
    load.add(&narrow, "/narrow", &stripes.on_servers([0, 1]), 2 * STRIP, CONCURRENCY).await;
    load
}

/// The bytes of the wide application for each one of the narrow one, for `count` operations after `skipped` ones.
async fn wide_to_narrow(load: &mut Load, cluster: &Cluster, skipped: u64, count: u64) -> f64 {
    load.pass(skipped).await;
    let bytes = || ["wide", "narrow"].map(|app| cluster.bytes(app) as f64);
    let before = bytes();
    load.pass(count).await;
    let after = bytes();
    (after[0] - before[0]) / (after[1] - before[1])
}

/// A report tells service here and elsewhere, and how all others are reached.
async fn assert_reported(cluster: &Cluster) {
    let report = cluster.daemons[0].as_ref().unwrap().observer().status().await.peers_report();
    let app = |name: &str| report.apps.iter().find(|app| app.app == name).unwrap();
    assert!(app("narrow").here > 0 && app("narrow").elsewhere > 0, "{report:?}");
    assert!(app("wide").elsewhere > 2 * app("wide").here, "{report:?}");
    for peer in &report.peers {
        assert!(peer.connected && peer.received.messages > 0 && peer.sent.messages > 0, "{report:?}");
        assert!(peer.news_age_seconds.is_some_and(|age| age < 5.0) && peer.clock_ahead_seconds.is_some(), "{report:?}");
    }
}

/// A daemon that ends takes its connections with it; the others continue, and shares hold again when it is back.
#[tokio::test(start_paused = true)]
async fn a_daemon_that_was_gone_shares_again() {
    let mut cluster = cluster("threshold", 2).await;
    let mut load = load_on(&cluster).await;
    wide_to_narrow(&mut load, &cluster, 200, 500).await;
    assert_reported(&cluster).await;
    drop(cluster.daemons[3].take());
    while cluster.reached(0).await != ["s1", "s2"] {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The wide application waits for server 3, so the narrow one gets all it wants.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let begin = tokio::time::Instant::now();
    cluster.start_one(3).await;
    cluster.all_connected().await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let ratio = wide_to_narrow(&mut load, &cluster, 1000, 3000).await;
    assert!((ratio / 2.0 - 1.0).abs() < 0.03, "{ratio:.3}");
}

/// By layout, shares hold for the sum over processes, and all messages are keep-alives: at most one a second for each
/// pair.
#[tokio::test(start_paused = true)]
async fn layouts_need_no_reports() {
    let cluster = cluster("layout", 2).await;
    let mut load = load_on(&cluster).await;
    wide_to_narrow(&mut load, &cluster, 400, 100).await;
    let sent = async || {
        let report = cluster.daemons[0].as_ref().unwrap().observer().status().await.peers_report();
        report.peers.iter().map(|peer| peer.sent.messages).sum::<u64>()
    };
    let (before, begin) = (sent().await, tokio::time::Instant::now());
    let ratio = wide_to_narrow(&mut load, &cluster, 0, 1200).await;
    assert!((ratio / 2.0 - 1.0).abs() < 0.03, "{ratio:.3}");
    let (messages, seconds) = (sent().await - before, begin.elapsed().as_secs_f64());
    assert!(messages as f64 <= 3.0 * (seconds + 1.0), "{messages} messages in {seconds:.0} s");
}

//! The promise of weights: shares of a busy server, within the bound of the scheduler.
//!
//! These tests run in virtual time: the device is slow, everything else takes no time, so applications with more
//! concurrent requests than the server has slots always have some queued.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, timeout};
use vpfs_config::Config;
use vpfs_core::fairness::service_gap_bound;
use vpfs_core::{Bytes, Depth, ServerId, Weight};
use vpfs_protocol::wire::bmi::Tag;
use vpfs_protocol::wire::pvfs2::{Handle, Reply, ReplyBody};
use vpfs_proxy::{Daemon, Environment};
use vpfs_testbed::{Client, ClusterConfig, CreateOptions, File};

use crate::common::raw::{FakeServer, Peer};
use crate::common::{Front, Load, Network, Site, Written, free_addresses, pattern, raw, slow_servers};

const PIECE: usize = 64 << 10;

/// Concurrent requests of an application, more than there are slots.
const CONCURRENCY: usize = 16;

const DEPTH: u32 = 4;

const SCHEDULER: &str = "[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\n";

/// One server whose device takes 64 KiB in 6.6 ms, one after the other.
pub(crate) fn slow() -> ClusterConfig {
    slow_servers(1, 10_000_000)
}

/// Clients that read continuously. All files are written before: a large write would count against its application.
async fn load(clients: &[Client]) -> Load {
    let (mut load, mut files) = (Load::new(), Vec::new());
    for (number, client) in clients.iter().enumerate() {
        files.push(Written::new(client, &format!("/{number}"), &CreateOptions::basic(), PIECE).await);
    }
    files.iter().for_each(|file| load.read(file, CONCURRENCY));
    load
}

/// Symptom: 20 addresses turned 4:1 into 1:5. Cause: each was an application with a weight of its own.
#[tokio::test(start_paused = true)]
async fn automatic_applications_share_one_weight() {
    let text = SCHEDULER.to_owned()
        + "[apps]\nauto_weight = 3\n[[app]]\nname = \"named\"\nweight = 2\nclients = [\"127.0.0.2\"]\n";
    let site = Site::of(slow(), &[None], &text).await;
    let mut clients = Vec::new();
    for host in 2..=5 {
        clients.push(site.client_at([127, 0, 0, host]).await);
    }
    let mut load = load(&clients).await;
    let bytes = || {
        let automatic = (3..=5).map(|host| site.totals(&format!("host:127.0.0.{host}")).bytes);
        [site.totals("named").bytes, automatic.sum()]
    };
    load.pass(8 * CONCURRENCY as u64).await;
    let before = bytes();
    load.pass(1500).await;
    let [named, automatic] = [bytes()[0] - before[0], bytes()[1] - before[1]];
    let ratio = named as f64 / automatic as f64;
    assert!((ratio * 3.0 / 2.0 - 1.0).abs() < 0.05, "{ratio:.3}");
}

#[tokio::test(start_paused = true)]
async fn a_newer_weight_holds_for_busy_applications() {
    let text = |weight: u32| {
        SCHEDULER.to_owned() + &format!("[[app]]\nname = \"a\"\nweight = {weight}\nclients = \"127.0.0.2\"\n")
    };
    let mut site = Site::of(slow(), &[None], &text(1)).await;
    let mut load = load(&[site.client_at([127, 0, 0, 2]).await, site.client_at([127, 0, 0, 3]).await]).await;
    for weight in [1, 8, 2] {
        site.reload(&text(weight)).await;
        // Requests outstanding at the change are not counted.
        load.pass(2 * CONCURRENCY as u64).await;
        let bytes = || ["a", "host:127.0.0.3"].map(|app| site.totals(app).bytes);
        let before = bytes();
        load.pass(500).await;
        let [one, other] = [0, 1].map(|app| (bytes()[app] - before[app]) as f64);
        let largest = [weight, 1].map(|weight| (Bytes(PIECE as u64), Weight::new(weight).unwrap()));
        let bound = service_gap_bound(Depth::new(DEPTH).unwrap(), largest);
        assert!((one / f64::from(weight) - other).abs() <= bound, "{one} and {other} for {weight}:1, bound {bound}");
    }
}

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

// What a read is charged: the bytes that it moves, as soon as they are known; and metadata: each object.
//
// One slot, two applications of equal weight: the order in which their requests reach the server reveals their costs.

const SMALL: usize = 64 << 10;

/// The size that copying tools request, however small the file is.
const MUCH: usize = 10 << 20;

/// Two clients with their server connections; the first one gets the slot.
struct Race {
    clients: [Peer; 2],
    servers: [Peer; 2],
}

impl Race {
    async fn start(front: &Front) -> Self {
        let (one, server_1) = front.pair_from([127, 0, 0, 2]).await;
        let (other, server_2) = front.pair_from([127, 0, 0, 3]).await;
        Self { clients: [one, other], servers: [server_1, server_2] }
    }

    /// Returns once the proxy has classified everything that a client has sent; nothing may be dispatched.
    async fn judged(&mut self, who: usize) {
        self.clients[who].send(raw::noop(FENCE)).await;
        assert_eq!(self.servers[who].tag().await, Tag(FENCE));
        self.servers[who].send(raw::done(Tag(FENCE))).await;
        assert_eq!(self.clients[who].tag().await, Tag(FENCE));
    }

    /// The next request that reaches the server, with its client.
    async fn next(&mut self) -> (usize, u64) {
        let [one, other] = &mut self.servers;
        // With only one slot, only one of the connections can receive a request.
        tokio::select! {
            Tag(tag) = one.tag() => (0, tag),
            Tag(tag) = other.tag() => (1, tag),
        }
    }

    /// Serves a read of a file of `size` bytes, which ends it.
    async fn serve(&mut self, who: usize, tag: u64, size: usize) {
        self.servers[who].send([raw::ack(Tag(tag), size), raw::data(Tag(tag), &pattern(1, size))].concat()).await;
        assert_eq!([self.clients[who].tag().await, self.clients[who].tag().await], [Tag(tag); 2]);
    }
}

const FENCE: u64 = 1000;

#[tokio::test]
async fn a_read_that_finds_less_than_it_asked_for_is_charged_less() {
    let front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n").await;
    let mut race = Race::start(&front).await;
    // The first application has the slot, and is charged 10 MiB; the other one's requests arrive in the meantime.
    for tag in 1..=3 {
        race.clients[0].send(raw::read(tag, 10 + tag, MUCH)).await;
    }
    assert_eq!(race.next().await, (0, 1));
    for tag in 1..=3 {
        race.clients[1].send(raw::read(tag, 20 + tag, SMALL)).await;
    }
    race.judged(1).await;
    race.serve(0, 1, SMALL).await;
    // With 64 KiB charged instead, its next request has the same tag as the other one's second, and arrived before it.
    for expected in [(1, 1), (0, 2), (1, 2), (0, 3), (1, 3)] {
        let (who, tag) = race.next().await;
        assert_eq!((who, tag), expected);
        race.serve(who, tag, SMALL).await;
    }
}

#[tokio::test]
async fn the_size_of_a_file_that_was_read_before_is_known() {
    let front = Front::start("[scheduler]\npolicy = \"sfq-d-plus\"\ndepth = 5\n").await;
    let (mut client, mut server) = front.pair().await;
    client.send(raw::read(1, 7, MUCH)).await;
    assert_eq!(server.tag().await, Tag(1));
    server.send([raw::ack(Tag(1), SMALL), raw::data(Tag(1), &pattern(1, SMALL))].concat()).await;
    assert_eq!([client.tag().await, client.tag().await], [Tag(1); 2]);
    // 10 MiB would take all five slots.
    for tag in 2..=6 {
        client.send(raw::read(tag, 7, MUCH)).await;
        assert_eq!(server.tag().await, Tag(tag));
    }
}

const WHOLE: usize = 1 << 20;

const HONEST: [u8; 4] = [127, 0, 0, 2];

const ATTACKER: [u8; 4] = [127, 0, 0, 3];

fn reset(client: Peer) {
    SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
}

/// Reads continuously, a piece at a time.
fn read_on(tasks: &mut JoinSet<()>, client: &Client, file: &File, done: &Arc<watch::Sender<u64>>) {
    for reader in 0..CONCURRENCY as u64 {
        let (client, file, done) = (client.clone(), file.clone(), Arc::clone(done));
        tasks.spawn(async move {
            loop {
                let read = client.read_at(&file, reader * PIECE as u64, PIECE).await.unwrap();
                assert_eq!(read.len(), PIECE);
                done.send_modify(|count| *count += 1);
            }
        });
    }
}

async fn datafile(site: &Site, file: &File) -> Handle {
    let mut client = Peer::connect_from(HONEST, site.network.address(0, 0)).await;
    client.send(raw::get_attr(1, site.cluster.fs_config().fs_id, file.handle())).await;
    let (_, payload) = client.receive().await.unwrap();
    let ReplyBody::GetAttr(reply) = Reply::decode(&payload).unwrap().body else { panic!("another reply") };
    reply.attr.datafiles.unwrap().handles.0[0]
}

/// Hangs up at the acknowledgement of each read.
fn cut_reads_off(tasks: &mut JoinSet<()>, site: &Site, datafile: Handle) {
    let (address, fs) = (site.network.address(0, 0), site.cluster.fs_config().fs_id);
    for _ in 0..CONCURRENCY {
        tasks.spawn(async move {
            loop {
                let mut client = Peer::connect_from(ATTACKER, address).await;
                client.send(raw::read_of(1, fs, datafile, WHOLE)).await;
                assert_eq!(client.tag().await, Tag(1));
                reset(client);
            }
        });
    }
}

/// The bytes per second that an honest reader gets, alone or beside one that cuts its reads off.
async fn honest_rate(is_alone: bool) -> f64 {
    let site = Site::of(slow(), &[None], SCHEDULER).await;
    let client = site.client_at(HONEST).await;
    let file = client.create("/f", &CreateOptions::basic()).await.unwrap();
    client.write_at(&file, 0, pattern(1, WHOLE)).await.unwrap();
    let (done, datafile) = (Arc::new(watch::Sender::new(0)), datafile(&site, &file).await);
    let mut tasks = JoinSet::new();
    read_on(&mut tasks, &client, &file, &done);
    if !is_alone {
        cut_reads_off(&mut tasks, &site, datafile);
    }
    let mut done = done.subscribe();
    done.wait_for(|count| *count >= 2 * CONCURRENCY as u64).await.unwrap();
    let (begin, before) = (Instant::now(), *done.borrow_and_update());
    done.wait_for(|count| *count >= before + 300).await.unwrap();
    let bytes = (*done.borrow() - before) * PIECE as u64;
    bytes as f64 / begin.elapsed().as_secs_f64()
}

/// Symptom: beside a client that reset its connections at each acknowledgement of a read, others got a fiftieth. Cause:
/// such a read was refunded and gave its slot back while the server had begun to read. Virtual time; the device is
/// always busy, so what the honest one does not get is what the other's reads take of it. For other ways to leave, see
/// `hanging_up_does_not_refund_what_the_server_has_done` of vpfs-protocol.
#[tokio::test(start_paused = true)]
async fn reads_that_are_cut_off_take_no_more_than_their_share() {
    let [alone, beside] = [honest_rate(true).await, honest_rate(false).await];
    assert!(beside >= 0.45 * alone, "{beside} instead of half of {alone}");
}

/// What was dispatched and cut off keeps its slots until the server answers, or for a second; the server gets no more
/// requests than it has slots, however often a client comes back.
#[tokio::test(start_paused = true)]
async fn slots_of_a_client_that_is_gone_are_kept_for_a_while() {
    let front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n").await;
    for answers in [true, false] {
        let (mut client, mut server) = front.pair().await;
        client.send(raw::metadata(1)).await;
        assert_eq!(server.tag().await, Tag(1));
        reset(client);
        for _ in 0..20 {
            let (mut client, mut server) = front.pair().await;
            client.send([raw::metadata(1), raw::noop(2)].concat()).await;
            assert_eq!(server.tag().await, Tag(2), "the request before it is held");
            reset(client);
            assert!(server.receive().await.is_err());
        }
        let (mut other, mut other_server) = front.pair().await;
        other.send([raw::metadata(1), raw::noop(2)].concat()).await;
        assert_eq!(other_server.tag().await, Tag(2));
        let begin = Instant::now();
        if answers {
            server.send(raw::done(Tag(1))).await;
        }
        assert_eq!(other_server.tag().await, Tag(1));
        assert_eq!(begin.elapsed() < Duration::from_millis(900), answers, "{:?}", begin.elapsed());
        other_server.send(raw::done(Tag(1))).await;
        assert_eq!(other.tag().await, Tag(1));
        assert!(server.receive().await.is_err(), "it learns that its client is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_drains_does_not_wait_for_clients_that_are_gone() {
    let Front { server: fake, network, daemon } = Front::start(SCHEDULER).await;
    let (mut client, mut server) = fake.pair(network.address(0, 0)).await;
    client.send(raw::metadata(1)).await;
    assert_eq!(server.tag().await, Tag(1));
    reset(client);
    // The reset has arrived once a later connection is served.
    let (mut other, mut other_server) = fake.pair(network.address(0, 0)).await;
    other.send(raw::noop(1)).await;
    assert_eq!(other_server.tag().await, Tag(1));
    other_server.send(raw::done(Tag(1))).await;
    assert_eq!(other.tag().await, Tag(1));
    let begin = Instant::now();
    assert_eq!(daemon.drain().await, 0);
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
}

/// Unknown requests are assumed to take 10 ns for each byte: the long write takes more than 140 ms, the first one less.
const FIRST: usize = 4 << 20;

const LONG: usize = 16 << 20;

/// Small enough for the buffers of the sockets, which are emptied in real time.
const MESSAGE: usize = 32 << 10;

/// A small application; each of its reads goes by itself.
struct Reader {
    client: Peer,
    server: Peer,
    reads: u64,
}

impl Reader {
    /// One read from its request to its end.
    async fn read(&mut self) {
        self.reads += 1;
        let tag = Tag(self.reads);
        self.client.send(raw::read(self.reads, 9, 4096)).await;
        assert_eq!(self.server.tag().await, tag);
        self.server.send(raw::ack(tag, 0)).await;
        assert_eq!(self.client.tag().await, tag);
    }
}

/// Sends the data of a write that the server has, and completes it; returns how long the data took. The reader goes on
/// reading meanwhile: bulk is paced only next to others.
async fn pass_data((client, server): (&mut Peer, &mut Peer), reader: &mut Reader, tag: u64, len: usize) -> Duration {
    server.send(raw::ack(Tag(tag), 0)).await;
    assert_eq!(client.tag().await, Tag(tag));
    let (sent, began) = (pattern(tag, len), Instant::now());
    let mut received = Vec::new();
    for (number, message) in sent.chunks(MESSAGE).enumerate() {
        if number % 8 == 0 {
            reader.read().await;
        }
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
    let (client, server) = fake.pair(network.address(0, 0)).await;
    let mut small = Reader { client, server, reads: 0 };
    let (mut large, mut large_server) = fake.pair(network.address(1, 0)).await;
    large.send(raw::write(1, 9, FIRST)).await;
    assert_eq!(large_server.tag().await, Tag(1));
    // Four seconds in which most of the pending work is the large application's, so that it counts as bulk, and a rate
    // is found for it.
    let mut write = 1;
    for turn in 1..=80 {
        small.read().await;
        advance(Duration::from_millis(50)).await;
        if turn % 8 == 0 {
            pass_data((&mut large, &mut large_server), &mut small, write, FIRST).await;
            write += 1;
            large.send(raw::write(write, 9, FIRST)).await;
            assert_eq!(large_server.tag().await, Tag(write));
        }
    }
    pass_data((&mut large, &mut large_server), &mut small, write, FIRST).await;
    large.send(raw::write(99, 9, LONG)).await;
    assert_eq!(large_server.tag().await, Tag(99));
    let long = pass_data((&mut large, &mut large_server), &mut small, 99, LONG).await;
    assert!(long >= Duration::from_millis(105), "three of four pieces wait, each at least 35 ms: {long:?}");
    assert!(long <= Duration::from_secs(9), "{long:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_write_is_sent_in_pieces_and_arrives() {
    timeout(Duration::from_secs(60), write_beside_a_reader()).await.expect("data does not wait for ever");
}

fn record(words: &[u32]) -> Vec<u8> {
    let len = words.len() as u32 * 4;
    std::iter::once(len | 1 << 31).chain(words.iter().copied()).flat_map(u32::to_be_bytes).collect()
}

/// A call of NFSv3 that reads 64 KiB.
fn read_nfs(xid: u32, uid: u32) -> Vec<u8> {
    let user = [1, 20, 0, 0, uid, uid, 0, 0, 0];
    record(&[&[xid, 0, 2, 100_003, 3, 6][..], &user, &[4, 7, 0, 0, 65_536]].concat())
}

/// The transaction number of the next record, which is also returned.
async fn next(stream: &mut TcpStream) -> (u32, Vec<u8>) {
    let mut bytes = vec![0; 4];
    stream.read_exact(&mut bytes).await.unwrap();
    let len = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) & !(1 << 31);
    bytes.resize(4 + len as usize, 0);
    stream.read_exact(&mut bytes[4..]).await.unwrap();
    (u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]), bytes)
}

async fn daemon(server: SocketAddr, proxy: SocketAddr) -> Daemon {
    let text = format!(
        "[[server]]\nname = \"s\"\naddress = \"nfs://{server}\"\n[[listener]]\naddresses = {{ s = \"nfs://{proxy}\" }}\n\
         [[app]]\nname = \"a\"\nuids = 1\n[[app]]\nname = \"b\"\nuids = 2\n[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n"
    );
    let config = Config::parse("test", &text).unwrap_or_else(|problems| panic!("{problems}"));
    Daemon::start_in(&Environment::default(), config, &[ServerId(0)]).await.unwrap()
}

#[tokio::test]
async fn a_user_does_not_wait_for_all_calls_of_another_one_on_the_same_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = free_addresses(1)[0];
    let _daemon = daemon(listener.local_addr().unwrap(), proxy).await;
    let mut client = TcpStream::connect(proxy).await.unwrap();
    let calls: Vec<Vec<u8>> = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2)].map(|(xid, uid)| read_nfs(xid, uid)).into();
    client.write_all(&calls.concat()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let mut order = Vec::new();
    for _ in &calls {
        let (xid, bytes) = next(&mut server).await;
        assert_eq!(bytes, calls[xid as usize - 1]);
        let reply = record(&[xid, 1, 0, 0, 0, 0, 0, 0, 65_536, 0, 0]);
        server.write_all(&reply).await.unwrap();
        assert_eq!(next(&mut client).await, (xid, reply));
        order.push(xid);
    }
    assert_eq!(order, [1, 5, 2, 3, 4]);
}

/// Of a connection with several users, only requests of the one whose application has changed move.
#[tokio::test(start_paused = true)]
async fn a_user_who_belongs_elsewhere_now_does_not_wait_for_an_old_cap() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (server, proxy) = (listener.local_addr().unwrap(), free_addresses(1)[0]);
    let text = format!(
        "[[server]]\nname = \"s\"\naddress = \"nfs://{server}\"\n\
         [scheduler]\npolicy = \"fifo\"\n[[listener]]\naddresses = {{ s = \"nfs://{proxy}\" }}\n"
    );
    let config = |a: &str, b: &str| {
        let capped = "cap = \"1B/s\"\nburst = \"1B\"\n";
        let apps = format!("[[app]]\nname = \"a\"\nuids = {a}\n{capped}[[app]]\nname = \"b\"\nuids = {b}\n");
        Config::parse("test", &format!("{text}{apps}")).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let environment = Environment::default();
    let mut daemon = Daemon::start_in(&environment, config("[1, 2, 3]", "4"), &[ServerId(0)]).await.unwrap();
    let mut client = TcpStream::connect(proxy).await.unwrap();
    let calls: Vec<Vec<u8>> = [(1, 1), (2, 2), (3, 1), (4, 2), (5, 1)].map(|(xid, uid)| read_nfs(xid, uid)).into();
    client.write_all(&calls.concat()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    assert_eq!(next(&mut server).await.0, 1, "no request is larger than the first burst");
    let mut received = async |expected: Option<u32>| {
        let got = tokio::time::timeout(Duration::from_secs(5), next(&mut server)).await;
        assert_eq!(got.ok().map(|(xid, _)| xid), expected);
    };
    received(None).await;
    daemon.reload(config("[1, 3]", "[2, 4]")).await.unwrap();
    received(Some(2)).await;
    received(Some(4)).await;
    received(None).await;
    daemon.reload(config("3", "[1, 2, 4]")).await.unwrap();
    received(Some(3)).await;
    received(Some(5)).await;
}

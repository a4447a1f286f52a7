//! A newer configuration is applied while clients work, or not at all.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;
use tracing::Level;
use vpfs_config::sets::{AppText, Put, Refusal, Set, SetName, SetText};
use vpfs_core::ServerId;
use vpfs_protocol::wire::bmi::Tag;
use vpfs_proxy::{Daemon, Environment, ReloadError, StateDir};
use vpfs_testbed::{Client, ClusterConfig, CreateOptions};

use crate::common::raw::FakeServer;
use crate::common::{Cluster, Front, Load, Log, Network, Site, pattern, raw, slow_servers, start_successor};

/// The order in which held requests are dispatched reveals how the reload treated them.
#[tokio::test]
async fn held_requests_survive_a_change_of_policy() {
    let mut front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n").await;
    let (mut client, mut server) = front.pair().await;
    for tag in 1..=5 {
        client.send(raw::metadata(tag)).await;
    }
    client.send(raw::noop(6)).await;
    let mut first = [server.tag().await.0, server.tag().await.0];
    first.sort_unstable();
    assert_eq!(first, [1, 6]);
    // FIFO has no depth: everything is dispatched at once.
    front.reload("[scheduler]\npolicy = \"fifo\"\n").await;
    for tag in 2..=5 {
        assert_eq!(server.tag().await.0, tag);
    }
    // Outstanding requests stay outstanding: with one slot, nothing new is dispatched before all of them are answered.
    front.reload("[scheduler]\npolicy = \"sfq-d-plus\"\ndepth = 1\n").await;
    client.send(raw::metadata(7)).await;
    for tag in [5, 3, 1, 2, 6, 4] {
        server.send(raw::done(vpfs_protocol::wire::bmi::Tag(tag))).await;
        assert_eq!(client.tag().await.0, tag);
    }
    assert_eq!(server.tag().await.0, 7);
}

#[tokio::test]
async fn a_refused_configuration_changes_nothing() {
    let older = "[scheduler]\ndepth = 3\n[[app]]\nname = \"a\"\nclients = \"127.0.0.0/8\"\n";
    let mut site = Site::of(ClusterConfig::new(2), &[None], older).await;
    let client = site.client().await;
    let servers: Vec<String> = site.cluster.addresses().iter().map(ToString::to_string).collect();

    let moved = Network::new(&servers, &[None]).config("[scheduler]\ndepth = 9\n");
    let refused = site.daemon.reload(moved).await.unwrap_err();
    assert!(matches!(&refused, ReloadError::NeedsRestart(what) if what.contains("listener.1")), "{refused}");

    assert_eq!(site.daemon.config().scheduler.policy.depth.get(), 3);
    client.create("/f", &CreateOptions::default()).await.unwrap();
    assert_eq!(site.served(), ["a"]);
    site.reload("[scheduler]\ndepth = 9\n").await;
    assert_eq!(site.daemon.config().scheduler.policy.depth.get(), 9);
}

/// Symptom: with `log.level` raised to debug, a running daemon still did not log its schedulers' events. Cause: whether
/// to keep these events was decided at the start.
#[tokio::test]
async fn decisions_are_logged_as_soon_as_the_level_permits() {
    let site = Site::start(1, "").await;
    let client = site.client().await;
    client.mkdir("/before", 0o755).await.unwrap();
    let log = Log::of(Level::DEBUG);
    client.mkdir("/after", 0o755).await.unwrap();
    assert!(!log.with("Dispatched").is_empty());
    assert!(log.with("Lost").is_empty());
}

// The list of servers changes on one host after the other, whose proxy starts again with the newer file: shares hold
// again for the sum over all servers.
//
// In virtual time: devices are slow, everything else takes no time.

const SERVERS: usize = 5;

const STRIP: usize = 16 << 10;

const CONCURRENCY: usize = 16;

/// After the last host, shares hold again within this time.
const HEALS_WITHIN: Duration = Duration::from_secs(5);

/// Five servers whose devices take 16 KiB in 16 ms, one after the other. Applications of equal weight.
async fn cluster() -> Cluster {
    let settings = "[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\nsharing = \"threshold\"\n\
                    broadcast_threshold = \"16KiB\"\n[[app]]\nname = \"wide\"\n[[app]]\nname = \"narrow\"\n";
    let (files, key) = (tempfile::TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n");
    Cluster::prepare(slow_servers(SERVERS, 1_000_000), &[Some("wide"), Some("narrow")], settings, files, key).await
}

/// The wide application reads from all of `servers`, the narrow one from the first two.
async fn load_on(cluster: &Cluster, servers: &[usize], name: &str) -> Load {
    let mut load = Load::new();
    let (wide, narrow) = (cluster.client(0).await, cluster.client(1).await);
    let stripes = CreateOptions::simple_stripe(STRIP as u64);
    let all = stripes.clone().on_servers(servers.to_vec());
    load.add(&wide, &format!("/wide{name}"), &all, servers.len() * STRIP, CONCURRENCY).await;
    let two = stripes.on_servers(servers[..2].to_vec());
    load.add(&narrow, &format!("/narrow{name}"), &two, 2 * STRIP, CONCURRENCY).await;
    load
}

async fn assert_fair(load: &mut Load, cluster: &Cluster, when: &str) {
    let bytes = || ["wide", "narrow"].map(|app| cluster.bytes(app) as f64);
    let before = bytes();
    load.pass(1500).await;
    let after = bytes();
    let ratio = (after[0] - before[0]) / (after[1] - before[1]);
    assert!((ratio - 1.0).abs() < 0.03, "{when}: {ratio:.3}");
}

/// These hosts get the newer file, with a pause before each.
async fn change(cluster: &mut Cluster, servers: [usize; 4], listed: &[usize]) {
    for server in servers {
        sleep(Duration::from_secs(4)).await;
        cluster.start_with(server, listed).await;
    }
    sleep(HEALS_WITHIN).await;
}

/// The first server is removed, so that all others change their positions, and added again at the end.
#[tokio::test(start_paused = true)]
async fn a_server_is_removed_and_added_while_clients_work() {
    let log = Log::of(Level::WARN);
    let told = || log.with("do not have a server of this process").len();
    let mut cluster = cluster().await.running().await;
    let mut load = load_on(&cluster, &[1, 2, 3, 4], "1").await;
    sleep(HEALS_WITHIN).await;
    assert_fair(&mut load, &cluster, "before").await;

    change(&mut cluster, [4, 1, 3, 2], &[1, 2, 3, 4]).await;
    assert_fair(&mut load, &cluster, "without the first").await;
    assert_eq!(cluster.reached(1).await, ["s2", "s3", "s4"]);
    assert!(cluster.reached(0).await.is_empty(), "its proxy still runs");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(told(), 4, "once by each of the others");

    // The new one has to wait for the others.
    cluster.start_with(0, &[1, 2, 3, 4, 0]).await;
    change(&mut cluster, [2, 4, 1, 3], &[1, 2, 3, 4, 0]).await;
    cluster.all_connected().await;
    drop(load);
    let mut load = load_on(&cluster, &[0, 1, 2, 3, 4], "2").await;
    sleep(HEALS_WITHIN).await;
    assert_fair(&mut load, &cluster, "with the first at the end").await;
}

/// As SIGUSR2 does it: the successor has another file, in which its server has another position.
#[tokio::test(start_paused = true)]
async fn a_successor_may_have_another_list() {
    let mut cluster = cluster().await.running().await;
    cluster.succeed_with(1, &[1, 2, 3, 4]).await;
    for (server, others) in [(0, ["s2", "s3", "s4"]), (1, ["s2", "s3", "s4"])] {
        while cluster.reached(server).await != others {
            sleep(Duration::from_millis(10)).await;
        }
    }
    cluster.succeed_with(1, &[0, 1, 2, 3, 4]).await;
    cluster.all_connected().await;
}

fn name(text: &str) -> SetName {
    SetName::parse(text).unwrap()
}

fn set(version: u64, ttl: &str, apps: &[(&str, u32, &str)]) -> Set {
    let app = |&(name, weight, host): &(&str, u32, &str)| AppText {
        name: name.into(),
        weight: Some(weight),
        clients: vec![host.into()],
        ..AppText::default()
    };
    Set::check(SetText { version, ttl: ttl.into(), apps: apps.iter().map(app).collect() }).unwrap()
}

async fn write(client: &Client, path: &str) {
    let file = client.create(path, &CreateOptions::default()).await.unwrap();
    client.write_at(&file, 0, pattern(1, 10_000)).await.unwrap();
}

fn held(daemon: &Daemon) -> Vec<String> {
    let sets = daemon.pushes().sets();
    sets.iter().flat_map(|(set, text, _)| text.apps.iter().map(move |app| format!("{set}/{}", app.name))).collect()
}

#[tokio::test]
async fn a_client_belongs_to_its_job_from_the_start_to_the_end() {
    let site = Site::start(2, "[[app]]\nname = \"login\"\nclients = \"127.9.0.1\"\n").await;
    let (login, node) = (site.client_at([127, 9, 0, 1]).await, site.client_at([127, 9, 0, 2]).await);
    write(&login, "/a").await;
    write(&node, "/b").await;
    assert_eq!(site.served(), ["login", "host:127.9.0.2"]);
    let pushes = site.daemon.pushes();
    let jobs = [("1", 4, "127.9.0.1"), ("2", 3, "127.9.0.2")];
    assert_eq!(pushes.put(name("slurm"), set(1, "1min", &jobs), "uid 0".into()).await, Ok(Put::Replaced));
    let before = site.totals("login").bytes;
    write(&login, "/c").await;
    write(&node, "/d").await;
    assert_eq!(site.served(), ["login", "host:127.9.0.2", "slurm:2"], "rules of the file go first");
    assert!(site.totals("login").bytes > before && site.totals("slurm:2").bytes == 10_000);
    assert_eq!(pushes.put(name("slurm"), set(0, "1min", &[]), "uid 0".into()).await, Err(Refusal::Older(1)));
    assert!(pushes.remove(&name("slurm"), "uid 0").await && !pushes.remove(&name("slurm"), "uid 0").await);
    write(&node, "/e").await;
    assert_eq!(site.totals("slurm:2").bytes, 10_000);
    assert_eq!(site.totals("host:127.9.0.2").bytes, 20_000);
}

/// Symptom: what the cap of a job held stayed held when the job was over.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_gone_holds_nothing() {
    let site = Site::start(1, "").await;
    let node = site.client_at([127, 9, 0, 1]).await;
    let file = node.create("/f", &CreateOptions::basic()).await.unwrap();
    let app =
        AppText { name: "1".into(), cap: Some("1B/s".into()), clients: vec!["127.9.0.1".into()], ..AppText::default() };
    let capped = |version| Set::check(SetText { version, ttl: "2min".into(), apps: vec![app.clone()] }).unwrap();
    for (version, expires) in [(1, false), (2, true)] {
        site.daemon.pushes().put(name("slurm"), capped(version), "uid 0".into()).await.unwrap();
        let (client, file) = (node.clone(), file.clone());
        let mut waiting = tokio::spawn(async move {
            // More than the burst.
            for _ in 0..20 {
                client.write_at(&file, 0, pattern(1, 1 << 20)).await.unwrap();
            }
        });
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut waiting).await.is_err(), "its cap holds it");
        if expires {
            tokio::time::sleep(Duration::from_secs(62)).await;
        } else {
            assert!(site.daemon.pushes().remove(&name("slurm"), "uid 0").await);
        }
        tokio::time::timeout(Duration::from_secs(1), waiting).await.expect("it waits no longer").unwrap();
    }
}

#[tokio::test]
async fn a_reload_leaves_pushed_applications_alone() {
    let mut site = Site::start(1, "").await;
    let node = site.client_at([127, 9, 0, 2]).await;
    site.daemon.pushes().put(name("slurm"), set(1, "1min", &[("2", 3, "127.9.0.2")]), "uid 0".into()).await.unwrap();
    write(&node, "/a").await;
    site.reload("[[app]]\nname = \"other\"\nweight = 7\n").await;
    write(&node, "/b").await;
    assert_eq!(site.totals("slurm:2").bytes, 20_000);
    site.reload("[[app]]\nname = \"nodes\"\nclients = \"127.9.0.0/16\"\n").await;
    write(&node, "/c").await;
    assert_eq!((site.totals("slurm:2").bytes, site.totals("nodes").bytes), (20_000, 10_000));
}

fn in_directory(path: &Path) -> Environment {
    Environment { state: StateDir::at(path), ..Environment::default() }
}

#[tokio::test]
async fn a_restart_keeps_them_and_nothing_in_the_file_prevents_a_start() {
    let front = Front::start("").await;
    let (directory, network) = (tempfile::tempdir().unwrap(), front.network);
    drop(front.daemon);
    let daemon = network.daemon_in(&in_directory(directory.path()), "").await;
    let jobs = [("1", 4, "127.9.0.1"), ("2", 3, "127.9.0.2")];
    daemon.pushes().put(name("slurm"), set(5, "1h", &jobs), "uid 0".into()).await.unwrap();
    daemon.drain().await;
    let daemon = network.daemon_in(&in_directory(directory.path()), "").await;
    assert_eq!(held(&daemon), ["slurm/1", "slurm/2"]);
    assert_eq!(daemon.pushes().put(name("slurm"), set(4, "1h", &jobs), "uid 0".into()).await, Err(Refusal::Older(5)));
    daemon.drain().await;
    let file = directory.path().join("s0.sets.json");
    let json = fs::read_to_string(&file).unwrap();
    for damaged in [&json[..json.len() / 2], "", "{}", &json.replace("\"weight\":4", "\"weight\":0")] {
        fs::write(&file, damaged).unwrap();
        let daemon = network.daemon_in(&in_directory(directory.path()), "").await;
        assert_eq!(held(&daemon).len(), 0, "{damaged}");
        daemon.pushes().put(name("slurm"), set(1, "1h", &jobs), "uid 0".into()).await.unwrap();
        daemon.drain().await;
    }
}

/// A disk on which nothing can be written changes nothing for those who push.
#[tokio::test]
async fn a_state_that_cannot_be_written_stops_nothing() {
    let front = Front::start("").await;
    let (directory, network) = (tempfile::tempdir().unwrap(), front.network);
    drop(front.daemon);
    let no_directory = directory.path().join("file");
    fs::write(&no_directory, "").unwrap();
    let daemon = network.daemon_in(&in_directory(&no_directory), "").await;
    daemon.pushes().put(name("slurm"), set(1, "1h", &[("1", 4, "127.9.0.1")]), "uid 0".into()).await.unwrap();
    assert_eq!(held(&daemon), ["slurm/1"]);
}

/// Also without a state directory, and more than fits one frame.
#[tokio::test]
async fn a_successor_gets_them() {
    let Front { network, daemon, .. } = Front::start("").await;
    let names: Vec<String> = (0..10_000).map(|job| job.to_string()).collect();
    let jobs: Vec<_> = names.iter().map(|name| (name.as_str(), 2, "127.9.0.1")).collect();
    daemon.pushes().put(name("slurm"), set(1, "1h", &jobs), "uid 0".into()).await.unwrap();
    let (successor, offer) = start_successor(&daemon, async |from| network.succeed("", from).await).await;
    daemon.hand_over(offer).await;
    assert_eq!(held(&successor).len(), 10_000);
    assert_eq!(successor.pushes().put(name("slurm"), set(1, "1h", &jobs), "uid 0".into()).await, Ok(Put::Renewed));
}

const FILE: &str = "s0.learned.json";

/// A rate of bulk, in cost per second.
const RATE: &str = "\"best\":23483089";

/// A file with that rate, as a daemon keeps it for this server.
fn file_of(fake: &FakeServer, format: u32) -> String {
    format!(
        "{{\"format\":{format},\"learned\":{{\"server\":\"tcp://{}\",{RATE},\
         \"most\":30000000,\"usual\":1114112,\"alone_ns\":7000000}}}}",
        fake.address()
    )
}

fn has_rate(directory: &Path) -> bool {
    fs::read_to_string(directory.join(FILE)).unwrap().contains(RATE)
}

#[tokio::test]
async fn a_restart_keeps_it_and_nothing_in_a_file_prevents_a_start() {
    let fake = FakeServer::start().await;
    let network = Network::before(fake.address());
    let valid = file_of(&fake, 3);
    let elsewhere = valid.replace(&fake.address().to_string(), "oss9:3334");
    let other_policy = "[scheduler]\npolicy = \"sfq-d\"\n";
    for (content, settings, kept) in [
        (valid.as_str(), "", true),
        (&file_of(&fake, 2), "", false),
        (&elsewhere, "", false),
        (&valid.replace(RATE, "{}"), "", false),
        (&valid[..100], "", false),
        ("", "", false),
        (&valid, other_policy, false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), content).unwrap();
        let daemon = network.daemon_in(&in_directory(directory.path()), settings).await;
        assert_eq!(daemon.drain().await, 0);
        // What is of no use to this process is left to others.
        assert!(!kept || has_rate(directory.path()), "{content} with {settings}");
    }
    let directory = tempfile::tempdir().unwrap();
    network.daemon_in(&in_directory(directory.path()), other_policy).await.drain().await;
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "a policy that learns nothing leaves no file");
}

/// The time of tests is paused, so a minute passes as soon as nothing else can happen.
#[tokio::test(start_paused = true)]
async fn it_is_written_again_only_if_it_changes() {
    let fake = FakeServer::start().await;
    let network = Network::before(fake.address());
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(FILE), file_of(&fake, 3)).unwrap();
    let daemon = network.daemon_in(&in_directory(directory.path()), "").await;
    fs::remove_file(directory.path().join(FILE)).unwrap();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing has changed");
    drop(daemon);
}

#[tokio::test]
async fn a_successor_is_told_and_needs_no_file() {
    let fake = FakeServer::start().await;
    let network = Network::before(fake.address());
    let [before, after] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    fs::write(before.path().join(FILE), file_of(&fake, 3)).unwrap();
    // Older than what the predecessor tells.
    fs::write(after.path().join(FILE), file_of(&fake, 3).replace("23483089", "7")).unwrap();
    let daemon = network.daemon_in(&in_directory(before.path()), "").await;
    fs::remove_file(before.path().join(FILE)).unwrap();
    let (environment, config) = (in_directory(after.path()), network.config(""));
    let start = async |from| Daemon::succeed(&environment, config, &[ServerId(0)], from).await;
    let (successor, offer) = start_successor(&daemon, start).await;
    assert_eq!(daemon.hand_over(offer).await, (0, 0));
    assert_eq!(fs::read_dir(before.path()).unwrap().count(), 0, "the files are the successor's now");
    successor.drain().await;
    assert!(has_rate(after.path()));
}

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

//! Which application a client's requests belong to.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::yield_now;
use tracing::Level;
use vpfs_config::Config;
use vpfs_core::ServerId;
use vpfs_protocol::wire::bmi::Tag;
use vpfs_protocol::wire::pvfs2::{Errno, Op, Reply, Status};
use vpfs_proxy::{Daemon, Environment, Resolver, StateDir, check_names};
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, CreateOptions, EmbeddedCluster};

use crate::common::raw::{FakeServer, Peer};
use crate::common::{Front, Log, Network, Site, free_addresses, pattern, raw, start_successor};

async fn work(client: &Client, path: &str) {
    let file = client.create(path, &CreateOptions::default()).await.unwrap();
    client.write_at(&file, 0, pattern(1, 300_000)).await.unwrap();
    assert_eq!(client.read_at(&file, 0, 300_000).await.unwrap().len(), 300_000);
}

async fn user(site: &Site, uid: u32, gids: &[u32]) -> Client {
    Client::connect(ClientOptions { uid, gids: gids.to_vec(), ..site.options(0) }).await.unwrap()
}

/// The connections to three of the four servers carry data only, and no credential.
#[tokio::test]
async fn data_requests_belong_to_the_user_of_earlier_metadata_requests() {
    let text = "[[app]]\nname = \"alice\"\nuids = 1000\n[[app]]\nname = \"group\"\ngids = 100\n";
    let site = Site::start(4, text).await;
    work(&user(&site, 1000, &[1000]).await, "/a").await;
    assert_eq!(site.served(), ["alice"]);
    assert_eq!(site.totals("alice").bytes, 600_000);
    work(&user(&site, 2000, &[7, 100]).await, "/b").await;
    assert_eq!(site.served(), ["alice", "group"]);
    assert_eq!(site.totals("group").bytes, 600_000);
    work(&user(&site, 0, &[0]).await, "/c").await;
    assert_eq!(site.served(), ["alice", "group", "host:127.0.0.1"]);
    assert_eq!(site.totals("alice").bytes, 600_000);
}

/// One mount with many users: its requests are attributed by the last credential.
#[tokio::test]
async fn a_connection_may_change_its_user() {
    let front = Front::start("[apps]\nauto = \"uid\"\n").await;
    let (mut client, mut server) = front.pair().await;
    let mut exchange = async |request: Vec<u8>| {
        client.send(request).await;
        let tag = server.tag().await;
        server.send(raw::done(tag)).await;
        assert_eq!(client.tag().await, tag);
    };
    exchange(raw::metadata(1)).await;
    for (tag, uid) in [(2, 5), (4, 6), (6, 5)] {
        exchange(raw::metadata_of(tag, uid)).await;
        exchange(raw::metadata(tag + 1)).await;
    }
    let totals: Vec<_> = front.daemon.totals().iter().map(|(name, it)| (name.clone(), it.metadata_requests)).collect();
    assert_eq!(totals, [("other".to_owned(), 1), ("uid:5".to_owned(), 4), ("uid:6".to_owned(), 2)]);
}

#[tokio::test]
async fn hosts_become_applications_up_to_a_limit() {
    let text = "[apps]\nauto_limit = 2\nauto_weight = 3\n";
    let mut site = Site::start(1, text).await;
    for host in 1..=4 {
        work(&site.client_at([127, 7, 0, host]).await, &format!("/{host}")).await;
    }
    assert_eq!(site.served(), ["other", "host:127.7.0.1", "host:127.7.0.2"]);
    let of_default = site.totals("other").data_requests;
    site.reload("[apps]\nauto_limit = 3\n").await;
    work(&site.client_at([127, 7, 0, 5]).await, "/5").await;
    assert_eq!(site.served(), ["other", "host:127.7.0.1", "host:127.7.0.2", "host:127.7.0.5"]);
    assert_eq!(site.totals("other").data_requests, of_default);
}

/// Unscheduled requests belong to no application.
#[tokio::test]
async fn a_client_that_only_requests_the_configuration_is_not_an_application() {
    let site = Site::start(1, "").await;
    let mut peer = Peer::connect(site.network.address(0, 0)).await;
    peer.send(raw::get_config(1)).await;
    peer.receive().await.unwrap();
    assert_eq!(site.daemon.totals().len(), 1, "the default only");
    assert!(site.served().is_empty());
}

const SERVER: [u8; 4] = [127, 0, 0, 7];

const CLIENT: [u8; 4] = [127, 0, 0, 8];

const ONE_SLOT: &str = "[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n";

/// Whether a request with the server hint from `host` passes a full server; a request that is never held follows it.
async fn passes(front: &Front, host: [u8; 4]) -> bool {
    let (mut busy, mut busy_server) = front.pair_from([127, 0, 0, 9]).await;
    busy.send(raw::metadata(1)).await;
    assert_eq!(busy_server.tag().await, Tag(1));
    let (mut claimer, mut claimer_server) = front.pair_from(host).await;
    claimer.send([raw::metadata_with_server_hint(1), raw::noop(2)].concat()).await;
    claimer_server.tag().await == Tag(1)
}

/// Symptom: a client that set the hint of servers took all slots, at no charge. Cause: the hint was believed, no matter
/// who sent it.
#[tokio::test]
async fn a_server_is_believed_at_its_address_only() {
    let log = Log::of(Level::WARN);
    let front = Front::start(&format!("{ONE_SLOT}[trust]\nservers = \"127.0.0.7\"\n")).await;
    assert!(passes(&front, SERVER).await);
    assert_eq!(log.with("trust.servers").len(), 0);
    for _ in 0..2 {
        assert!(!passes(&front, CLIENT).await);
    }
    let lines = log.with("trust.servers");
    assert!(lines.len() == 1 && lines[0].contains("127.0.0.8"), "once for each address: {lines:?}");
}

/// The server of this test listens at 127.0.0.1, as its clients do.
#[tokio::test]
async fn programs_on_the_machine_of_a_loopback_server_are_clients() {
    let front = Front::start(ONE_SLOT).await;
    assert!(!passes(&front, [127, 0, 0, 1]).await);
}

/// A server's name may be found after it has connected, and servers keep their connections.
#[tokio::test]
async fn a_connection_is_believed_as_soon_as_its_address_is() {
    let mut front = Front::start(ONE_SLOT).await;
    let (mut busy, mut busy_server) = front.pair_from(CLIENT).await;
    busy.send(raw::metadata(1)).await;
    assert_eq!(busy_server.tag().await, Tag(1));
    let (mut server, mut passed) = front.pair_from(SERVER).await;
    server.send([raw::metadata_with_server_hint(1), raw::noop(2)].concat()).await;
    assert_eq!(passed.tag().await, Tag(2), "the first one is held");
    front.reload(&format!("{ONE_SLOT}[trust]\nservers = \"127.0.0.7\"\n")).await;
    server.send([raw::metadata_with_server_hint(3), raw::noop(4)].concat()).await;
    assert_eq!(passed.tag().await, Tag(3));
}

#[tokio::test]
async fn administration_by_clients_can_be_refused() {
    let front = Front::start("[trust]\nservers = \"127.0.0.7\"\nmanagement = \"refuse\"\n").await;
    let (mut client, mut client_server) = front.pair_from(CLIENT).await;
    client.send([raw::iterate_handles(1), raw::get_config(2)].concat()).await;
    let (header, payload) = client.receive().await.unwrap();
    let denied = Reply::error(Op::MgmtIterateHandles, Status::error(Errno::EACCES));
    assert_eq!((header.tag, Reply::decode(&payload)), (Tag(1), Ok(denied)));
    assert_eq!(client_server.tag().await, Tag(2));
    let (mut admin, mut admin_server) = front.pair_from(SERVER).await;
    admin.send(raw::iterate_handles(1)).await;
    assert_eq!(admin_server.tag().await, Tag(1));
}

const HOST: [u8; 4] = [127, 9, 0, 1];

const CLIMATE: &str = "[[app]]\nname = \"climate\"\nclients = \"c1\"\n";

type Answers = BTreeMap<String, Result<Vec<IpAddr>, &'static str>>;

/// A name server that answers about a name when the test lets it, and not at all before.
#[derive(Clone)]
struct Zone(Arc<watch::Sender<Answers>>);

impl Zone {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeMap::new())))
    }

    fn say(&self, name: &str, answer: Result<[u8; 4], &'static str>) {
        self.say_all(name, answer.map(|address| vec![address]));
    }

    fn say_all(&self, name: &str, answer: Result<Vec<[u8; 4]>, &'static str>) {
        self.0.send_modify(|answers| {
            answers.insert(name.to_owned(), answer.map(|all| all.into_iter().map(IpAddr::from).collect()));
        });
    }

    fn environment(&self, state: StateDir) -> Environment {
        let zone = self.clone();
        let resolver = Resolver::new(move |name| {
            let mut answers = zone.0.subscribe();
            async move {
                let answers =
                    answers.wait_for(|answers| answers.contains_key(&name)).await.map_err(io::Error::other)?;
                answers[&name].clone().map_err(io::Error::other)
            }
        });
        Environment { resolver, state }
    }
}

async fn site(zone: &Zone, state: StateDir, text: &str) -> Site {
    Site::in_environment(&zone.environment(state), ClusterConfig::new(1), text).await
}

async fn until_served(site: &Site, app: &str) {
    let client = site.client_at(HOST).await;
    while !site.served().iter().any(|served| served == app) {
        client.stat("/").await.unwrap();
    }
}

/// Symptom: a name that could not be resolved kept the daemon from starting, reloading and draining.
#[tokio::test]
async fn start_reload_and_drain_do_not_wait_for_names() {
    let mut site = site(&Zone::new(), StateDir::default(), CLIMATE).await;
    site.client_at(HOST).await.stat("/").await.unwrap();
    assert_eq!(site.served(), ["host:127.9.0.1"]);
    let names = "[[app]]\nname = \"many\"\nclients = \"n[0001-1000]\"\n";
    let trusted = "[trust]\nservers = \"oss[1-16]\"\n";
    site.reload(&format!("{names}{CLIMATE}{trusted}")).await;
    site.client_at(HOST).await.stat("/").await.unwrap();
    site.daemon.observer().status().await;
    assert_eq!(site.daemon.drain().await, 0);
}

/// The connection stays, and so does its client.
#[tokio::test]
async fn a_client_gets_its_application_when_its_name_is_found_and_loses_it_when_it_moves() {
    let zone = Zone::new();
    let mut site = site(&zone, StateDir::default(), CLIMATE).await;
    let client = site.client_at(HOST).await;
    client.stat("/").await.unwrap();
    assert_eq!(site.served(), ["host:127.9.0.1"]);
    zone.say("c1", Ok(HOST));
    while site.served() != ["climate", "host:127.9.0.1"] {
        client.stat("/").await.unwrap();
    }
    zone.say("c1", Ok([127, 9, 0, 2]));
    // A reload looks all names up again, and what was known stays until there is an answer.
    site.reload(CLIMATE).await;
    let of = |site: &Site, app: &str| site.totals(app).metadata_requests;
    let before = of(&site, "host:127.9.0.1");
    while of(&site, "host:127.9.0.1") == before {
        client.stat("/").await.unwrap();
    }
}

#[tokio::test]
async fn the_log_has_one_line_for_an_application_and_one_when_all_is_well() {
    let log = Log::of(Level::INFO);
    let zone = Zone::new();
    (1..=64).for_each(|host| zone.say(&format!("c{host:03}"), Err("no such host")));
    let text = "[[app]]\nname = \"climate\"\nclients = \"c[001-064]\"\n";
    let mut site = site(&zone, StateDir::default(), text).await;
    while log.with("can't be resolved").is_empty() {
        yield_now().await;
    }
    let lines = log.with("can't be resolved");
    assert!(lines.len() == 1 && lines[0].contains("app climate: 64 of 64 hosts of c[001-064]"), "{lines:?}");
    (1..=64).for_each(|host| zone.say(&format!("c{host:03}"), Ok(HOST)));
    site.reload(text).await;
    while log.with("app climate: all hosts are resolved").is_empty() {
        yield_now().await;
    }
    assert_eq!(log.with("reloaded, nothing changed").len(), 1);
    assert_eq!(log.with("can't be resolved").len(), 1);
    // Known names that can't be looked up any more, and then can: the clients keep their application meanwhile.
    for (answer, line) in [(Err("no answer"), "keeping their last addresses"), (Ok(HOST), "can be looked up again")] {
        (1..=64).for_each(|host| zone.say(&format!("c{host:03}"), answer));
        site.reload(text).await;
        while log.with(line).is_empty() {
            yield_now().await;
        }
        until_served(&site, "climate").await;
        assert_eq!(log.with(line).len(), 1);
    }
    assert_eq!(site.served(), ["climate"]);
}

#[tokio::test]
async fn the_last_addresses_are_kept_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let state = || StateDir::at(directory.path());
    let zone = Zone::new();
    zone.say("c1", Ok(HOST));
    let first = site(&zone, state(), CLIMATE).await;
    until_served(&first, "climate").await;
    while std::fs::read_dir(directory.path())
        .unwrap()
        .flatten()
        .all(|file| file.path().extension() != Some("json".as_ref()))
    {
        yield_now().await;
    }
    drop(first);
    // The name server does not answer any more.
    let second = site(&Zone::new(), state(), CLIMATE).await;
    second.client_at(HOST).await.stat("/").await.unwrap();
    assert_eq!(second.served(), ["climate"]);
    drop(second);
    let log = Log::of(Level::WARN);
    std::fs::write(directory.path().join("s0.names.json"), "damaged").unwrap();
    let third = site(&zone, state(), CLIMATE).await;
    until_served(&third, "climate").await;
    assert_eq!(log.with("damaged; ignored").len(), 1);
}

async fn listen(host: [u8; 4], port: u16) -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind((IpAddr::from(host), port)).await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// A server whose name gets another address is found there, and one whose name cannot be looked up any more stays.
#[tokio::test]
async fn a_server_that_moves_is_found() {
    let low = std::process::id().to_be_bytes()[3];
    let (older, address) = listen([127, 77, low, 1], 0).await;
    let (newer, _) = listen([127, 77, low, 2], address.port()).await;
    let zone = Zone::new();
    zone.say("oss1", Ok([127, 77, low, 1]));
    let network = Network::new(&[format!("oss1:{}", address.port())], &[None]);
    let _daemon = network.daemon_in(&zone.environment(StateDir::default()), "").await;
    let connect = || TcpStream::connect(network.address(0, 0));
    let _first = (connect().await.unwrap(), older.accept().await.unwrap());
    zone.say("oss1", Err("the name server is gone"));
    let _second = (connect().await.unwrap(), older.accept().await.unwrap());
    zone.say("oss1", Ok([127, 77, low, 2]));
    loop {
        let _client = connect().await.unwrap();
        tokio::select! {
            accepted = newer.accept() => break drop(accepted.unwrap()),
            accepted = older.accept() => drop(accepted.unwrap()),
        }
    }
}

#[tokio::test]
async fn a_server_is_reached_at_the_address_that_accepts() {
    let low = std::process::id().to_be_bytes()[3];
    let (server, address) = listen([127, 77, low, 3], 0).await;
    let zone = Zone::new();
    zone.say_all("oss1", Ok(vec![[127, 77, low, 4], [127, 77, low, 3]]));
    let network = Network::new(&[format!("oss1:{}", address.port())], &[None]);
    let _daemon = network.daemon_in(&zone.environment(StateDir::default()), "").await;
    let mut client = TcpStream::connect(network.address(0, 0)).await.unwrap();
    tokio::select! {
        accepted = server.accept() => drop(accepted.unwrap()),
        ended = client.read_u8() => panic!("the client was given up: {ended:?}"),
    }
}

fn half_named(server: SocketAddr, known: SocketAddr, named: SocketAddr) -> Config {
    let text = format!(
        "[[server]]\nname = \"s0\"\naddress = \"tcp://{server}\"\n[[listener]]\naddresses = {{ s0 = \"tcp://{known}\" }}\n\
         [[listener]]\naddresses = {{ s0 = \"tcp://proxy:{}\" }}\n",
        named.port()
    );
    Config::parse("test", &text).unwrap()
}

#[tokio::test]
async fn a_name_to_listen_at_is_served_when_it_is_found_and_inherited_when_it_is_not() {
    let server = FakeServer::start().await;
    let low = std::process::id().to_be_bytes()[3];
    let (known, named) = (listen([127, 78, low, 1], 0).await.1, listen([127, 78, low, 2], 0).await.1);
    let config = || half_named(server.address(), known, named);
    let zone = Zone::new();
    let servers = [ServerId(0)];
    let daemon = Daemon::start_in(&zone.environment(StateDir::default()), config(), &servers).await.unwrap();
    let _served = (TcpStream::connect(known).await.unwrap(), server.accept().await);
    assert_eq!(TcpStream::connect(named).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    zone.say("proxy", Ok([127, 78, low, 2]));
    let connected = loop {
        match TcpStream::connect(named).await {
            Ok(connected) => break connected,
            Err(_) => yield_now().await,
        }
    };
    drop((connected, server.accept().await));
    // Its successor cannot look the name up, but the port tells which socket is meant.
    let dead = Zone::new().environment(StateDir::default());
    let start = async |from| Daemon::succeed(&dead, config(), &servers, from).await;
    let (successor, offer) = start_successor(&daemon, start).await;
    daemon.hand_over(offer).await;
    let _served = (TcpStream::connect(named).await.unwrap(), server.accept().await);
    assert_eq!(successor.drain().await, 0);
}

/// A daemon that has not found the name to listen at drains as any other.
#[tokio::test]
async fn a_missing_name_to_listen_at_does_not_delay_the_end() {
    let server = FakeServer::start().await;
    let low = std::process::id().to_be_bytes()[3];
    let known = listen([127, 78, low, 3], 0).await.1;
    let environment = Zone::new().environment(StateDir::default());
    let config = half_named(server.address(), known, known);
    let daemon = Daemon::start_in(&environment, config, &[ServerId(0)]).await.unwrap();
    assert_eq!(daemon.drain().await, 0);
}

/// Proxies whose peers, and whose own addresses for peers, are names that are found late.
#[tokio::test]
async fn peers_connect_when_their_names_are_found() {
    let low = std::process::id().to_be_bytes()[3];
    let hosts = [[127, 79, low, 1], [127, 79, low, 2]];
    let (ports, own) = ([listen(hosts[0], 0).await.1, listen(hosts[1], 0).await.1], free_addresses(2));
    let text = format!(
        "[[server]]\nname = \"s0\"\naddress = \"tcp://127.0.0.1:1\"\n\
         [[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:2\"\n\
         [[listener]]\naddresses = {{ s0 = \"tcp://{}\", s1 = \"tcp://{}\" }}\n\
         [peers]\nsecurity = \"none\"\naddresses = {{ s0 = \"p0:{}\", s1 = \"p1:{}\" }}\n",
        own[0],
        own[1],
        ports[0].port(),
        ports[1].port()
    );
    let zone = Zone::new();
    let environment = zone.environment(StateDir::default());
    let start = |server| Daemon::start_in(&environment, Config::parse("test", &text).unwrap(), server);
    let (first, second) = tokio::join!(start(&[ServerId(0)]), start(&[ServerId(1)]));
    let (first, _second) = (first.unwrap(), second.unwrap());
    zone.say("p0", Ok(hosts[0]));
    zone.say("p1", Ok(hosts[1]));
    while !first.observer().status().await.peers_report().peers.iter().all(|peer| peer.connected) {
        yield_now().await;
    }
}

/// In virtual time: names without an answer have ten seconds.
#[tokio::test(start_paused = true)]
async fn a_check_has_an_end() {
    let zone = Zone::new();
    zone.say("c1", Ok(HOST));
    zone.say("c2", Err("no such host"));
    let text = "[[server]]\nname = \"s0\"\naddress = \"tcp://127.0.0.1:1\"\n[[listener]]\nport = 2\n\
                [[app]]\nname = \"a\"\nclients = \"c[1-3]\"\n";
    let config = Config::parse("test", text).unwrap();
    let start = tokio::time::Instant::now();
    let resolver = zone.environment(StateDir::default()).resolver;
    let (names, missing) = check_names(&config, &[ServerId(0)], resolver).await;
    assert_eq!((names, start.elapsed().as_secs()), (3, 10));
    let text = "app a: 2 of 3 hosts of c[1-3] can't be resolved (c2, c3: no such host); until they are, its rule does \
                not apply to them";
    assert_eq!(missing, [text]);
}

/// The cluster of a site in an environment has one listener.
impl Site {
    async fn in_environment(environment: &Environment, cluster: ClusterConfig, text: &str) -> Self {
        let cluster = EmbeddedCluster::start(cluster).await.unwrap();
        let servers: Vec<String> = cluster.addresses().iter().map(SocketAddr::to_string).collect();
        let network = Network::new(&servers, &[None]);
        let daemon = network.daemon_in(environment, text).await;
        Self { cluster, network, daemon }
    }
}

//! Clients notice nothing: the same data, names and errors, under any policy.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, CreateOptions, EmbeddedCluster};
use vpfs_wire::pvfs2::{Reply, ReplyBody};

use crate::common::raw::{self, Peer};
use crate::common::{Network, POLICIES, Site, distributions, pattern};

const SERVERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_pass_unchanged_with_every_policy_and_distribution() {
    for (policy, settings) in POLICIES {
        let site = Site::start(SERVERS, settings).await;
        let (client, reader, direct) = (site.client().await, site.client().await, site.direct().await);
        for (distribution, options) in distributions() {
            let path = format!("/{distribution}");
            write_and_read(&client, [&reader, &direct], &path, &options).await;
        }
        let app = if policy == "capped" { "capped" } else { "host:127.0.0.1" };
        assert_eq!(site.served(), [app]);
        let totals = site.totals(app);
        assert_eq!(totals.failed, 0, "{policy}");
        assert!(totals.bytes >= 8_000_000, "{policy}: {totals:?}");
    }
}

/// Large and small pieces, in and out of order, a hole, and reads beyond the end.
async fn write_and_read(client: &Client, readers: [&Client; 2], path: &str, options: &CreateOptions) {
    let mut expected = vec![0; 1_300_000];
    let file = client.create(path, options).await.unwrap();
    for (seed, at, len) in [(1, 0, 700_001), (2, 900_000, 400_000), (3, 650_000, 100), (4, 123, 5_000), (5, 1, 1)] {
        let data = pattern(seed, len);
        expected[at..at + len].copy_from_slice(&data);
        client.write_at(&file, at as u64, data).await.unwrap();
    }
    for reader in readers {
        let file = reader.open(path).await.unwrap();
        assert_eq!(reader.size(&file).await.unwrap(), 1_300_000, "{path}");
        for (at, len) in [(0, 2_000_000), (1_299_999, 10), (699_990, 250_000), (64_000, 12_345), (1_300_000, 5)] {
            let end = (at + len).min(expected.len());
            let read = reader.read_at(&file, at as u64, len).await.unwrap();
            assert!(read == expected[at..end], "{path}: {len} bytes at {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_do_not_mix_up_their_data() {
    for (_, settings) in POLICIES {
        let site = Site::start(SERVERS, settings).await;
        let mut tasks = JoinSet::new();
        for number in 0..12 {
            let client = site.client().await;
            tasks.spawn(async move {
                let file = client.create(&format!("/{number}"), &CreateOptions::default()).await.unwrap();
                let mut pieces = JoinSet::new();
                for piece in 0..4 {
                    let (client, file) = (client.clone(), file.clone());
                    pieces.spawn(async move {
                        let data = pattern(number * 10 + piece, 150_000);
                        client.write_at(&file, piece * 150_000, data.clone()).await.unwrap();
                        assert!(client.read_at(&file, piece * 150_000, 150_000).await.unwrap() == data);
                    });
                }
                pieces.join_all().await;
                assert_eq!(client.size(&file).await.unwrap(), 600_000);
            });
        }
        tasks.join_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_attributes_pass_with_every_policy() {
    for (policy, settings) in POLICIES {
        let site = Site::start(SERVERS, settings).await;
        let client = site.client().await;
        names_and_attributes(&client).await;
        let totals = site.totals(&site.served()[0]);
        assert!(totals.metadata_requests > 50, "{policy}: {totals:?}");
        assert_eq!(totals.failed, 0, "{policy}");
    }
}

async fn names_and_attributes(client: &Client) {
    client.mkdir("/d", 0o750).await.unwrap();
    assert!(client.mkdir("/d", 0o750).await.unwrap_err().is_already_exists());
    for name in ["/d/a", "/d/b", "/d/c"] {
        client.create(name, &CreateOptions::default()).await.unwrap();
    }
    assert!(client.create("/d/a", &CreateOptions::default()).await.unwrap_err().is_already_exists());
    client.rename("/d/b", "/d/renamed").await.unwrap();
    assert!(client.open("/d/b").await.unwrap_err().is_not_found());
    client.symlink("d/a", "/link").await.unwrap();
    assert_eq!(client.readlink("/link").await.unwrap(), "d/a");
    let names: BTreeSet<_> = client.readdir("/d").await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "c", "renamed"]);

    let file = client.open("/d/renamed").await.unwrap();
    client.write_at(&file, 0, pattern(1, 300_000)).await.unwrap();
    client.truncate(&file, 200_000).await.unwrap();
    client.fsync(&file).await.unwrap();
    assert_eq!(client.stat("/d/renamed").await.unwrap().size, 200_000);
    assert!(client.statfs().await.unwrap().bytes_total > 0);

    for name in ["/d/a", "/d/c", "/d/renamed", "/link"] {
        client.remove(name).await.unwrap();
    }
    client.rmdir("/d").await.unwrap();
    assert!(client.readdir("/").await.unwrap().is_empty());
    // A list of servers contains proxy addresses, which no server knows.
    let placed = client.create("/placed", &CreateOptions::default().on_servers([2, 0])).await.unwrap();
    client.write_at(&placed, 0, pattern(2, 300_000)).await.unwrap();
    assert_eq!(placed.servers(), [2, 0]);
}

#[tokio::test]
async fn all_addresses_of_a_listener_serve_the_same_configuration() {
    let site = Site::of(ClusterConfig::new(SERVERS), &[None, None], "").await;
    let mut texts = Vec::new();
    for listener in 0..2 {
        let text = config_text(site.network.address(listener, 0)).await;
        for server in 0..SERVERS {
            let address = site.network.address(listener, server);
            assert!(config_text(address).await == text, "server {server}");
            assert!(text.contains(&format!("tcp://{address}")));
            assert!(!text.contains(&site.network.address(1 - listener, server).to_string()));
            assert!(!text.contains(&site.cluster.addresses()[server].to_string()));
        }
        texts.push(text);
    }
    assert_ne!(texts[0], texts[1]);
}

async fn config_text(address: SocketAddr) -> String {
    let mut peer = Peer::connect(address).await;
    peer.send(raw::get_config(1)).await;
    let (_, payload) = peer.receive().await.unwrap();
    match Reply::decode(&payload).unwrap().body {
        ReplyBody::GetConfig(config) => config.text.to_string_lossy().into_owned(),
        other => panic!("{other:?}"),
    }
}

/// Each server is known by the address of a forwarder, which records the clients that connect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_never_go_around_their_listener() {
    let mut forwarders = Vec::new();
    for _ in 0..SERVERS {
        forwarders.push(Forwarder::start().await);
    }
    let advertise: Vec<String> = forwarders.iter().map(|forwarder| forwarder.address.to_string()).collect();
    let config = ClusterConfig { advertise: advertise.clone(), ..ClusterConfig::new(SERVERS) };
    let cluster = EmbeddedCluster::start(config).await.unwrap();
    for (forwarder, server) in forwarders.iter().zip(cluster.addresses()) {
        forwarder.lead_to(*server);
    }
    let network = Network::new(&advertise, &[None, None]);
    let _daemon = network.daemon("").await;
    for listener in 0..2 {
        let url = format!("tcp://{}/{}", network.address(listener, 3), cluster.fs_config().name);
        let local_address = Some(IpAddr::from([127, 0, 0, 2]));
        let client = Client::connect(ClientOptions { local_address, ..ClientOptions::new(url) }).await.unwrap();
        let told = client.fs_config().servers.iter().map(|server| server.host_and_port().to_owned());
        assert!(told.eq((0..SERVERS).map(|server| network.address(listener, server).to_string())));
        write_and_read(&client, [&client, &client], &format!("/{listener}"), &CreateOptions::default()).await;
    }
    for forwarder in forwarders {
        let came = forwarder.came.lock().unwrap();
        assert!(!came.is_empty() && came.iter().all(|peer| *peer == IpAddr::from([127, 0, 0, 1])), "{came:?}");
    }
}

/// Forwards connections and records where they come from.
struct Forwarder {
    address: SocketAddr,
    came: Arc<Mutex<Vec<IpAddr>>>,
    target: Arc<Mutex<Option<SocketAddr>>>,
}

impl Forwarder {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let forwarder = Self { address: listener.local_addr().unwrap(), came: Arc::default(), target: Arc::default() };
        let (came, target) = (Arc::clone(&forwarder.came), Arc::clone(&forwarder.target));
        tokio::spawn(async move {
            while let Ok((mut client, peer)) = listener.accept().await {
                came.lock().unwrap().push(peer.ip());
                let target = target.lock().unwrap().unwrap();
                let mut server = TcpStream::connect(target).await.unwrap();
                tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
            }
        });
        forwarder
    }

    fn lead_to(&self, server: SocketAddr) {
        *self.target.lock().unwrap() = Some(server);
    }
}

//! Clients notice nothing: the same data, names and errors.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use vpfs_protocol::wire::pvfs2::{Reply, ReplyBody};
use vpfs_testbed::{Client, ClusterConfig, CreateOptions};

use crate::common::raw::{self, Peer};
use crate::common::{Site, distributions, pattern};

const SERVERS: usize = 4;
/// The cap is low enough to hold requests back.
const CAPPED: &str = "[scheduler]\npolicy = \"sfq-d-plus\"\n[[app]]\nname = \"capped\"\nclients = \"127.0.0.0/8\"\n\
                      cap = \"20MB/s\"\nburst = \"256KiB\"\n";

/// Under a policy with a cap, which holds requests; `every_policy_serves` of the end-to-end tests has the others.
#[tokio::test]
async fn data_names_and_attributes_pass_unchanged() {
    let site = Site::start(SERVERS, CAPPED).await;
    let (client, reader, direct) = (site.client().await, site.client().await, site.direct().await);
    names_and_attributes(&client).await;
    for (distribution, options) in distributions() {
        let path = format!("/{distribution}");
        write_and_read(&client, [&reader, &direct], &path, &options).await;
    }
    assert_eq!(site.served(), ["capped"]);
    let totals = site.totals("capped");
    assert_eq!(totals.failed, 0);
    assert!(totals.bytes >= 8_000_000 && totals.metadata_requests > 50, "{totals:?}");
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

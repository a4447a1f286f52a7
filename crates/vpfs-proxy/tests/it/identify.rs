//! Which application a client's requests belong to.

use vpfs_testbed::{Client, ClientOptions, CreateOptions};

use crate::common::raw::{self, Peer};
use crate::common::{Front, Site, pattern};

/// The work of a small application: names, and data on all servers.
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

//! NFS: users who share one connection are scheduled apart.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use vpfs_config::Config;
use vpfs_core::ServerId;
use vpfs_proxy::{Daemon, Environment};

use crate::common::free_addresses;

/// A record of one fragment.
fn record(words: &[u32]) -> Vec<u8> {
    let len = words.len() as u32 * 4;
    std::iter::once(len | 1 << 31).chain(words.iter().copied()).flat_map(u32::to_be_bytes).collect()
}

/// A call of NFSv3 that reads 64 KiB.
fn read(xid: u32, uid: u32) -> Vec<u8> {
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
    let calls: Vec<Vec<u8>> = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2)].map(|(xid, uid)| read(xid, uid)).into();
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
         [[listener]]\naddresses = {{ s = \"nfs://{proxy}\" }}\n"
    );
    let config = |a: &str, b: &str| {
        let capped = "cap = \"1B/s\"\nburst = \"1B\"\n";
        let apps = format!("[[app]]\nname = \"a\"\nuids = {a}\n{capped}[[app]]\nname = \"b\"\nuids = {b}\n");
        Config::parse("test", &format!("{text}{apps}")).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let environment = Environment::default();
    let mut daemon = Daemon::start_in(&environment, config("[1, 2, 3]", "4"), &[ServerId(0)]).await.unwrap();
    let mut client = TcpStream::connect(proxy).await.unwrap();
    let calls: Vec<Vec<u8>> = [(1, 1), (2, 2), (3, 1), (4, 2), (5, 1)].map(|(xid, uid)| read(xid, uid)).into();
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

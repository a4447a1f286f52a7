//! What clients leave to an NFS server to store later is limited, and nobody is told more than the server has said,
//! also if that is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use vpfs_config::Config;
use vpfs_core::ServerId;
use vpfs_proxy::{Daemon, Environment};

use crate::common::free_addresses;

const WRITE: u32 = 7;
const COMMIT: u32 = 21;
const UNSTABLE: u32 = 0;
const DATA_SYNC: u32 = 1;
const BLOCK: usize = 192 << 10;

fn record(words: &[u32], data: &[u8]) -> Vec<u8> {
    let len = (words.len() * 4 + data.len()) as u32;
    let words = std::iter::once(len | 1 << 31).chain(words.iter().copied());
    words.flat_map(u32::to_be_bytes).chain(data.iter().copied()).collect()
}

fn head(xid: u32, procedure: u32) -> Vec<u32> {
    vec![xid, 0, 2, 100_003, 3, procedure, 1, 20, 0, 0, 0, 0, 0, 0, 0, 4, 7]
}

fn write(xid: u32, block: u32) -> Vec<u8> {
    let count = BLOCK as u32;
    let arguments = [0, block * count, count, UNSTABLE, count];
    record(&[head(xid, WRITE), arguments.to_vec()].concat(), &[block as u8; BLOCK])
}

fn commit(xid: u32) -> Vec<u8> {
    record(&[head(xid, COMMIT), vec![0, 0, 0]].concat(), &[])
}

/// The words of the next record, of its data the first one; `None` if the connection ends before.
async fn next(stream: &mut TcpStream) -> Option<Vec<u32>> {
    let mark = stream.read_u32().await.ok()?;
    let mut bytes = vec![0; (mark & !(1 << 31)) as usize];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(bytes.chunks_exact(4).take(23).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]])).collect())
}

/// What survives a kill, and what the server has said.
#[derive(Default)]
struct Disk {
    stored: BTreeSet<u32>,
    asked: Vec<u32>,
    /// Of each WRITE by number, so that the client can compare.
    said: BTreeMap<u32, u32>,
}

/// A server with a cache that is killed once, when it has executed so many calls, before it answers the last one.
async fn server(listener: TcpListener, disk: Arc<Mutex<Disk>>, killed_after: usize) {
    let (mut executed, mut verifier) = (0, 1);
    loop {
        let mut cache = BTreeSet::new();
        let (mut stream, _) = listener.accept().await.unwrap();
        while let Some(call) = next(&mut stream).await {
            let reply = {
                let mut disk = disk.lock().unwrap();
                let head = [call[0], 1, 0, 0, 0, 0, 0, 0, 0];
                match call[5] {
                    WRITE => {
                        let (block, stable) = (call[18] / BLOCK as u32, call[20]);
                        assert_eq!(call[22], u32::from_be_bytes([block as u8; 4]), "the data is the client's");
                        disk.asked.push(stable);
                        disk.said.insert(call[0], stable);
                        if stable == UNSTABLE {
                            cache.insert(block)
                        } else {
                            disk.stored.insert(block)
                        };
                        record(&[&head[..], &[BLOCK as u32, stable, 0, verifier]].concat(), &[])
                    }
                    COMMIT => {
                        disk.stored.append(&mut cache);
                        record(&[&head[..], &[0, verifier]].concat(), &[])
                    }
                    other => panic!("{other}"),
                }
            };
            executed += 1;
            if executed == killed_after {
                break;
            }
            stream.write_all(&reply).await.unwrap();
        }
        verifier += 1;
    }
}

async fn daemon(server: SocketAddr, proxy: SocketAddr, rest: &str) -> Daemon {
    let text = format!(
        "[[server]]\nname = \"s\"\naddress = \"nfs://{server}\"\n[[listener]]\naddresses = {{ s = \"nfs://{proxy}\" }}\n{rest}"
    );
    let config = Config::parse("test", &text).unwrap_or_else(|problems| panic!("{problems}"));
    Daemon::start_in(&Environment::default(), config, &[ServerId(0)]).await.unwrap()
}

/// A client that leaves everything to the server, commits now and then, and writes again what was not committed before
/// the server's verifier changed.
async fn client(proxy: SocketAddr, blocks: u32, disk: &Mutex<Disk>) {
    let (mut xid, mut unsure): (u32, BTreeMap<u32, u32>) = (0, (0..blocks).map(|block| (block, 0)).collect());
    // Blocks that are on stable storage, as the client was told.
    let mut sure = BTreeSet::new();
    while !unsure.is_empty() {
        let mut stream = TcpStream::connect(proxy).await.unwrap();
        let mut written: BTreeMap<u32, u32> = BTreeMap::new();
        for block in unsure.keys().copied().collect::<Vec<_>>() {
            xid += 1;
            stream.write_all(&write(xid, block)).await.unwrap();
            let Some(reply) = next(&mut stream).await else { break };
            let (committed, verifier) = (reply[10], reply[12]);
            assert_eq!((reply[0], Some(&committed)), (xid, disk.lock().unwrap().said.get(&xid)));
            if committed == UNSTABLE {
                written.insert(block, verifier);
            } else {
                sure.insert(block);
            }
            if block % 16 == 15 {
                xid += 1;
                stream.write_all(&commit(xid)).await.unwrap();
                let Some(reply) = next(&mut stream).await else { break };
                sure.extend(written.iter().filter(|(_, verifier)| **verifier == reply[10]).map(|(block, _)| block));
                written.clear();
            }
            assert!(disk.lock().unwrap().stored.is_superset(&sure), "it was told that they are");
        }
        unsure.retain(|block, _| !sure.contains(block));
    }
    assert_eq!(disk.lock().unwrap().stored.len(), blocks as usize);
}

#[tokio::test]
async fn nothing_that_was_acknowledged_is_lost_with_a_server_that_is_killed() {
    for (killed_after, limit) in [(1, "256KiB"), (2, "256KiB"), (40, "256KiB"), (20, "64MiB"), (40, "64MiB")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (server_address, proxy, disk) = (listener.local_addr().unwrap(), free_addresses(1)[0], Arc::default());
        let _daemon = daemon(server_address, proxy, &format!("[limits]\nwrite_back = \"{limit}\"\n")).await;
        let serving = tokio::spawn(server(listener, Arc::clone(&disk), killed_after));
        client(proxy, 64, &disk).await;
        serving.abort();
        let asked = std::mem::take(&mut disk.lock().unwrap().asked);
        // The first one fits either limit, and all fit the larger one.
        assert_eq!((asked[0], asked.contains(&DATA_SYNC)), (UNSTABLE, limit == "256KiB"), "{asked:?}");
    }
}

#[tokio::test]
async fn calls_are_left_as_they_are_where_nothing_is_limited() {
    for rest in
        ["[limits]\nwrite_back = \"off\"\n", "[limits]\nwrite_back = \"256KiB\"\n[scheduler]\nmode = \"observe\"\n"]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (server_address, proxy, disk) = (listener.local_addr().unwrap(), free_addresses(1)[0], Arc::default());
        let _daemon = daemon(server_address, proxy, rest).await;
        let serving = tokio::spawn(server(listener, Arc::clone(&disk), usize::MAX));
        client(proxy, 64, &disk).await;
        serving.abort();
        assert!(disk.lock().unwrap().asked.iter().all(|asked| *asked == UNSTABLE), "{rest}");
    }
}

#[tokio::test]
async fn a_server_whose_host_limits_it_is_not_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (server_address, proxy, disk) = (listener.local_addr().unwrap(), free_addresses(1)[0], Arc::default());
    let daemon = daemon(server_address, proxy, "[limits]\nwrite_back = \"256KiB\"\n").await;
    assert!(daemon.set_limited_there(ServerId(0), true), "it is news");
    assert!(!daemon.set_limited_there(ServerId(0), true));
    let serving = tokio::spawn(server(listener, Arc::clone(&disk), usize::MAX));
    client(proxy, 64, &disk).await;
    serving.abort();
    assert!(disk.lock().unwrap().asked.iter().all(|asked| *asked == UNSTABLE));
}

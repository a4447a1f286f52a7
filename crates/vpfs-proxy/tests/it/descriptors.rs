//! A proxy without file descriptors says so, and continues when there are some again. In a process of its own, because
//! the limit is that of the process.

use std::fs::File;
use std::io::ErrorKind;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::Level;
use vpfs_protocol::wire::bmi::Tag;

use crate::common::raw::{FakeServer, Peer};
use crate::common::{Log, Network, raw};

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

/// Symptom: a proxy that was out of descriptors logged that its server cannot be reached.
#[test]
fn being_out_of_descriptors_is_said_as_such() {
    if std::env::var_os(ALONE).is_none() {
        let name = "descriptors::being_out_of_descriptors_is_said_as_such";
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

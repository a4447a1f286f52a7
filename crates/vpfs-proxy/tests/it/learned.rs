//! What was learned outlives a daemon.

use std::fs;
use std::path::Path;
use std::time::Duration;

use vpfs_core::ServerId;
use vpfs_proxy::{Daemon, Environment, StateDir};

use crate::common::raw::FakeServer;
use crate::common::{Network, start_successor};

const FILE: &str = "s0.learned.json";
/// That of a write of 1 MiB.
const COST: &str = "{\"op\":\"write\",\"size\":1048576,\"cost_ns\":23483089,\"windows\":3,\"clean\":2,\"alone_ns\":0}";

fn in_directory(path: &Path) -> Environment {
    Environment { state: StateDir::at(path), ..Environment::default() }
}

/// A file of one cost, as a daemon keeps it for this server.
fn file_of(fake: &FakeServer, format: u32) -> String {
    format!(
        "{{\"format\":{format},\"learned\":{{\"server\":\"tcp://{}\",\"bulk\":[\"climate\"],\"policy\":{{\"Isolation\":{{\
         \"costs\":[{COST}],\"mix_ppm\":1000000,\"mix_windows\":1,\"bulk\":[\"write\",1048576],\"confirmed_ns\":1,\
         \"serial\":false,\"took_milli\":null,\"interactive\":true}}}}}}}}",
        fake.address()
    )
}

/// Whether the file of this directory has that cost, up to rounding.
fn has_cost(directory: &Path) -> bool {
    fs::read_to_string(directory.join(FILE)).unwrap().contains("\"cost_ns\":234830")
}

#[tokio::test]
async fn a_restart_keeps_it_and_nothing_in_a_file_prevents_a_start() {
    let fake = FakeServer::start().await;
    let network = Network::before(fake.address());
    let valid = file_of(&fake, 1);
    let elsewhere = valid.replace(&fake.address().to_string(), "oss9:3334");
    let other_policy = ["[scheduler]\npolicy = \"sfq-d\"\n", "[scheduler]\npolicy = \"sfq-d\"\nadaptive = \"on\"\n"];
    for (content, settings, kept) in [
        (valid.as_str(), "", true),
        (valid.as_str(), "[[app]]\nname = \"climate\"\nclients = \"127.0.0.9\"\n", true),
        (&file_of(&fake, 2), "", false),
        (&elsewhere, "", false),
        (&valid.replace(COST, "{}"), "", false),
        (&valid[..100], "", false),
        ("", "", false),
        (&valid, other_policy[1], false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), content).unwrap();
        let daemon = network.daemon_in(&in_directory(directory.path()), settings).await;
        assert_eq!(daemon.drain().await, 0);
        assert_eq!(has_cost(directory.path()), kept, "{content} with {settings}");
    }
    let directory = tempfile::tempdir().unwrap();
    network.daemon_in(&in_directory(directory.path()), other_policy[0]).await.drain().await;
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "a policy that learns nothing leaves no file");
}

/// The time of tests is paused, so a minute passes as soon as nothing else can happen.
#[tokio::test(start_paused = true)]
async fn it_is_kept_once_a_minute_only_if_it_changes() {
    let fake = FakeServer::start().await;
    let network = Network::before(fake.address());
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(FILE), file_of(&fake, 1)).unwrap();
    let daemon = network.daemon_in(&in_directory(directory.path()), "").await;
    fs::remove_file(directory.path().join(FILE)).unwrap();
    // The interactive application of the file is not expected any more: that changes, once.
    tokio::time::sleep(Duration::from_secs(60)).await;
    while !directory.path().join(FILE).exists() {
        tokio::task::yield_now().await;
    }
    assert!(has_cost(directory.path()));
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
    fs::write(before.path().join(FILE), file_of(&fake, 1)).unwrap();
    // Older than what the predecessor tells.
    fs::write(after.path().join(FILE), file_of(&fake, 1).replace("23483089", "7")).unwrap();
    let daemon = network.daemon_in(&in_directory(before.path()), "").await;
    fs::remove_file(before.path().join(FILE)).unwrap();
    let (environment, config) = (in_directory(after.path()), network.config(""));
    let start = async |from| Daemon::succeed(&environment, config, &[ServerId(0)], from).await;
    let (successor, offer) = start_successor(&daemon, start).await;
    assert_eq!(daemon.hand_over(offer).await, (0, 0));
    assert_eq!(fs::read_dir(before.path()).unwrap().count(), 0, "the files are the successor's now");
    successor.drain().await;
    assert!(has_cost(after.path()));
}

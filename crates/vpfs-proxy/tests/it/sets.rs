//! Applications that an owner pushes while clients work.

use std::fs;
use std::path::Path;
use std::time::Duration;

use vpfs_config::sets::{AppText, Put, Refusal, Set, SetName, SetText};
use vpfs_proxy::{Daemon, Environment, StateDir};
use vpfs_testbed::{Client, CreateOptions};

use crate::common::{Front, Site, pattern, start_successor};

fn name(text: &str) -> SetName {
    SetName::parse(text).unwrap()
}

/// Applications by name, weight and address.
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

/// The applications that are held, by the name of their set and their own.
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

/// Symptom: what the cap of a job held stayed held when the job was over. See [`crate::bounded`].
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

//! The files of this repository that this crate reads or writes.

use std::path::{Path, PathBuf};

use vpfs_config::{AppIndex, Client, Config, Identity, Protocol, config_manual};
use vpfs_core::{Bytes, OpKind, SlotCostTable};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> Config {
    Config::load(&repository().join("examples").join(name)).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn every_example_is_valid_and_raises_no_warning() {
    let mut seen = 0;
    for entry in std::fs::read_dir(repository().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let config = Config::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
            assert!(config.warnings.list.is_empty(), "{}", config.warnings);
            assert_eq!(config.unresolved().count(), 0, "{}: examples must work without DNS", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 4);
}

#[test]
fn the_default_slot_costs_are_the_cores() {
    let scheduler = example("minimal.toml").scheduler;
    assert_eq!(scheduler.policy.slot_costs, SlotCostTable::default());
}

#[test]
fn two_apps_share_four_to_one() {
    let config = example("two-apps.toml");
    let weights: Vec<_> = config.apps.iter().map(|app| (app.name.as_str(), app.weight.get())).collect();
    assert_eq!(weights, [("climate", 4), ("batch", 1), ("other", 1)]);
    assert_eq!(config.listeners[1].app, Some(AppIndex(1)));
}

#[test]
fn a_cap_in_percent_is_taken_of_the_capacity() {
    let config = example("caps.toml");
    assert_eq!(config.apps[1].cap.unwrap().to_string(), "100MB/s (burst 4MiB)");
    assert_eq!(config.default_app, AppIndex(3));
    let text = std::fs::read_to_string(repository().join("examples/four-servers.toml")).unwrap();
    for (key, expected) in [("cap", "400MB/s (burst 16MiB)"), ("server_cap", "100MB/s on each server (burst 16MiB)")] {
        let text = format!("{text}\n[[app]]\nname = \"a\"\nuids = 1\n{key} = \"25%\"\n");
        let text = text.replacen("[scheduler]", "[scheduler]\ncapacity = \"400MB/s\"", 1);
        let config = Config::parse("test", &text).unwrap();
        assert_eq!(config.apps[0].cap.unwrap().to_string(), expected, "of all four servers, or of each");
    }
}

#[test]
fn a_port_is_put_behind_every_servers_host() {
    let config = example("four-servers.toml");
    let told: Vec<_> = config.address_pairs(0).map(|(_, told)| told.as_str()).collect();
    assert_eq!(told, ["tcp://10.0.0.1:5334", "tcp://10.0.0.2:5334", "tcp://10.0.0.3:5334", "tcp://10.0.0.4:5334"]);
    assert_eq!(config.scheduler.policy.slot_costs.slot_cost(OpKind::Write, Bytes::mib(4)).get(), 5);
}

/// Symptom: beside a user who writes with eight calls of 1 MiB in flight, others of the same NFS connection got 12 of
/// 250 calls a second. Cause: a connection could hold 4 MiB.
#[test]
fn connections_of_nfs_hold_more_because_writes_carry_their_data() {
    let config = example("nfs.toml");
    assert!(config.servers.iter().all(|server| server.address.protocol() == Some(Protocol::Nfs)));
    assert_eq!([&config, &example("minimal.toml")].map(|config| config.limits.request_bytes), [80, 4].map(Bytes::mib));
}

#[test]
fn users_of_a_hub_are_applications_beside_its_backup() {
    let who = example("jupyterhub-home.toml").resolve(&|_| Vec::new());
    let of = |last: u8, uid| {
        who.identify(&Client {
            listener: 0,
            ip: [10, 0, 0, last].into(),
            uid: Some(uid),
            gids: &[],
            machine: "",
            op: OpKind::Read,
        })
    };
    assert_eq!(of(9, 0), Identity::App(AppIndex(0)), "the backup is also root");
    assert_eq!(of(1, 0), Identity::App(AppIndex(1)));
    assert_eq!(of(1, 1000), of(2, 1000), "a user on two nodes is one application");
    assert_ne!(of(1, 1000), of(1, 1001));
}

#[test]
fn one_host_gets_a_quarter_of_many_connections_and_all_of_few() {
    let minimal = std::fs::read_to_string(repository().join("examples/minimal.toml")).unwrap();
    let per_host = |limits: &str| {
        let config = Config::parse("test", &format!("{minimal}\n[limits]\n{limits}")).unwrap();
        config.limits.connections_per_host
    };
    assert_eq!(per_host(""), 1024);
    let derived = [1, 2, 64, 100, 256, 400, 1_000_000].map(|count| per_host(&format!("connections = {count}")));
    assert_eq!(derived, [1, 2, 64, 64, 64, 100, 250_000]);
    assert_eq!(per_host("connections_per_host = 4096"), 4096);
}

/// The manual always matches the code. `UPDATE=1 cargo test -p vpfs-config` rewrites it.
#[test]
fn the_manual_matches_the_code() {
    let path = repository().join("docs/config.md");
    let printed = config_manual();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == printed, "docs/config.md is out of date; run UPDATE=1 cargo test -p vpfs-config");
}

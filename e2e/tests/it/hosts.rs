//! Redirection of clients on hosts of their own: network namespaces on one bridge. Needs root, `ip` and `nft`; without
//! them the test is skipped, and says so.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use vpfs_e2e::{Daemon, Hosts, await_some, requirements, run, vpfs};

const PROXIES: u16 = Hosts::COUNT;

/// The servers with which the proxy of `server` is connected.
fn reached(config: &Path, server: &str) -> Vec<String> {
    let text = run(Command::new(vpfs()).args(["peers", "--json", "--server", server, "--config"]).arg(config));
    let reports: Value = serde_json::from_str(&text).expect("JSON");
    let peers = reports[0]["peers"].as_array().expect("a list").iter();
    let connected = peers.filter(|peer| peer["connected"] == true).filter_map(|peer| peer["server"].as_str());
    connected.map(str::to_owned).collect()
}

/// Waits until these are connected, and returns how long that took.
fn await_reached(config: &Path, server: &str, expected: &[&str]) -> Duration {
    let start = Instant::now();
    await_some(Duration::from_secs(20), || {
        let reached = reached(config, server);
        if reached == expected { Ok(start.elapsed()) } else { Err(format!("{server} has {reached:?}")) }
    })
}

/// The configuration of four servers as OrangeFS has it.
fn servers_own_config() -> String {
    let names = || (1..=PROXIES).map(|id| format!("s{id}"));
    let aliases: String =
        names().zip(3334..).map(|(name, port)| format!("Alias {name} tcp://10.77.0.100:{port}\n")).collect();
    let ranges = |first: u64| -> String {
        names()
            .zip(0..)
            .map(|(name, id): (_, u64)| format!("Range {name} {}-{}\n", first + id * 100, first + id * 100 + 99))
            .collect()
    };
    format!(
        "<Defaults>\nUnexpectedRequests 50\n</Defaults>\n<Aliases>\n{aliases}</Aliases>\n<FileSystem>\nName pfs\nID 1001\n\
         RootHandle 10\n<MetaHandleRanges>\n{}</MetaHandleRanges>\n<DataHandleRanges>\n{}</DataHandleRanges>\n\
         </FileSystem>\n",
        ranges(3),
        ranges(1 << 20)
    )
}

/// What applications got through the proxy of the first server, in bytes of cost.
fn served(config: &Path) -> u64 {
    let text = run(Command::new(vpfs()).args(["peers", "--json", "--server", "s1", "--config"]).arg(config));
    let reports: Value = serde_json::from_str(&text).expect("JSON");
    reports[0]["apps"].as_array().expect("a list").iter().filter_map(|app| app["here"].as_u64()).sum()
}

#[test]
fn clients_are_redirected_and_notice_nothing() {
    let Some(hosts) = Hosts::new().filter(|_| requirements::are_present("nft", &["nft"])) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (conf, cluster) = (dir.path().join("fs.conf"), dir.path().join("cluster"));
    std::fs::write(&conf, servers_own_config()).expect("a file");
    let init = ["init", "--file-system", "pfs", "--redirect", "--from"];
    run(Command::new(vpfs()).args(init).arg(&conf).arg("--output").arg(&cluster));
    let config = cluster.join("vpfs.toml");
    // `[peers]` is the last table. Sockets in /run could be those of another cluster.
    let text = std::fs::read_to_string(&config).expect("vpfs.toml") + "sockets = \"sockets\"\n";
    std::fs::write(&config, text).expect("a file");
    let mut serve = hosts.on(0);
    let _servers =
        Daemon::start(dir.path(), "servers", serve.args(["serve", "--servers", "4", "--listen", "10.77.0.100:3334"]));
    let mut proxies: Vec<Daemon> = (1..=PROXIES)
        .map(|id| {
            let (name, mut command) = (format!("s{id}"), hosts.on(0));
            Daemon::start(dir.path(), &name, command.args(["proxy", "--server", &name, "--config"]).arg(&config))
        })
        .collect();
    proxies.iter_mut().for_each(|proxy| proxy.await_log("ready"));
    await_reached(&config, "s1", &["s2", "s3", "s4"]);
    let load = |host| {
        let ior = ["workload", "ior", "--processes", "2", "--transfer", "1MiB", "--block", "8MiB"];
        run(hosts.on(host).args(ior).args(["--url", "tcp://10.77.0.100:3334/pfs"]));
    };
    load(1);
    assert_eq!(served(&config), 0, "nobody is redirected before the rules are there");
    run(hosts.program(0, Path::new("nft")).arg("-f").arg(cluster.join("vpfs.nft")));
    load(1);
    let redirected = served(&config);
    assert!(redirected >= 2 << 20, "a quarter of 16 MiB, written and read: {redirected}");
    load(0);
    assert_eq!(served(&config), redirected, "servers' own hosts reach them directly");
    run(hosts.program(0, Path::new("nft")).args(["delete", "table", "ip", "vpfs"]));
    load(1);
    assert_eq!(served(&config), redirected, "the rules are gone");
}

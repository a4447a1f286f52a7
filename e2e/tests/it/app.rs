//! `vpfs app`: shares by hand, at proxies of this host.

use std::path::Path;
use std::process::Command;

use vpfs_e2e::{Daemon, await_some, free_ports, output, proxy_config, vpfs};

fn proxy(dir: &Path) -> Daemon {
    let mut command = Command::new(vpfs());
    command.args(["proxy", "--config"]).arg(dir.join("vpfs.toml")).env("STATE_DIRECTORY", dir);
    let mut proxy = Daemon::start(dir, "proxy", &mut command);
    proxy.await_port(port(dir) + 1);
    proxy
}

/// That of the server, which nobody asks; the proxy has the next one.
fn port(dir: &Path) -> u16 {
    std::fs::read_to_string(dir.join("port")).expect("a file").parse().expect("a number")
}

fn app(dir: &Path, args: &[&str]) -> (bool, String) {
    let output = output(Command::new(vpfs()).arg("app").args(args).arg("--config").arg(dir.join("vpfs.toml")));
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_share_by_hand_outlives_the_proxy_until_its_time_is_over() {
    let folder = tempfile::tempdir().expect("a directory");
    let dir = folder.path();
    let port = free_ports(3);
    std::fs::write(dir.join("port"), port.to_string()).expect("a file");
    let peers = format!("127.0.0.1:{}", port + 2);
    let rest = format!("[peers]\naddresses = {{ s1 = \"{peers}\" }}\nsecurity = \"none\"\nsockets = \"sockets\"\n");
    std::fs::write(dir.join("vpfs.toml"), proxy_config(1, port, port + 1, &rest)).expect("a file");
    let mut first = proxy(dir);
    let set = ["set", "ior", "--weight", "4", "--clients", "localhost,10.1.0.0/16", "--uid", "7-9", "--for", "2h"];
    assert_eq!(app(dir, &set), (true, "done at s1\n".to_owned()));
    assert!(app(dir, &["set", "short", "--uid", "7", "--for", "1s"]).0);
    let (_, listed) = app(dir, &["ls"]);
    assert!(listed.contains("admin:ior") && listed.contains("10.1.0.0/16") && listed.contains("7-9"), "{listed}");
    await_some(std::time::Duration::from_secs(20), || {
        let (_, listed) = app(dir, &["ls"]);
        if listed.contains("short") { Err(listed) } else { Ok(()) }
    });

    let (_, which) = app(dir, &["which", "--host", "10.1.7.7", "--uid", "8", "--operation", "write"]);
    let is_told = which.starts_with("admin:ior\n  pushed: clients = ");
    assert!(is_told && which.contains("users = 7-9, weight = 4"), "{which}");
    assert!(app(dir, &["set", "ior", "--weight", "5", "--uid", "7-9", "--for", "2h"]).0);
    let events = output(Command::new(vpfs()).arg("events").arg("--config").arg(dir.join("vpfs.toml"))).stdout;
    let (events, me) = (String::from_utf8_lossy(&events).into_owned(), vpfs_e2e::run(Command::new("id").arg("-u")));
    let change = "ior (weight 4 -> 5, other clients)";
    assert!(events.contains(change) && events.contains(&format!("uid {}", me.trim())), "{events}");

    first.kill();
    let _second = proxy(dir);
    await_some(std::time::Duration::from_secs(20), || {
        let (_, listed) = app(dir, &["ls"]);
        if listed.contains("admin:ior") { Ok(()) } else { Err(listed) }
    });
    assert_eq!(app(dir, &["rm", "ior"]), (true, "done at s1\n".to_owned()));
    assert!(app(dir, &["ls"]).1.contains("no application was pushed"));
    for (wrong, said) in [
        (&["set", "ior", "--for", "1h"][..], "give --clients, --uid or --gid"),
        (&["rm", "ior"], "there is no set admin.ior at s1; `vpfs app ls` shows all"),
        (&["set", "a b", "--uid", "7", "--for", "1h"], "is not a name"),
        (&["set", "ior", "--uid", "7", "--for", "5"], "has no unit"),
        (&["set", "ior", "--uid", "7", "--for", "1h", "--remote"], &format!("cannot be asked at {peers}")),
    ] {
        let (succeeded, told) = app(dir, wrong);
        assert!(!succeeded && told.contains(said), "{told}");
    }
}

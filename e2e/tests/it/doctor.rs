//! `vpfs doctor` and `vpfs support-bundle` beside a proxy, with a client that passes it by.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use vpfs_e2e::requirements::{are_present, missing};
use vpfs_e2e::{Daemon, Hosts, await_some, free_ports, output, proxy_config, run, vpfs};

const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Starts a server and its proxy on host 0, with peers of which there are none.
fn start(hosts: &Hosts, dir: &Path) -> (Daemon, Daemon) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(dir.join("peers.key"), KEY).expect("a file");
    std::fs::set_permissions(dir.join("peers.key"), PermissionsExt::from_mode(0o600)).expect("permissions");
    let config = "[[server]]\nname = \"s1\"\naddress = \"tcp://10.77.0.100:6334\"\n[[listener]]\nport = 5334\n\
                  [peers]\nport = 7334\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n";
    std::fs::write(dir.join("vpfs.toml"), config).expect("a file");
    let mut serve = hosts.on(0);
    serve.args(["serve", "--servers", "1", "--listen", "10.77.0.100:6334"]);
    let mut server = Daemon::start(dir, "server", &mut serve);
    server.await_log("6334");
    let mut proxy = Daemon::start(dir, "proxy", hosts.on(0).args(["proxy", "--config"]).arg(dir.join("vpfs.toml")));
    proxy.await_log("ready");
    (server, proxy)
}

/// The results of each check by name, and the whole text.
fn examine(hosts: &Hosts, dir: &Path) -> (Option<i32>, impl Fn(&str) -> String, String) {
    let told = output(hosts.on(0).args(["doctor", "--json", "--config"]).arg(dir.join("vpfs.toml")));
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let findings: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {told:?}"));
    let result = move |check: &str| {
        let found = findings.iter().find(|finding| finding["check"] == check);
        found.map_or("none", |finding| finding["result"].as_str().expect("a text")).to_owned()
    };
    (told.status.code(), result, text)
}

#[test]
fn clients_that_pass_by_are_named_and_keys_stay() {
    let Some(hosts) = Hosts::new() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (_server, mut proxy) = start(&hosts, dir.path());

    let (code, result, text) = examine(&hosts, dir.path());
    for check in ["configuration", "start", "names", "servers", "proxies", "versions", "peers", "descriptors", "bypass"]
    {
        assert_eq!(result(check), "ok", "{check}: {text}");
    }
    assert_eq!(code, Some(0), "{text}");

    let load = ["workload", "ior", "--processes", "1", "--time", "60s", "--url", "tcp://10.77.0.100:6334/pfs"];
    let _client = Daemon::start(dir.path(), "client", hosts.on(1).args(load));
    await_some(Duration::from_secs(30), || {
        let (code, result, text) = examine(&hosts, dir.path());
        let is_named = result("bypass") == "failed" && text.contains("10.77.0.1 (");
        if is_named && code == Some(1) { Ok(()) } else { Err(text) }
    });

    let bundle = dir.path().join("support.tar.gz");
    let mut command = hosts.on(0);
    command.args(["support-bundle", "--config"]).arg(dir.path().join("vpfs.toml")).arg("--output").arg(&bundle);
    run(&mut command);
    assert!(!output(&mut command).status.success(), "it replaces no file");
    let all = run(Command::new("tar").arg("-xzOf").arg(&bundle));
    for part in
        ["vpfs_build_info", "\"up_seconds\"", "10.77.0.1 (", "shared_key = \"peers.key\"", "\"message\": \"ready\""]
    {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert!(!all.contains(KEY));

    proxy.kill();
    let (code, result, text) = examine(&hosts, dir.path());
    assert_eq!((code, &*result("proxies"), &*result("versions")), (Some(1), "failed", "skipped"), "{text}");
}

const JOURNALD: &str = "/lib/systemd/systemd-journald";

/// Starts a journal and two proxies, of which the second one has only inherited `JOURNAL_STREAM`, and asks the journal
/// for one of the first.
const SCRIPT: &str = r#"
set -e
mount -t tmpfs none /run
mkdir -p /run/systemd/journal /run/log/journal
"$JOURNALD" 2>journald.log & started="$!"
trap 'kill $started; wait' EXIT
until [ -S /run/systemd/journal/socket ]; do sleep 0.1; done
: >first.log
JOURNAL_STREAM=$(stat -c %d:%i first.log) "$VPFS" proxy --config first.toml 2>>first.log & started="$started $!"
JOURNAL_STREAM=1:1 "$VPFS" proxy --config second.toml 2>second.log & started="$started $!"
until grep -q ready second.log; do sleep 0.1; done
ask() { journalctl --directory=/run/log/journal --output=json MESSAGE=ready VPFS_SERVERS=s1; }
until entry=$(ask) && printf '%s' "$entry" | grep -q ready; do sleep 0.1; done
printf '%s\n' "$entry"
"#;

#[test]
fn the_journal_has_the_fields_of_events() {
    if !are_present("systemd", &["unshare", "journalctl", "timeout"]) {
        return;
    }
    if !Path::new(JOURNALD).exists() || !output(Command::new("unshare").args(["--mount", "true"])).status.success() {
        return missing("systemd", "no systemd-journald, or no right to a mount namespace; run as root");
    }
    let (dir, port) = (tempfile::tempdir().expect("a directory"), free_ports(4));
    for (name, port) in [("first", port), ("second", port + 2)] {
        std::fs::write(dir.path().join(format!("{name}.toml")), proxy_config(1, port, port + 1, "")).expect("a file");
    }
    let mut script = Command::new("timeout");
    script.args(["60", "unshare", "--mount", "sh", "-c", SCRIPT]).current_dir(dir.path());
    // Meanwhile, programs may complain about files that are not there yet.
    let result = output(script.env("JOURNALD", JOURNALD).env("VPFS", vpfs()));
    let entry: Value = serde_json::from_slice(&result.stdout).unwrap_or_else(|error| panic!("{error}: {result:?}"));
    let field = |name: &str| entry[name].as_str().unwrap_or_default();
    assert_eq!((field("VPFS_POLICY"), field("SYSLOG_IDENTIFIER"), field("PRIORITY")), ("isolation", "vpfs", "5"));
    let text = std::fs::read_to_string(dir.path().join("first.log")).expect("a file");
    assert!(!text.contains("ready"), "not twice: {text}");
}

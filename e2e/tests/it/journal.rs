//! The log in the journal of systemd: a journal of its own, in a mount namespace, and the question of an administrator.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use vpfs_e2e::requirements::{are_present, missing};
use vpfs_e2e::{free_ports, output, proxy_config, run, vpfs};

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
until ask | grep -q ready; do sleep 0.1; done
ask
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
    let entries = run(script.env("JOURNALD", JOURNALD).env("VPFS", vpfs()));
    let entries: Vec<Value> = entries.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    let field = |name: &str| entry[name].as_str().unwrap_or_default();
    assert_eq!((field("VPFS_POLICY"), field("SYSLOG_IDENTIFIER"), field("PRIORITY")), ("isolation", "vpfs", "5"));
    let text = std::fs::read_to_string(dir.path().join("first.log")).expect("a file");
    assert!(!text.contains("ready"), "not twice: {text}");
}

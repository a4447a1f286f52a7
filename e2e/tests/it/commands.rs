//! Commands of administrators at proxies of this host: the first minutes with vpfs, shares by hand (`vpfs app`), and
//! `vpfs doctor` and `vpfs support-bundle`.

use std::fs::{Permissions, create_dir, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use vpfs_e2e::requirements::{are_present, missing};
use vpfs_e2e::{
    Daemon, Hosts, await_some, free_ports, ours, output, printed, proxy_config, run, stderr, stdout, vpfs, write_file,
    write_program,
};

fn app(dir: &Path, args: &[&str]) -> (bool, String) {
    let output = output(ours(&["app"]).args(args).arg("--config").arg(dir.join("vpfs.toml")));
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_share_by_hand_outlives_the_proxy_until_its_time_is_over() {
    let folder = tempfile::tempdir().expect("a directory");
    let dir = folder.path();
    let port = free_ports(3);
    let peers = format!("127.0.0.1:{}", port + 2);
    let rest = format!("[peers]\naddresses = {{ s1 = \"{peers}\" }}\nsecurity = \"none\"\nsockets = \"sockets\"\n");
    write_file(dir.join("vpfs.toml"), proxy_config(1, port, port + 1, &rest));
    let mut first = Daemon::proxy(dir, &dir.join("vpfs.toml"));
    let set = ["set", "ior", "--weight", "4", "--clients", "localhost,10.1.0.0/16", "--uid", "7-9", "--for", "2h"];
    assert_eq!(app(dir, &set), (true, "done at s1\n".to_owned()));
    assert!(app(dir, &["set", "short", "--uid", "7", "--for", "1s"]).0);
    let (_, listed) = app(dir, &["ls"]);
    assert!(listed.contains("admin:ior") && listed.contains("10.1.0.0/16") && listed.contains("7-9"), "{listed}");
    await_some(Duration::from_secs(20), || {
        let (_, listed) = app(dir, &["ls"]);
        if listed.contains("short") { Err(listed) } else { Ok(()) }
    });

    let (_, which) = app(dir, &["which", "--host", "10.1.7.7", "--uid", "8", "--operation", "write"]);
    let is_told = which.starts_with("admin:ior\n  pushed: clients = ");
    assert!(is_told && which.contains("users = 7-9, weight = 4"), "{which}");
    assert!(app(dir, &["set", "ior", "--weight", "5", "--uid", "7-9", "--for", "2h"]).0);
    let events = output(ours(&["events"]).arg("--config").arg(dir.join("vpfs.toml"))).stdout;
    let (events, me) = (String::from_utf8_lossy(&events).into_owned(), run(Command::new("id").arg("-u")));
    let change = "ior (weight 4 -> 5, other clients)";
    assert!(events.contains(change) && events.contains(&format!("uid {}", me.trim())), "{events}");

    first.kill();
    let _second = Daemon::proxy(dir, &dir.join("vpfs.toml"));
    await_some(Duration::from_secs(20), || {
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

/// What a hook of PBS gets: a job of two chunks, the first on two vnodes of one host.
const PBS: &str = r#"
import os

RUNJOB, LOG_WARNING = 1, 4

class Record:
    def __init__(self, **values):
        self.__dict__.update(values)

def event():
    nodes = "(localhost[0]:ncpus=8:mem=4gb+localhost[1]:ncpus=4)+(127.0.110.2:ncpus=1)"
    job = Record(id="12.server", exec_vnode=nodes, queue=Record(name="urgent"), Resource_List={"walltime": 7200})
    return Record(job=job, type=int(os.environ["EVENT"]), accept=lambda: print("accepted"))

def logmsg(level, text):
    print(level, text)
"#;

/// What the prolog of Flux asks.
const FLUX: &str = r#"#!/bin/sh
case "$*" in
"job id --to=dec $FLUX_JOB_ID") echo 1357 ;;
"job info $FLUX_JOB_ID R") echo '{"version": 1, "execution": {"nodelist": ["localhost", "127.0.110.2"]}}' ;;
esac
"#;

/// A proxy process for each of two servers, which nobody asks, with owners "pbs" and "flux".
struct Site {
    dir: tempfile::TempDir,
    proxies: Vec<Daemon>,
}

impl Site {
    fn start(tables: &str) -> Self {
        let (dir, port) = (tempfile::tempdir().expect("a directory"), free_ports(6));
        let owners = ["pbs", "flux"].map(|name| format!("[[owner]]\nname = {name:?}\ntoken = \"{name}.token\"\n"));
        let rest = format!(
            "[peers]\naddresses = {{ s1 = \"127.0.0.1:{}\", s2 = \"127.0.0.1:{}\" }}\nshared_key = \"peers.key\"\n\
             sockets = \"sockets\"\n{}{tables}",
            port + 4,
            port + 5,
            owners.concat()
        );
        write_file(dir.path().join("vpfs.toml"), proxy_config(2, port, port + 2, &rest));
        for (name, text) in [("peers.key", "0"), ("pbs.token", "1"), ("flux.token", "2")] {
            write(&dir.path().join(name), &text.repeat(64), 0o600);
        }
        let mut site = Self { dir, proxies: Vec::new() };
        site.proxies = ["s1", "s2"].map(|server| site.proxy(server)).into();
        std::fs::create_dir(site.path("bin")).expect("a directory");
        let ours =
            format!("#!/bin/sh\nexec {} \"$@\" --config {}\n", vpfs().display(), site.path("vpfs.toml").display());
        write_program(&site.path("bin/vpfs"), &ours);
        site
    }

    fn proxy(&self, server: &str) -> Daemon {
        std::fs::create_dir_all(self.path(server)).expect("a directory");
        let mut command = ours(&["proxy", "--server", server, "--config"]);
        command.arg(self.path("vpfs.toml"));
        let mut proxy = Daemon::start(self.dir.path(), server, command.env("STATE_DIRECTORY", self.path(server)));
        proxy.await_log("ready");
        proxy
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn app(&self, args: &[&str]) -> String {
        run(Command::new(self.path("bin/vpfs")).arg("app").args(args))
    }

    /// The row of an application, as words.
    fn row(&self, app: &str) -> Vec<String> {
        let listed = self.app(&["ls", "--remote"]);
        let row = listed.lines().find(|line| line.split_whitespace().next() == Some(app)).unwrap_or_default();
        row.split_whitespace().map(str::to_owned).collect()
    }

    /// An example as it is, except for the places of the program, its configuration and its tokens.
    fn example(&self, name: &str) -> PathBuf {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/jobs").join(name);
        let text = std::fs::read_to_string(path).expect("an example");
        let text = text.replace("/usr/bin/", &format!("{}/", self.path("bin").display()));
        let copy = self.path(name);
        write_program(&copy, &text.replace("/etc/vpfs/", &format!("{}/", self.dir.path().display())));
        copy
    }

    /// With the stand-ins found first.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path("bin").display())).env("PYTHONPATH", self.dir.path());
        command
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    write_file(path, text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own");
}

#[test]
fn what_differs_between_servers_is_shown() {
    let mut site = Site::start("[[app]]\nname = \"climate\"\nweight = 4\nclients = \"10.1.0.0/16\"\n");
    let set = |site: &Site, weight| {
        let args = ["app", "set", "ior", "--uid", "7", "--for", "2h", "--weight", weight];
        let told = output(Command::new(site.path("bin/vpfs")).args(args));
        printed(&told)
    };
    assert_eq!(set(&site, "4"), "done at s1, s2\n");
    let only = ["other", "--uid", "8", "--for", "2h", "--server", "s2"];
    assert_eq!(site.app(&[&["set"], &only[..]].concat()), "done at s2\n");
    assert!(site.app(&["ls"]).contains("only s2"));
    assert_eq!(site.app(&["rm", "other", "--server", "s2"]), "done at s2\n");
    let listed = site.app(&["ls"]);
    let row = listed.lines().nth(1).unwrap_or_default().trim();
    assert!(row.starts_with("admin:ior") && row.ends_with("all"), "{listed}");

    // One that is away is named, and has what it had when it is back.
    site.proxies[1].kill();
    let told = set(&site, "5");
    assert!(told.contains("the proxy of s2 has ended") && told.contains("changed only at s1; try again"), "{told}");
    let listed = site.app(&["ls"]);
    assert!(listed.contains("admin:ior") && !listed.contains("only s"), "{listed}");
    site.proxies[1] = site.proxy("s2");
    let listed = await_some(Duration::from_secs(20), || {
        let listed = site.app(&["ls"]);
        if listed.contains("only s2") { Ok(listed) } else { Err(listed) }
    });
    let rows: Vec<&str> = listed.lines().skip(1).collect();
    let has = |weight: &str, server: &str| {
        rows.iter().any(|row| row.split_whitespace().any(|word| word == weight) && row.contains(server))
    };
    assert!(has("5", "only s1") && has("4", "only s2"), "{listed}");
    assert!(listed.contains("1 differ between servers"), "{listed}");
    let which = site.app(&["which", "--host", "127.0.0.9", "--uid", "7"]);
    assert!(which.starts_with("admin:ior\n  pushed: users = 7"), "{which}");
    assert!(which.contains("not climate: 127.0.0.9 is not in clients = "), "{which}");
    assert!(which.contains("servers have different pushed applications"), "{which}");
    let which = site.app(&["which", "--host", "10.1.2.3", "--uid", "7"]);
    assert!(which.starts_with("climate\n  the first rule that matches: clients = "), "{which}");
}

#[test]
fn the_hook_of_pbs_gives_a_job_its_share_and_takes_it_back() {
    if !are_present("python", &["python3"]) {
        return;
    }
    let site = Site::start("");
    write_file(site.path("pbs.py"), PBS);
    let hook = site.example("pbs_hook.py");
    let event = |kind: &str| run(site.command("python3").arg(&hook).env("EVENT", kind));
    let told = event("1");
    assert!(told.contains("done at s1, s2") && told.ends_with("accepted\n"), "{told}");
    let row = site.row("pbs:12.server");
    // With IPv6, localhost has one address more.
    let of_job = ["pbs:12.server", "8"];
    assert!(row.starts_with(&of_job.map(str::to_owned)) && row.iter().any(|cell| cell.contains("127.0.")), "{row:?}");
    assert!(row.ends_with(&["all".to_owned()]), "{row:?}");
    let which = site.app(&["which", "--host", "127.0.110.2", "--remote"]);
    assert!(which.starts_with("pbs:12.server\n"), "{which}");
    event("2");
    assert_eq!(site.row("pbs:12.server"), Vec::<String>::new());
    // Whatever fails, the job runs.
    std::fs::remove_file(site.path("bin/vpfs")).expect("it was there");
    let told = event("1");
    assert!(told.contains("4 vpfs: ") && told.ends_with("accepted\n"), "{told}");
}

#[test]
fn the_prolog_of_flux_gives_a_job_its_share_and_the_epilog_takes_it_back() {
    if !are_present("jq", &["jq"]) {
        return;
    }
    let site = Site::start("");
    write_program(&site.path("bin/flux"), FLUX);
    let script = site.example("flux-prolog.sh");
    let flux = |args: &[&str]| output(site.command(&script).args(args).env("FLUX_JOB_ID", "f2Z7r"));
    assert!(flux(&[]).status.success());
    let row = site.row("flux:1357");
    assert!(row.starts_with(&["flux:1357", "1"].map(str::to_owned)), "{row:?}");
    let which = site.app(&["which", "--host", "127.0.110.2", "--remote"]);
    assert!(which.starts_with("flux:1357\n"), "{which}");
    assert!(flux(&["end"]).status.success());
    assert_eq!(site.row("flux:1357"), Vec::<String>::new());
    std::fs::remove_file(site.path("bin/vpfs")).expect("it was there");
    assert!(flux(&[]).status.success(), "whatever fails, the job runs");
}

const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Starts a server and its proxy on host 0, with peers of which there are none.
fn start(hosts: &Hosts, dir: &Path) -> (Daemon, Daemon) {
    write_file(dir.join("peers.key"), KEY);
    std::fs::set_permissions(dir.join("peers.key"), PermissionsExt::from_mode(0o600)).expect("permissions");
    let config = "[[server]]\nname = \"s1\"\naddress = \"tcp://10.77.0.100:6334\"\n[[listener]]\nport = 5334\n\
                  [peers]\nport = 7334\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n";
    write_file(dir.join("vpfs.toml"), config);
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
    let text = stdout(&told);
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
        write_file(dir.path().join(format!("{name}.toml")), proxy_config(1, port, port + 1, ""));
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

/// The uid of nobody.
const NOBODY: u32 = 65534;

/// For what needs some requests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that everybody can enter, and in it the server, configured by `vpfs init`, and its port.
fn site() -> (tempfile::TempDir, Daemon, u16) {
    let dir = tempfile::tempdir().expect("a directory");
    set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let port = free_ports(2);
    let server = Daemon::serve(dir.path(), port..port + 1, &["--protocol", "nfs", "--device", "hdd"]);
    let export = format!("nfs://127.0.0.1:{port}/pfs?mountport={port}");
    let told = run(ours(&["init", "--nfs", &export, "--port", &(port + 1).to_string(), "--output"]).arg(dir.path()));
    assert!(told.contains("vpfs proxy --config"), "{told}");
    (dir, server, port + 1)
}

/// A small and a large load of two users, until they are dropped.
fn loads(dir: &Path, port: u16) -> [Daemon; 2] {
    let url = format!("nfs://127.0.0.1:{port}/pfs?mountport={port}");
    let small = ["interactive", "--uid", "1000", "-t", "8K", "--file", "1M"];
    let large = ["ior", "--uid", "1001", "--write", "-t", "1M", "-b", "16M"];
    [&small[..], &large].map(|args| {
        let mut command = Command::new(vpfs());
        command.arg("workload").args(args).args(["--time", "10min", "--url", &url]);
        Daemon::start(dir, args[0], &mut command)
    })
}

#[test]
fn five_commands_show_who_slows_whom() {
    let (dir, _server, port) = site();
    let ours = |args: &[&str]| {
        let mut command = ours(args);
        command.arg("--config").arg(dir.path().join("vpfs.toml")).env("RUNTIME_DIRECTORY", dir.path());
        command
    };
    let mut proxy = Daemon::start(dir.path(), "proxy", &mut ours(&["proxy"]));
    proxy.await_log(&format!("{}/nfs.sock", dir.path().display()));
    let _loads = loads(dir.path(), port);
    await_some(PATIENCE, || {
        let told = run(&mut ours(&["why", "--interval", "1"]));
        let both = told.lines().filter(|line| line.starts_with(" uid:1000 ") || line.starts_with(" uid:1001 ")).count();
        if both == 2 { Ok(()) } else { Err(told) }
    });
    let status = run(&mut ours(&["status", "--interval", "1"]));
    for said in
        ["  health      ok\n", "  servers     nfs", "  policy      isolation, mode manage\n", "  storage     busy "]
    {
        assert!(status.contains(said), "{said} in\n{status}");
    }
    // What a shell asks for at the key: the third word of `vpfs why uid`.
    let script = "source <(\"$0\" completions bash); COMP_WORDS=(vpfs why --config \"$1\" uid); COMP_CWORD=4; \
                  _clap_complete_vpfs vpfs uid \"$1\" 2>/dev/null; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).arg(vpfs()).arg(dir.path().join("vpfs.toml")).env("RUNTIME_DIRECTORY", dir.path());
    let completed = run(&mut bash);
    assert!(completed.contains("uid:1000") && completed.contains("uid:1001"), "{completed}");
    proxy.terminate();
}

/// Symptom: where `/run/vpfs` was missing, a proxy started without a word, and every other command failed.
#[test]
fn who_may_not_write_to_run_has_a_socket_as_well() {
    let (dir, _server, _) = site();
    let nobody = |args: &[&str], of_user: Option<&Path>| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(vpfs()).args(args);
        command.env_remove("RUNTIME_DIRECTORY").env_remove("XDG_RUNTIME_DIR");
        if let Some(directory) = of_user {
            command.env("XDG_RUNTIME_DIR", directory);
        }
        command
    };
    let is_able = nobody(&["--version"], None).output().is_ok_and(|told| told.status.success());
    if !is_able {
        return missing("setpriv", "only root can start the program for another user, who has to reach it");
    }
    let of_user = dir.path().join("user");
    create_dir(&of_user).expect("a directory");
    chown(&of_user, Some(NOBODY), Some(NOBODY)).expect("root may");
    let config = dir.path().join("vpfs.toml").display().to_string();
    let mut proxy = Daemon::start(dir.path(), "proxy", &mut nobody(&["proxy", "--config", &config], Some(&of_user)));
    proxy.await_log("user/vpfs/nfs.sock");
    let status = run(&mut nobody(&["status", "--config", &config, "--interval", "1"], Some(&of_user)));
    assert!(status.contains("  health      ok\n"), "{status}");
    let reloaded = run(&mut nobody(&["proxy", "--reload", &proxy.id().to_string()], Some(&of_user)));
    assert_eq!(reloaded, "reloaded: nothing changed\n");
    let elsewhere = output(&mut nobody(&["top", "--once", "--config", &config], None));
    let said = stderr(&elsewhere);
    assert!(said.contains("cannot ask any proxy of"), "{said}");
    proxy.terminate();
    let mut without = Daemon::start(dir.path(), "without", &mut nobody(&["proxy", "--config", &config], None));
    without.await_log("no socket, so `vpfs top` and others cannot ask this proxy");
    without.await_log("ready");
}

#[test]
fn who_has_no_configuration_is_told_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    for command in ["top", "why", "status", "proxy"] {
        let told = output(ours(&[command, "--config"]).arg(dir.path().join("vpfs.toml")));
        let said = stderr(&told);
        assert_eq!(told.status.code(), Some(2), "{said}");
        assert!(said.contains("name yours with --config FILE, or write one: `vpfs init --help`"), "{said}");
    }
}

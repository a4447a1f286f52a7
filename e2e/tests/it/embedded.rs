//! The built command alone: embedded servers, proxies in front of them, and load through the proxies.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use vpfs_e2e::{
    Daemon, Successor, await_some, complaints, free_ports, ours, output, printed, proxy_config, run, stderr, stdout,
    vpfs, write_file, write_program,
};

const SERVERS: u16 = 2;

/// Embedded servers and proxies in separate processes.
struct Cluster {
    dir: tempfile::TempDir,
    _servers: Daemon,
    proxy: Daemon,
    config: PathBuf,
    server_port: u16,
    proxy_port: u16,
}

impl Cluster {
    /// With `settings` after the servers and listeners in the configuration.
    fn start(settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let server_port = free_ports(2 * SERVERS);
        let proxy_port = server_port + SERVERS;
        let servers = Daemon::serve(dir.path(), server_port..proxy_port, &[]);
        let config = dir.path().join("vpfs.toml");
        write_config(&config, server_port, proxy_port, settings);
        // An upgrade replaces it.
        let program = dir.path().join("program");
        std::os::unix::fs::symlink(vpfs(), &program).expect("a link");
        let mut command = Command::new(program);
        command.args(["proxy", "--config"]).arg(&config).env("RUNTIME_DIRECTORY", dir.path());
        let mut proxy = Daemon::start(dir.path(), "proxy", &mut command);
        proxy.await_log("ready");
        Self { dir, _servers: servers, proxy, config, server_port, proxy_port }
    }

    fn workload(&self, args: &[&str]) -> String {
        let url = format!("tcp://127.0.0.1:{}/pfs", self.proxy_port);
        run(ours(&["workload"]).args(args).args(["--url", &url]))
    }
}

fn write_config(path: &Path, server_port: u16, proxy_port: u16, settings: &str) {
    write_file(path, proxy_config(SERVERS, server_port, proxy_port, settings));
}

#[test]
fn loads_run_verified_through_the_proxies_and_the_proxies_drain() {
    let mut cluster = Cluster::start("[scheduler]\npolicy = \"sfq-d-plus\"\n");
    let log = cluster.proxy.log();
    let [socket, ready] = ["ask here", "ready"].map(|text| log.find(text).unwrap_or_else(|| panic!("{text}: {log}")));
    assert!(socket < ready, "who is told that it is ready may ask it: {log}");
    let json = cluster.dir.path().join("ior.json");
    let json_text = json.display().to_string();
    let table =
        cluster.workload(&["ior", "--processes", "4", "--transfer", "256KiB", "--block", "2MiB", "--json", &json_text]);
    assert!(table.contains("MiB/sec"), "no summary in\n{table}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("a report")).expect("valid JSON");
    assert!(report.is_object(), "{report}");
    cluster.workload(&["ior", "--processes", "2", "--transfer", "256KiB", "--random", "--strip", "36KiB,148KiB"]);
    cluster.workload(&["ior", "--processes", "2", "--block", "1MiB", "--strip", "0B,64KiB"]);
    cluster.workload(&["md", "--processes", "2", "--items", "50"]);
    let calls = ["interactive", "-n", "2", "-t", "4KiB", "--file", "1MiB", "--think", "2ms", "--time", "500ms"];
    for (access, read) in [("write", &[][..]), ("read", &["--read"])] {
        let table = cluster.workload(&[&calls, read].concat());
        let line = table.lines().find(|line| line.starts_with(access)).unwrap_or_default();
        assert!(table.contains("calls/s") && table.contains("p99(ms)") && line.ends_with(" 0"), "{table}");
    }
    cluster.proxy.terminate();
    let log = cluster.proxy.log();
    assert!(log.contains("drained") && complaints(&log).is_empty(), "{log}");
}

/// Standard error is a pipe that is full.
#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let cluster = Cluster::start("");
    let (dir, port) = (cluster.dir.path(), free_ports(SERVERS));
    write_config(&dir.join("silent.toml"), cluster.server_port, port, "");
    run(Command::new("mkfifo").arg(dir.join("log")));
    let mut log = File::options().read(true).write(true).open(dir.join("log")).expect("a pipe");
    log.write_all(&[b'.'; 64 << 10]).expect("its whole buffer");
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$0" proxy --config silent.toml 2>log"#]).arg(vpfs()).current_dir(dir);
    let mut proxy = Daemon::start(dir, "silent", command.env("RUNTIME_DIRECTORY", dir));
    proxy.await_port(port + SERVERS - 1);
    let url = format!("tcp://127.0.0.1:{port}/pfs");
    run(Command::new("timeout").arg("20").arg(vpfs()).args(["workload", "md", "--items", "10", "--url", &url]));
    proxy.terminate();
}

/// As simulations write it, which `a_simulation_writes_a_log_that_is_advised_on` takes further.
#[test]
fn a_workload_writes_a_log() {
    let cluster = Cluster::start("");
    let log = cluster.dir.path().join("run.csv");
    let log_text = log.display().to_string();
    cluster.workload(&["ior", "-n", "4", "-t", "256KiB", "-b", "2MiB", "--random", "--trace", &log_text]);
    let written = std::fs::read_to_string(&log).expect("a log");
    assert!(written.starts_with("rank,op,offset,size,time,end,file\n"), "{written}");
    assert_eq!(written.lines().count(), 1 + 2 * 32, "{written}");
    assert!(written.lines().skip(1).all(|line| line.ends_with(",/ior/file.0")), "{written}");
    let url = format!("tcp://127.0.0.1:{}/pfs", cluster.proxy_port);
    let full = output(ours(&["workload", "ior", "--trace", "/dev/full", "--url", &url]));
    assert!(!full.status.success() && stderr(&full).contains("cannot write /dev/full"));
}

#[test]
fn a_small_application_is_measured_beside_a_large_one() {
    let cluster = Cluster::start("");
    let json = cluster.dir.path().join("isolation.json");
    let direct = format!("tcp://127.0.0.1:{}/pfs", cluster.server_port);
    let small = ["isolation", "-n", "2", "--file", "1MiB", "--think", "1ms", "--time", "500ms", "--read"];
    let large =
        ["--large-processes", "2", "--large-transfer", "256KiB", "--large-file", "1MiB", "--large-url", &direct];
    let table = cluster.workload(&[&small[..], &large, &["--json", &json.display().to_string()]].concat());
    assert!(table.contains("kept") && table.contains(" calls/s") && table.contains(" MB/s"), "{table}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("a report")).expect("valid JSON");
    for app in ["small", "large"] {
        let kept = report["kept"][app].as_f64().unwrap_or_default();
        assert!(kept > 0.0, "{app}: {report}");
        assert!(report["beside"][app]["phases"].as_array().is_some_and(|phases| !phases.is_empty()), "{report}");
    }
    // Nothing is left behind: a second run finds no existing file, nor does one whose large application reads.
    cluster.workload(&[&small[..], &large].concat());
    let table = cluster.workload(&[&small[..], &large, &["--large-read"]].concat());
    assert!(table.contains(" MB/s"), "{table}");
    cluster.workload(&[&small[..], &large].concat());
}

/// Every policy and option of the scheduler, with data verified through it.
#[test]
fn every_policy_serves() {
    let settings = [
        "policy = \"sfq-d\"\nsharing = \"threshold\"\nbroadcast_threshold = \"64KiB\"",
        "policy = \"sfq-d-plus\"\nsharing = \"layout\"\nmetadata_depth = 2",
        "policy = \"two-level\"",
        "policy = \"ioco\"\nwindow = \"250ms\"",
    ];
    for settings in settings {
        let app = "[[app]]\nname = \"a\"\nclients = \"127.0.0.1\"\ntarget_rate = \"40MB/s\"\ndeadline = \"100ms\"\n";
        let mut cluster = Cluster::start(&format!("{app}[scheduler]\n{settings}\n"));
        cluster.workload(&["ior", "--processes", "4", "--transfer", "256KiB", "--block", "1MiB"]);
        cluster.workload(&["md", "--processes", "2", "--items", "20"]);
        cluster.proxy.terminate();
    }
}

/// Symptom: SIGUSR1 ended a proxy without a word, and the one who asked for a reload did not learn that it was refused.
#[test]
fn harmless_signals_change_nothing_and_a_reload_tells_its_outcome() {
    let mut cluster = Cluster::start("");
    for signal in ["USR1", "ALRM", "IO", "RTMIN"] {
        cluster.proxy.signal(signal);
    }
    for name in ["SIGUSR1", "SIGALRM", "SIGIO", "SIGRTMIN+0"] {
        cluster.proxy.await_log(name);
    }
    let reload = |cluster: &Cluster, settings: &str| {
        write_config(&cluster.config, cluster.server_port, cluster.proxy_port, settings);
        let mut command = ours(&["proxy", "--reload", &cluster.proxy.id().to_string()]);
        let told = output(command.env("RUNTIME_DIRECTORY", cluster.dir.path()));
        (told.status.code(), printed(&told))
    };
    assert_eq!(reload(&cluster, ""), (Some(0), "reloaded: nothing changed\n".to_owned()));
    let (code, text) = reload(&cluster, "[scheduler]\ndepth = 3\n");
    assert!(code == Some(0) && text.contains("1 setting changed"), "{text}");
    for (settings, reason) in
        [("[scheduler]\npolicy = \"sfqd\"\n", "did you mean"), ("[log]\nformat = \"json\"\n", "restart")]
    {
        let (code, text) = reload(&cluster, settings);
        assert!(code == Some(1) && text.contains("reload rejected") && text.contains(reason), "{text}");
    }
    cluster.proxy.await_log("reloaded, nothing changed");
    cluster.workload(&["ior", "--processes", "1", "--transfer", "64KiB", "--block", "128KiB"]);
}

/// Symptom: one name that could not be resolved kept a proxy from starting.
#[test]
fn a_name_without_address_is_a_warning() {
    // Too long for DNS, so that no name server is asked.
    let name = "x".repeat(64);
    let mut cluster = Cluster::start(&format!("[[app]]\nname = \"climate\"\nclients = \"{name}\"\n"));
    cluster.proxy.await_log("app climate: 1 of 1 hosts of");
    cluster.workload(&["ior", "--processes", "1", "--transfer", "64KiB", "--block", "128KiB"]);
    let checked = output(ours(&["proxy", "--check", "--config"]).arg(&cluster.config));
    let text = stderr(&checked);
    assert!(checked.status.code() == Some(4) && text.contains("app climate: 1 of 1 hosts of"), "{text}");
    cluster.proxy.terminate();
}

#[test]
fn a_load_ends_by_ctrl_c_with_results_and_by_sigterm_even_where_storage_hangs() {
    let cluster = Cluster::start("");
    let url = format!("tcp://127.0.0.1:{}/pfs", cluster.proxy_port);
    let start = |name: &str| {
        let mut command = ours(&["workload", "ior", "--write", "--time", "10min", "--repetitions", "2", "--url", &url]);
        let mut load = Daemon::start(cluster.dir.path(), name, command.args(["--directory", &format!("/{name}")]));
        load.await_log("ior 1/2: ");
        load
    };
    let mut load = start("interrupted");
    load.signal("INT");
    assert!(load.wait().success() && load.log().contains("MiB/sec"), "{}", load.log());

    let mut load = start("terminated");
    cluster.proxy.signal("STOP");
    load.signal("TERM");
    assert_eq!(load.wait().signal(), Some(15), "{}", load.log());
}

#[test]
fn upgrades_break_no_connection() {
    let mut cluster = Cluster::start("");
    let load = ["ior", "--processes", "4", "--transfer", "256KiB", "--block", "1MiB", "--time", "3s"];
    let mut successor = Successor::default();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| cluster.workload(&load));
        let log = || cluster.proxy.log();
        let mut upgrades = 0;
        while !load.is_finished() {
            if upgrades == 0 {
                cluster.proxy.signal("USR2")
            } else {
                successor.signal("USR2")
            }
            upgrades += 1;
            await_some(std::time::Duration::from_secs(60), || {
                assert!(!log().contains("ERROR"), "{}", log());
                let log = log();
                // Of two processes, whose lines come in any order.
                let has_all = |text: &str| log.matches(text).count() >= upgrades;
                let lines = ["the successor is ready", "took over", "cut_off="];
                if lines.into_iter().all(has_all) { Ok(()) } else { Err(log) }
            });
            successor.follow(&log());
        }
        assert!(load.join().expect("a load").contains("MiB/sec"));
        assert!(upgrades > 1, "{upgrades}");
        assert!(complaints(&log()).is_empty() && log().matches("cut_off=0").count() == upgrades, "{}", log());
    });
    assert!(cluster.proxy.wait().success(), "{}", cluster.proxy.log());
}

#[test]
fn an_upgrade_that_fails_changes_nothing() {
    let mut cluster = Cluster::start("");
    write_config(&cluster.config, cluster.server_port, cluster.proxy_port, "[scheduler]\npolcy = \"fifo\"\n");
    cluster.proxy.signal("USR2");
    cluster.proxy.await_log("upgrade failed; this process continues");
    assert!(cluster.proxy.log().contains("did you mean \"policy\""), "{}", cluster.proxy.log());
    cluster.workload(&["ior", "--processes", "1", "--transfer", "64KiB", "--block", "128KiB"]);
}

/// Symptom: while a successor hung, SIGTERM took 102 s and a reload failed. Cause: the proxy handled no signal until
/// the successor was ready or given up. A program that writes anything was believed to be ready.
#[test]
fn a_successor_that_hangs_or_is_another_program_blocks_no_signal() {
    let mut cluster = Cluster::start("");
    let install = |script: &str| {
        let (new, program) = (cluster.dir.path().join("new"), cluster.dir.path().join("program"));
        write_program(&new, &format!("#!/bin/sh\n{script}\n"));
        std::fs::rename(new, program).expect("it is replaced");
    };
    install("head -c 4096 /dev/urandom >&0");
    cluster.proxy.signal("USR2");
    cluster.proxy.await_log("upgrade failed; this process continues");
    cluster.workload(&["ior", "--processes", "1", "--transfer", "64KiB", "--block", "128KiB"]);
    install("echo hangs >&2; exec sleep 1000");
    cluster.proxy.signal("USR2");
    cluster.proxy.await_log("hangs");
    cluster.proxy.signal("USR2");
    cluster.proxy.await_log("an upgrade is in progress already");
    write_config(&cluster.config, cluster.server_port, cluster.proxy_port, "[scheduler]\npolicy = \"fifo\"\n");
    let pid = cluster.proxy.id().to_string();
    let ask = ["proxy", "--reload", &pid];
    run(ours(&ask).env("RUNTIME_DIRECTORY", cluster.dir.path()));
    assert_eq!(cluster.proxy.log().matches("upgrade failed").count(), 1, "it still waits for its successor");
    cluster.proxy.terminate();
    let log = cluster.proxy.log();
    assert!(log.contains("drained") && log.matches("upgrade failed").count() == 1, "{log}");
}

#[test]
fn a_wrong_configuration_is_refused_with_place_and_fix() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("vpfs.toml");
    write_config(&config, 6334, 5334, "[scheduler]\npolcy = \"fifo\"\n");
    let refused = output(ours(&["proxy", "--check", "--config"]).arg(&config));
    let text = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("vpfs.toml:") && text.contains("did you mean \"policy\""), "{text}");
    write_config(&config, 6334, 5334, "");
    let good = run(ours(&["proxy", "--check", "--config"]).arg(&config));
    assert_eq!(good, "the configuration is valid: 2 servers of OrangeFS, 1 listener, 0 host names\n");
    let good = run(ours(&["proxy", "--check", "--print", "--config"]).arg(&config));
    assert!(good.contains("\npolicy = \"isolation\"\n") && good.contains("\nconnections_per_host = 1024\n"), "{good}");
}

/// Symptom: after SIGTERM the proxy stayed until a second signal if an operation did not end within
/// limits.drain_timeout. Cause: the branch that waits for signals kept the other outcomes of the drain from being
/// looked at.
#[test]
fn a_drain_cuts_off_what_does_not_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let port = free_ports(2);
    // A server that accepts, and never answers.
    let silent = std::net::TcpListener::bind(("127.0.0.1", port)).expect("a free port");
    let config = dir.path().join("vpfs.toml");
    // Nothing else asks the server for its configuration.
    let settings = "[limits]\ndrain_timeout = \"100ms\"\nwrite_back = \"off\"\n";
    write_file(&config, proxy_config(1, port, port + 1, settings));
    let mut proxy = Daemon::start(dir.path(), "proxy", ours(&["proxy", "--config"]).arg(&config));
    proxy.await_port(port + 1);
    let url = format!("tcp://127.0.0.1:{}/pfs", port + 1);
    let load = ["workload", "md", "--processes", "1", "--items", "1", "--url", &url];
    let _load = Daemon::start(dir.path(), "load", ours(&load));
    // Two connections: the one that checked whether the proxy listens, and that of the load, whose request has arrived
    // when something can be read.
    let connections: Vec<_> = (0..2).map(|_| silent.accept().expect("a connection").0).collect();
    assert!(connections.iter().any(|stream| stream.peek(&mut [0]).is_ok_and(|count| count > 0)), "{}", proxy.log());
    proxy.terminate();
    assert!(proxy.log().contains("cut off"), "{}", proxy.log());
}

#[test]
fn an_export_is_served_configured_checked_and_loaded() {
    let dir = tempfile::tempdir().expect("a directory");
    let port = free_ports(2);
    let _server = Daemon::serve(dir.path(), port..port + 1, &["--protocol", "nfs", "--name", "home"]);
    let (proxy_port, export) = (port + 1, format!("nfs://127.0.0.1:{port}/home?mountport={port}"));
    run(ours(&["init", "--nfs", &export, "--port", &proxy_port.to_string(), "--output"]).arg(dir.path()));
    let config = dir.path().join("vpfs.toml");
    let checked = output(ours(&["proxy", "--check", "--connect", "--config"]).arg(&config));
    let said = stderr(&checked);
    assert!(checked.status.success(), "{said}");
    assert!(said.contains("answers NFSv3, the mount protocol of NFSv3"), "{said}");
    let verdict = stdout(&checked);
    assert!(verdict.contains("valid: 1 server of NFS, 1 listener"), "{verdict}");
    let mut proxy = Daemon::proxy(dir.path(), &config);
    let url = format!("nfs://127.0.0.1:{proxy_port}/home?mountport={proxy_port}");
    let load = |uid: &str, args: &[&str]| {
        run(ours(&["workload"]).args(args).args(["--url", &url, "--uid", uid, "--gid", uid]))
    };
    let table = load("1000", &["ior", "-n", "4", "-t", "256KiB", "-b", "2MiB", "--random", "--fsync"]);
    assert!(table.contains("MiB/sec"), "{table}");
    load("1001", &["md", "--processes", "2", "--items", "50"]);
    let isolation =
        ["isolation", "-n", "2", "--file", "1MiB", "--think", "1ms", "--time", "500ms", "--large-uid", "1002"];
    let table = load("1001", &[&isolation[..], &["--large-processes", "2", "--large-file", "4MiB"]].concat());
    assert!(table.contains("kept"), "{table}");
    let refused = output(ours(&["workload", "ior", "--datafiles", "2", "--url", &url]));
    assert!(stderr(&refused).contains("--datafiles: is for OrangeFS only"));
    proxy.terminate();
    // Written and read once, and nothing else is data.
    let log = proxy.log();
    let served = log.lines().find(|line| line.contains("served app=uid:1000 ")).unwrap_or_else(|| panic!("{log}"));
    assert!(served.contains(&format!(" bytes={} ", 2 * 4 * (2 << 20))), "{served}");
}

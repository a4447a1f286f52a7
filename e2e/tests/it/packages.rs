//! The packages under systemd: installed, started, upgraded under load, watched, removed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use vpfs_e2e::requirements::are_present;
use vpfs_e2e::{Machine, await_some, proxy_config, run, vpfs};

const UNIT: &str = "vpfs-proxy.service";
const AGENT: &str = "vpfs-slurm.service";
const PATIENCE: Duration = Duration::from_secs(60);

/// Operations that go on until the upgrade is complete; its end is that of the first one that fails.
const LOAD: &str = "until [ -e /run/upgraded ]; do /opt/vpfs workload ior --processes 4 --transfer 256KiB \
                    --block 1MiB --time 3s --url tcp://127.0.0.1:5334/pfs || exit; done";

/// One kind of package.
struct Kind {
    /// Makes VERSION.package in a directory.
    make: fn(&str, &Path),
    install: &'static str,
    upgrade: &'static str,
    remove: &'static str,
    /// Runs what it does after an installation.
    configure: &'static str,
}

#[test]
#[ignore = "builds the `dist` profile, boots systemd"]
fn debian_package() {
    if are_present("deb", &["cargo-deb", "dpkg", "strip"]) {
        is_installed_upgraded_and_removed(&Kind {
            make: deb,
            install: "dpkg --install",
            upgrade: "dpkg --install",
            remove: "dpkg --purge vpfs",
            configure: "/var/lib/dpkg/info/vpfs.postinst configure",
        });
    }
}

#[test]
#[ignore = "builds the `dist` profile"]
fn rpm_package() {
    if are_present("rpm", &["cargo-generate-rpm", "rpm", "strip"]) {
        // What it needs may be there as Debian packages, which rpm does not know.
        is_installed_upgraded_and_removed(&Kind {
            make: rpm,
            install: "rpm --install --nodeps",
            upgrade: "rpm --upgrade --nodeps",
            remove: "rpm --erase vpfs",
            configure: "sh -ec \"$(rpm --query --queryformat %{POSTIN} vpfs)\" post 1",
        });
    }
}

/// From the binary that was built along with the tests, as `cargo xtask package deb` does from a release, with the
/// quickest compression.
fn deb(version: &str, dir: &Path) {
    let mut command = tool("cargo-deb", dir);
    command.args(["--no-build", "--package", "vpfs", "--no-strip", "--no-dbgsym", "--fast"]);
    run(command.args(["--deb-version", version, "--output"]).arg(dir.join(format!("{version}.package"))));
}

fn rpm(version: &str, dir: &Path) {
    let mut command = tool("cargo-generate-rpm", dir);
    command.args(["--package", "crates/vpfs", "--payload-compress", "none"]);
    command.args(["--set-metadata", &format!("version = \"{version}\""), "--output"]);
    run(command.arg(dir.join(format!("{version}.package"))));
}

/// A tool that finds what a release build leaves, with this binary less what debuggers need, which is most of it.
fn tool(name: &str, dir: &Path) -> Command {
    let (target, release) = (dir.join("target"), dir.join("target/release"));
    if !release.exists() {
        std::fs::create_dir_all(&release).expect("a directory");
        run(Command::new("strip").arg("--strip-debug").arg("-o").arg(release.join("vpfs")).arg(vpfs()));
        run(Command::new(vpfs()).arg("generate").arg(release.join("generated")));
    }
    let mut command = Command::new(name);
    command.env("CARGO_TARGET_DIR", target).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    command
}

fn is_installed_upgraded_and_removed(kind: &Kind) {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(machine) = Machine::boot(dir.path()) else { return };
    (kind.make)("0.1.0", dir.path());
    (kind.make)("0.1.1", dir.path());
    machine.run(&format!("{} /mnt/0.1.0.package", kind.install));
    machine.run(&format!("systemd-analyze verify {UNIT}; systemd-analyze security --threshold=20 {UNIT}"));
    machine.run("systemd-analyze verify vpfs-slurm.service vpfs-write-back.service; test -e /usr/share/doc/vpfs/examples/jobs/pbs_hook.py");
    machine.run("id vpfs; test -d /etc/vpfs; man --where vpfs-proxy; test ! -e /run/vpfs");
    assert_eq!(machine.property(UNIT, "ActiveState"), "inactive", "nothing is configured yet");
    // As in an image that is being built.
    let without_proc = format!("umount --lazy /proc; rmdir /etc/vpfs; {}; test -d /etc/vpfs", kind.configure);
    std::fs::write(dir.path().join("without-proc"), without_proc).expect("a file");
    machine.run("unshare --mount sh -e /mnt/without-proc");

    start(&machine, dir.path());
    start_agent(&machine);
    let [first, first_agent] = [UNIT, AGENT].map(|unit| machine.property(unit, "MainPID"));
    assert_eq!(machine.run(&format!("ps -o user= -p {first}")).trim(), "vpfs");
    assert_eq!(machine.property("vpfs-write-back.service", "ActiveState"), "active", "the proxy wants it");

    std::thread::scope(|scope| {
        let load = scope.spawn(|| machine.run(LOAD));
        await_log(&machine, "new application");
        machine.run(&format!("{} /mnt/0.1.1.package", kind.upgrade));
        await_log(&machine, "connections are handed over");
        machine.run("touch /run/upgraded");
        assert!(load.join().expect("a load").contains("MiB/sec"));
    });
    assert!(!log(&machine, "VPFS_CUT_OFF=0").is_empty());
    let warnings = log(&machine, "--identifier=vpfs --priority=warning");
    assert!(warnings.lines().all(|line| line.contains("the storage is slower than it was")), "{warnings}");
    let second = machine.property(UNIT, "MainPID");
    assert_ne!(first, second);
    await_some(PATIENCE, || match (machine.property(AGENT, "MainPID"), machine.property(AGENT, "ActiveState")) {
        (pid, state) if pid == first_agent || state != "active" => Err(format!("{pid} {state}")),
        _ => Ok(()),
    });

    is_watched(&machine, &second);

    machine.run(kind.remove);
    machine.run("test ! -e /usr/bin/vpfs; test ! -e /usr/lib/systemd/system/vpfs-proxy.service");
    machine.run("test -e /etc/vpfs/vpfs.toml");
    machine.run("test -z \"$(find /etc/systemd/system -type l -name 'vpfs-*')\"");
    for unit in [UNIT, AGENT, "vpfs-write-back.service"] {
        let state = machine.output(&format!("systemctl is-active {unit}"));
        let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
        assert_eq!(state, "inactive", "{unit} {}", log(&machine, "--lines=12"));
    }
    assert!(!machine.output("pidof vpfs").stdout.is_empty(), "the servers are not the package's");
}

/// Starts a server, and the proxy with a watchdog that the test need not wait long for.
fn start(machine: &Machine, dir: &Path) {
    std::fs::write(dir.join("vpfs.toml"), proxy_config(1, 6334, 5334, "")).expect("a file");
    machine.run("cp /mnt/vpfs.toml /etc/vpfs/");
    machine.run("mkdir -p /etc/systemd/system/vpfs-proxy.service.d");
    machine.run("printf '[Service]\\nWatchdogSec=3\\n' >/etc/systemd/system/vpfs-proxy.service.d/test.conf");
    // Where it was built may be below /tmp, of which the machine has its own.
    std::fs::copy(vpfs(), dir.join("vpfs")).expect("a file");
    machine.run("cp /mnt/vpfs /opt/vpfs");
    machine.run("systemd-run --unit=servers /opt/vpfs serve --servers 1 --listen 127.0.0.1:6334");
    machine.run(&format!("systemctl daemon-reload; systemctl enable --now {UNIT}"));
}

/// Starts something in place of the agent, which needs Slurm.
fn start_agent(machine: &Machine) {
    let directory = format!("/etc/systemd/system/{AGENT}.d");
    let unit = "[Service]\\nType=simple\\nUser=root\\nExecStart=\\nExecStart=sleep 10000\\n";
    machine.run(&format!("mkdir -p {directory}; printf '{unit}' >{directory}/test.conf"));
    machine.run(&format!("systemctl daemon-reload; systemctl enable --now {AGENT}"));
}

/// The process pings, and one that hangs is replaced.
fn is_watched(machine: &Machine, main: &str) {
    let pinged = || machine.property(UNIT, "WatchdogTimestampMonotonic");
    let last = pinged();
    await_some(PATIENCE, || if pinged() == last { Err(log(machine, "")) } else { Ok(()) });
    assert_eq!(machine.property(UNIT, "NRestarts"), "0");
    machine.run(&format!("kill -STOP {main}"));
    await_some(PATIENCE, || {
        let (restarts, state) = (machine.property(UNIT, "NRestarts"), machine.property(UNIT, "ActiveState"));
        if (&*restarts, &*state) == ("1", "active") { Ok(()) } else { Err(format!("{restarts} {state}")) }
    });
}

/// What the proxy has logged; of it, what matches.
fn log(machine: &Machine, matching: &str) -> String {
    machine.run(&format!("journalctl --quiet --unit={UNIT} --output=cat {matching}"))
}

fn await_log(machine: &Machine, text: &str) {
    await_some(PATIENCE, || {
        let log = log(machine, "");
        if log.contains(text) { Ok(()) } else { Err(format!("no {text:?}:\n{log}")) }
    });
}

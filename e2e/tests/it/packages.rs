//! What the packages install: the services under systemd, and the limit of unstored data on the disks of servers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vpfs_e2e::requirements::{are_present, missing};
use vpfs_e2e::{
    Daemon, Disk, Machine, await_some, command, free_ports, ours, proxy_config, run, stdout, vpfs, write_file,
};

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
        run(ours(&["generate"]).arg(release.join("generated")));
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
    write_file(dir.path().join("without-proc"), without_proc);
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
        let state = stdout(&state).trim().to_owned();
        assert_eq!(state, "inactive", "{unit} {}", log(&machine, "--lines=12"));
    }
    assert!(!machine.output("pidof vpfs").stdout.is_empty(), "the servers are not the package's");
}

/// Starts a server, and the proxy with a watchdog that the test need not wait long for.
fn start(machine: &Machine, dir: &Path) {
    write_file(dir.join("vpfs.toml"), proxy_config(1, 6334, 5334, ""));
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

/// `None`, which is reported, if this machine or user cannot.
fn disk(dir: &Path, name: &str) -> Option<Disk> {
    if !are_present("loop", &["losetup", "mkfs.ext4", "mount"]) {
        return None;
    }
    let disk = Disk::new(dir, name, 64 << 20, &[]).map_err(|error| missing("loop", &error)).ok()?;
    if !setting(&disk, "max_bytes").exists() {
        missing("loop", "this kernel has no limit for each disk, Linux 6.2 and later have");
        return None;
    }
    Some(disk)
}

fn setting(disk: &Disk, name: &str) -> PathBuf {
    Path::new("/sys/class/bdi").join(&disk.number).join(name)
}

/// The bytes to which it is limited.
fn limit(disk: &Disk) -> Option<u64> {
    let read = |name| fs::read_to_string(setting(disk, name)).expect("a setting").trim().parse::<u64>();
    (read("strict_limit") == Ok(1)).then(|| read("max_bytes").expect("a number"))
}

fn await_limit(disk: &Disk, is_right: impl Fn(Option<u64>) -> bool) {
    await_some(PATIENCE, || match limit(disk) {
        limit if is_right(limit) => Ok(()),
        limit => Err(format!("{limit:?}")),
    });
}

/// Settings of our disks: proxies of other tests limit the machine's own.
fn settings(disks: [&Disk; 2]) -> BTreeMap<PathBuf, String> {
    let files = disks.into_iter().flat_map(|disk| ["strict_limit", "max_ratio_fine"].map(|name| setting(disk, name)));
    files.map(|path| (path.clone(), fs::read_to_string(path).expect("a setting"))).collect()
}

/// Those that are not what they were.
fn changed(before: &BTreeMap<PathBuf, String>) -> Vec<&Path> {
    let is_changed = |(path, value): &(&PathBuf, &String)| fs::read_to_string(path).expect("a setting") != **value;
    before.iter().filter(is_changed).map(|(path, _)| path.as_path()).collect()
}

/// A proxy in front of a server that never runs, with its data on a disk.
fn proxy(dir: &Path, name: &str, disk: &Disk, rest: &str) -> Daemon {
    let port = free_ports(2);
    let config = format!(
        "[[server]]\nname = \"s1\"\naddress = \"nfs://127.0.0.1:{port}\"\ndata = \"{}\"\n\
         [[listener]]\naddresses = {{ s1 = \"nfs://127.0.0.1:{}\" }}\n{rest}",
        disk.mount.display(),
        port + 1
    );
    write_file(dir.join(name), config);
    let mut proxy = Daemon::start(dir, &format!("{name}-proxy"), &mut command(dir, &["proxy", "--config", name]));
    proxy.await_log("ready");
    proxy
}

#[test]
fn disks_of_servers_are_limited_while_a_proxy_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((disk, other)) = disk(dir.path(), "data").zip(disk(dir.path(), "other")) else { return };
    let before = settings([&disk, &other]);

    let mut first = proxy(dir.path(), "first", &disk, "");
    await_limit(&disk, |limit| limit.is_some());
    let of_other = Path::new("/sys/class/bdi").join(&other.number);
    assert!(!changed(&before).iter().any(|path| path.starts_with(&of_other)), "another disk");
    assert!(limit(&disk) < Some(2 << 20), "the least, as nobody has written");

    let mut second = proxy(dir.path(), "second", &disk, "[limits]\nwrite_back = \"2MiB\"\n");
    second.await_log("this is its disk");
    first.signal("TERM");
    first.wait();
    await_limit(&disk, |limit| limit.is_some_and(|limit| limit.abs_diff(2 << 20) < 1 << 18));
    second.kill();
    await_limit(&disk, |limit| limit.is_none());
    await_some(PATIENCE, || if changed(&before).is_empty() { Ok(()) } else { Err(format!("{:?}", changed(&before))) });

    let first_text = fs::read_to_string(dir.path().join("first")).expect("ours");
    write_file(dir.path().join("elsewhere"), first_text.replacen("127.0.0.1", "192.0.2.1", 1));
    let mut limiting = command(dir.path(), &["write-back", "--config", "elsewhere", "--server", "s1"]);
    Daemon::start(dir.path(), "elsewhere-limit", &mut limiting).await_log("no server is on this host");
    assert_eq!(limit(&disk), None);

    write_file(dir.path().join("observing"), format!("{first_text}[scheduler]\nmode = \"observe\"\n"));
    let mut limiting = command(dir.path(), &["write-back", "--config", "observing"]);
    Daemon::start(dir.path(), "observing-limit", &mut limiting).await_log("nothing to do");
    assert!(changed(&before).is_empty());
}

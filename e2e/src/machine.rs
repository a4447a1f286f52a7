//! A machine of its own in namespaces: systemd as process 1, on a copy of this root directory that ends with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::{Daemon, PATIENCE, await_some, output, requirements, run, vpfs};

/// Makes the copy by an overlay in memory, and starts systemd in it.
const BOOT: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount --rbind /dev dev
mount --bind "$2" mnt
# Images of containers forbid packages to start and stop services; this machine is none.
rm -f usr/sbin/policy-rc.d
ip link set lo up
export container=lxc
exec chroot . /lib/systemd/systemd --unit=basic.target
"#;

/// A running machine; it ends with the test.
#[derive(Debug)]
pub struct Machine {
    unshare: Daemon,
    /// Its process 1, as this one sees it.
    init: String,
}

impl Machine {
    /// Boots it; `None`, which is reported, if this machine or user cannot. It sees `dir` as `/mnt`.
    pub fn boot(dir: &Path) -> Option<Self> {
        if !requirements::are_present("systemd", &["unshare", "nsenter", "systemctl", "ip"]) {
            return None;
        }
        let root = dir.join("machine");
        std::fs::create_dir(&root).expect("a directory");
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount", "--uts", "--ipc", "--cgroup", "--net", "sh", "-c", BOOT, "sh"]);
        let mut machine =
            Self { unshare: Daemon::start(dir, "machine", command.arg(&root).arg(dir)), init: String::new() };
        let is_running = await_some(PATIENCE, || {
            if machine.unshare.ended().is_some() {
                return Ok(false);
            }
            machine.init = child(machine.unshare.id()).ok_or("no process 1")?;
            let state = output(machine.command("systemctl").arg("is-system-running"));
            let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
            if ["running", "degraded"].contains(&&*state) { Ok(true) } else { Err(state + &machine.unshare.log()) }
        });
        if !is_running {
            let why = "this user may not boot systemd in namespaces with an overlay of /; run as root";
            requirements::missing("systemd", &format!("{why}: {}", machine.unshare.log()));
            return None;
        }
        Some(machine)
    }

    /// A command in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init, "--all", "--root", "--wd", program]);
        command
    }

    /// Runs a line of a shell in it; its output, whatever its result.
    pub fn output(&self, line: &str) -> Output {
        output(self.command("sh").args(["-c", line]))
    }

    /// Runs a line of a shell in it to its end.
    pub fn run(&self, line: &str) -> String {
        run(self.command("sh").args(["-ec", line]))
    }

    /// A property of a unit.
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.run(&format!("systemctl show --property={name} --value {unit}")).trim().to_owned()
    }
}

/// The only child of a process, which has one thread.
fn child(id: u32) -> Option<String> {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    children.split_whitespace().next().map(str::to_owned)
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.init.is_empty() {
            return;
        }
        // Everything in it ends with its process 1.
        let _ = output(Command::new("kill").args(["-KILL", &self.init]));
    }
}

/// Namespaces that are connected by a bridge in the first one; deleted with the test.
#[derive(Debug)]
pub struct Hosts {
    prefix: String,
}

impl Hosts {
    /// Hosts beside the first one.
    pub const COUNT: u16 = 4;

    /// Host 0 has the bridge and 10.77.0.100, host n has 10.77.0.n. `None`, which is reported, if this user may not
    /// create any.
    pub fn new() -> Option<Self> {
        if !requirements::are_present("ip", &["ip"]) {
            return None;
        }
        // Tests of one process run at the same time.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let prefix = format!("vpfs{}-{}-", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let hosts = Self { prefix };
        let first = output(Command::new("ip").args(["netns", "add", &hosts.name(0)]));
        if !first.status.success() {
            requirements::missing("ip", "this user may not make network namespaces; run this test as root");
            return None;
        }
        hosts.ip(0, "link add br0 type bridge");
        hosts.ip(0, "addr add 10.77.0.100/24 dev br0");
        hosts.ip(0, "link set br0 up");
        hosts.ip(0, "link set lo up");
        for host in 1..=Self::COUNT {
            let name = hosts.name(host);
            run(Command::new("ip").args(["netns", "add", &name]));
            hosts.ip(0, &format!("link add host{host} type veth peer name eth0 netns {name}"));
            hosts.ip(0, &format!("link set host{host} master br0 up"));
            hosts.ip(host, &format!("addr add 10.77.0.{host}/24 dev eth0"));
            hosts.ip(host, "link set eth0 up");
            hosts.ip(host, "link set lo up");
        }
        Some(hosts)
    }

    fn name(&self, host: u16) -> String {
        format!("{}{host}", self.prefix)
    }

    /// Runs `ip` on this host.
    pub fn ip(&self, host: u16, args: &str) {
        run(Command::new("ip").args(["-n", &self.name(host)]).args(args.split(' ')));
    }

    /// The vpfs command on this host.
    pub fn on(&self, host: u16) -> Command {
        self.program(host, &vpfs())
    }

    /// A program on this host.
    pub fn program(&self, host: u16, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host)]).arg(program);
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..=Self::COUNT {
            // It may not exist.
            let _ = output(Command::new("ip").args(["netns", "delete", &self.name(host)]));
        }
    }
}

/// It is mounted until it is dropped.
#[derive(Debug)]
pub struct Disk {
    /// Where.
    pub mount: PathBuf,
    /// As the kernel names the device, `MAJOR:MINOR`.
    pub number: String,
    device: String,
}

impl Disk {
    /// Makes one of so many bytes in a directory; `options` are further ones of losetup. An error if this user or
    /// machine cannot.
    pub fn new(dir: &Path, name: &str, bytes: u64, options: &[&str]) -> Result<Self, String> {
        let (image, mount) = (dir.join(format!("{name}.img")), dir.join(name));
        let file = fs::File::create(&image).and_then(|file| file.set_len(bytes));
        file.and_then(|()| fs::create_dir(&mount)).map_err(|error| format!("{}: {error}", image.display()))?;
        printed(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        let device = printed(Command::new("losetup").args(options).args(["--show", "--find"]).arg(&image))?;
        let mut disk = Self { mount, number: String::new(), device };
        let name = disk.device.trim_start_matches("/dev/");
        let number = fs::read_to_string(format!("/sys/class/block/{name}/dev"));
        number.map_err(|error| format!("{name}: {error}"))?.trim().clone_into(&mut disk.number);
        printed(Command::new("mount").arg(&disk.device).arg(&disk.mount))?;
        Ok(disk)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may not have been mounted. What still uses it, such as a server that is just being killed, ends it.
        let _ = printed(Command::new("umount").arg("--lazy").arg(&self.mount));
        let _ = printed(Command::new("losetup").args(["--detach", &self.device]));
    }
}

/// What a command prints, or what it complains about.
fn printed(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

//! A machine of its own in namespaces: systemd as process 1, on a copy of this root directory that ends with it.

use std::path::Path;
use std::process::{Command, Output};

use crate::{Daemon, PATIENCE, await_some, output, requirements, run};

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
    ///
    /// # Panics
    /// If it fails.
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

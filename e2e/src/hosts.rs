//! Network namespaces as hosts.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::{output, requirements, run, vpfs};

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

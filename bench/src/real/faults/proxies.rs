//! A proxy process for each server, with a file of its own: it reaches each of the others over a link that can be cut.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::relay::Link;
use super::{SERVERS, Sample};
use crate::real::cluster::Cluster;
use crate::real::local::{free_ports, write, write_shared_key};
use crate::real::process::Running;
use crate::real::scratch::Scratch;

/// Names of the applications, and their weights.
pub(super) const APPS: [(&str, u32); 2] = [("wide", 2), ("narrow", 1)];

/// The proxies. They end with this value.
#[derive(Debug)]
pub(super) struct Proxies<'a> {
    scratch: &'a Scratch,
    program: &'a Path,
    /// Of the listeners: all servers of the first application, then those of the other, then those for peers.
    ports: Vec<u16>,
    links: BTreeMap<(usize, usize), Link>,
    running: Vec<Running>,
    answers: [bool; SERVERS],
    /// What each process counted when it was asked last, and what earlier ones did.
    counted: [[Sample; 2]; SERVERS],
}

impl<'a> Proxies<'a> {
    /// Starts all of them.
    pub(super) fn start(scratch: &'a Scratch, program: &'a Path, cluster: &Cluster) -> Result<Self, String> {
        let ports = free_ports(3 * SERVERS)?;
        let pairs = (0..SERVERS).flat_map(|one| (one + 1..SERVERS).map(move |other| (one, other)));
        let links: BTreeMap<_, _> = pairs.map(|pair| (pair, Link::default())).collect();
        let (running, answers, counted) = (Vec::new(), [true; SERVERS], Default::default());
        let mut proxies = Self { scratch, program, ports, links, running, answers, counted };
        for id in 0..SERVERS {
            let config = proxies.config(id);
            let dir = config.parent().expect("it is in a directory");
            std::fs::create_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
            write_shared_key(&dir.join("peers.key"))?;
            let mut peers = Vec::new();
            for other in 0..SERVERS {
                let port = proxies.ports[2 * SERVERS + other];
                let link = proxies.links.get(&(id.min(other), id.max(other)));
                peers.push(link.map_or(Ok(port), |link| link.relay_to(port))?);
            }
            write(&config, &text(&cluster.addresses, &proxies.ports, &peers))?;
            let proxy = proxies.launch(id)?;
            proxies.running.push(proxy);
        }
        Ok(proxies)
    }

    fn config(&self, id: usize) -> PathBuf {
        self.scratch.path(&format!("s{id}/vpfs.toml"))
    }

    fn launch(&self, id: usize) -> Result<Running, String> {
        let name = format!("s{id}");
        let mut command = Command::new(self.program);
        command.args(["proxy", "--server", &name, "--config"]).arg(self.config(id));
        let mut proxy = Running::start(self.scratch, &format!("proxy-{name}"), &mut command)?;
        for port in self.ports.iter().skip(id).step_by(SERVERS).copied() {
            proxy.await_that("listened", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        }
        Ok(proxy)
    }

    pub(super) fn program(&self) -> &Path {
        self.program
    }

    /// Where an application's clients connect to: its listener at the first server.
    pub(super) fn address(&self, app: &str) -> String {
        let place = APPS.iter().position(|(name, _)| *name == app).expect("an application");
        format!("tcp://127.0.0.1:{}", self.ports[place * SERVERS])
    }

    /// Kills a proxy.
    pub(super) fn kill(&mut self, id: usize) -> Result<(), String> {
        self.answers[id] = false;
        self.running[id].signal("KILL")?;
        self.running[id].await_end(std::time::Duration::from_secs(10))
    }

    /// Starts a killed one again.
    pub(super) fn restart(&mut self, id: usize) -> Result<(), String> {
        self.running[id] = self.launch(id)?;
        self.answers[id] = true;
        let [last, before] = &mut self.counted[id];
        (0..2).for_each(|app| before[app] += std::mem::take(&mut last[app]));
        Ok(())
    }

    /// Stops a proxy or lets it go on.
    pub(super) fn set_hung(&mut self, id: usize, is_hung: bool) -> Result<(), String> {
        self.answers[id] = !is_hung;
        self.running[id].signal(if is_hung { "STOP" } else { "CONT" })
    }

    /// Cuts or mends the link of a pair.
    pub(super) fn set_cut(&self, pair: (usize, usize), is_cut: bool) {
        self.links[&pair].set_cut(is_cut);
    }

    /// What both applications got so far from all servers, as the proxies count it. One that hangs is not asked.
    pub(super) fn sample(&mut self) -> Result<Sample, String> {
        for id in (0..SERVERS).filter(|id| self.answers[*id]).collect::<Vec<_>>() {
            self.counted[id][0] = self.ask(id)?;
        }
        Ok(std::array::from_fn(|app| self.counted.iter().flatten().map(|sample| sample[app]).sum()))
    }

    fn ask(&self, id: usize) -> Result<Sample, String> {
        let mut command = Command::new(self.program);
        command.args(["peers", "--json", "--server", &format!("s{id}"), "--config"]).arg(self.config(id));
        let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
        if !output.status.success() {
            return Err(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        let reports: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("vpfs peers --json: {error}"))?;
        let apps = reports[0]["apps"].as_array().ok_or("vpfs peers --json has no apps")?;
        let of = |name| apps.iter().find(|app| app["app"] == name).and_then(|app| app["here"].as_u64());
        Ok(APPS.map(|(name, _)| of(name).unwrap_or(0)))
    }
}

/// The configuration of a proxy that reaches others at these ports.
fn text(servers: &[String], ports: &[u16], peers: &[u16]) -> String {
    let at = |ports: &[u16], scheme: &str| {
        let all = ports.iter().enumerate();
        all.map(|(id, port)| format!("s{id} = \"{scheme}127.0.0.1:{port}\"")).collect::<Vec<_>>().join(", ")
    };
    let mut text = String::new();
    for (id, address) in servers.iter().enumerate() {
        let _ = writeln!(text, "[[server]]\nname = \"s{id}\"\naddress = \"{address}\"\n");
    }
    for ((name, weight), ports) in APPS.iter().zip(ports.chunks(SERVERS)) {
        let own = at(ports, "tcp://");
        let _ = writeln!(text, "[[listener]]\napp = \"{name}\"\naddresses = {{ {own} }}\n");
        let _ = writeln!(text, "[[app]]\nname = \"{name}\"\nweight = {weight}\n");
    }
    let peers = at(peers, "");
    text + &format!(
        "[apps]\nauto = \"off\"\n\n[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\nsharing = \"threshold\"\n\
         broadcast_threshold = \"1MiB\"\n\n\
         [peers]\naddresses = {{ {peers} }}\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_reached_over_links() {
        let servers = ["tcp://h:1", "tcp://h:2", "tcp://h:3", "tcp://h:4"].map(str::to_owned);
        let text = text(&servers, &(20_000..20_012).collect::<Vec<_>>(), &[20_008, 5, 6, 7]);
        let narrow = "app = \"narrow\"\naddresses = { s0 = \"tcp://127.0.0.1:20004\", ";
        assert!(text.contains(narrow), "{text}");
        let peers = "addresses = { s0 = \"127.0.0.1:20008\", s1 = \"127.0.0.1:5\", ";
        assert!(text.contains(peers), "{text}");
    }
}

//! Proxies: a process for each server, which know of each other, or one for all.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::cluster::Cluster;
use super::local::{free_ports, write, write_shared_key};
use super::process::Running;
use super::scratch::Scratch;

/// An application as the proxies know it.
#[derive(Clone, Debug)]
pub(crate) struct AppConfig {
    pub(crate) name: String,
    /// Lines of its `[[app]]`, besides the name.
    pub(crate) lines: String,
}

/// The proxies. They end when dropped.
#[derive(Debug)]
pub(crate) struct Proxies {
    /// Of the listeners: all servers of the first application, then those of the others, then those for peers.
    ports: Vec<u16>,
    servers: usize,
    running: Vec<Running>,
}

/// Where measurements run: files, the vpfs that is measured, and servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) scratch: &'a Scratch,
    pub(super) program: &'a Path,
    pub(super) cluster: &'a Cluster,
}

impl Proxies {
    /// Starts a process for each server, and waits until all listen. `rest` is the end of the configuration, with the
    /// table `[scheduler]`.
    pub(super) fn start(place: &Place<'_>, apps: &[AppConfig], rest: &str) -> Result<Self, String> {
        let servers = place.cluster.addresses.len();
        let ports = free_ports((apps.len() + 1) * servers)?;
        write_shared_key(&place.scratch.path("peers.key"))?;
        let peers = at(&ports[apps.len() * servers..], "");
        let text = text(&place.cluster.addresses, &ports, apps, rest)
            + &format!("[peers]\naddresses = {{ {peers} }}\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n");
        let start = |id| {
            let name = format!("s{id}");
            let own = ports.iter().skip(id).step_by(servers);
            place.run(&format!("proxy-{name}"), place.proxy(&text)?.args(["--server", &name]), own)
        };
        let running = (0..servers).map(start).collect::<Result<_, _>>()?;
        Ok(Self { ports, servers, running })
    }

    /// Starts one process for all servers. Without applications, there is one listener for everybody.
    pub(super) fn start_in_one(place: &Place<'_>, apps: &[AppConfig], rest: &str) -> Result<Self, String> {
        let servers = place.cluster.addresses.len();
        let ports = free_ports(apps.len().max(1) * servers)?;
        let text = text(&place.cluster.addresses, &ports, apps, rest);
        let running = vec![place.run(&format!("proxy-{}", ports[0]), &mut place.proxy(&text)?, &ports)?];
        Ok(Self { ports, servers, running })
    }

    /// Asks all to terminate, and waits for that.
    pub(crate) fn terminate(self) -> Result<(), String> {
        self.running.into_iter().try_for_each(Running::terminate)
    }

    /// Where the clients of an application, by number from 0, connect to: its listener at the first server.
    pub(crate) fn address(&self, app: usize) -> String {
        format!("tcp://127.0.0.1:{}", self.ports[app * self.servers])
    }

    /// The time of processors that all have used, and the most memory that each has occupied, summed, in bytes.
    pub(super) fn used(&self) -> Result<(Duration, u64), String> {
        self.running.iter().try_fold((Duration::ZERO, 0), |(time, memory), proxy| {
            Ok((time + proxy.processor_time()?, memory + proxy.peak_memory()?))
        })
    }
}

impl Place<'_> {
    /// Lets vpfs check what [`Proxies::start_in_one`] would start, so that a mistake is reported before minutes of
    /// measuring.
    pub(super) fn check(&self, apps: &[AppConfig], rest: &str) -> Result<(), String> {
        let ports = free_ports(apps.len() * self.cluster.addresses.len())?;
        let mut command = self.proxy(&text(&self.cluster.addresses, &ports, apps, rest))?;
        Running::start(self.scratch, "check", command.arg("--check"))?.finish(|| false).map(drop)
    }

    /// `vpfs proxy` with this configuration.
    fn proxy(&self, config: &str) -> Result<Command, String> {
        let file = self.scratch.path("vpfs.toml");
        write(&file, config)?;
        let mut command = Command::new(self.program);
        command.args(["proxy", "--config"]).arg(file);
        Ok(command)
    }

    /// Starts it, and waits until it listens.
    fn run<'p>(
        &self,
        name: &str,
        command: &mut Command,
        ports: impl IntoIterator<Item = &'p u16>,
    ) -> Result<Running, String> {
        let mut proxy = Running::start(self.scratch, name, command)?;
        for port in ports {
            proxy.await_that("listened", || TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok())?;
        }
        Ok(proxy)
    }
}

/// The configuration without peers: each application has its own listener, so that none is mistaken for another.
fn text(addresses: &[String], ports: &[u16], apps: &[AppConfig], rest: &str) -> String {
    let mut text = String::new();
    for (id, address) in addresses.iter().enumerate() {
        let _ = writeln!(text, "[[server]]\nname = \"s{id}\"\naddress = \"{address}\"\n");
    }
    for (AppConfig { name, lines }, ports) in apps.iter().zip(ports.chunks(addresses.len())) {
        let own = at(ports, "tcp://");
        let _ = writeln!(text, "[[listener]]\napp = \"{name}\"\naddresses = {{ {own} }}\n");
        let _ = writeln!(text, "[[app]]\nname = \"{name}\"\n{lines}");
    }
    let auto = match apps {
        [] => format!("[[listener]]\naddresses = {{ {} }}\n", at(ports, "tcp://")),
        _ => "[apps]\nauto = \"off\"\n".to_owned(),
    };
    text + &format!("{auto}\n{rest}\n")
}

/// `name = "address"` of all servers.
fn at(ports: &[u16], scheme: &str) -> String {
    let all = ports.iter().enumerate().map(|(id, port)| format!("s{id} = \"{scheme}127.0.0.1:{port}\""));
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_application_has_a_listener_at_every_server() {
        let addresses = ["tcp://h:1".to_owned(), "tcp://h:2".to_owned()];
        let app = |number| AppConfig { name: format!("app{number}"), lines: format!("weight = {number}\n") };
        let apps: Vec<_> = (1..=8).map(app).collect();
        let text = text(&addresses, &(20_000..20_018).collect::<Vec<_>>(), &apps, "[scheduler]\n");
        let last = "app = \"app8\"\naddresses = { s0 = \"tcp://127.0.0.1:20014\", s1 = \"tcp://127.0.0.1:20015\" }";
        assert!(text.contains(last), "{text}");
        assert!(text.contains("name = \"app8\"\nweight = 8\n"), "{text}");
        assert_eq!(at(&[20_016, 20_017], ""), "s0 = \"127.0.0.1:20016\", s1 = \"127.0.0.1:20017\"");
    }
}

//! A proxy process for each server, which know of each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cluster::Cluster;
use super::local::{free_ports, write, write_shared_key};
use super::process::Running;
use super::scratch::Scratch;

/// An application as the proxies know it.
#[derive(Clone, Debug)]
pub(super) struct AppConfig {
    pub(super) name: String,
    /// Lines of its `[[app]]`, besides the name.
    pub(super) lines: String,
}

/// The proxies. They end when dropped.
#[derive(Debug)]
pub(super) struct Proxies<'a> {
    program: &'a Path,
    config: PathBuf,
    /// Of the listeners: all servers of the first application, then those of the others, then those for peers.
    ports: Vec<u16>,
    servers: usize,
    running: Vec<Running>,
}

impl<'a> Proxies<'a> {
    /// Starts a process for each server, and waits until all listen. `scheduler` is the table `[scheduler]`.
    pub(super) fn start(
        scratch: &Scratch,
        program: &'a Path,
        cluster: &Cluster,
        apps: &[AppConfig],
        scheduler: &str,
    ) -> Result<Self, String> {
        let servers = cluster.addresses.len();
        let ports = free_ports((apps.len() + 1) * servers)?;
        write_shared_key(&scratch.path("peers.key"))?;
        let config = scratch.path("vpfs.toml");
        write(&config, &text(&cluster.addresses, &ports, apps, scheduler))?;
        let mut running = Vec::new();
        for id in 0..servers {
            let name = format!("s{id}");
            let mut command = Command::new(program);
            command.args(["proxy", "--server", &name, "--config"]).arg(&config);
            let mut proxy = Running::start(scratch, &format!("proxy-{name}"), &mut command)?;
            for port in ports.iter().skip(id).step_by(servers).copied() {
                proxy.await_that("listened", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
            }
            running.push(proxy);
        }
        Ok(Self { program, config, ports, servers, running })
    }

    pub(super) fn program(&self) -> &Path {
        self.program
    }

    /// Where the clients of an application, by number from 0, connect to: its listener at the first server.
    pub(super) fn address(&self, app: usize) -> String {
        format!("tcp://127.0.0.1:{}", self.ports[app * self.servers])
    }

    /// Bytes that each application got so far from all servers, as the proxies count them.
    pub(super) fn served(&self) -> Result<BTreeMap<String, u64>, String> {
        let mut command = Command::new(self.program);
        let output = command.args(["peers", "--json", "--config"]).arg(&self.config).output();
        let output = output.map_err(|error| format!("cannot run {command:?}: {error}"))?;
        if !output.status.success() {
            return Err(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        let reports: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("vpfs peers --json: {error}"))?;
        let reports = reports.as_array().filter(|reports| reports.len() == self.servers);
        let reports = reports.ok_or("vpfs peers --json: not all proxies answer")?;
        let mut served = BTreeMap::new();
        for app in reports.iter().filter_map(|report| report["apps"].as_array()).flatten() {
            if let (Some(name), Some(bytes)) = (app["app"].as_str(), app["here"].as_u64()) {
                *served.entry(name.to_owned()).or_default() += bytes;
            }
        }
        Ok(served)
    }

    /// The time of processors that all have used, and the most memory that each has occupied, summed, in bytes.
    pub(super) fn used(&self) -> Result<(Duration, u64), String> {
        self.running.iter().try_fold((Duration::ZERO, 0), |(time, memory), proxy| {
            Ok((time + proxy.processor_time()?, memory + proxy.peak_memory()?))
        })
    }
}

/// The configuration: each application has its own listener, so that none is mistaken for another.
fn text(addresses: &[String], ports: &[u16], apps: &[AppConfig], scheduler: &str) -> String {
    let servers = addresses.len();
    let at = |first: usize, scheme: &str| {
        let all = ports[first..first + servers].iter().enumerate();
        all.map(|(id, port)| format!("s{id} = \"{scheme}127.0.0.1:{port}\"")).collect::<Vec<_>>().join(", ")
    };
    let mut text = String::new();
    for (id, address) in addresses.iter().enumerate() {
        let _ = writeln!(text, "[[server]]\nname = \"s{id}\"\naddress = \"{address}\"\n");
    }
    for (number, AppConfig { name, lines }) in apps.iter().enumerate() {
        let own = at(number * servers, "tcp://");
        let _ = writeln!(text, "[[listener]]\napp = \"{name}\"\naddresses = {{ {own} }}\n");
        let _ = writeln!(text, "[[app]]\nname = \"{name}\"\n{lines}");
    }
    let _ = writeln!(text, "[apps]\nauto = \"off\"\n\n{scheduler}");
    let peers = at(apps.len() * servers, "");
    let _ = writeln!(text, "[peers]\naddresses = {{ {peers} }}\nshared_key = \"peers.key\"\nsockets = \"sockets\"");
    text
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
        assert!(
            text.contains("addresses = { s0 = \"127.0.0.1:20016\", s1 = \"127.0.0.1:20017\" }\nshared_key"),
            "{text}"
        );
    }
}

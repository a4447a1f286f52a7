//! A proxy process for each server.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apps::App;
use super::fairness::Sample;
use super::options::{APPS, Options};
use crate::real::cluster::Cluster;
use crate::real::local::{free_ports, write, write_shared_key};
use crate::real::process::Running;
use crate::real::scratch::Scratch;

/// The proxies. They end with the scratch directory.
#[derive(Debug)]
pub(super) struct Proxies<'a> {
    program: &'a Path,
    config: PathBuf,
    /// Of the listeners: all servers of the first application, then those of the others, then those for peers.
    ports: Vec<u16>,
    servers: usize,
    _running: Vec<Running>,
}

impl<'a> Proxies<'a> {
    /// Starts a process for each server, and waits until all listen.
    pub(super) fn start(
        scratch: &Scratch,
        program: &'a Path,
        cluster: &Cluster,
        options: &Options,
    ) -> Result<Self, String> {
        let servers = cluster.addresses.len();
        let ports = free_ports((APPS + 1) * servers)?;
        write_shared_key(&scratch.path("peers.key"))?;
        let config = scratch.path("vpfs.toml");
        write(&config, &text(&cluster.addresses, &ports, options))?;
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
        Ok(Self { program, config, ports, servers, _running: running })
    }

    pub(super) fn program(&self) -> &Path {
        self.program
    }

    /// Where an application's clients connect to: its listener at the first server.
    pub(super) fn address(&self, app: usize) -> String {
        format!("tcp://127.0.0.1:{}", self.ports[(app - 1) * self.servers])
    }

    /// What each application got so far, as the proxies count it.
    pub(super) fn sample(&self) -> Result<Sample, String> {
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
        let mut sample = Sample::default();
        for app in reports.iter().filter_map(|report| report["apps"].as_array()).flatten() {
            let place = (1..=APPS).find(|number| app["app"] == App::new(*number, 1).name());
            if let (Some(place), Some(bytes)) = (place, app["here"].as_u64()) {
                sample[place - 1] += bytes;
            }
        }
        Ok(sample)
    }
}

/// The configuration: each application has its own listener, so that none is mistaken for another.
fn text(addresses: &[String], ports: &[u16], options: &Options) -> String {
    let servers = addresses.len();
    let at = |first: usize, scheme: &str| {
        let all = ports[first..first + servers].iter().enumerate();
        all.map(|(id, port)| format!("s{id} = \"{scheme}127.0.0.1:{port}\"")).collect::<Vec<_>>().join(", ")
    };
    let mut text = String::new();
    for (id, address) in addresses.iter().enumerate() {
        let _ = writeln!(text, "[[server]]\nname = \"s{id}\"\naddress = \"{address}\"\n");
    }
    for app in 1..=APPS {
        let (name, own) = (App::new(app, servers).name(), at((app - 1) * servers, "tcp://"));
        let _ = writeln!(text, "[[listener]]\napp = \"{name}\"\naddresses = {{ {own} }}\n");
        let _ = writeln!(text, "[[app]]\nname = \"{name}\"\nweight = {app}\n");
    }
    let _ = writeln!(text, "[apps]\nauto = \"off\"\n");
    let _ = writeln!(text, "[scheduler]\npolicy = \"sfq-d\"\ndepth = 8\nsharing = \"{}\"\n", options.sharing);
    let peers = at(APPS * servers, "");
    let _ = writeln!(text, "[peers]\naddresses = {{ {peers} }}\nshared_key = \"peers.key\"\nsockets = \"sockets\"");
    text
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::default;
    use super::*;

    #[test]
    fn each_application_has_a_listener_at_every_server() {
        let addresses = ["tcp://h:1".to_owned(), "tcp://h:2".to_owned()];
        let text = text(&addresses, &(20_000..20_018).collect::<Vec<_>>(), &default());
        let last = "app = \"app8\"\naddresses = { s0 = \"tcp://127.0.0.1:20014\", s1 = \"tcp://127.0.0.1:20015\" }";
        assert!(text.contains(last), "{text}");
        assert!(text.contains("name = \"app8\"\nweight = 8\n"), "{text}");
        assert!(
            text.contains("addresses = { s0 = \"127.0.0.1:20016\", s1 = \"127.0.0.1:20017\" }\nshared_key"),
            "{text}"
        );
    }
}

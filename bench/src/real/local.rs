//! What the measurements of a cluster start on this machine.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::cluster::Cluster;
use super::process::Running;
use super::scratch::Scratch;

/// Starts `vpfs serve` with this device model.
pub(crate) fn embedded_servers(
    scratch: &Scratch,
    program: &Path,
    count: usize,
    device: &str,
) -> Result<(Running, Cluster), String> {
    let ports = free_ports(count)?;
    let listen = format!("127.0.0.1:{}", ports[0]);
    let mut command = Command::new(program);
    command.args(["serve", "--servers", &count.to_string(), "--listen", &listen, "--device", device]);
    let mut servers = Running::start(scratch, "servers", &mut command)?;
    let addresses = ports.iter().map(|port| format!("tcp://127.0.0.1:{port}")).collect();
    for port in ports {
        servers.await_that("listened", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
    }
    let cluster = Cluster { dir: scratch.path(""), addresses, data_dirs: Vec::new(), name: "pfs".to_owned() };
    Ok((servers, cluster))
}

/// Consecutive free ports of 127.0.0.1.
pub(crate) fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let ranges = (20_000..60_000).step_by(100).map(|first: u16| (first..).take(count).collect::<Vec<u16>>());
    let found = ranges.into_iter().find(|ports| ports.iter().all(free));
    found.ok_or_else(|| format!("no {count} free ports of 127.0.0.1 in a row from 20000 on"))
}

/// Writes a file, or says which one cannot be written.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Writes a key by which proxies recognise each other.
pub(crate) fn write_shared_key(file: &Path) -> Result<(), String> {
    write(file, &"0123456789abcdef".repeat(4))?;
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(file, private).map_err(|error| format!("{}: {error}", file.display()))
}

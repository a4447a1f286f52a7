//! Starts our own program as a proxy.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::config::ListenerPorts;
use crate::bench::process::Running;
use crate::bench::scratch::Scratch;

/// Free ports of 127.0.0.1 for both listeners of `servers` servers.
pub(super) fn free_ports(servers: usize) -> Result<ListenerPorts, String> {
    let servers = u16::try_from(servers).map_err(|_| "too many servers")?;
    let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let first = (20_000..60_000_u16.saturating_sub(2 * servers))
        .step_by(100)
        .find(|&first| (first..first + 2 * servers).all(free));
    let small = first.ok_or("no free ports of 127.0.0.1 between 20000 and 60000")?;
    Ok(ListenerPorts { small, large: small + servers })
}

/// Lets vpfs check a configuration, so that a mistake is reported before minutes of measuring.
pub(super) fn check(scratch: &Scratch, program: &Path, config: &str) -> Result<(), String> {
    let file = write(scratch, config)?;
    let mut command = Command::new(program);
    command.args(["proxy", "--check", "--config"]).arg(&file);
    Running::start(scratch, "check", &mut command)?.finish(|| false).map(drop)
}

fn write(scratch: &Scratch, config: &str) -> Result<PathBuf, String> {
    let file = scratch.path("vpfs.toml");
    std::fs::write(&file, config).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

/// Starts a proxy in front of all servers with this configuration.
pub(super) fn start_proxy(
    scratch: &Scratch,
    program: &Path,
    config: &str,
    ports: ListenerPorts,
) -> Result<Running, String> {
    let file = write(scratch, config)?;
    let mut proxy = Running::start(scratch, "proxy", Command::new(program).args(["proxy", "--config"]).arg(&file))?;
    for port in ports.small..ports.large + (ports.large - ports.small) {
        proxy.await_that("listened", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
    }
    Ok(proxy)
}

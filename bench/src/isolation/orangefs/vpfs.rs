//! Starts our own program as a proxy.

use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::real::local::write;
use crate::real::process::Running;
use crate::real::scratch::Scratch;

/// Lets vpfs check a configuration, so that a mistake is reported before minutes of measuring.
pub(super) fn check(scratch: &Scratch, program: &Path, config: &str) -> Result<(), String> {
    let file = written(scratch, config)?;
    let mut command = Command::new(program);
    command.args(["proxy", "--check", "--config"]).arg(&file);
    Running::start(scratch, "check", &mut command)?.finish(|| false).map(drop)
}

fn written(scratch: &Scratch, config: &str) -> Result<PathBuf, String> {
    let file = scratch.path("vpfs.toml");
    write(&file, config).map(|()| file)
}

/// Starts a proxy in front of all servers with this configuration.
pub(super) fn start_proxy(scratch: &Scratch, program: &Path, config: &str, ports: &[u16]) -> Result<Running, String> {
    let file = written(scratch, config)?;
    let mut proxy = Running::start(scratch, "proxy", Command::new(program).args(["proxy", "--config"]).arg(&file))?;
    for port in ports {
        proxy.await_that("listened", || TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok())?;
    }
    Ok(proxy)
}

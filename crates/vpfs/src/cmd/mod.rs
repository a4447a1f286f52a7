//! One file or folder for each subcommand.

mod accounts;
pub(crate) mod app;
mod asking;
mod check;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod generate;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod layout;
pub(crate) mod mount;
pub(crate) mod peers;
pub(crate) mod profile;
pub(crate) mod proxy;
pub(crate) mod reproduce;
mod rows;
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod slurm;
pub(crate) mod status;
pub(crate) mod support_bundle;
mod systemd;
pub(crate) mod top;
pub(crate) mod web;
pub(crate) mod why;
pub(crate) mod workload;
pub(crate) mod write_back;

use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use ring::rand::{SecureRandom, SystemRandom};
use vpfs_config::{Config, Protocol};

use crate::exit::Exit;

/// The configuration of a host.
const CONFIG: &str = "/etc/vpfs/vpfs.toml";

/// What to do without one.
const HOW_TO_CONFIGURE: &str = "name yours with --config FILE, or write one: `vpfs init --help` shows how";

/// Reads `--protocol`.
fn protocol() -> impl TypedValueParser<Value = Protocol> {
    let by_name = |name: String| if name == "nfs" { Protocol::Nfs } else { Protocol::OrangeFs };
    PossibleValuesParser::new(["orangefs", "nfs"]).map(by_name)
}

/// Reads a configuration; says what to do if there is none.
fn load_config(path: &Path) -> Result<Config, Exit> {
    // One that may not be looked at is there.
    if path.try_exists().is_ok_and(|exists| !exists) {
        return Err(Exit::Usage(format!("there is no configuration {}; {HOW_TO_CONFIGURE}", path.display())));
    }
    Config::load(path).map_err(|problems| Exit::Usage(format!("invalid configuration\n{problems}")))
}

/// For example `1 server`, `2 servers`.
fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Random bytes in hexadecimal digits.
fn random_hex<const N: usize>() -> Result<String, Exit> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Exit::Failed("the system has no random numbers".to_owned()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The threads that a subcommand runs on.
fn runtime() -> Result<tokio::runtime::Runtime, Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Exit::Failed(format!("cannot start threads: {error}")))
}

//! One file or folder for each subcommand.

mod accounts;
mod admin;
pub(crate) mod app;
mod asking;
mod check_connect;
mod check_start;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod generate;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod layout;
pub(crate) mod mount;
mod names;
pub(crate) mod peers;
pub(crate) mod profile;
pub(crate) mod proxy;
mod regions;
mod reload;
pub(crate) mod reproduce;
mod rows;
pub(crate) mod run;
mod runtime_dir;
pub(crate) mod serve;
mod shares;
pub(crate) mod sim;
pub(crate) mod slurm;
mod successor;
pub(crate) mod support_bundle;
mod systemd;
pub(crate) mod top;
pub(crate) mod web;
pub(crate) mod why;
pub(crate) mod workload;
pub(crate) mod write_back;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use ring::rand::{SecureRandom, SystemRandom};
use vpfs_config::Protocol;

use crate::exit::Exit;

/// Reads `--protocol`.
fn protocol() -> impl TypedValueParser<Value = Protocol> {
    let by_name = |name: String| if name == "nfs" { Protocol::Nfs } else { Protocol::OrangeFs };
    PossibleValuesParser::new(["orangefs", "nfs"]).map(by_name)
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

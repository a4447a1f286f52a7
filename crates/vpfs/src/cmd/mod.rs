//! A file per subcommand, and what they share.

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
mod logs;
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
pub(crate) mod top;
pub(crate) mod web;
pub(crate) mod why;
pub(crate) mod workload;
pub(crate) mod write_back;

use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use ring::rand::{SecureRandom, SystemRandom};
use vpfs_config::{Account, Config, Protocol};
use vpfs_proxy::account_id;

use crate::print::Exit;

const CONFIG: &str = "/etc/vpfs/vpfs.toml";

/// What to do without one.
const HOW_TO_CONFIGURE: &str = "name yours with --config FILE, or write one: `vpfs init --help` shows how";

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

fn random_hex<const N: usize>() -> Result<String, Exit> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Exit::Failed("the system has no random numbers".to_owned()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn runtime() -> Result<tokio::runtime::Runtime, Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Exit::Failed(format!("cannot start threads: {error}")))
}

/// Reads a user; fits clap's `value_parser`.
pub(super) fn user_id(text: &str) -> Result<u32, String> {
    id(text, Account::User)
}

pub(super) fn group_id(text: &str) -> Result<u32, String> {
    id(text, Account::Group)
}

fn id(text: &str, account: fn(String) -> Account) -> Result<u32, String> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let account = account(text.to_owned());
    match account_id(&account) {
        Ok(Some(id)) => Ok(id),
        Ok(None) => Err(format!("there is no {account} on this host; give its number instead")),
        Err(error) => Err(format!("cannot look up {account}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_read() {
        assert_eq!((user_id("1000"), user_id("root"), group_id("root")), (Ok(1000), Ok(0), Ok(0)));
        let unknown = "there is no user nobody-of-this-name on this host; give its number instead";
        assert_eq!(user_id("nobody-of-this-name"), Err(unknown.to_owned()));
    }
}

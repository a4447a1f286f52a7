//! `vpfs app set`.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::time::Duration;

use vpfs_config::sets::{self, AppText, IdText, SetText};
use vpfs_config::units::{Rate, Span, parse_duration, parse_rate};
use vpfs_config::{HOSTS_LIMIT, HostList};

use super::Owner;
use crate::cmd::accounts;
use crate::cmd::asking::Asking;
use crate::cmd::asking::changing::version_now;
use crate::exit::Exit;

/// Give clients a share, or change the one that this command gave
#[derive(clap::Args)]
pub(super) struct Set {
    /// A name of letters, digits, "-", "_" and "."; everywhere else it is OWNER:NAME, such as admin:ior
    name: String,

    /// The weight, relative to other applications
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    weight: u32,

    /// The place among the shares, for example physics/alice
    #[arg(long, value_name = "PATH")]
    share: Option<String>,

    /// The maximum rate, as the sum over all servers
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    cap: Option<Rate>,

    /// Its clients: addresses, networks, and host names and lists such as c0[12-15], which are looked up here and now
    #[arg(long, value_name = "HOSTS")]
    clients: Vec<String>,

    /// A user by number or name, or a range such as 1000-1999; may be given several times
    #[arg(long = "uid", value_name = "UID", value_parser = |text: &str| ids(text, accounts::user))]
    uids: Vec<IdText>,

    /// A group by number or name, or a range; may be given several times
    #[arg(long = "gid", value_name = "GID", value_parser = |text: &str| ids(text, accounts::group))]
    gids: Vec<IdText>,

    /// For how long, for example 2h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    time: Duration,

    #[command(flatten)]
    owner: Owner,

    #[command(flatten)]
    asking: Asking,
}

impl Set {
    pub(super) fn run(&self) -> Result<(), Exit> {
        if self.clients.is_empty() && self.uids.is_empty() && self.gids.is_empty() {
            return Err(Exit::Usage("give --clients, --uid or --gid: nobody would belong to it".to_owned()));
        }
        let app = AppText {
            name: self.owner.own(&self.name)?.to_owned(),
            share: self.share.clone(),
            weight: Some(self.weight),
            cap: self.cap.map(|cap| cap.to_string()),
            clients: addresses(&self.clients)?,
            uids: self.uids.clone(),
            gids: self.gids.clone(),
            ..AppText::default()
        };
        let text = SetText { version: version_now(), ttl: Span(self.time).to_string(), apps: vec![app] };
        // Here, so that a mistake is told once and not by each server.
        let set = sets::Set::check(text).map_err(|problem| Exit::Usage(of_argument(&problem)))?;
        let json = serde_json::to_vec(&set.text).map_err(|error| Exit::Failed(error.to_string()))?;
        self.owner.change(&self.asking, self.owner.set_of(&self.name)?, Some(json))
    }
}

/// A problem of a set, at the argument that it is from.
fn of_argument(problem: &str) -> String {
    match problem.split_once("): ") {
        Some((place, rest)) if place.starts_with("apps[0]") => format!("--{rest}"),
        _ => problem.replacen("ttl: ", "--for: ", 1),
    }
}

/// One by number or name, or a range.
fn ids(text: &str, one: fn(&str) -> Result<u32, String>) -> Result<IdText, String> {
    let is_range = text.contains('-') && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if is_range { Ok(IdText::Range(text.to_owned())) } else { one(text).map(IdText::One) }
}

/// All addresses of host lists; looks names up.
fn addresses(lists: &[String]) -> Result<Vec<String>, Exit> {
    let mut found = BTreeSet::new();
    for list in lists {
        let hosts =
            HostList::parse(list, HOSTS_LIMIT).map_err(|problem| Exit::Usage(format!("--clients: {problem}")))?;
        found.extend(hosts.nets.iter().map(|net| match net.prefix_len() == net.max_prefix_len() {
            true => net.addr().to_string(),
            false => net.to_string(),
        }));
        for (name, _) in &hosts.names {
            found.extend(look_up(name)?.into_iter().map(|ip| ip.to_string()));
        }
    }
    Ok(found.into_iter().collect())
}

fn look_up(name: &str) -> Result<Vec<IpAddr>, Exit> {
    match (name, 0).to_socket_addrs() {
        Ok(addresses) => Ok(addresses.map(|address| address.ip().to_canonical()).collect()),
        Err(error) => Err(Exit::Failed(format!("{name} can't be resolved: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_those_of_the_arguments() {
        let app = |share: &str| AppText {
            name: "ior".into(),
            share: Some(share.into()),
            uids: vec![ids("1000-1999", accounts::user).unwrap(), ids("root", accounts::user).unwrap()],
            ..AppText::default()
        };
        let problem = |ttl: &str, share: &str| {
            let text = SetText { version: 1, ttl: ttl.into(), apps: vec![app(share)] };
            of_argument(&sets::Set::check(text).unwrap_err())
        };
        assert!(problem("2h", "a//b").starts_with("--share: "), "{}", problem("2h", "a//b"));
        assert!(problem("60d", "a").starts_with("--for: "), "{}", problem("60d", "a"));
        assert!(ids("no-user-of-this-name", accounts::user).is_err());
    }
}

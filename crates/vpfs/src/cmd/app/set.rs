//! `vpfs app set`.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::time::Duration;

use vpfs_config::sets::{self, AppText, IdText, SetText};
use vpfs_config::units::{Rate, Span, parse_duration, parse_rate};
use vpfs_config::{HOSTS_LIMIT, HostList};

use super::Owner;
use crate::cmd::asking::Asking;
use crate::cmd::asking::changing::version_now;
use crate::exit::Exit;

/// Give clients a share, or change the one that this command gave
#[derive(clap::Args)]
pub(super) struct Set {
    /// A name of letters, digits, "-", "_" and "."
    name: String,

    /// The weight, relative to other applications
    #[arg(long, value_name = "N", default_value_t = 1)]
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

    /// A user, or a range such as 1000-1999; may be given several times
    #[arg(long = "uid", value_name = "UID")]
    uids: Vec<String>,

    /// A group, or a range; may be given several times
    #[arg(long = "gid", value_name = "GID")]
    gids: Vec<String>,

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
        let ids = |texts: &[String]| texts.iter().map(|text| id(text)).collect();
        let app = AppText {
            name: self.name.clone(),
            share: self.share.clone(),
            weight: Some(self.weight),
            cap: self.cap.map(|cap| cap.to_string()),
            clients: addresses(&self.clients)?,
            uids: ids(&self.uids),
            gids: ids(&self.gids),
            ..AppText::default()
        };
        let text = SetText { version: version_now(), ttl: Span(self.time).to_string(), apps: vec![app] };
        // Here, so that a mistake is told once and not by each server.
        let set = sets::Set::check(text).map_err(Exit::Usage)?;
        let json = serde_json::to_vec(&set.text).map_err(|error| Exit::Failed(error.to_string()))?;
        self.owner.change(&self.asking, self.owner.set_of(&self.name)?, Some(json))
    }
}

fn id(text: &str) -> IdText {
    text.parse().map_or_else(|_| IdText::Range(text.to_owned()), IdText::One)
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

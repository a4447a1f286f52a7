//! `vpfs app which`: to which application a client belongs, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;

use vpfs_config::{Account, App, AppIndex, Config, Identity};
use vpfs_proxy::account_id;

use crate::cmd::names::Names;
use crate::cmd::runtime;
use crate::exit::Exit;
use crate::print::print;

/// Show to which application a client belongs, and why it is no earlier one
///
/// Reads the configuration and looks host names up; asks no proxy, so a file can be tried before it is reloaded.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs app which --host c012 --uid 3001\n  \
    vpfs app which --host 10.1.2.3 --uid 3001 --gid 100 --gid 2000 --port 5335")]
pub(super) struct Which {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = "/etc/vpfs/vpfs.toml")]
    config: PathBuf,

    /// The client's host, by name or address
    #[arg(long)]
    host: String,

    /// The user that it states [default: none, as at the start of a connection]
    #[arg(long)]
    uid: Option<u32>,

    /// The same by name
    #[arg(long, value_name = "NAME", conflicts_with = "uid")]
    user: Option<String>,

    /// A group that it states; may be given several times
    #[arg(long = "gid", value_name = "GID")]
    gids: Vec<u32>,

    /// The same by name
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,

    /// The port that it connects to, if listeners have applications
    #[arg(long)]
    port: Option<u16>,
}

/// A client as proxies see it.
struct Client<'a> {
    ip: IpAddr,
    uid: Option<u32>,
    gids: &'a [u32],
    listener: Option<AppIndex>,
}

/// What names stand for.
struct Known {
    hosts: Names,
    accounts: BTreeMap<Account, u32>,
}

impl Known {
    fn hosts(&self, name: &str) -> Vec<IpAddr> {
        self.hosts.of(name)
    }

    fn account(&self, account: &Account) -> Option<u32> {
        self.accounts.get(account).copied()
    }
}

impl Which {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let config =
            Config::load(&self.config).map_err(|problems| Exit::Usage(format!("invalid configuration\n{problems}")))?;
        let listener = self.listener(&config)?;
        let user = self.user.iter().map(|name| id(&Account::User(name.clone()))).next().transpose()?;
        let groups: Result<Vec<u32>, Exit> = self.groups.iter().map(|name| id(&Account::Group(name.clone()))).collect();
        let gids = [self.gids.clone(), groups?].concat();
        let known = self.look_up(&config)?;
        let addresses = known.hosts(&self.host);
        if addresses.is_empty() {
            return Err(Exit::Failed(format!("{} can't be resolved; give its address instead", self.host)));
        }
        for ip in addresses {
            let client = Client { ip, uid: self.uid.or(user), gids: &gids, listener };
            print(explained(&config, &client, &known).trim_end())?;
        }
        Ok(())
    }

    /// What the names of the configuration, and that of the host, stand for.
    fn look_up(&self, config: &Config) -> Result<Known, Exit> {
        let hosts = config.unresolved().map(|(name, _)| name.to_owned()).chain([self.host.clone()]);
        let hosts: BTreeSet<String> = hosts.collect();
        let runtime = runtime()?;
        let hosts = runtime.block_on(Names::look_up(hosts));
        // A name server that hangs must not keep this from ending.
        runtime.shutdown_background();
        let accounts = config.accounts().into_iter();
        let accounts = accounts.filter_map(|account| Some((account_id(&account).ok()??, account)));
        Ok(Known { hosts, accounts: accounts.map(|(id, account)| (account, id)).collect() })
    }

    /// The application of the listener at the port, if it has one.
    fn listener(&self, config: &Config) -> Result<Option<AppIndex>, Exit> {
        let Some(port) = self.port else { return Ok(None) };
        let mut listeners = config.listeners.iter();
        match listeners.find(|listener| listener.addresses.iter().any(|address| address.port() == port)) {
            Some(listener) => Ok(listener.app),
            None => Err(Exit::Usage(format!("no [[listener]] has port {port}"))),
        }
    }
}

/// The id of a user or group that was given by name.
fn id(account: &Account) -> Result<u32, Exit> {
    match account_id(account) {
        Ok(Some(id)) => Ok(id),
        Ok(None) => Err(Exit::Usage(format!("there is no {account} on this host; give its number instead"))),
        Err(error) => Err(Exit::Failed(format!("cannot look up {account}: {error}"))),
    }
}

/// In the first line the application, then why.
fn explained(config: &Config, client: &Client<'_>, known: &Known) -> String {
    let identify = config.resolve_with(&|name| known.hosts(name), &|account| known.account(account));
    let identity = identify.identify(client.listener, client.ip, client.uid, client.gids);
    let (name, why) = match identity {
        Identity::App(index) => {
            let app = &config.apps[index.0];
            let why = match client.listener {
                Some(_) => "the listener at this port belongs to it".to_owned(),
                None if app.rule.is_given() && mismatch(config, app, client, known).is_none() => {
                    format!(
                        "the first rule that matches: {}",
                        parts(config, app, ["clients", "uids", "users", "gids", "groups"])
                    )
                }
                None => "apps.default: no rule matches, and apps.auto makes no application for it".to_owned(),
            };
            (app.name.clone(), format!("{why}{}", if app.exempt { "; its requests pass at once" } else { "" }))
        }
        Identity::Auto(key) => {
            let auto = config.setting("apps.auto").unwrap_or_default();
            let pushed = "unless `vpfs app ls` has it";
            (key.to_string(), format!("no rule matches; apps.auto = \"{auto}\" makes one for it, {pushed}"))
        }
        Identity::Pushed(_) => unreachable!("a file pushes nothing"),
    };
    let mut text = format!("{name}\n  {why}\n");
    if client.listener.is_none() {
        let before = config.apps.iter().take_while(|app| app.name != name).filter(|app| app.rule.is_given());
        for app in before {
            let reason = mismatch(config, app, client, known).unwrap_or_default();
            let _ = writeln!(text, "  not {}: {reason}", app.name);
        }
    }
    text
}

/// These keys of a rule, as they are in the file.
fn parts<const N: usize>(config: &Config, app: &App, keys: [&str; N]) -> String {
    let parts = keys.into_iter().filter_map(|key| {
        let text = setting(config, app, key);
        (!text.is_empty()).then(|| format!("{key} = {text}"))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn setting<'a>(config: &'a Config, app: &App, key: &str) -> &'a str {
    config.setting(&format!("app.{}.{key}", app.name)).unwrap_or_default()
}

/// The first part of a rule that does not match.
fn mismatch(config: &Config, app: &App, client: &Client<'_>, known: &Known) -> Option<String> {
    let rule = &app.rule;
    if let Some(clients) = &rule.clients
        && !clients.resolve(&|name| known.hosts(name)).contains(client.ip)
    {
        let missing = clients.names.iter().filter(|(name, _)| known.hosts(name).is_empty()).count();
        let missing = if missing > 0 { format!(", of which {missing} have no address now") } else { String::new() };
        return Some(format!("{} is not in clients = {}{missing}", client.ip, setting(config, app, "clients")));
    }
    let users: Vec<Account> = rule.users.iter().cloned().map(Account::User).collect();
    let is_user = |uid| rule.uids.as_ref().is_some_and(|uids| uids.contains(uid)) || named(&users, known, uid);
    if (rule.uids.is_some() || !users.is_empty()) && !client.uid.is_some_and(is_user) {
        let who = client.uid.map_or("no user is stated, which".to_owned(), |uid| format!("user {uid}"));
        return Some(format!("{who} is not in {}{}", parts(config, app, ["uids", "users"]), unknown(&users, known)));
    }
    let groups: Vec<Account> = rule.groups.iter().cloned().map(Account::Group).collect();
    let is_group = |&gid: &u32| rule.gids.as_ref().is_some_and(|gids| gids.contains(gid)) || named(&groups, known, gid);
    if (rule.gids.is_some() || !groups.is_empty()) && !client.gids.iter().any(is_group) {
        let list = parts(config, app, ["gids", "groups"]);
        return Some(format!("no group that is stated is in {list}{}", unknown(&groups, known)));
    }
    None
}

/// Whether one of these accounts has the id.
fn named(accounts: &[Account], known: &Known, id: u32) -> bool {
    accounts.iter().any(|account| known.account(account) == Some(id))
}

/// Which of these accounts have no id here.
fn unknown(accounts: &[Account], known: &Known) -> String {
    let unknown = accounts.iter().filter(|account| known.account(account).is_none());
    let unknown: Vec<String> = unknown.map(ToString::to_string).collect();
    if unknown.is_empty() { String::new() } else { format!("; not known here: {}", unknown.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n\
        [[listener]]\nport = 5334\n[[listener]]\nport = 5335\napp = \"viz\"\n\
        [[app]]\nname = \"root\"\nclients = \"10.9.0.1\"\nexempt = \"on\"\n\
        [[app]]\nname = \"climate\"\nclients = \"c[001-003]\"\nuids = [\"3000-3999\"]\n\
        [[app]]\nname = \"physics\"\ngids = [500]\ngroups = [\"astro\", \"gone\"]\n[[app]]\nname = \"viz\"\n";

    fn explain(auto: &str, (ip, uid, gids): (&str, Option<u32>, &[u32]), port: u16) -> String {
        let config = Config::parse("f", &format!("{TEXT}[apps]\nauto = \"{auto}\"\n")).unwrap();
        let hosts = Names::from([("c001".to_owned(), vec!["10.0.0.1".parse().unwrap()])]);
        let known = Known { hosts, accounts: [(Account::Group("astro".into()), 600)].into() };
        let listener = config.listeners.iter().find(|listener| listener.addresses[0].port() == port).unwrap().app;
        explained(&config, &Client { ip: ip.parse().unwrap(), uid, gids, listener }, &known)
    }

    #[test]
    fn a_rule_and_those_before_it_are_explained() {
        assert_eq!(
            explain("off", ("10.0.0.1", Some(3001), &[]), 5334),
            "climate\n  the first rule that matches: clients = c[001-003], uids = 3000-3999\n  \
             not root: 10.0.0.1 is not in clients = 10.9.0.1\n"
        );
        assert_eq!(
            explain("off", ("10.0.0.2", None, &[1, 500]), 5334),
            "physics\n  the first rule that matches: gids = 500, groups = astro, gone\n  not root: 10.0.0.2 is not in clients = 10.9.0.1\n  \
             not climate: 10.0.0.2 is not in clients = c[001-003], of which 2 have no address now\n"
        );
        assert!(explain("off", ("10.0.0.2", None, &[600]), 5334).starts_with("physics\n"));
        let root = explain("off", ("10.9.0.1", None, &[]), 5334);
        assert_eq!(root, "root\n  the first rule that matches: clients = 10.9.0.1; its requests pass at once\n");
    }

    #[test]
    fn what_no_rule_has_is_explained() {
        let nobody = ("10.0.0.1", Some(2), &[][..]);
        let others = "  not root: 10.0.0.1 is not in clients = 10.9.0.1\n  not climate: user 2 is not in uids = 3000-3999\n  \
                      not physics: no group that is stated is in gids = 500, groups = astro, gone; not known here: \
                      group gone\n";
        let automatic = "host:10.0.0.1\n  no rule matches; apps.auto = \"client-host\" makes one for it, unless `vpfs app ls` has it\n";
        assert_eq!(explain("client-host", nobody, 5334), format!("{automatic}{others}"));
        let default = "other\n  apps.default: no rule matches, and apps.auto makes no application for it\n";
        assert_eq!(explain("off", nobody, 5334), format!("{default}{others}"));
        assert_eq!(explain("off", nobody, 5335), "viz\n  the listener at this port belongs to it\n");
    }
}

//! `vpfs app which`: to which application a client belongs, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

use vpfs_admin::{PushedSet, PushedSets};
use vpfs_config::sets::{AppText, Set, Sets};
use vpfs_config::{Account, Client, Config, Identity, PushedApps, Rule};
use vpfs_core::{OpKind, Time};
use vpfs_proxy::account_id;

use super::{of_several, some, users};
use crate::cmd::accounts;
use crate::cmd::asking::Asking;
use crate::cmd::names::Names;
use crate::cmd::runtime;
use crate::exit::Exit;
use crate::print::print;

/// Show to which application a request of a client belongs, and why it is no earlier one
///
/// Reads the configuration and looks host names up, so that a file can be tried before it is reloaded. Pushed
/// applications, among them jobs, are those that the proxies have.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs app which --host c012 --uid 3001\n  \
    vpfs app which --host 10.1.2.3 --uid 3001 --gid 100 --gid 2000 --port 5335 --operation metadata")]
pub(super) struct Which {
    #[command(flatten)]
    asking: Asking,

    /// The client's host, by name or address
    #[arg(long)]
    host: String,

    /// The user that it states, by number or name [default: none, as at the start of a connection]
    #[arg(long, visible_alias = "user", value_parser = accounts::user)]
    uid: Option<u32>,

    /// A group that it states, by number or name; may be given several times
    #[arg(long = "gid", value_name = "GID", visible_alias = "group", value_parser = accounts::group)]
    gids: Vec<u32>,

    /// The name that its host states for itself, with NFS
    #[arg(long, default_value = "", hide_default_value = true)]
    machine: String,

    /// The port that it connects to [default: that of the first listener without an application]
    #[arg(long)]
    port: Option<u16>,

    /// What it asks for
    #[arg(long, default_value = "read")]
    operation: Operation,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Operation {
    Read,
    Write,
    Metadata,
}

/// What proxies have beside the configuration.
#[derive(Default)]
struct Pushed {
    sets: Vec<PushedSet>,
    apps: Arc<PushedApps>,
    /// Why that may be wrong, or nothing.
    doubt: String,
}

impl Pushed {
    fn of(mut told: Vec<PushedSets>, config: &Config) -> Result<Self, String> {
        let apps = |told: &PushedSets| {
            told.sets.iter().map(|set| (set.set.clone(), set.text.apps.clone())).collect::<Vec<_>>()
        };
        let differ = told.windows(2).any(|pair| apps(&pair[0]) != apps(&pair[1]));
        let doubt = if differ { "servers have different pushed applications, see `vpfs app ls`" } else { "" };
        let sets = if told.is_empty() { Vec::new() } else { told.swap_remove(0).sets };
        let mut held = Sets::default();
        for PushedSet { set, text, .. } in &sets {
            let checked = Set::check(text.clone())?;
            held.put(Time::ZERO, set.clone(), checked).map_err(|refusal| refusal.to_string())?;
        }
        Ok(Self { apps: held.apps(&config.owners), sets, doubt: doubt.to_owned() })
    }

    /// What was pushed under this name.
    fn text(&self, name: &str) -> Option<(&PushedSet, &AppText)> {
        let all = self.sets.iter().flat_map(|set| set.text.apps.iter().map(move |app| (set, app)));
        all.into_iter().find(|(set, app)| format!("{}:{}", set.set.owner(), app.name) == name)
    }
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
        let config = self.asking.config()?;
        let listener = self.listener(&config)?;
        let known = self.look_up(&config)?;
        let addresses = known.hosts(&self.host);
        if addresses.is_empty() {
            return Err(Exit::Failed(format!("{} can't be resolved; give its address instead", self.host)));
        }
        let pushed = self.pushed(&config)?;
        let (uid, gids, machine) = (self.uid, &self.gids[..], &self.machine[..]);
        let op = match self.operation {
            Operation::Read => OpKind::Read,
            Operation::Write => OpKind::Write,
            Operation::Metadata => OpKind::Metadata,
        };
        for ip in addresses {
            print(explained(&config, &Client { listener, ip, uid, gids, machine, op }, &known, &pushed).trim_end())?;
        }
        Ok(())
    }

    /// What proxies have. A file may be looked at where none runs.
    fn pushed(&self, config: &Config) -> Result<Pushed, Exit> {
        match runtime()?.block_on(self.asking.answers::<PushedSets>(config)) {
            Ok(answers) => Pushed::of(answers.told(), config).map_err(Exit::Failed),
            Err(Exit::Usage(problem)) => Err(Exit::Usage(problem)),
            Err(_) => {
                let doubt = "no proxy answers here: pushed applications, such as jobs, are not known".to_owned();
                Ok(Pushed { doubt, ..Pushed::default() })
            }
        }
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

    /// The position of the listener at the port.
    fn listener(&self, config: &Config) -> Result<usize, Exit> {
        let mut listeners = config.listeners.iter();
        let Some(port) = self.port else {
            return Ok(listeners.position(|listener| listener.app.is_none()).unwrap_or_default());
        };
        let found = listeners.position(|listener| listener.ports().contains(&port));
        found.ok_or_else(|| Exit::Usage(format!("no [[listener]] has port {port}")))
    }
}

/// In the first line the application, then why.
fn explained(config: &Config, client: &Client<'_>, known: &Known, pushed: &Pushed) -> String {
    let identify = config.resolve_with(&|name| known.hosts(name), &|account| known.account(account));
    let is_bound = config.listeners.get(client.listener).is_some_and(|listener| listener.app.is_some());
    let (name, why) = match identify.with(Arc::clone(&pushed.apps)).identify(client) {
        Identity::App(index) => {
            let app = &config.apps[index.0];
            let matching =
                app.rule_tables().find(|(table, rule)| mismatch(config, table, rule, client, known).is_none());
            let why = match matching {
                _ if is_bound => "the listener at this port belongs to it".to_owned(),
                Some((table, _)) => {
                    let keys = ["clients", "uids", "users", "gids", "groups", "machines", "listeners", "operations"];
                    format!("the first rule that matches: {}", parts(config, &table, keys))
                }
                None => "apps.default: no rule matches, and apps.auto makes no application for it".to_owned(),
            };
            (app.name.clone(), format!("{why}{}", if app.exempt { "; its requests pass at once" } else { "" }))
        }
        Identity::Auto(key) => {
            let auto = config.setting("apps.auto").unwrap_or_default();
            (key.to_string(), format!("no rule matches; apps.auto = \"{auto}\" makes one for it"))
        }
        Identity::Pushed(index) => {
            let name = pushed.apps.get(index).map(|app| app.name.clone()).unwrap_or_default();
            let mut why = pushed.text(&name).map(|(set, app)| of_pushed(set, app)).unwrap_or_default();
            for other in pushed.apps.matching(client).filter(|other| *other != index) {
                let other = pushed.apps.get(other).map_or("", |app| &app.name);
                let _ = write!(why, "\n  goes before {other}, to which it would belong as well");
            }
            (name, why)
        }
    };
    let mut text = format!("{name}\n  {why}\n");
    if is_bound {
        return text;
    }
    for app in config.apps.iter().take_while(|app| app.name != name) {
        for (table, rule) in app.rule_tables() {
            let other = if table.starts_with("match") { format!(" ({table})") } else { String::new() };
            let reason = mismatch(config, &table, rule, client, known).unwrap_or_default();
            let _ = writeln!(text, "  not {}{other}: {reason}", app.name);
        }
    }
    if !pushed.doubt.is_empty() {
        let _ = writeln!(text, "  {}", pushed.doubt);
    }
    text
}

/// What a pushed application is recognised by, and what it gets.
fn of_pushed(set: &PushedSet, app: &AppText) -> String {
    let listed = |key: &str, all: &[String]| if all.is_empty() { None } else { Some(format!("{key} = {}", some(all))) };
    let share = app.share.as_ref().map(|share| format!("share = {share}"));
    let weight = Some(format!("weight = {}", app.weight.unwrap_or(1)));
    let parts = [listed("clients", &app.clients), listed("users", &users(app)), share, weight];
    let of_set = of_several(&set.set, &app.name).map(|name| format!(" in the set {name}")).unwrap_or_default();
    format!("pushed{of_set}: {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// These keys of a rule's table, as they are in the file.
fn parts<const N: usize>(config: &Config, table: &str, keys: [&str; N]) -> String {
    let parts = keys.into_iter().filter_map(|key| {
        let text = setting(config, table, key);
        (!text.is_empty()).then(|| format!("{key} = {text}"))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn setting<'a>(config: &'a Config, table: &str, key: &str) -> &'a str {
    config.setting(&format!("{table}.{key}")).unwrap_or_default()
}

/// The first part of a rule that does not match.
fn mismatch(config: &Config, table: &str, rule: &Rule, client: &Client<'_>, known: &Known) -> Option<String> {
    if let Some(clients) = &rule.clients
        && !clients.resolve(&|name| known.hosts(name)).contains(client.ip)
    {
        let missing = clients.names.iter().filter(|(name, _)| known.hosts(name).is_empty()).count();
        let missing = if missing > 0 { format!(", of which {missing} have no address now") } else { String::new() };
        return Some(format!("{} is not in clients = {}{missing}", client.ip, setting(config, table, "clients")));
    }
    let users: Vec<Account> = rule.users.iter().cloned().map(Account::User).collect();
    let is_user = |uid| rule.uids.as_ref().is_some_and(|uids| uids.contains(uid)) || named(&users, known, uid);
    if (rule.uids.is_some() || !users.is_empty()) && !client.uid.is_some_and(is_user) {
        let who = client.uid.map_or("no user is stated, which".to_owned(), |uid| format!("user {uid}"));
        return Some(format!("{who} is not in {}{}", parts(config, table, ["uids", "users"]), unknown(&users, known)));
    }
    let groups: Vec<Account> = rule.groups.iter().cloned().map(Account::Group).collect();
    let is_group = |&gid: &u32| rule.gids.as_ref().is_some_and(|gids| gids.contains(gid)) || named(&groups, known, gid);
    if (rule.gids.is_some() || !groups.is_empty()) && !client.gids.iter().any(is_group) {
        let list = parts(config, table, ["gids", "groups"]);
        return Some(format!("no group that is stated is in {list}{}", unknown(&groups, known)));
    }
    if rule.machines.as_ref().is_some_and(|machines| !machines.matches(client.machine)) {
        let name = if client.machine.is_empty() { "no name of its host is stated, which" } else { client.machine };
        return Some(format!("{name} is not in {}", parts(config, table, ["machines"])));
    }
    let own = config.listeners.get(client.listener).map(|listener| listener.ports()).unwrap_or_default();
    let has_port = |ports: &Vec<u16>| own.iter().any(|port| ports.contains(port));
    if rule.listeners.as_ref().is_some_and(|ports| !has_port(ports)) {
        return Some(format!("its port is not in {}", parts(config, table, ["listeners"])));
    }
    if rule.operations.as_ref().is_some_and(|operations| !operations.contains(&client.op)) {
        return Some(format!("what it asks for is not in {}", parts(config, table, ["operations"])));
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
        [[app]]\nname = \"physics\"\ngids = [500]\ngroups = [\"astro\", \"gone\"]\n[[app]]\nname = \"viz\"\n\
        [[app]]\nname = \"hub\"\nmachines = \"hub-*\"\n[[match]]\napp = \"climate\"\nuids = 9\noperations = \"write\"\n";

    fn explain(auto: &str, (ip, uid, gids): (&str, Option<u32>, &[u32]), listener: usize) -> String {
        let config = Config::parse("f", &format!("{TEXT}[apps]\nauto = \"{auto}\"\n")).unwrap();
        let hosts = Names::from([("c001".to_owned(), vec!["10.0.0.1".parse().unwrap()])]);
        let known = Known { hosts, accounts: [(Account::Group("astro".into()), 600)].into() };
        let json = br#"{"version": 1, "ttl": "1h", "apps": [{"name": "4711", "share": "bio", "weight": 4, "clients": ["10.7.0.1"]}]}"#;
        let text = Set::parse(json).unwrap().text;
        let set = PushedSet { set: vpfs_config::sets::SetName::parse("slurm").unwrap(), left_seconds: 9.0, text };
        let pushed = Pushed::of(vec![PushedSets { servers: vec!["s1".to_owned()], sets: vec![set] }], &config).unwrap();
        let client = Client { listener, ip: ip.parse().unwrap(), uid, gids, machine: "", op: OpKind::Write };
        explained(&config, &client, &known, &pushed)
    }

    #[test]
    fn a_rule_and_those_before_it_are_explained() {
        assert_eq!(
            explain("off", ("10.0.0.1", Some(3001), &[]), 0),
            "climate\n  the first rule that matches: clients = c[001-003], uids = 3000-3999\n  \
             not root: 10.0.0.1 is not in clients = 10.9.0.1\n"
        );
        assert_eq!(
            explain("off", ("10.0.0.2", None, &[1, 500]), 0),
            "physics\n  the first rule that matches: gids = 500, groups = astro, gone\n  not root: 10.0.0.2 is not in clients = 10.9.0.1\n  \
             not climate: 10.0.0.2 is not in clients = c[001-003], of which 2 have no address now\n  \
             not climate (match.1): no user is stated, which is not in uids = 9\n"
        );
        assert!(explain("off", ("10.0.0.2", None, &[600]), 0).starts_with("physics\n"));
        let other = explain("off", ("10.0.0.2", Some(9), &[]), 0);
        assert!(other.starts_with("climate\n  the first rule that matches: uids = 9, operations = write\n"), "{other}");
        let root = explain("off", ("10.9.0.1", None, &[]), 0);
        assert_eq!(root, "root\n  the first rule that matches: clients = 10.9.0.1; its requests pass at once\n");
    }

    #[test]
    fn what_no_rule_has_is_explained() {
        let nobody = ("10.0.0.1", Some(2), &[][..]);
        let others = "  not root: 10.0.0.1 is not in clients = 10.9.0.1\n  not climate: user 2 is not in uids = 3000-3999\n  \
                      not climate (match.1): user 2 is not in uids = 9\n  \
                      not physics: no group that is stated is in gids = 500, groups = astro, gone; not known here: \
                      group gone\n  not hub: no name of its host is stated, which is not in machines = hub-*\n";
        let automatic = "host:10.0.0.1\n  no rule matches; apps.auto = \"client-host\" makes one for it\n";
        assert_eq!(explain("client-host", nobody, 0), format!("{automatic}{others}"));
        let default = "other\n  apps.default: no rule matches, and apps.auto makes no application for it\n";
        assert_eq!(explain("off", nobody, 0), format!("{default}{others}"));
        assert_eq!(explain("off", nobody, 1), "viz\n  the listener at this port belongs to it\n");
        let job = explain("off", ("10.7.0.1", Some(2), &[]), 0);
        let why = "pushed in the set slurm: clients = 10.7.0.1, share = bio, weight = 4";
        assert!(job.starts_with(&format!("slurm:4711\n  {why}\n  not root: ")), "{job}");
    }

    #[test]
    fn of_two_owners_the_one_that_is_listed_first_has_the_client() {
        let owners = "[[owner]]\nname = \"slurm\"\ntoken = \"t\"\n[[owner]]\nname = \"fake\"\ntoken = \"t\"\n";
        let config = Config::parse("f", &format!("{TEXT}{owners}")).unwrap();
        let set = |name: &str, clients: &str| {
            let json = format!(r#"{{"version": 1, "ttl": "1h", "apps": [{{"name": "1", "clients": ["{clients}"]}}]}}"#);
            let text = Set::parse(json.as_bytes()).unwrap().text;
            PushedSet { set: vpfs_config::sets::SetName::parse(name).unwrap(), left_seconds: 9.0, text }
        };
        let sets = vec![set("fake", "0.0.0.0/0"), set("slurm", "10.7.0.1")];
        let pushed = Pushed::of(vec![PushedSets { servers: vec!["s1".to_owned()], sets }], &config).unwrap();
        let known = Known { hosts: Names::from([]), accounts: BTreeMap::new() };
        let ip = "10.7.0.1".parse().unwrap();
        let client = Client { listener: 0, ip, uid: None, gids: &[], machine: "", op: OpKind::Read };
        let text = explained(&config, &client, &known, &pushed);
        assert!(text.starts_with("slurm:1\n") && text.contains("goes before fake:1"), "{text}");
    }
}

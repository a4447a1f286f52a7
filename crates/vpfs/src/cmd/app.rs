//! `vpfs app`: applications of a configuration, and those that are pushed to running proxies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use vpfs_config::sets::{AppText, IdText, Set, SetName, SetText, Sets};
use vpfs_config::units::{Rate, Span, parse_duration, parse_rate};
use vpfs_config::{Account, Client, Config, HOSTS_LIMIT, HostList, Identity, PushedApps, Rule, sets};
use vpfs_core::{OpKind, Time};
use vpfs_proxy::account_id;
use vpfs_proxy::admin::{Change, PushedSet, PushedSets};

use super::asking::{Asking, Changed, read_token, version_now};
use super::check::Names;
use super::{group_id, runtime, user_id};
use crate::print::{Exit, plain, print, print_json, roughly};

/// Give clients a share for some time, without a change of the configuration
///
/// Proxies hold such applications until their time is over, also over restarts and upgrades. Rules of `[[app]]` in the
/// configuration go first. Root may change them on the proxies' own hosts; everybody else, and --remote, needs the
/// token of an `[[owner]]`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs app set ior --weight 4 --clients c0[12-15] --for 2h\n  \
    vpfs app set alice --uid 3001 --share physics/alice --for 1d --remote --token admin.token\n  \
    vpfs app ls --remote             all applications of all servers, and what differs\n  \
    vpfs app rm ior\n  \
    vpfs app which --host c012 --uid 3001   to which application a client belongs, and why")]
pub(crate) struct App {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Set(SetArgs),
    Rm(Rm),
    Ls(Ls),
    Which(Which),
}

/// Take an application away before its time is over
#[derive(clap::Args)]
struct Rm {
    /// Its name, as given to `vpfs app set`; with --set, that of a whole set as `vpfs app ls` shows it
    #[arg(add = super::asking::apps())]
    name: String,

    /// Remove the whole set of this name, no matter who pushed it
    #[arg(long)]
    set: bool,

    #[command(flatten)]
    owner: Owner,

    #[command(flatten)]
    asking: Asking,
}

/// The name of a set, if it says more than that of the application: a set of one has that of its owner and of it.
fn of_several<'a>(set: &'a SetName, app: &str) -> Option<&'a str> {
    let is_own = set.as_str().split_once('.') == Some((set.owner(), app));
    (!is_own).then(|| set.as_str())
}

/// The owner whose name need not be written.
const ADMIN: &str = "admin";

/// What all but its owner call an application that `vpfs app set` made under this name; `None` if it names its owner.
pub(super) fn of_admin(app: &str) -> Option<String> {
    (!app.contains(':')).then(|| format!("{ADMIN}:{app}"))
}

/// In whose name something is changed.
#[derive(clap::Args)]
struct Owner {
    /// The owner, for which the configuration has an `[[owner]]`
    #[arg(long, value_name = "NAME", default_value = ADMIN)]
    owner: String,

    /// The file with the owner's token [default: none, for root on a proxy's own host]
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
}

impl Owner {
    /// The set that consists of the application of this name, so that setting one leaves all others alone.
    fn set_of(&self, app: &str) -> Result<SetName, Exit> {
        SetName::parse(&format!("{}.{}", self.owner, self.own(app)?)).map_err(Exit::Usage)
    }

    /// What the owner calls an application; everybody else calls it `OWNER:NAME`.
    fn own<'a>(&self, app: &'a str) -> Result<&'a str, Exit> {
        match app.split_once(':') {
            None => Ok(app),
            Some((owner, name)) if owner == self.owner => Ok(name),
            Some((owner, _)) => Err(Exit::Usage(format!("{app} belongs to {owner}; add --owner {owner}"))),
        }
    }

    /// Pushes a set, or removes it, and says where that failed.
    fn change(&self, asking: &Asking, name: SetName, json: Option<Vec<u8>>) -> Result<(), Exit> {
        let token = self.token.as_deref().map(read_token).transpose()?;
        let config = asking.config()?;
        let change = Change { name, json: json.map(Into::into), token };
        let is_removal = change.json.is_none();
        let Changed { done, is_different, failed } = runtime()?.block_on(asking.change(&config, &change))?;
        failed.iter().for_each(|(server, silence)| eprintln!("vpfs: the proxy of {server} {silence}"));
        if is_removal && failed.is_empty() && !is_different {
            let reason = format!("there is no set {} at {}; `vpfs app ls` shows all", change.name, done.join(", "));
            return Err(Exit::Failed(reason));
        }
        match failed.is_empty() {
            true => print(format_args!("done at {}", done.join(", "))),
            false if done.is_empty() => Err(Exit::Failed("nothing was changed".to_owned())),
            false => Err(Exit::Failed(format!("changed only at {}; try again", done.join(", ")))),
        }
    }
}

impl App {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Command::Set(set) => set.run(),
            Command::Rm(rm) => rm.run(),
            Command::Ls(ls) => ls.run(),
            Command::Which(which) => which.run(),
        }
    }
}

impl Rm {
    fn run(&self) -> Result<(), Exit> {
        let name = match self.set {
            true => SetName::parse(&self.name).map_err(Exit::Usage)?,
            false => self.owner.set_of(&self.name)?,
        };
        self.owner.change(&self.asking, name, None)
    }
}

/// Show the applications that were pushed, and where servers differ
#[derive(clap::Args)]
struct Ls {
    #[command(flatten)]
    asking: Asking,

    /// Print JSON: a list with an object for each proxy
    #[arg(long)]
    json: bool,
}

impl Ls {
    fn run(&self) -> Result<(), Exit> {
        let config = self.asking.config()?;
        let told: Vec<PushedSets> = runtime()?.block_on(self.asking.answers(&config))?.told();
        if self.json {
            return print_json(&told);
        }
        print(text(&told))
    }
}

struct Seen<'a> {
    app: &'a AppText,
    /// The least at any of them.
    left_seconds: f64,
    /// By position in what was told.
    at: Vec<usize>,
}

/// A row for each application; several where servers have different ones of the same name.
fn text(told: &[PushedSets]) -> String {
    let mut apps = BTreeMap::<(&SetName, &str), Vec<Seen<'_>>>::new();
    for (place, pushed) in told.iter().enumerate() {
        for set in &pushed.sets {
            for app in &set.text.apps {
                let seen = apps.entry((&set.set, &app.name)).or_default();
                match seen.iter_mut().find(|seen| seen.app == app) {
                    Some(seen) => {
                        seen.left_seconds = seen.left_seconds.min(set.left_seconds);
                        seen.at.push(place);
                    }
                    None => seen.push(Seen { app, left_seconds: set.left_seconds, at: vec![place] }),
                }
            }
        }
    }
    if apps.is_empty() {
        return "no application was pushed".to_owned();
    }
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["app", "set", "share", "weight", "cap", "clients", "users", "left", "servers"]);
    let mut differ = 0;
    for ((set, name), seen) in apps {
        // The jobs of a mount are those of its host.
        let is_lacking = |seen: &Seen<'_>| seen.app.jobs.is_empty() && seen.at.len() < told.len();
        differ += usize::from(seen.len() > 1 || seen.iter().any(is_lacking));
        for seen in seen {
            table.add_row(row(set, name, &seen, told));
        }
    }
    match differ {
        0 => table.to_string(),
        _ => format!("{table}\n{differ} differ between servers: their owner has not reached all of them lately"),
    }
}

fn row(set: &SetName, name: &str, Seen { app, left_seconds, at }: &Seen<'_>, told: &[PushedSets]) -> [String; 9] {
    let servers: Vec<&str> = at.iter().flat_map(|place| told[*place].servers.iter().map(String::as_str)).collect();
    [
        format!("{}:{name}", set.owner()),
        of_several(set, name).unwrap_or_default().to_owned(),
        app.share.clone().unwrap_or_default(),
        app.weight.unwrap_or(1).to_string(),
        app.cap.clone().unwrap_or_default(),
        some(&app.clients),
        some(&users(app)),
        roughly(Duration::try_from_secs_f64(*left_seconds).unwrap_or_default()),
        if at.len() == told.len() { "all".to_owned() } else { format!("only {}", servers.join(", ")) },
    ]
    .map(|cell| plain(&cell))
}

/// Users, then groups, then jobs.
pub(super) fn users(app: &AppText) -> Vec<String> {
    let id = |id: &IdText| match id {
        IdText::One(id) => id.to_string(),
        IdText::Range(range) => range.clone(),
    };
    let groups = app.gids.iter().map(|gid| format!("group {}", id(gid)));
    let jobs = app.jobs.iter().map(|job| format!("job {job}"));
    app.uids.iter().map(id).chain(groups).chain(jobs).collect()
}

/// The first two, and how many more.
pub(super) fn some(all: &[String]) -> String {
    let shown = all.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(2) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Give clients a share, or change the one that this command gave
#[derive(clap::Args)]
struct SetArgs {
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
    #[arg(long = "uid", value_name = "UID", value_parser = |text: &str| ids(text, user_id))]
    uids: Vec<IdText>,

    /// A group by number or name, or a range; may be given several times
    #[arg(long = "gid", value_name = "GID", value_parser = |text: &str| ids(text, group_id))]
    gids: Vec<IdText>,

    /// For how long, for example 2h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    time: Duration,

    #[command(flatten)]
    owner: Owner,

    #[command(flatten)]
    asking: Asking,
}

impl SetArgs {
    fn run(&self) -> Result<(), Exit> {
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

/// Show to which application a request of a client belongs, and why it is no earlier one
///
/// Reads the configuration and looks host names up, so that a file can be tried before it is reloaded. Pushed
/// applications, among them jobs, are those that the proxies have.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs app which --host c012 --uid 3001\n  \
    vpfs app which --host 10.1.2.3 --uid 3001 --gid 100 --gid 2000 --port 5335 --operation metadata")]
struct Which {
    #[command(flatten)]
    asking: Asking,

    /// The client's host, by name or address
    #[arg(long)]
    host: String,

    /// The user that it states, by number or name [default: none, as at the start of a connection]
    #[arg(long, visible_alias = "user", value_parser = user_id)]
    uid: Option<u32>,

    /// A group that it states, by number or name; may be given several times
    #[arg(long = "gid", value_name = "GID", visible_alias = "group", value_parser = group_id)]
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

    fn text(&self, name: &str) -> Option<(&PushedSet, &AppText)> {
        let all = self.sets.iter().flat_map(|set| set.text.apps.iter().map(move |app| (set, app)));
        all.into_iter().find(|(set, app)| format!("{}:{}", set.set.owner(), app.name) == name)
    }
}

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
    use vpfs_config::sets::SetText;
    use vpfs_proxy::admin::PushedSet;

    use super::*;

    fn told(server: &str, left_seconds: f64, apps: &[(&str, u32)]) -> PushedSets {
        let app = |&(name, weight): &(&str, u32)| AppText {
            name: name.into(),
            weight: Some(weight),
            uids: vec![IdText::One(7)],
            ..AppText::default()
        };
        let text = SetText { version: 1, ttl: "2min".into(), apps: apps.iter().map(app).collect() };
        let set = PushedSet { set: SetName::parse("slurm").unwrap(), left_seconds, text };
        PushedSets { servers: vec![server.to_owned()], sets: vec![set] }
    }

    #[test]
    fn what_differs_between_servers_is_shown() {
        let same = text(&[told("s1", 90.0, &[("1", 4)]), told("s2", 80.0, &[("1", 4)])]);
        let rows: Vec<&str> = same.lines().collect();
        assert!(rows.len() == 2 && rows[1].contains("80 s") && rows[1].trim_end().ends_with("all"), "{same}");
        let differ = text(&[told("s1", 90.0, &[("1", 4), ("2", 1)]), told("s2", 80.0, &[("1", 3)])]);
        assert_eq!(differ.lines().count(), 5, "{differ}");
        assert!(differ.contains("only s1") && differ.contains("only s2"), "{differ}");
        assert!(differ.contains("2 differ"), "{differ}");
        assert!(same.contains("slurm:1 ") && same.contains(" slurm "), "the name that all commands use: {same}");
        let mut own = told("s1", 90.0, &[("ior", 1)]);
        own.sets[0].set = SetName::parse("admin.ior").unwrap();
        assert!(text(&[own.clone()]).contains("admin:ior ") && !text(&[own]).contains("admin.ior"));
        assert_eq!(text(&[]), "no application was pushed");
        let job = |server: &str, weight| {
            let mut told = told(server, 90.0, &[("7", weight)]);
            told.sets[0].text.apps[0].jobs = vec![7];
            told
        };
        let elsewhere = text(&[job("c1", 4), told("c2", 90.0, &[])]);
        assert!(elsewhere.contains("only c1") && !elsewhere.contains("differ"), "{elsewhere}");
        assert!(text(&[job("c1", 4), job("c2", 3)]).contains("1 differ"));
    }

    #[test]
    fn problems_are_those_of_the_arguments() {
        let app = |share: &str| AppText {
            name: "ior".into(),
            share: Some(share.into()),
            uids: vec![ids("1000-1999", user_id).unwrap(), ids("root", user_id).unwrap()],
            ..AppText::default()
        };
        let problem = |ttl: &str, share: &str| {
            let text = SetText { version: 1, ttl: ttl.into(), apps: vec![app(share)] };
            of_argument(&sets::Set::check(text).unwrap_err())
        };
        assert!(problem("2h", "a//b").starts_with("--share: "), "{}", problem("2h", "a//b"));
        assert!(problem("60d", "a").starts_with("--for: "), "{}", problem("60d", "a"));
        assert!(ids("no-user-of-this-name", user_id).is_err());
    }

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

//! The whole file: read, checked, resolved and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::path::Path;
use std::{fmt, io};

use vpfs_core::{ServerId, SharePolicy};

use super::apps::{App, Capacity, Share};
use super::clients::{AUTO, Account, AppIndex, Auto, AutoShare, HOSTS_LIMIT, Identify, Meanings, Reading};
use super::hosts::HostSet;
use super::keys::{HISTORY, ROOT, SECTIONS, SOCKETS};
use super::limits::{Limits, Log};
use super::network::{Address, Addresses, Listener, Metrics, Owner, Peers, Server, Trust, Web};
use super::scheduler::{Files, SchedulerConfig};
use super::{apps, clients, limits, network, scheduler};
use crate::schema;
use crate::schema::table::{Setting, Settings, Table};
use crate::schema::{Problems, did_you_mean, read_text, tunables};

/// A configuration that has been checked: names are unique, references are valid, amounts are in range.
#[derive(Clone, Debug)]
pub struct Config {
    /// By [`ServerId`]; never empty.
    pub servers: Vec<Server>,
    /// Empty only for mounts.
    pub listeners: Vec<Listener>,
    /// How requests are ordered.
    pub scheduler: SchedulerConfig,
    /// The tree in which applications stand, as far as the file has tables for it.
    pub shares: Vec<Share>,
    /// By [`AppIndex`]; never empty, since the default application is among them.
    pub apps: Vec<App>,
    /// The application of clients that match nothing else.
    pub default_app: AppIndex,
    /// Applications created for clients that no rule matches.
    pub auto: Auto,
    /// Who may push applications.
    pub owners: Vec<Owner>,
    /// How proxies of different processes tell each other what they served; `None`: they do not.
    pub peers: Option<Peers>,
    /// Where metrics are served by TCP; `None`: nowhere.
    pub metrics: Option<Metrics>,
    /// Where the live page is served by TCP; `None`: nowhere.
    pub web: Option<Web>,
    /// Whether history is kept, if there is a state directory.
    pub keeps_history: bool,
    /// Whose requests are believed to come from a server, and who may administer servers.
    pub trust: Trust,
    /// The limits of a proxy.
    pub limits: Limits,
    /// What is logged.
    pub log: Log,
    /// Settings that are allowed but probably unintended.
    pub warnings: Problems,
    file: String,
    settings: Settings,
}

impl Config {
    /// Reads and checks a file; refuses one larger than [`FILE_LIMIT`](crate::FILE_LIMIT).
    pub fn load(path: &Path) -> Result<Self, Problems> {
        let file = path.display().to_string();
        let text = read_text(path).map_err(|error| Problems::of_file(&file, &format!("cannot be read: {error}")))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut config = Self::parse_with(&file, &text, &|name| read_text(&folder.join(name)))?;
        config.peers.iter_mut().for_each(|peers| peers.resolve_paths(folder));
        config.owners.iter_mut().for_each(|owner| owner.resolve_path(folder));
        config.metrics.iter_mut().for_each(|metrics| metrics.resolve_paths(folder));
        config.web.iter_mut().for_each(|web| web.resolve_paths(folder));
        Ok(config)
    }

    /// Reads and checks the text of a file that refers to no other; `file` is its name for messages. Reports all
    /// problems at once.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problems> {
        Self::parse_with(file, text, &|_| {
            Err(io::Error::other("a configuration without a directory cannot name files"))
        })
    }

    /// [`Self::parse`] for a file that may refer to others; `files` returns their text by name.
    pub fn parse_with(file: &str, text: &str, files: &dyn Fn(&str) -> io::Result<String>) -> Result<Self, Problems> {
        let (cx, table) = schema::parse_toml(file, text, &ROOT, SECTIONS)?;
        let draft = Self::read(&Table::open(&cx, &ROOT, "", Some(&table)), file, files);
        let (settings, warnings) = cx.finish(file)?;
        Ok(Self { settings, warnings, ..draft })
    }

    /// Reads all sections, each after those to which it refers. Valid only if no problem was reported.
    fn read(root: &Table<'_>, file: &str, files: Files<'_>) -> Self {
        let mut hosts_left = HOSTS_LIMIT;
        let mut taken = Addresses::default();
        let servers = network::read_servers(root, &mut taken);
        let are_mounts = servers.first().is_some_and(Server::is_mount);
        let scheduler = scheduler::read(root, are_mounts, files);
        let capacity = scheduler.capacity.map(|server| Capacity { server, servers: servers.len() });
        let kind = scheduler.observed.unwrap_or(scheduler.policy.kind);
        let (mut shares, tables) = apps::read_for(root, kind, capacity);
        let mut rules = Reading { are_mounts, hosts_left: &mut hosts_left, ports: Vec::new() };
        let mut apps = apps::read(root, kind, capacity, &mut rules);
        apps::check_promises(root, (&shares, &tables), &apps.list, servers.len(), capacity);
        let listeners = network::read_listeners(root, &servers, &apps.names, &mut taken);
        rules.check_ports(root, &listeners.iter().map(Listener::ports).collect::<Vec<_>>());
        let trust = network::read_trust(root, &mut hosts_left);
        let peers = network::read_peers(root, &servers);
        let bound: Vec<_> = listeners.iter().map(|listener| listener.app).collect();
        apps::warn_of_unreachable(root, &apps, &bound, are_mounts);
        apps::warn_of_no_target(root, &apps, kind);
        if are_mounts && apps.auto.share == AutoShare::Together {
            let policy = SharePolicy { weight: apps.auto.weight, ..SharePolicy::NEW };
            shares.push(Share { path: AUTO.to_owned(), policy });
        }
        if scheduler.observed.is_some() {
            apps.list.iter_mut().for_each(|app| app.cap = None);
            shares.iter_mut().for_each(|share| share.policy.cap = None);
        }
        apps::warn(root, &apps);
        let limits = limits::read_limits(root, &servers);
        Self {
            servers,
            listeners,
            scheduler,
            shares,
            apps: apps.list,
            default_app: apps.default,
            auto: apps.auto,
            owners: network::read_owners(root),
            peers,
            metrics: network::read_metrics(root),
            web: network::read_web(root),
            keeps_history: read_history(root),
            trust,
            limits,
            log: limits::read_log(root),
            warnings: Problems::none(file),
            file: file.to_owned(),
            settings: Settings::default(),
        }
    }

    /// The directory of the sockets of processes, also of those without `[peers]`: our unit gives them that one.
    pub fn sockets(&self) -> &Path {
        self.peers.as_ref().map_or(Path::new(SOCKETS), |peers| &peers.sockets)
    }

    /// The servers with their ids.
    pub fn servers(&self) -> impl Iterator<Item = (ServerId, &Server)> {
        (0..).map(ServerId).zip(&self.servers)
    }

    /// The server with this name; the error message suggests the most similar one.
    pub fn server(&self, name: &str) -> Result<ServerId, String> {
        let found = self.servers().find(|(_, server)| server.name == name).map(|(id, _)| id);
        let names = self.servers.iter().map(|server| server.name.as_str());
        found.ok_or_else(|| format!("{} has no server {name:?}{}", self.file, did_you_mean(name, names)))
    }

    /// Each server's own address with the one that clients of this listener are told.
    pub fn address_pairs(&self, listener: usize) -> impl Iterator<Item = (&Address, &Address)> {
        let listener = &self.listeners[listener];
        let told = |(server, proxy)| (server, if listener.is_redirected { server } else { proxy });
        self.servers.iter().map(|server| &server.address).zip(&listener.addresses).map(told)
    }

    /// Host names in the rules and in `trust.servers`, each once, in alphabetical order, with the first line where each
    /// appears.
    pub fn unresolved(&self) -> impl Iterator<Item = (&str, usize)> {
        let rules = self.apps.iter().flat_map(App::rules).filter_map(|rule| rule.clients.as_ref());
        let mut names = BTreeMap::new();
        for (name, line) in rules.chain(&self.trust.servers).flat_map(|list| &list.names) {
            names.entry(name.as_str()).or_insert(*line);
        }
        names.into_iter()
    }

    /// Decides about clients with the addresses that `known` has for each host name. A host without any matches no
    /// rule.
    pub fn resolve(&self, known: &dyn Fn(&str) -> Vec<IpAddr>) -> Identify {
        self.resolve_with(known, &|_| None)
    }

    /// [`Self::resolve`] with the ids that `accounts` has for users and groups. One without an id matches nobody.
    pub fn resolve_with(
        &self,
        known: &dyn Fn(&str) -> Vec<IpAddr>,
        accounts: &dyn Fn(&Account) -> Option<u32>,
    ) -> Identify {
        let ports: Vec<_> = self.listeners.iter().map(Listener::ports).collect();
        let meanings = Meanings { hosts: known, accounts, ports: &ports };
        let rules =
            self.apps.iter().enumerate().flat_map(|(at, app)| app.rules().map(move |rule| (AppIndex(at), rule)));
        let listeners = self.listeners.iter().map(|listener| listener.app).collect();
        clients::resolve(rules, listeners, self.default_app, self.auto, &meanings)
    }

    /// The users and groups that rules have by name.
    pub fn accounts(&self) -> BTreeSet<Account> {
        let rules = self.apps.iter().flat_map(App::rules);
        rules.flat_map(|rule| rule.user_accounts().chain(rule.group_accounts())).collect()
    }

    /// The addresses from which requests between servers are believed: those of `trust.servers`, or else those of the
    /// servers that are not loopback. `known` has the addresses of each host name, or none.
    pub fn resolve_servers(&self, known: &dyn Fn(&str) -> Vec<IpAddr>) -> HostSet {
        network::resolve(&self.trust, &self.servers, known)
    }

    /// A setting in force as text, by its dotted name, for example `scheduler.depth`.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.by_name.get(name).map(|setting| setting.text.as_str())
    }

    /// A file with every setting in force, defaults included, that reads as this one; what is not set, or has no
    /// effect, is a comment.
    pub fn to_toml(&self) -> String {
        self.settings.file(SECTIONS, self.scheduler.policy.kind)
    }

    /// The same for files that say the same, with one version of vpfs.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (key, setting) in &self.settings.by_name {
            (key, &setting.text).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The changes from this configuration to `newer`, separated by whether a running daemon can apply them.
    pub fn diff(&self, newer: &Self) -> Diff {
        let mut diff = Diff::default();
        let (old, new) = (&self.settings.by_name, &newer.settings.by_name);
        let mut keys: Vec<_> = old.keys().chain(new.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let (from, to) = (old.get(key), new.get(key));
            let live = from.or(to).is_some_and(|setting| setting.live);
            let text = |setting: Option<&Setting>| setting.map(|setting| setting.text.clone());
            let change = Change { key: key.clone(), from: text(from), to: text(to) };
            if change.from == change.to {
                continue;
            }
            if live { diff.live.push(change) } else { diff.restart.push(change) }
        }
        diff
    }
}

/// One setting that differs between two files. Displays as `scheduler.depth: 14 -> 28`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its dotted name.
    pub key: String,
    /// The value in force; `None` if not set.
    pub from: Option<String>,
    /// The value in the newer file.
    pub to: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |text: &Option<String>| text.clone().unwrap_or_else(|| "not set".into());
        write!(f, "{}: {} -> {}", self.key, show(&self.from), show(&self.to))
    }
}

/// The changes in a newer file. Displays as one line for each change.
///
/// If `restart` is empty, the newer [`Config`] replaces the older one as a whole, including its listeners: positions of
/// applications may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Can be applied to a running daemon.
    pub live: Vec<Change>,
    /// Needs a restart: servers, listeners and the format of the log.
    pub restart: Vec<Change>,
}

impl Diff {
    /// Whether the two files are equivalent.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.restart.is_empty()
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let restart = self.restart.iter().map(|change| (change, " (needs a restart)"));
        let all = restart.chain(self.live.iter().map(|change| (change, "")));
        for (index, (change, note)) in all.enumerate() {
            write!(f, "{}{change}{note}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

const INTRODUCTION: &str = r#"# vpfs.toml

<!-- Printed from crates/vpfs-config/src/vpfs_toml/keys.rs; do not edit. UPDATE=1 cargo test -p vpfs-config rewrites it. -->

Every proxy of a cluster reads the same file; `vpfs proxy --server NAME` selects the servers that a process serves.
[`examples/`](../examples) has files to start from; the smallest is

```toml
[[server]]
name = "s1"
address = "tcp://127.0.0.1:3334"

[[listener]]
addresses = { s1 = "tcp://127.0.0.1:5334" }
```

- Sizes are `64KiB` or `64K` (1024), or `64KB` (1000), rates `100MB/s` or `800Mbit/s`, durations `250ms`, `30s`, `5min`,
  `1h`. Numbers need their unit. A name has at most 64 letters, digits, `-`, `_` and `.`. Files are relative to this one.
- An unknown key is an error. All problems of a file are reported at once, each with its line.
- A running proxy applies changes when it reads the file again, except those of keys marked *Restart*. Policies in
  parentheses are the ones that use a key.
- Host lists are those of Slurm, pdsh and ClusterShell: `c[001-064,070]`, `r[1-2]n[01-16]-ib`, `c[36-400/2]`; addresses,
  networks (`10.1.0.0/16`, `10.1.*`), ranges (`10.1.0.31-10.1.0.38`) and NIDs of LNet (`10.1.0.[1-8]@tcp`), also several
  with commas or blanks; at most 65536 hosts in a file. For groups (`@compute`), write what `nodeset -f @compute` prints.
  Names are looked up in the background every five minutes and at a reload.
"#;

/// The text of `docs/config.md`.
pub fn config_manual() -> String {
    tunables::print_with_live(INTRODUCTION, SECTIONS)
}

/// Reads the table; whether history is kept.
pub(crate) fn read_history(root: &Table<'_>) -> bool {
    let table = root.table("history", &HISTORY);
    table.choice("enabled") != Some(0)
}

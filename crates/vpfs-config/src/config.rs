//! The whole file, read, checked, resolved and compared, with `[limits]`, `[log]` and `[scheduler]`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

use vpfs_core::slot_cost::SizeClass;
use vpfs_core::{
    Backfill, Bytes, Deadlines, Depth, IocoSettings, OpKind, PolicyKind, Protection, ServerId, Settings, SharePolicy,
    Sharing, SharingMode, SlotCost, SlotCostTable, TwoLevelSettings, WindowOrder,
};

use crate::apps::{App, Capacity, Share};
use crate::clients::{AUTO, Account, AppIndex, Auto, AutoShare, HOSTS_LIMIT, Identify, Meanings, Reading};
use crate::hosts::HostSet;
use crate::keys::{HISTORY, LIMITS, LOG, PROFILE, PROFILE_ROOT, ROOT, SCHEDULER, SECTIONS, SLOT_COST, SOCKETS};
use crate::network::{Address, Addresses, Listener, Metrics, Owner, Peers, Protocol, Server, Trust, Web};
use crate::schema::{InForce, Problems, Setting, Table, did_you_mean, read_file, read_text};
use crate::units::{Rate, Size, decimal, parse_size, quote};
use crate::{apps, clients, keys, network, schema, tunables};

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
    settings: InForce,
}

impl Config {
    /// Reads and checks a file; refuses one larger than [`FILE_LIMIT`](crate::FILE_LIMIT).
    pub fn load(path: &Path) -> Result<Self, Problems> {
        let file = path.display().to_string();
        let text = read_text(path).map_err(|error| Problems::of_file(&file, &format!("cannot be read: {error}")))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut config = Self::parse_with(&file, &text, &|name| read_text(&folder.join(name)))?;
        let peers = config.peers.iter_mut().flat_map(Peers::paths);
        let owners = config.owners.iter_mut().map(|owner| &mut owner.token);
        let metrics = config.metrics.iter_mut().filter_map(|metrics| metrics.token.as_mut());
        let web = config.web.iter_mut().map(|web| &mut web.key);
        peers.chain(owners).chain(metrics).chain(web).for_each(|path| *path = folder.join(&*path));
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
        let scheduler = read_scheduler(root, are_mounts, files);
        let capacity = scheduler.capacity.map(|server| Capacity { server, servers: servers.len() });
        let kind = scheduler.observed.unwrap_or(scheduler.policy.kind);
        let (mut shares, tables) = apps::read_shares(root, capacity);
        keys::warn(&tables, kind);
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
        let limits = read_limits(root, &servers);
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
            log: read_log(root),
            warnings: Problems::none(file),
            file: file.to_owned(),
            settings: InForce::default(),
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

<!-- Printed from crates/vpfs-config/src/keys.rs; do not edit. UPDATE=1 cargo test -p vpfs-config rewrites it. -->

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

fn read_history(root: &Table<'_>) -> bool {
    let table = root.table("history", &HISTORY);
    table.choice("enabled") != Some(0)
}

/// How much clients and servers can make a proxy hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Client connections of one process.
    pub connections: usize,
    /// Client connections of one client host.
    pub connections_per_host: usize,
    /// Operations of one connection that are held or in progress.
    pub operations: usize,
    /// Bytes of the requests of one connection that are held or in progress.
    pub request_bytes: Bytes,
    /// Bytes of one connection waiting to be sent to one side.
    pub buffer: Bytes,
    /// Bytes that all connections of one process hold together.
    pub memory: Bytes,
    /// Bytes that all connections of one client host hold together.
    pub host_memory: Bytes,
    /// Limit for the server's answer to an operation.
    pub reply_timeout: Duration,
    /// How long a request is held until it is sent only when its client repeats it.
    pub max_hold: Duration,
    /// Limit for a transfer that makes no progress.
    pub flow_timeout: Duration,
    /// Limit for an operation that waits for its client.
    pub stall_timeout: Duration,
    /// Limit for the rest of a request of which a part has arrived.
    pub request_timeout: Duration,
    /// How long clients are told to wait for an answer; `None` keeps the servers' value.
    pub client_timeout: Option<Duration>,
    /// Limit for connecting to a server.
    pub connect_timeout: Duration,
    /// Limit for operations in progress at shutdown.
    pub drain_timeout: Duration,
    /// Limit for what a server's host has not stored yet.
    pub write_back: WriteBack,
}

/// How much of what was written may be in the memory of a server's host only, for each disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// What the disk stores in an eighth of a second.
    Auto,
    /// This much.
    Size(Bytes),
    /// As much as the kernel is set up for.
    Off,
}

/// The least urgent level of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Someone must act.
    Error,
    /// Degraded but serving.
    Warn,
    /// Life cycle.
    Info,
    /// Each decision.
    Debug,
    /// Bytes.
    Trace,
}

impl LogLevel {
    /// In the order of the table of tunables.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Its name in tracing filters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Readable text.
    Text,
    /// JSON for programs.
    Json,
}

/// Settings of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The least urgent level shown.
    pub level: LogLevel,
    /// Text or JSON.
    pub format: LogFormat,
}

fn read_limits(root: &Table<'_>, servers: &[Server]) -> Limits {
    let table = root.table("limits", &LIMITS);
    let count = |key| usize::try_from(table.number_or_default(key)).unwrap_or(usize::MAX);
    let span = |key| Duration::from_nanos(table.number_or_default(key));
    let memory = table.number_or_default("memory");
    let connections = count("connections");
    let client_timeout = table.number("client_timeout").map(Duration::from_nanos);
    Limits {
        connections,
        connections_per_host: connections_per_host(&table, connections),
        operations: count("operations"),
        request_bytes: request_bytes(&table, servers),
        buffer: Bytes(table.number_or_default("buffer")),
        memory: Bytes(memory),
        host_memory: Bytes(host_memory(&table, memory)),
        reply_timeout: span("reply_timeout"),
        max_hold: max_hold(&table, client_timeout),
        flow_timeout: span("flow_timeout"),
        stall_timeout: span("stall_timeout"),
        request_timeout: span("request_timeout"),
        client_timeout,
        connect_timeout: span("connect_timeout"),
        drain_timeout: span("drain_timeout"),
        write_back: write_back(&table),
    }
}

/// By default a quarter, so that four hosts are needed to use up all connections. But one host may use up a small
/// number of connections alone: few hosts are expected there.
fn connections_per_host(table: &Table<'_>, connections: usize) -> usize {
    const SMALL: usize = 64;
    match table.number("connections_per_host").map(|count| usize::try_from(count).unwrap_or(usize::MAX)) {
        Some(count) if count > connections => {
            table.refuse("connections_per_host", format!("{count} is more than limits.connections, {connections}"));
            connections
        }
        Some(count) => count,
        None => {
            let count = (connections / 4).max(SMALL).min(connections);
            table.set("connections_per_host", count.to_string());
            count
        }
    }
}

/// How long clients wait for an answer if `limits.client_timeout` does not say it: the default of OrangeFS.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(300);

/// By default nine tenths of what clients wait; the server needs the rest to answer. What is held for longer is sent
/// when its client repeats it, so less than half of that would only delay.
fn max_hold(table: &Table<'_>, client_timeout: Option<Duration>) -> Duration {
    let patience = client_timeout.unwrap_or(CLIENT_TIMEOUT);
    let default = patience * 9 / 10;
    let Some(held) = table.number("max_hold").map(Duration::from_nanos) else { return default };
    if (patience / 2..patience).contains(&held) {
        return held;
    }
    let of =
        if client_timeout.is_some() { "limits.client_timeout" } else { "by default, as there is no client_timeout" };
    let half = patience / 2;
    let message =
        format!("{held:?} is not from {half:?} to less than {patience:?}, which clients wait for an answer ({of})");
    table.refuse("max_hold", message);
    default
}

/// The requests of OrangeFS carry little data. Those of NFS carry all that is written: 64 slots of 1 MiB, as servers
/// give them to a client, and some more for others on the connection.
fn request_bytes(table: &Table<'_>, servers: &[Server]) -> Bytes {
    if let Some(given) = table.number("request_bytes") {
        return Bytes(given);
    }
    let is_nfs = servers.iter().any(|server| server.address.protocol() == Some(Protocol::Nfs));
    let default = Bytes::mib(if is_nfs { 80 } else { 4 });
    table.set("request_bytes", Size(default).to_string());
    default
}

fn write_back(table: &Table<'_>) -> WriteBack {
    /// Less would be a few calls.
    const LEAST: Bytes = Bytes::kib(256);
    let text = table.text("write_back").unwrap_or("auto");
    let (setting, shown) = match text {
        "auto" => (WriteBack::Auto, text.to_owned()),
        "off" => (WriteBack::Off, text.to_owned()),
        size => match parse_size(size) {
            Ok(size) if size >= LEAST => (WriteBack::Size(size), Size(size).to_string()),
            Ok(size) => {
                let message = format!("{} is less than {}; write \"auto\", or more", Size(size), Size(LEAST));
                table.refuse("write_back", message);
                return WriteBack::Auto;
            }
            Err(_) => {
                let message = format!("{} is neither \"auto\", \"off\" nor a size such as \"64MiB\"", quote(size));
                table.refuse("write_back", message);
                return WriteBack::Auto;
            }
        },
    };
    table.set("write_back", shown);
    setting
}

fn host_memory(table: &Table<'_>, memory: u64) -> u64 {
    match table.number("host_memory") {
        Some(host) if host > memory => {
            let message = format!("{} is more than limits.memory, {}", Size(Bytes(host)), Size(Bytes(memory)));
            table.refuse("host_memory", message);
            memory
        }
        Some(host) => host,
        None => {
            table.set("host_memory", Size(Bytes(memory / 4)).to_string());
            memory / 4
        }
    }
}

fn read_log(root: &Table<'_>) -> Log {
    let table = root.table("log", &LOG);
    let formats = [LogFormat::Text, LogFormat::Json];
    Log {
        level: table.choice("level").map_or(LogLevel::Info, |index| LogLevel::ALL[index]),
        format: table.choice("format").map_or(LogFormat::Text, |index| formats[index]),
    }
}

/// In the order of the table of tunables.
const BACKFILL: [Backfill; 2] = [Backfill::Bounded, Backfill::Paper];

const PROTECTIONS: [Protection; 2] = [Protection::Balanced, Protection::Strong];

const DEADLINES: [Deadlines; 2] = [Deadlines::Paced, Deadlines::Paper];

const WINDOW_ORDERS: [WindowOrder; 2] = [WindowOrder::Fair, WindowOrder::Paper];

const SHARING_MODES: [SharingMode; 3] = [SharingMode::Local, SharingMode::Threshold, SharingMode::Layout];

/// Why a file need not have a setting.
const OF_PROFILE: &str = "of the profile";

/// How requests are scheduled in front of each server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Policy, slots of one server and slots of one request.
    pub policy: Settings,
    /// Cost of a metadata operation for each object: its real size is not known before it is served, and is similar for
    /// all [vPFS+ §IV].
    pub metadata_cost: Bytes,
    /// The throughput of one server.
    pub capacity: Option<Rate>,
    /// The policy that is not in force, because nothing is to be held.
    pub observed: Option<PolicyKind>,
}

impl Table<'_> {
    /// The `scheduler` table inside this one, like `[scheduler]` in vpfs.toml; `files` returns the text of a profile by
    /// name.
    pub fn scheduler(&self, files: &dyn Fn(&str) -> io::Result<String>) -> SchedulerConfig {
        read_scheduler(self, false, files)
    }
}

fn read_scheduler(root: &Table<'_>, are_mounts: bool, files: Files<'_>) -> SchedulerConfig {
    let table = root.table("scheduler", &SCHEDULER);
    let kind = if are_mounts { read_kind_of_mounts(&table) } else { read_kind(&table) };
    keys::warn(std::slice::from_ref(&table), kind);
    let profile = load_profile(&table, files);
    let depth = read_depth(&table, profile.as_ref());
    let observed = (table.choice("mode") == Some(1)).then_some(kind);
    let policy = Settings {
        backfill: table.choice("backfill").map_or(Backfill::default(), |index| BACKFILL[index]),
        sharing: Sharing { servers: servers(root), ..read_sharing(&table, kind) },
        metadata_depth: table.count("metadata_depth").and_then(Depth::new),
        two_level: TwoLevelSettings {
            deadlines: table.choice("deadlines").map_or(Deadlines::default(), |index| DEADLINES[index]),
            replenish_period: table.duration_or_default("replenish_period"),
            control_window: table.duration_or_default("control_window"),
            outstanding_max: table.count("outstanding_max").expect("the row has a default that fits"),
        },
        ioco: IocoSettings {
            window: table.duration_or_default("window"),
            order: table.choice("window_order").map_or(WindowOrder::default(), |index| WINDOW_ORDERS[index]),
            ..IocoSettings::default()
        },
        protection: table.choice("protection").map_or(Protection::default(), |index| PROTECTIONS[index]),
        ..Settings::new(kind, depth, read_slot_costs(&table, profile, depth))
    };
    let policy = match observed {
        Some(_) => Settings { kind: PolicyKind::Fifo, metadata_depth: None, ..policy },
        None => policy,
    };
    SchedulerConfig {
        policy,
        metadata_cost: Bytes(table.number_or_default("metadata_cost")),
        capacity: table.number("capacity").map(Rate),
        observed,
    }
}

fn servers(root: &Table<'_>) -> u32 {
    u32::try_from(root.list("server").len()).unwrap_or(u32::MAX)
}

fn read_kind(table: &Table<'_>) -> PolicyKind {
    table.choice("policy").map_or(PolicyKind::Isolation, |index| PolicyKind::ALL[index])
}

/// Policies that learn what the storage's time costs, or order whole servers, would take what other hosts do for the
/// cost of their own requests.
fn read_kind_of_mounts(table: &Table<'_>) -> PolicyKind {
    const HERE: [PolicyKind; 3] = [PolicyKind::Fifo, PolicyKind::SfqD, PolicyKind::SfqDPlus];
    if !table.has("policy") {
        table.set("policy", PolicyKind::SfqDPlus.name());
        table.imply("policy", "of mounts");
        return PolicyKind::SfqDPlus;
    }
    let kind = read_kind(table);
    if !HERE.contains(&kind) {
        let why = "judges the storage by what it sees, and a mount sees its own host only";
        table.refuse("policy", format!("{} {why}; write sfq-d-plus, sfq-d or fifo", kind.name()));
    }
    kind
}

/// A value in the file takes precedence over the profile.
fn read_depth(table: &Table<'_>, profile: Option<&MeasuredProfile>) -> Depth {
    if let Some(MeasuredProfile { depth: Some(depth), .. }) = profile
        && !table.has("depth")
    {
        table.set("depth", depth.get().to_string());
        table.imply("depth", OF_PROFILE);
        return *depth;
    }
    depth(table)
}

fn read_slot_costs(table: &Table<'_>, profile: Option<MeasuredProfile>, depth: Depth) -> SlotCostTable {
    match profile {
        Some(profile) if !table.has("slot_cost") && !table.has("small_threshold") => {
            for (key, text) in profile.shown {
                table.set(key, text);
                table.imply(key, OF_PROFILE);
            }
            profile.slot_costs
        }
        _ => read_table(table, depth).0,
    }
}

fn read_sharing(table: &Table<'_>, kind: PolicyKind) -> Sharing {
    let mode = table.choice("sharing").map_or(SharingMode::Local, |index| SHARING_MODES[index]);
    if mode == SharingMode::Local && table.is_used("sharing", kind) {
        let keys = ["broadcast_threshold", "metadata_threshold", "min_local_share"];
        table.warn_of(&keys, "has no effect with sharing = \"local\"; remove it, or choose another sharing");
    }
    Sharing {
        mode,
        broadcast_threshold: Bytes(table.number_or_default("broadcast_threshold")),
        metadata_threshold: table.count("metadata_threshold").expect("the row has a default that fits"),
        min_local_share_ppm: read_min_local_share(table),
        ..Sharing::default()
    }
}

/// A percentage in parts per million, rounded down.
fn read_min_local_share(table: &Table<'_>) -> u32 {
    const KEY: &str = "min_local_share";
    let default = Sharing::default().min_local_share_ppm;
    let Some(found) = table.text(KEY) else {
        table.set(KEY, "1%");
        return default;
    };
    let percent = found.trim().strip_suffix('%').and_then(|percent| decimal(percent.trim()));
    let ppm = percent.filter(|(_, places)| *places <= 9).map(|(digits, places)| digits * 10_000 / 10_u128.pow(places));
    match ppm.and_then(|ppm| u32::try_from(ppm).ok()).filter(|ppm| *ppm <= 1_000_000) {
        Some(ppm) => {
            table.set(KEY, found);
            ppm
        }
        None => {
            table.refuse(KEY, format!("{} is not a share from \"0%\" to \"100%\"", quote(found)));
            default
        }
    }
}

pub(crate) fn depth(table: &Table<'_>) -> Depth {
    table.count("depth").and_then(Depth::new).expect("the row has a default and excludes 0")
}

type Shown = [(&'static str, String); 2];

/// Rows by operation and size, with their lines; line 0 for the default ones.
type Rows = BTreeMap<(OpKind, Bytes), (SlotCost, usize)>;

const BOTH: [OpKind; 2] = [OpKind::Read, OpKind::Write];

fn op_name(op: OpKind) -> &'static str {
    match op {
        OpKind::Read => "read",
        OpKind::Write => "write",
        OpKind::Metadata => "metadata",
    }
}

/// The table, and its keys as text.
fn read_table(scheduler: &Table<'_>, depth: Depth) -> (SlotCostTable, Shown) {
    let small = Bytes(scheduler.number_or_default("small_threshold"));
    let rows = if scheduler.has("slot_cost") { read_rows(scheduler, small, depth) } else { default_rows(small) };
    let classes = |op| {
        let rows = rows.iter().filter(move |row| row.0.0 == op);
        rows.map(|(&(_, up_to), &(slot_cost, _))| SizeClass { up_to, slot_cost }).collect::<Vec<_>>()
    };
    let (reads, writes) = (classes(OpKind::Read), classes(OpKind::Write));
    match (reads.is_empty(), writes.is_empty()) {
        // Otherwise one operation would silently remain without a profile.
        (false, true) => scheduler.refuse("slot_cost", "has no row for writes; add one, or omit op in a row"),
        (true, false) => scheduler.refuse("slot_cost", "has no row for reads; add one, or omit op in a row"),
        _ => {}
    }
    let show = |(&(op, up_to), &(slots, _)): (&(OpKind, Bytes), &(SlotCost, usize))| {
        format!("{} up to {}: {}", op_name(op), Size(up_to), slots.get())
    };
    let shown = rows.iter().map(show).collect::<Vec<_>>().join(", ");
    let element = |(&(op, up_to), &(slots, _)): (&(OpKind, Bytes), &(SlotCost, usize))| {
        format!("{{ op = \"{}\", up_to = \"{}\", slots = {} }}", op_name(op), Size(up_to), slots.get())
    };
    scheduler.set_list("slot_cost", &rows.iter().map(element).collect::<Vec<_>>(), shown.clone());
    scheduler.imply("slot_cost", "of the paper's storage");
    let table = SlotCostTable::new(small, reads, writes).unwrap_or_else(|error| {
        scheduler.refuse("slot_cost", error.to_string());
        SlotCostTable::uniform()
    });
    (table, [("small_threshold", Size(small).to_string()), ("slot_cost", shown)])
}

/// The rows of [`SlotCostTable::default`] above the threshold.
fn default_rows(small: Bytes) -> Rows {
    let table = SlotCostTable::default();
    let sizes = [Bytes::kib(512), Bytes::mib(1), Bytes::mib(2)];
    let sizes = sizes.iter().filter(|&&size| size > small);
    sizes.flat_map(|&size| BOTH.map(|op| ((op, size), (table.slot_cost(op, size), 0)))).collect()
}

fn read_rows(scheduler: &Table<'_>, small: Bytes, depth: Depth) -> Rows {
    let mut rows = Rows::new();
    for row in scheduler.tables("slot_cost", &SLOT_COST) {
        let ops = row.choice("op").map_or(&BOTH[..], |index| &BOTH[index..=index]);
        let up_to = row.number("up_to").map(Bytes);
        let slots = row.count("slots").and_then(SlotCost::new);
        let (Some(up_to), Some(slots)) = (up_to, slots) else { continue };
        if up_to <= small {
            let message =
                format!("is not above small_threshold ({}); requests up to that size take 1 slot", Size(small));
            row.refuse("up_to", message);
            continue;
        }
        if slots.get() > depth.get() {
            let message = format!("{} exceeds depth; {} is used", slots.get(), depth.get());
            row.cx.warn(row.line_of("slots"), row.path("slots"), message);
        }
        for &op in ops {
            if let Some((_, line)) = rows.insert((op, up_to), (slots, row.line_of("up_to"))) {
                let (op, size) = (op_name(op), Size(up_to));
                row.refuse("up_to", format!("line {line} also has a row for {op}s up to {size}; remove one of them"));
            }
        }
    }
    rows
}

pub(crate) type Files<'a> = &'a dyn Fn(&str) -> io::Result<String>;

struct MeasuredProfile {
    pub(crate) depth: Option<Depth>,
    slot_costs: SlotCostTable,
    /// The slot costs as text.
    pub(crate) shown: Shown,
}

/// The profile that `[scheduler]` names; `None` if it names none, or one with a problem, which is reported.
fn load_profile(scheduler: &Table<'_>, files: Files<'_>) -> Option<MeasuredProfile> {
    const KEY: &str = "profile";
    let name = scheduler.text(KEY)?;
    scheduler.set(KEY, name);
    let read = files(name).map_err(|error| format!("{name} cannot be read: {error}; create it with `vpfs profile`"));
    match read.and_then(|text| parse(name, &text).map_err(|problems| problems.to_string())) {
        Ok(profile) => Some(profile),
        Err(message) => {
            scheduler.refuse(KEY, message);
            None
        }
    }
}

fn parse(file: &str, text: &str) -> Result<MeasuredProfile, Problems> {
    read_file(file, text, &PROFILE_ROOT, |root| {
        let table = root.table("scheduler", &PROFILE);
        let depth = depth(&table);
        let (slot_costs, shown) = read_table(&table, depth);
        MeasuredProfile { depth: table.has("depth").then_some(depth), slot_costs, shown }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_cores() {
        let rows = default_rows(Bytes::kib(128));
        let classes = |op| {
            let rows = rows.iter().filter(move |row| row.0.0 == op);
            rows.map(|(&(_, up_to), &(slot_cost, _))| SizeClass { up_to, slot_cost }).collect()
        };
        let table = SlotCostTable::new(Bytes::kib(128), classes(OpKind::Read), classes(OpKind::Write));
        assert_eq!(table, Ok(SlotCostTable::default()));
        assert_eq!(default_rows(Bytes::mib(1)).len(), 2);
    }
}

//! Decides to which application a client belongs.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use glob::{MatchOptions, Pattern};
use toml::de::DeValue;
use vpfs_core::{AppPolicy, OpKind, Weight};

use crate::hosts::{HostList, HostSet};
use crate::schema::{Table, quoted};
use crate::units::quote;

/// The position of an application in [`crate::Config::apps`].
///
/// Differs from its [`vpfs_core::AppId`] once the file has been read again: ids stay with their names, positions do
/// not. [`crate::AppTable`] maps positions to ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppIndex(pub usize);

/// Which clients get their own application if no rule matches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoBy {
    /// None; they belong to the default application.
    Off,
    /// One for each client address.
    ClientHost,
    /// One for each user.
    Uid,
    /// One for each Slurm job, and each user outside of jobs.
    Job,
}

/// How applications are created for clients that no rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto {
    /// The clients that get one.
    pub by: AutoBy,
    /// The maximum number.
    pub limit: usize,
    /// Programs of a mount: each user and each job has a share, in which commands have weights of their own.
    pub have_runs: bool,
    /// The weight of each share of them.
    pub weight: Weight,
    /// Which of them are in a share.
    pub share: AutoShare,
}

/// Which automatic applications share a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoShare {
    /// All.
    Together,
    /// Those of one network, with a prefix of this many bits in IPv4.
    Network(u8),
    /// None.
    Each,
}

/// The share of all automatic applications, or the beginning of the names of those for networks.
pub(crate) const AUTO: &str = "auto";

impl AutoShare {
    /// The prefix that the addresses of an IPv6 network have in common: hosts choose the rest themselves.
    const PREFIX_V6: u8 = 64;

    /// The path of the share of an automatic application, `auto` or for example `auto:10.1.2.0`.
    pub(crate) fn path(self, key: AutoKey) -> Option<String> {
        match (self, key) {
            (Self::Each, _) => None,
            (Self::Network(prefix), AutoKey::Host(IpAddr::V4(ip))) => {
                let network = Ipv4Addr::from_bits(ip.to_bits() & !u32::MAX.unbounded_shr(prefix.into()));
                Some(format!("{AUTO}:{network}"))
            }
            (Self::Network(_), AutoKey::Host(IpAddr::V6(ip))) => {
                let network = Ipv6Addr::from_bits(ip.to_bits() & !u128::MAX.unbounded_shr(Self::PREFIX_V6.into()));
                Some(format!("{AUTO}:{network}"))
            }
            (Self::Together | Self::Network(_), _) => Some(AUTO.to_owned()),
        }
    }
}

/// The application to which a client belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// An application of the file.
    App(AppIndex),
    /// A pushed one, by its position.
    Pushed(usize),
    /// One created for this client.
    Auto(AutoKey),
}

/// The client host, user or job of an automatic application. Displays as `host:10.1.2.3`, `uid:1000`, `job:4711` or
/// `uid:1000/weight:4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AutoKey {
    /// A client host.
    Host(IpAddr),
    /// A user.
    Uid(u32),
    /// A Slurm job.
    Job(u32),
    /// The commands of a user, or of a job's user, that have this weight among the user's, or the job's, programs.
    Run(RunOf, RunWeight),
}

/// In whose share commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunOf {
    /// A user's.
    Uid(u32),
    /// A job's.
    Job(u32),
}

impl AutoKey {
    /// Whose programs these are.
    pub(crate) fn owner(self) -> Self {
        match self {
            Self::Run(RunOf::Uid(uid), _) => Self::Uid(uid),
            Self::Run(RunOf::Job(job), _) => Self::Job(job),
            other => other,
        }
    }
}

impl fmt::Display for AutoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(ip) => write!(f, "host:{ip}"),
            Self::Uid(uid) => write!(f, "uid:{uid}"),
            Self::Job(job) => write!(f, "job:{job}"),
            Self::Run(_, weight) => write!(f, "{}/weight:{weight}", self.owner()),
        }
    }
}

/// Decides to which application a client belongs. Created by [`crate::Config::resolve`].
#[derive(Clone, Debug)]
pub struct Identify {
    listeners: Vec<Option<AppIndex>>,
    /// In the order of the file's applications.
    rules: Vec<(AppIndex, Matcher)>,
    pushed: Arc<PushedApps>,
    default: AppIndex,
    auto: AutoBy,
}

impl Identify {
    /// The same with these pushed applications, after those of the file and before automatic ones.
    #[must_use]
    pub fn with(self, pushed: Arc<PushedApps>) -> Self {
        Self { pushed, ..self }
    }

    /// The application of a client's request. An unknown user matches no rule with `uids`. O(number of rules of the
    /// file and networks), no allocation.
    pub fn identify(&self, client: &Client<'_>) -> Identity {
        if let Some(app) = self.listeners.get(client.listener).copied().flatten() {
            return Identity::App(app);
        }
        // A dual-stack socket reports IPv4 clients as ::ffff:10.1.2.3.
        let client = Client { ip: client.ip.to_canonical(), ..*client };
        if let Some((app, _)) = self.rules.iter().find(|(_, rule)| rule.matches(&client)) {
            return Identity::App(*app);
        }
        if let Some(index) = self.pushed.find(&client) {
            return Identity::Pushed(index);
        }
        match (self.auto, client.uid) {
            (AutoBy::ClientHost, _) => Identity::Auto(AutoKey::Host(client.ip)),
            (AutoBy::Uid | AutoBy::Job, Some(uid)) => Identity::Auto(AutoKey::Uid(uid)),
            (AutoBy::Uid | AutoBy::Job, None) | (AutoBy::Off, _) => Identity::App(self.default),
        }
    }

    /// The application of a program that uses a mount. O(number of applications and patterns), no allocation.
    pub fn identify_program(&self, program: &Program<'_>) -> Identity {
        if let Some((app, _)) = self.rules.iter().find(|(_, matcher)| matcher.has_program(program)) {
            return Identity::App(*app);
        }
        if let Some(index) = self.pushed.find_program(program) {
            return Identity::Pushed(index);
        }
        let owner = match (self.auto, program.job()) {
            (AutoBy::Off, _) => return Identity::App(self.default),
            (AutoBy::Job, Some(job)) => RunOf::Job(job),
            _ => RunOf::Uid(program.uid),
        };
        Identity::Auto(match (owner, program.weight) {
            (_, Some(weight)) => AutoKey::Run(owner, weight),
            (RunOf::Uid(uid), None) => AutoKey::Uid(uid),
            (RunOf::Job(job), None) => AutoKey::Job(job),
        })
    }
}

/// Builds an [`Identify`] from the rules of applications, in their order, and the applications of listeners.
pub(crate) fn resolve<'a>(
    rules: impl Iterator<Item = (AppIndex, &'a Rule)>,
    listeners: Vec<Option<AppIndex>>,
    default: AppIndex,
    auto: Auto,
    meanings: &Meanings<'_>,
) -> Identify {
    let rules = rules.map(|(index, rule)| (index, Matcher::new(rule, meanings))).collect();
    Identify { listeners, rules, pushed: Arc::default(), default, auto: auto.by }
}

/// A client of a proxy as its connection and a request show it.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// The position in the file of the listener that it connected to.
    pub listener: usize,
    /// Where it connected from.
    pub ip: IpAddr,
    /// The user that it states, if it states one.
    pub uid: Option<u32>,
    /// The groups that it states.
    pub gids: &'a [u32],
    /// The name that its host states for itself; empty if it states none.
    pub machine: &'a str,
    /// What it asks for.
    pub op: OpKind,
}

/// The names of one list, and the length of each.
const NAMES_MAX: usize = 1024;

const LENGTH_MAX: usize = 256;

/// A user or a group, by the name that the system knows it by. Displays as `user alice` or `group physics`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    /// A user.
    User(String),
    /// A group.
    Group(String),
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user {name}"),
            Self::Group(name) => write!(f, "group {name}"),
        }
    }
}

/// Reads a list of names; `ids` is the key to which numbers belong.
fn read_accounts(table: &Table<'_>, key: &str, ids: &str) -> Vec<String> {
    if !table.has(key) {
        return Vec::new();
    }
    let expected = format!(
        "expects names as getent shows them, such as \"alice\"; numbers belong into {ids}. Patterns such as \"svc-*\" \
         cannot be looked up, since directories do not list all their names: write a group"
    );
    let name = |value: &DeValue<'_>| value.as_str().filter(|name| is_name(name)).map(str::to_owned);
    let names = table.elements(key, &expected, name);
    if names.len() > NAMES_MAX {
        table.refuse(key, format!("has {} names; at most {NAMES_MAX} are allowed: name a group", names.len()));
    }
    table.set_list(key, &names.iter().map(|name| quoted(name)).collect::<Vec<_>>(), names.join(", "));
    names
}

/// Directories have names of nearly any form, such as `DOMAIN\alice` and `alice@site.org`.
pub(crate) fn is_name(name: &str) -> bool {
    let is_wrong = |c: char| c.is_control() || matches!(c, ':' | ',' | '*' | '?');
    (1..=LENGTH_MAX).contains(&name.len())
        && name.trim() == name
        && !name.contains(is_wrong)
        && !name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// The maximum number of hosts in all host lists of a file together.
pub const HOSTS_LIMIT: usize = 65_536;

/// Which clients an application's rule matches. All given parts must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The addresses they connect from.
    pub clients: Option<HostList>,
    /// Users.
    pub uids: Option<Ids>,
    /// Users by name, beside `uids`.
    pub users: Vec<String>,
    /// Groups; one of them must match.
    pub gids: Option<Ids>,
    /// Groups by name, beside `gids`.
    pub groups: Vec<String>,
    /// The names that their hosts state for themselves.
    pub machines: Option<Patterns>,
    /// The ports of the listeners that they connect to.
    pub listeners: Option<Vec<u16>>,
    /// What they ask for.
    pub operations: Option<Vec<OpKind>>,
    /// The executables of programs that use a mount.
    pub programs: Option<Patterns>,
    /// Their control groups.
    pub cgroups: Option<Patterns>,
    /// The files that they use, below the mount.
    pub files: Option<Patterns>,
    /// The Slurm jobs that they belong to; only pushed applications have any.
    pub jobs: Option<Ids>,
}

/// A set of user or group ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids(Vec<(u32, u32)>);

impl Ids {
    /// The set of these ranges, ends included, in any order.
    pub(crate) fn of(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self(merged)
    }

    pub(crate) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    fn are_single(&self) -> bool {
        self.0.iter().all(|(low, high)| low == high)
    }

    /// O(log n) in the number of ranges.
    pub fn contains(&self, id: u32) -> bool {
        let after = self.0.partition_point(|&(low, _)| low <= id);
        after > 0 && id <= self.0[after - 1].1
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (low, high)) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            if low == high { write!(f, "{comma}{low}")? } else { write!(f, "{comma}{low}-{high}")? }
        }
        Ok(())
    }
}

impl Rule {
    /// Whether the rule has any part; a rule without parts matches no client.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }

    /// Whether what it matches depends on more than the client's host, user and groups as the file has them.
    pub(crate) fn has_more(&self) -> bool {
        let is_of_program =
            self.programs.is_some() || self.cgroups.is_some() || self.files.is_some() || self.jobs.is_some();
        let is_of_request = self.machines.is_some() || self.listeners.is_some() || self.operations.is_some();
        self.has_names() || is_of_request || is_of_program
    }

    /// Whether it has users or groups whose ids the file does not say.
    fn has_names(&self) -> bool {
        !self.users.is_empty() || !self.groups.is_empty()
    }

    pub(crate) fn user_accounts(&self) -> impl Iterator<Item = Account> {
        self.users.iter().cloned().map(Account::User)
    }

    pub(crate) fn group_accounts(&self) -> impl Iterator<Item = Account> {
        self.groups.iter().cloned().map(Account::Group)
    }
}

/// What names in rules stand for.
pub(crate) struct Meanings<'a> {
    /// The addresses of each host name, or none.
    pub(crate) hosts: &'a dyn Fn(&str) -> Vec<IpAddr>,
    pub(crate) accounts: &'a dyn Fn(&Account) -> Option<u32>,
    pub(crate) ports: &'a [Vec<u16>],
}

/// A rule with its host names, users, groups and ports resolved.
#[derive(Clone, Debug)]
struct Matcher {
    clients: Option<HostSet>,
    /// Positions in the file.
    listeners: Option<Vec<usize>>,
    rule: Rule,
}

impl Matcher {
    pub(crate) fn new(rule: &Rule, meanings: &Meanings<'_>) -> Self {
        let at = |wanted: &Vec<u16>| {
            let listeners = (0..).zip(meanings.ports);
            let found = listeners.filter(|(_, ports)| ports.iter().any(|port| wanted.contains(port)));
            found.map(|(index, _)| index).collect()
        };
        let clients = rule.clients.as_ref().map(|clients| clients.resolve(meanings.hosts));
        let listeners = rule.listeners.as_ref().map(at);
        let uids = resolved_ids(rule.uids.as_ref(), rule.user_accounts(), meanings.accounts);
        let gids = resolved_ids(rule.gids.as_ref(), rule.group_accounts(), meanings.accounts);
        Self { clients, listeners, rule: Rule { uids, gids, ..rule.clone() } }
    }

    /// O(networks) and O(log of ranges).
    pub(crate) fn matches(&self, client: &Client<'_>) -> bool {
        self.clients.as_ref().is_none_or(|hosts| hosts.contains(client.ip))
            && self.listeners.as_ref().is_none_or(|listeners| listeners.contains(&client.listener))
            && self.rule.machines.as_ref().is_none_or(|machines| machines.matches(client.machine))
            && self.has_user(client.uid, client.gids)
            && self.has_operation(client.op)
            && self.rule.jobs.is_none()
    }

    fn has_user(&self, uid: Option<u32>, gids: &[u32]) -> bool {
        self.rule.uids.as_ref().is_none_or(|uids| uid.is_some_and(|uid| uids.contains(uid)))
            && self.rule.gids.as_ref().is_none_or(|ids| gids.iter().any(|&gid| ids.contains(gid)))
    }

    fn has_operation(&self, op: OpKind) -> bool {
        self.rule.operations.as_ref().is_none_or(|operations| operations.contains(&op))
    }

    /// A program has neither an address nor a listener. O(patterns).
    fn has_program(&self, program: &Program<'_>) -> bool {
        let matches = |patterns: &Option<Patterns>, path| patterns.as_ref().is_none_or(|all| all.matches(path));
        let jobs = self.rule.jobs.as_ref();
        self.clients.is_none()
            && self.listeners.is_none()
            && jobs.is_none_or(|jobs| program.job().is_some_and(|job| jobs.contains(job)))
            && self.has_user(Some(program.uid), program.gids)
            && self.has_operation(program.op)
            && matches(&self.rule.programs, program.executable)
            && matches(&self.rule.cgroups, program.cgroup)
            && matches(&self.rule.files, program.file)
    }
}

/// Ids by number and name; `None` if there is neither.
fn resolved_ids(
    ids: Option<&Ids>,
    named: impl Iterator<Item = Account>,
    known: &dyn Fn(&Account) -> Option<u32>,
) -> Option<Ids> {
    let mut named = named.peekable();
    if named.peek().is_none() {
        return ids.cloned();
    }
    let found = named.filter_map(|account| known(&account)).map(|id| (id, id));
    Some(Ids::of(ids.map(Ids::ranges).unwrap_or_default().iter().copied().chain(found).collect()))
}

/// What the rules of a file have in common while they are read.
pub(crate) struct Reading<'a> {
    pub(crate) are_mounts: bool,
    /// The number of hosts that the file may still name.
    pub(crate) hosts_left: &'a mut usize,
    /// Ports that rules have, each with its line and key.
    pub(crate) ports: Vec<(u16, usize, String)>,
}

impl Reading<'_> {
    /// Reports ports that no listener has.
    pub(crate) fn check_ports(&self, root: &Table<'_>, listeners: &[Vec<u16>]) {
        let known: BTreeSet<u16> = listeners.iter().flatten().copied().collect();
        for (port, line, key) in self.ports.iter().filter(|(port, ..)| !known.contains(port)) {
            let known = known.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            root.cx.refuse(*line, key, format!("no [[listener]] has port {port}; their ports are {known}"));
        }
    }

    pub(crate) fn rule(&mut self, table: &Table<'_>) -> Rule {
        let of_programs = ["programs", "cgroups", "files"];
        if self.are_mounts {
            let why = "has no effect for mounts: their programs are on the same host; remove it";
            ["clients", "machines", "listeners"]
                .iter()
                .filter(|key| table.has(key))
                .for_each(|key| table.refuse(key, why));
        } else {
            of_programs.iter().filter(|key| table.has(key)).for_each(|key| table.refuse(key, unseen(key)));
        }
        let patterns = |key| table.has(key).then(|| Patterns::read(table, key));
        let rule = Rule {
            clients: table.has("clients").then(|| HostList::read(table, "clients", self.hosts_left)),
            uids: table.has("uids").then(|| read_ids(table, "uids")),
            users: read_accounts(table, "users", "uids"),
            gids: table.has("gids").then(|| read_ids(table, "gids")),
            groups: read_accounts(table, "groups", "gids"),
            machines: patterns("machines"),
            listeners: table.has("listeners").then(|| self.ports(table)),
            operations: table.has("operations").then(|| read_operations(table)),
            programs: patterns("programs"),
            cgroups: patterns("cgroups"),
            files: patterns("files"),
            jobs: None,
        };
        let keys = ["clients", "uids", "users", "gids", "groups", "machines", "listeners", "operations"];
        for key in keys.into_iter().chain(of_programs) {
            if table.has(key) && table.list(key).is_empty() {
                table.refuse(key, "is empty and would match no client; remove it to match all");
            }
        }
        rule
    }

    fn ports(&mut self, table: &Table<'_>) -> Vec<u16> {
        let key = "listeners";
        let read = |value: &DeValue<'_>| match value {
            DeValue::Integer(port) => u16::from_str_radix(port.as_str(), port.radix()).ok(),
            _ => None,
        };
        let ports = table.elements(key, "expects the ports of listeners such as 5335", read);
        self.ports.extend(ports.iter().map(|port| (*port, table.line_of(key), table.path(key))));
        let texts: Vec<String> = ports.iter().map(u16::to_string).collect();
        table.set_list(key, &texts, texts.join(", "));
        ports
    }
}

/// Why the requests of clients do not show what this key is about, and what does.
fn unseen(key: &str) -> &'static str {
    match key {
        "files" => {
            "is known of programs that use a mount only: requests of OrangeFS and NFS carry handles, which tell neither \
             a path nor an export; give an export a port of its own and write listeners, or write mount:// servers"
        }
        _ => {
            "is known of programs that use a mount only: requests tell a host, a user and groups; write clients, uids \
             or users, or write mount:// servers"
        }
    }
}

const OPERATIONS: [(&str, OpKind); 3] =
    [("read", OpKind::Read), ("write", OpKind::Write), ("metadata", OpKind::Metadata)];

fn read_operations(table: &Table<'_>) -> Vec<OpKind> {
    let named = |value: &DeValue<'_>| OPERATIONS.into_iter().find(|(name, _)| value.as_str() == Some(name));
    let expected =
        "expects \"read\", \"write\" or \"metadata\", which is all that requests of every protocol are told by";
    let found = table.elements("operations", expected, named);
    let names = found.iter().map(|(name, _)| *name);
    let quoted: Vec<String> = names.clone().map(quoted).collect();
    table.set_list("operations", &quoted, names.collect::<Vec<_>>().join(", "));
    found.into_iter().map(|(_, op)| op).collect()
}

const IDS_EXPECTED: &str = "expects numbers from 0 to 4294967295 and ranges such as \"1000-1999\"";

fn read_ids(table: &Table<'_>, key: &str) -> Ids {
    let range = |value: &DeValue<'_>| match value {
        DeValue::Integer(id) => u32::from_str_radix(id.as_str(), id.radix()).ok().map(|id| (id, id)),
        DeValue::String(text) => id_range(text),
        _ => None,
    };
    let names = if key == "uids" { "users" } else { "groups" };
    let mut ids = Vec::new();
    for value in table.list(key) {
        match (range(value.get_ref()), value.get_ref().as_str().filter(|text| is_name(text))) {
            (Some(range), _) => ids.push(range),
            (None, Some(name)) => {
                let message = format!("{} is a name; write {names} = [{}]", quote(name), quoted(name));
                table.cx.refuse(table.cx.line_of(value), table.path(key), message);
            }
            (None, None) => table.cx.refuse(table.cx.line_of(value), table.path(key), IDS_EXPECTED),
        }
    }
    let ids = Ids::of(ids);
    let range = |&(low, high): &(u32, u32)| if low == high { low.to_string() } else { format!("\"{low}-{high}\"") };
    table.set_list(key, &ids.0.iter().map(range).collect::<Vec<_>>(), ids.to_string());
    ids
}

/// A number, or a range such as `1000-1999`.
pub(crate) fn id_range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}

/// A program that uses a mount, as its kernel knows it.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Its user.
    pub uid: u32,
    /// Its groups.
    pub gids: &'a [u32],
    /// Its control group, a path.
    pub cgroup: &'a str,
    /// The path of its executable.
    pub executable: &'a str,
    /// The path of the file below the mount.
    pub file: &'a str,
    /// What it asks for.
    pub op: OpKind,
    /// The weight that its user gave it among his own programs.
    pub weight: Option<RunWeight>,
}

/// The weight of a command among its user's others. There are few, so that nobody makes applications without number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunWeight(u8);

impl RunWeight {
    /// The environment variable that carries it from `vpfs run` to all processes of a command.
    pub const VARIABLE: &str = "VPFS_WEIGHT";
    /// The largest one.
    pub const MAX: u8 = 10;

    /// `None` if it is not from 1 to 10.
    pub fn new(weight: u8) -> Option<Self> {
        (1..=Self::MAX).contains(&weight).then_some(Self(weight))
    }

    pub(crate) fn weight(self) -> Weight {
        Weight::new(self.0.into()).unwrap_or(Weight::ONE)
    }
}

impl fmt::Display for RunWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Program<'_> {
    pub(crate) fn job(&self) -> Option<u32> {
        job_of(self.cgroup)
    }
}

/// The Slurm job that a control group belongs to: slurmd puts processes into `/slurm/uid_1000/job_4711/step_0` or
/// `/system.slice/slurmstepd.scope/job_4711/step_0`. Users can make groups below their own, but not there.
pub fn job_of(cgroup: &str) -> Option<u32> {
    let mut parts = cgroup.split('/').skip(1);
    let is_slurms = match parts.next()? {
        "system.slice" => parts.next()?.ends_with("slurmstepd.scope"),
        first => first.starts_with("slurm"),
    };
    let job = parts.next().filter(|part| !part.starts_with("uid_")).or_else(|| parts.next())?;
    job.strip_prefix("job_")?.parse().ok().filter(|_| is_slurms)
}

/// Paths, as in a shell: `*` stands for any part of one name, `**` for any directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns(Vec<Pattern>);

impl Table<'_> {
    /// A list of patterns, if it is present.
    pub fn patterns(&self, key: &str) -> Option<Patterns> {
        self.has(key).then(|| Patterns::read(self, key))
    }
}

impl Patterns {
    /// O(patterns and lengths).
    pub fn matches(&self, path: &str) -> bool {
        let (require_literal_separator, require_literal_leading_dot) = (true, false);
        let options = MatchOptions { case_sensitive: true, require_literal_separator, require_literal_leading_dot };
        self.0.iter().any(|pattern| pattern.matches_with(path, options))
    }

    /// Each pattern as it was written.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(Pattern::as_str)
    }

    pub(crate) fn read(table: &Table<'_>, key: &str) -> Self {
        let mut patterns = Vec::new();
        for value in table.list(key) {
            match value.get_ref().as_str().map(Pattern::new) {
                Some(Ok(pattern)) => patterns.push(pattern),
                Some(Err(error)) => table.cx.refuse(table.cx.line_of(value), table.path(key), error.to_string()),
                None => table.cx.refuse(table.cx.line_of(value), table.path(key), table.mismatch(key, value.get_ref())),
            }
        }
        let texts = patterns.iter().map(Pattern::as_str);
        table.set_list(key, &texts.clone().map(quoted).collect::<Vec<_>>(), texts.collect::<Vec<_>>().join(", "));
        Self(patterns)
    }
}

/// The applications of all sets in order, found by the addresses, users and jobs in their rules.
#[derive(Debug, Default)]
pub struct PushedApps {
    apps: Vec<AppEntry>,
    matchers: Vec<Matcher>,
    by_name: HashMap<String, usize>,
    /// Those with single addresses, in order.
    by_address: HashMap<IpAddr, Vec<usize>>,
    /// Those without clients, by single users, in order.
    by_uid: HashMap<u32, Vec<usize>>,
    /// Those with single jobs, in order.
    by_job: HashMap<u32, Vec<usize>>,
    /// Those with networks, or ranges of users, or only groups, in order.
    others: Vec<usize>,
}

impl PushedApps {
    /// Indexes applications by their rules. O(hosts and users in all rules).
    pub(crate) fn new<'a>(apps: impl Iterator<Item = (AppEntry, &'a Rule)>) -> Self {
        let mut all = Self::default();
        let without_names = Meanings { hosts: &|_| Vec::new(), accounts: &|_| None, ports: &[] };
        for (index, (app, rule)) in apps.enumerate() {
            all.index(index, rule);
            all.matchers.push(Matcher::new(rule, &without_names));
            all.by_name.insert(app.name.clone(), index);
            all.apps.push(app);
        }
        all
    }

    fn index(&mut self, index: usize, rule: &Rule) {
        match (&rule.clients, &rule.uids, &rule.jobs) {
            (_, _, Some(jobs)) if jobs.are_single() => {
                for (job, _) in jobs.ranges() {
                    self.by_job.entry(*job).or_default().push(index);
                }
            }
            (Some(clients), ..) if clients.nets.iter().all(|net| net.prefix_len() == net.max_prefix_len()) => {
                for net in &clients.nets {
                    self.by_address.entry(net.addr().to_canonical()).or_default().push(index);
                }
            }
            (None, Some(uids), None) if uids.are_single() => {
                for (uid, _) in uids.ranges() {
                    self.by_uid.entry(*uid).or_default().push(index);
                }
            }
            _ => self.others.push(index),
        }
    }

    /// The position of the first application that matches a client. O(those that share its address or its user, and
    /// those with networks).
    pub(crate) fn find(&self, client: &Client<'_>) -> Option<usize> {
        let by_uid = client.uid.and_then(|uid| self.by_uid.get(&uid));
        self.first([self.by_address.get(&client.ip), by_uid], |matcher| matcher.matches(client))
    }

    /// The positions of all applications that match a client. O(applications).
    pub fn matching(&self, client: &Client<'_>) -> impl Iterator<Item = usize> {
        self.matchers.iter().enumerate().filter(|(_, matcher)| matcher.matches(client)).map(|(index, _)| index)
    }

    /// The same for a program that uses a mount. O(those of its job or its user, and those with networks).
    fn find_program(&self, program: &Program<'_>) -> Option<usize> {
        let by_job = program.job().and_then(|job| self.by_job.get(&job));
        self.first([by_job, self.by_uid.get(&program.uid)], |matcher| matcher.has_program(program))
    }

    /// The first one in these lists and among the others that matches.
    fn first(&self, lists: [Option<&Vec<usize>>; 2], matches: impl Fn(&Matcher) -> bool) -> Option<usize> {
        let matches = |index: &&usize| matches(&self.matchers[**index]);
        let first = |list: &Vec<usize>| list.iter().find(matches).copied();
        lists.into_iter().flatten().chain([&self.others]).filter_map(first).min()
    }

    /// The application at a position.
    pub fn get(&self, index: usize) -> Option<&AppEntry> {
        self.apps.get(index)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&AppEntry> {
        self.by_name.get(name).map(|index| &self.apps[*index])
    }

    /// The number of applications.
    pub fn len(&self) -> usize {
        self.apps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.apps.is_empty()
    }
}

/// An application with an id.
#[derive(Clone, Debug, PartialEq)]
pub struct AppEntry {
    /// The name in logs and in `vpfs peers`; automatic ones are `host:10.1.2.3` or `uid:1000`, pushed ones
    /// `slurm:4711`.
    pub name: String,
    /// No table of the file has it: it was created for a client, or pushed.
    pub is_automatic: bool,
    /// Whose it is, if its owner said so when it was pushed.
    pub charge: Charge,
    /// The share that it is in; `None` at the top.
    pub share: Option<Place>,
    /// The rest of what its table says; the number of its share and its order follow from names.
    pub policy: AppPolicy,
}

/// Whose a pushed application is, for metrics: nothing depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// What it is charged to.
    pub account: Option<String>,
    /// The name of its user.
    pub user: Option<String>,
}

/// A share that an application is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Names separated by `/`.
    pub path: String,
    /// The weight of the share, unless it has a table of its own.
    pub weight: Weight,
}

impl Place {
    /// A share whose weight, if it has no table of its own, is 1.
    pub(crate) fn at(path: String) -> Self {
        Self { path, weight: Weight::ONE }
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::{AppPolicy, OpKind};

    use super::*;
    use crate::{HostList, Ids};

    fn rule(clients: &[&str], uids: &[u32]) -> Rule {
        let mut list = HostList::default();
        clients.iter().for_each(|text| list.nets.extend(HostList::parse(text, 99).unwrap().nets));
        Rule {
            clients: (!clients.is_empty()).then_some(list),
            uids: (!uids.is_empty()).then(|| Ids::of(uids.iter().map(|uid| (*uid, *uid)).collect())),
            ..Rule::default()
        }
    }

    fn pushed(rules: &[Rule]) -> PushedApps {
        let entry = |index: usize| AppEntry {
            name: index.to_string(),
            is_automatic: true,
            charge: Charge::default(),
            share: None,
            policy: AppPolicy::default(),
        };
        PushedApps::new(rules.iter().enumerate().map(|(index, rule)| (entry(index), rule)))
    }

    /// However a rule is indexed, the first one in order counts, as if all were tried.
    #[test]
    fn the_first_rule_that_matches_counts() {
        let rules = [
            rule(&["10.0.0.1"], &[7]),
            rule(&["10.0.0.0/24"], &[8]),
            rule(&[], &[9]),
            rule(&["10.0.0.1", "10.0.0.2"], &[]),
            rule(&[], &[7, 8]),
        ];
        let apps = pushed(&rules);
        for ip in ["10.0.0.1", "10.0.0.2", "10.0.1.1"] {
            let ip: IpAddr = ip.parse().unwrap();
            for uid in [None, Some(7), Some(8), Some(9), Some(10)] {
                let client = Client { listener: 0, ip, uid, gids: &[], machine: "", op: OpKind::Read };
                let slow = apps.matchers.iter().position(|matcher| matcher.matches(&client));
                assert_eq!(apps.find(&client), slow, "{client:?}");
            }
        }
    }

    #[test]
    fn many_jobs_are_found_by_their_nodes() {
        let job = |job: u32| rule(&[&format!("10.{}.{}.1", job / 250, job % 250)], &[]);
        let apps = pushed(&(0..10_000).map(job).collect::<Vec<_>>());
        assert!(apps.others.is_empty() && apps.by_address.values().all(|list| list.len() == 1));
        let ip = "10.39.249.1".parse().unwrap();
        let client = Client { listener: 0, ip, uid: Some(1), gids: &[], machine: "", op: OpKind::Read };
        assert_eq!(apps.find(&client), Some(9_999));
    }
}

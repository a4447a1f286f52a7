//! Decides to which application a client belongs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use toml::de::DeValue;
use vpfs_core::Weight;

use super::accounts::{self, Account};
use super::host_list::{HostList, HostSet};
use super::patterns::Patterns;
use super::shares::AUTO;
use crate::schema::reader::Reader;

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
    /// The executables of programs that use a mount.
    pub programs: Option<Patterns>,
    /// Their control groups.
    pub cgroups: Option<Patterns>,
    /// The files that they use, below the mount.
    pub files: Option<Patterns>,
}

/// A set of user or group ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids(Vec<(u32, u32)>);

impl Ids {
    /// The set of these ranges, ends included, in any order.
    fn of(mut ranges: Vec<(u32, u32)>) -> Self {
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

    /// The ranges, ends included, in order.
    pub(crate) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
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
        let is_of_client = self.clients.is_some() || self.uids.is_some() || self.gids.is_some() || self.has_names();
        is_of_client || self.is_of_program()
    }

    /// Whether it has users or groups whose ids the file does not say.
    pub(crate) fn has_names(&self) -> bool {
        !self.users.is_empty() || !self.groups.is_empty()
    }

    /// Its users by name.
    pub(crate) fn user_accounts(&self) -> impl Iterator<Item = Account> {
        self.users.iter().cloned().map(Account::User)
    }

    /// Its groups by name.
    pub(crate) fn group_accounts(&self) -> impl Iterator<Item = Account> {
        self.groups.iter().cloned().map(Account::Group)
    }

    /// Whether only programs that use a mount can match.
    pub fn is_of_program(&self) -> bool {
        self.programs.is_some() || self.cgroups.is_some() || self.files.is_some()
    }
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
    /// The Slurm job that it belongs to: slurmd puts its processes into `/slurm/uid_1000/job_4711/step_0` or
    /// `/system.slice/slurmstepd.scope/job_4711/step_0`. Users can make groups below their own, but not there.
    fn job(&self) -> Option<u32> {
        let mut parts = self.cgroup.split('/').skip(1);
        let is_slurms = match parts.next()? {
            "system.slice" => parts.next()?.ends_with("slurmstepd.scope"),
            first => first.starts_with("slurm"),
        };
        let job = parts.next().filter(|part| !part.starts_with("uid_")).or_else(|| parts.next())?;
        job.strip_prefix("job_")?.parse().ok().filter(|_| is_slurms)
    }
}

/// The application to which a client belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// An application of the file.
    App(AppIndex),
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
    /// Those with a rule, in the order of the file.
    rules: Vec<(AppIndex, Matcher)>,
    default: AppIndex,
    auto: AutoBy,
}

/// A rule with its host names resolved.
#[derive(Clone, Debug)]
struct Matcher {
    clients: Option<HostSet>,
    rule: Rule,
}

impl Identify {
    /// The application of the client at `ip` that connected through a listener of application `listener` and states
    /// this user and these groups.
    ///
    /// Call again when a connection states another user. An unknown user matches no rule with `uids`. O(number of
    /// applications and networks), no allocation.
    pub fn identify(&self, listener: Option<AppIndex>, ip: IpAddr, uid: Option<u32>, gids: &[u32]) -> Identity {
        if let Some(app) = listener {
            return Identity::App(app);
        }
        // A dual-stack socket reports IPv4 clients as ::ffff:10.1.2.3.
        let ip = ip.to_canonical();
        if let Some((app, _)) = self.rules.iter().find(|(_, rule)| rule.matches(ip, uid, gids)) {
            return Identity::App(*app);
        }
        match (self.auto, uid) {
            (AutoBy::ClientHost, _) => Identity::Auto(AutoKey::Host(ip)),
            (AutoBy::Uid | AutoBy::Job, Some(uid)) => Identity::Auto(AutoKey::Uid(uid)),
            (AutoBy::Uid | AutoBy::Job, None) | (AutoBy::Off, _) => Identity::App(self.default),
        }
    }

    /// The application of a program that uses a mount. O(number of applications and patterns), no allocation.
    pub fn identify_program(&self, program: &Program<'_>) -> Identity {
        if let Some((app, _)) = self.rules.iter().find(|(_, matcher)| matcher.rule.has_program(program)) {
            return Identity::App(*app);
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

impl Rule {
    fn has_user(&self, uid: Option<u32>, gids: &[u32]) -> bool {
        self.uids.as_ref().is_none_or(|uids| uid.is_some_and(|uid| uids.contains(uid)))
            && self.gids.as_ref().is_none_or(|ids| gids.iter().any(|&gid| ids.contains(gid)))
    }

    fn has_program(&self, program: &Program<'_>) -> bool {
        let matches = |patterns: &Option<Patterns>, path| patterns.as_ref().is_none_or(|all| all.matches(path));
        self.has_user(Some(program.uid), program.gids)
            && matches(&self.programs, program.executable)
            && matches(&self.cgroups, program.cgroup)
            && matches(&self.files, program.file)
    }
}

impl Matcher {
    fn matches(&self, ip: IpAddr, uid: Option<u32>, gids: &[u32]) -> bool {
        self.clients.as_ref().is_none_or(|hosts| hosts.contains(ip)) && self.rule.has_user(uid, gids)
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

/// Builds an [`Identify`] from rules; `known` has the addresses of each host name, or none, and `accounts` the id of
/// each user and group.
pub(crate) fn resolve<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    default: AppIndex,
    auto: Auto,
    known: &dyn Fn(&str) -> Vec<IpAddr>,
    accounts: &dyn Fn(&Account) -> Option<u32>,
) -> Identify {
    let matcher = |rule: &Rule| Matcher {
        clients: rule.clients.as_ref().map(|clients| clients.resolve(known)),
        rule: Rule {
            uids: resolved_ids(rule.uids.as_ref(), rule.user_accounts(), accounts),
            gids: resolved_ids(rule.gids.as_ref(), rule.group_accounts(), accounts),
            ..rule.clone()
        },
    };
    let given = rules.enumerate().filter(|(_, rule)| rule.is_given());
    let rules = given.map(|(index, rule)| (AppIndex(index), matcher(rule))).collect();
    Identify { rules, default, auto: auto.by }
}

/// Reads the rule of an application; `hosts_left` is the number of hosts that the file may still name.
pub(crate) fn read_rule(reader: &Reader<'_>, are_mounts: bool, hosts_left: &mut usize) -> Rule {
    let of_programs = ["programs", "cgroups", "files"];
    let (without_effect, why) = match are_mounts {
        true => (&["clients"][..], "has no effect for mounts: their programs are on the same host; remove it"),
        false => (&of_programs[..], "is known of programs that use a mount only; remove it, or write mount:// servers"),
    };
    without_effect.iter().filter(|key| reader.has(key)).for_each(|key| reader.refuse(key, why));
    let patterns = |key| reader.has(key).then(|| Patterns::read(reader, key));
    let rule = Rule {
        clients: reader.has("clients").then(|| HostList::read(reader, "clients", hosts_left)),
        uids: reader.has("uids").then(|| read_ids(reader, "uids")),
        users: accounts::read(reader, "users", "uids"),
        gids: reader.has("gids").then(|| read_ids(reader, "gids")),
        groups: accounts::read(reader, "groups", "gids"),
        programs: patterns("programs"),
        cgroups: patterns("cgroups"),
        files: patterns("files"),
    };
    for key in ["clients", "uids", "users", "gids", "groups"].into_iter().chain(of_programs) {
        if reader.has(key) && reader.list(key).is_empty() {
            reader.refuse(key, "is empty and would match no client; remove it to match all");
        }
    }
    rule
}

fn read_ids(reader: &Reader<'_>, key: &str) -> Ids {
    let mut ranges = Vec::new();
    for value in reader.list(key) {
        let range = match value.get_ref() {
            DeValue::Integer(id) => u32::from_str_radix(id.as_str(), id.radix()).ok().map(|id| (id, id)),
            DeValue::String(text) => id_range(text),
            _ => None,
        };
        match range {
            Some(range) => ranges.push(range),
            None => {
                let message = "expects numbers from 0 to 4294967295 and ranges such as \"1000-1999\"";
                reader.cx.refuse(reader.cx.line_of(value), reader.path(key), message);
            }
        }
    }
    let ids = Ids::of(ranges);
    let range = |&(low, high): &(u32, u32)| if low == high { low.to_string() } else { format!("\"{low}-{high}\"") };
    reader.set_list(key, &ids.0.iter().map(range).collect::<Vec<_>>(), ids.to_string());
    ids
}

fn id_range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}

//! Decides to which application a client belongs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use vpfs_core::Weight;

use super::client::Client;
use super::program::{Program, RunWeight};
use super::pushed::PushedApps;
use super::rule::{Matcher, Meanings, Rule};

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
    /// The application of each listener; its clients belong to it.
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

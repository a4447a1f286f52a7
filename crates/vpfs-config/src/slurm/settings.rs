//! slurm.toml to validated types.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{Job, Template};
use crate::sets::SetName;
use crate::tunables::{Kind, Section, Tunable};
use crate::units::Rate;
use crate::{Patterns, Problems, Table, manual, read_file};

/// How proxies are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All, by `[peers]`.
    Peers,
    /// Those of this host, at their sockets.
    Sockets,
}

/// What slurm.toml says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The configuration of the proxies.
    pub config: PathBuf,
    /// In whose name jobs are pushed.
    pub owner: SetName,
    /// The file with the owner's token.
    pub token: Option<PathBuf>,
    /// How proxies are reached.
    pub reach: Reach,
    /// A node's client host, with `{node}` or `{address}`.
    pub clients: String,
    /// How often jobs are read without being woken.
    pub interval: Duration,
    /// How long proxies keep them.
    pub ttl: Duration,
    /// How long `squeue` may take.
    pub timeout: Duration,
    /// The socket at which the agent is woken.
    pub wake: PathBuf,
    /// In order.
    pub rules: Vec<Rule>,
}

/// What jobs get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    account: Option<Patterns>,
    partition: Option<Patterns>,
    qos: Option<Patterns>,
    user: Option<Patterns>,
    license: Option<Patterns>,
    comment: Option<Patterns>,
    name: Option<Patterns>,
    /// The weight of each job.
    pub weight: u32,
    share: Option<Template>,
    /// The top-level shares that the job's account may choose; `None` for any.
    top_level: Option<Arc<BTreeSet<String>>>,
    /// The maximum rate of each.
    pub cap: Option<Rate>,
}

impl Settings {
    /// Reads the text of a file, which is called `file` in messages and is in `folder`.
    ///
    /// # Errors
    /// All problems at once, each with its line and its remedy.
    pub fn parse(file: &str, text: &str, folder: &Path) -> Result<Self, Problems> {
        read_file(file, text, &ROOT, |root| {
            read(&root.table("agent", &AGENT), folder, read_rules(&root.tables("rule", &RULE)))
        })
    }

    /// The client host of a node with this address in slurm.conf.
    pub fn client_of(&self, node: &str, address: &str) -> String {
        self.clients.replace("{node}", node).replace("{address}", address)
    }

    /// Whether what a job gets depends on its account.
    pub fn uses_accounts(&self) -> bool {
        let has_place = |rule: &Rule| rule.share.as_ref().is_some_and(Template::has_account);
        self.rules.iter().any(|rule| rule.account.is_some() || has_place(rule))
    }

    /// Whether accounts choose top-level shares, by a rule that does not say which accounts may.
    pub fn trusts_accounts(&self) -> bool {
        self.rules.iter().any(Rule::trusts_accounts)
    }

    /// The same where users choose their accounts themselves (`sbatch -A`), so that an invented one gets no top-level
    /// share: only those in `known` can be chosen, unless the rule says for which accounts it is. Other jobs are as
    /// without an account.
    #[must_use]
    pub fn distrusting_accounts(mut self, known: BTreeSet<String>) -> Self {
        let known = Arc::new(known);
        for rule in self.rules.iter_mut().filter(|rule| rule.trusts_accounts()) {
            rule.top_level = Some(Arc::clone(&known));
        }
        self
    }

    /// What a job gets that no rule matches is what the last one says.
    pub(crate) fn rule_for(&self, job: &Job) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches(job))
    }
}

/// The default of a text, which the manual shows.
fn text<'a>(table: &Table<'a>, key: &str, default: &'static str) -> &'a str {
    table.text(key).unwrap_or(default)
}

fn read(agent: &Table<'_>, folder: &Path, rules: Vec<Rule>) -> Settings {
    let owner = text(agent, "owner", "slurm");
    let owner = SetName::parse(owner).map_err(|problem| agent.refuse("owner", problem));
    let clients = text(agent, "clients", "{address}");
    let without = clients.replace("{node}", "").replace("{address}", "");
    if without == clients || without.contains(['{', '}']) || clients.contains(char::is_whitespace) {
        agent.refuse(
            "clients",
            "has to contain {node} or {address}, and no other braces or blanks; for example \"{node}-ib\"",
        );
    }
    let reach = if agent.choice("reach") == Some(1) { Reach::Sockets } else { Reach::Peers };
    if reach == Reach::Peers && !agent.has("token") {
        agent.refuse("reach", "\"peers\" needs the owner's token; add token = \"slurm.token\"");
    }
    let [interval, ttl, timeout] = ["interval", "ttl", "timeout"].map(|key| agent.duration(key).unwrap_or_default());
    if ttl < 3 * interval {
        agent.refuse(
            "ttl",
            "is less than three times interval, so jobs would lose their shares between two pushes; raise it",
        );
    }
    Settings {
        config: folder.join(text(agent, "config", "/etc/vpfs/vpfs.toml")),
        owner: owner.unwrap_or_else(|()| SetName::parse("slurm").expect("a name")),
        token: agent.text("token").map(|token| folder.join(token)),
        reach,
        clients: clients.to_owned(),
        interval,
        ttl,
        timeout,
        wake: folder.join(text(agent, "wake", "/run/vpfs-slurm/wake.sock")),
        rules,
    }
}

/// The rules in order; refuses those that no job gets.
fn read_rules(tables: &[Table<'_>]) -> Vec<Rule> {
    let mut rules = Vec::<Rule>::new();
    for table in tables {
        let rule = Rule::read(table);
        if let Some(index) = rules.iter().position(|earlier| earlier.covers(&rule)) {
            table.refuse_whole(format!(
                "no job gets it, because the rule of line {} matches all that it matches; move it before that one",
                tables[index].line()
            ));
        }
        rules.push(rule);
    }
    rules
}

/// Why a pattern matches nothing that is compared with the condition `key`.
fn cannot_match(key: &str, pattern: &str) -> Option<String> {
    // What stands in brackets is a choice of characters.
    let literal = |c: char| !pattern.contains('[') && pattern.contains(c);
    let (what, separators): (_, &[char]) = match key {
        "license" => ("the names of licences, without their numbers,", &[',', ':', '@', '=', ';']),
        "comment" => ("single words of the comment", &[',', ';']),
        // A job has any name.
        "name" => ("the job's name without blanks around it", &[]),
        _ => ("one name", &[',', ';', '{', '}']),
    };
    let blank = if key == "name" {
        pattern.trim() != pattern
    } else {
        !pattern.contains('[') && pattern.contains(char::is_whitespace)
    };
    let found = separators.iter().find(|c| literal(**c)).map(|c| format!("{c:?}"));
    let found = found.or_else(|| blank.then(|| "a blank".to_owned()))?;
    Some(format!(
        "{pattern:?} matches no job, because it has {found} and is compared with {what}; write a list of names"
    ))
}

impl Rule {
    fn read(table: &Table<'_>) -> Self {
        let names = |key: &str| {
            if table.has(key) && table.texts(key).is_empty() {
                table.refuse(key, "is empty and would match no job; remove it to match all");
            }
            table
                .texts(key)
                .into_iter()
                .filter_map(|text| cannot_match(key, text))
                .for_each(|why| table.refuse(key, why));
            table.patterns(key)
        };
        let share = table
            .text("share")
            .and_then(|text| Template::parse(text).map_err(|problem| table.refuse("share", problem)).ok());
        let cap = table.number("cap").map(Rate);
        if cap == Some(Rate(0)) {
            table.refuse("cap", "of 0 would block all requests; remove it or raise it");
        }
        Self {
            account: names("account"),
            partition: names("partition"),
            qos: names("qos"),
            user: names("user"),
            license: names("license"),
            comment: names("comment"),
            name: names("name"),
            weight: table.count("weight").unwrap_or(1),
            share,
            top_level: None,
            cap,
        }
    }

    fn trusts_accounts(&self) -> bool {
        self.account.is_none() && self.share.as_ref().is_some_and(Template::begins_with_account)
    }

    /// The place among shares of a job.
    pub(crate) fn share_of(&self, job: &Job) -> Option<String> {
        let share = self.share.as_ref()?;
        let place = share.fill(job);
        let top = place.split('/').next().unwrap_or_default();
        match &self.top_level {
            Some(known) if !known.contains(top) => Some(share.fill(&Job { account: String::new(), ..job.clone() })),
            _ => Some(place),
        }
    }

    /// What is compared, and with what; `*` matches whatever the first five have.
    fn conditions(&self) -> [&Option<Patterns>; 7] {
        [&self.account, &self.partition, &self.qos, &self.user, &self.license, &self.comment, &self.name]
    }

    /// Whether it matches each job that `other` matches, as far as patterns show it.
    fn covers(&self, other: &Self) -> bool {
        self.conditions().into_iter().zip(other.conditions()).enumerate().all(|(index, (own, other))| {
            let Some(own) = own else { return true };
            // Comments and names may have a slash, which `*` does not match.
            if index < 5 && own.texts().any(|text| text == "*") {
                return true;
            }
            let is_covered = |text: &str| {
                let is_literal = !text.contains(['*', '?', '[']);
                own.texts().any(|own| own == text) || is_literal && own.matches(text)
            };
            other.as_ref().is_some_and(|other| other.texts().all(is_covered))
        })
    }

    fn matches(&self, job: &Job) -> bool {
        // A job may be allowed in several partitions, but has one when it runs.
        has(&self.account, [&*job.account])
            && has(&self.partition, [&*job.partition])
            && has(&self.qos, [&*job.qos])
            && has(&self.user, [&*job.user])
            && has(&self.name, [&*job.title])
            && has(
                &self.license,
                job.licenses.split(',').map(|part| part.split([':', '@', '=']).next().unwrap_or_default()),
            )
            && has(&self.comment, job.comment.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';')))
    }
}

/// Whether one of `words` is as the file has it, or it has nothing.
fn has<'a>(names: &Option<Patterns>, words: impl IntoIterator<Item = &'a str>) -> bool {
    names.as_ref().is_none_or(|names| words.into_iter().any(|word| names.matches(word.trim())))
}

const INTRODUCTION: &str = r#"# slurm.toml

<!-- Printed from crates/vpfs-config/src/slurm/settings.rs; do not edit. UPDATE=1 cargo test -p vpfs-config rewrites it. -->

What `vpfs slurm agent` reads ([guide](guide/cluster.md)). All problems of the file are reported at once, each with its
line; `vpfs slurm show` prints what would be pushed for the jobs that run now.

```toml
[agent]
token = "slurm.token"

[[rule]]
qos = ["high"]
weight = 4

[[rule]]
share = "{account}/{user}"
```
"#;

/// The text of `docs/slurm.md`.
pub fn slurm_manual() -> String {
    manual(INTRODUCTION, &SECTIONS)
}

pub(crate) const ROOT: Section = Section {
    name: "",
    header: "a file of tables",
    doc: "",
    keys: &[
        Tunable::new("agent", Kind::Table("[agent]"), "").absent_means("all defaults"),
        Tunable::new("rule", Kind::List("[[rule]]"), "").absent_means("each job has the weight 1"),
    ],
};

pub(crate) const SECTIONS: [&Section; 2] = [&AGENT, &RULE];

const FILE: Kind = Kind::Text("the name of a file");

const NAMES: Kind = Kind::List("a list of names and patterns such as [\"high\", \"gpu-*\"]");

pub(crate) const AGENT: Section = Section {
    name: "agent",
    header: "[agent]",
    doc: "What the agent asks, and whom it tells. Files are relative to this file.",
    keys: &[
        Tunable::new(
            "config",
            FILE,
            "The configuration of the proxies or mounts: their servers, and the key of `[peers]`.",
        )
        .default("/etc/vpfs/vpfs.toml"),
        Tunable::new(
            "owner",
            Kind::Text("the name of an [[owner]]"),
            "The `[[owner]]` in whose name jobs are pushed. Applications are shown as `slurm:4711`.",
        )
        .default("slurm"),
        Tunable::new("token", FILE, "That owner's token.").absent_means("none, for root with `reach = \"sockets\"`"),
        Tunable::new(
            "reach",
            Kind::Choice(&["peers", "sockets"]),
            "`peers`: all proxies at their addresses in `[peers]`. `sockets`: those of this host.",
        )
        .default("peers"),
        Tunable::new(
            "clients",
            Kind::Text("a text with {node} or {address}, such as \"{node}-ib\""),
            "The host that a node's requests come from: its `NodeAddr` or `NodeName`. The agent looks names up.",
        )
        .default("{address}"),
        Tunable::new("interval", Kind::Duration, "How often jobs are read without a wake-up.")
            .default("30s")
            .range("1s", "10min"),
        Tunable::new(
            "ttl",
            Kind::Duration,
            "How long proxies keep jobs after the agent's last message; at least three times `interval`.",
        )
        .default("5min")
        .range("3s", "1d"),
        Tunable::new("timeout", Kind::Duration, "The time limit of `squeue`.").default("20s").range("1s", "5min"),
        Tunable::new("wake", Kind::Text("the path of a socket"), "Where `vpfs slurm wake` wakes the agent.")
            .default("/run/vpfs-slurm/wake.sock"),
    ],
};

pub(crate) const RULE: Section = Section {
    name: "rule",
    header: "[[rule]]",
    doc: "What a job gets. The first rule whose conditions all match counts; without conditions it matches every \
          job. In names, `*` stands for any part and `?` for a character. A job without a rule has weight 1. \
          Users choose a job's name and comment themselves, so combine these with an account, QOS or users; \
          licences are limited by slurm.conf.",
    keys: &[
        Tunable::new("account", NAMES, "Accounts.").absent_means("not checked"),
        Tunable::new("partition", NAMES, "Partitions.").absent_means("not checked"),
        Tunable::new("qos", NAMES, "Qualities of service.").absent_means("not checked"),
        Tunable::new("user", NAMES, "Names of users.").absent_means("not checked"),
        Tunable::new("license", NAMES, "Licences, one of which the job has.").absent_means("not checked"),
        Tunable::new("comment", NAMES, "Words, one of which is in the job's comment (`sbatch --comment`).")
            .absent_means("not checked"),
        Tunable::new("name", NAMES, "The job's name (`sbatch --job-name`).").absent_means("not checked"),
        Tunable::new("weight", Kind::Count, "The job's weight.").default("1").range("1", "1000000"),
        Tunable::new(
            "share",
            Kind::Text("a place such as \"{account}/{user}\""),
            "The job's place; `{account}`, `{user}`, `{qos}`, `{partition}` and `{job}` (an array's number for \
             its tasks) are the job's. Characters that no name may have become `_`. Without \
             AccountingStorageEnforce=associations users choose their accounts: then a top-level `{account}` \
             without a `[[share]]` becomes `none`, unless the rule has `account`.",
        )
        .absent_means("at the top"),
        Tunable::new("cap", Kind::Rate, "The job's maximum rate, as the sum over all servers.").absent_means("none"),
    ],
};

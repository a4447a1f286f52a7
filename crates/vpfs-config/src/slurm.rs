//! Running jobs of Slurm to a set of applications, without I/O: [`Jobs::parse`] reads what `squeue --json` prints, and
//! [`Settings`] are the rules of slurm.toml. [`build`] makes the set of both for proxies, [`build_for_mounts`] those
//! for mounts.
//!
//! Names and comments of jobs are text of users: nothing of them gets into a set but what rules take, and of that only
//! letters, digits, `-`, `_` and `.`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::apps::check_share;
use crate::sets::{AppText, IdText, Set, SetName};
use crate::tunables::{Kind, Section, Tunable};
use crate::units::Rate;
use crate::{HostList, Patterns, Problems, Table, manual, read_file};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

// What `squeue --json` prints, of Slurm 21.08 and later: the versions write numbers and states in different ways.
//
// Much of it is text of users, in any encoding, and squeue passes on what is no valid JSON. So each record is read for
// itself, with replaced characters: one that cannot be read costs that job only.

/// A job, or a component of a heterogeneous one, or a task of an array, that has nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The number by which Slurm tells all jobs apart; it grows.
    pub id: u64,
    /// As `squeue` shows it: `4711`, or `4711_3` for a task of an array. Components of a heterogeneous job have the
    /// same.
    pub name: String,
    /// The number of the array, or of the heterogeneous job, or its own one.
    pub family: u64,
    /// Its user's number,
    pub uid: u32,
    /// and name.
    pub user: String,
    /// What it is charged to.
    pub account: String,
    /// Where it runs.
    pub partition: String,
    /// Its quality of service.
    pub qos: String,
    /// What its user called it (`--job-name`).
    pub title: String,
    /// What its user wrote (`--comment`).
    pub comment: String,
    /// Its licences, as in `fastio:1,matlab:2`.
    pub licenses: String,
    /// Its nodes.
    pub nodes: Vec<String>,
}

/// What squeue printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// Jobs that have nodes, in the order in which they were submitted.
    pub jobs: Vec<Job>,
    /// Those whose record cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// A job whose record cannot be read: it gets what clients without a rule get.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreadable {
    /// Its number, if at least that can be read.
    pub id: Option<u64>,
    /// Why, with the text.
    pub why: String,
}

/// States in which a job has nodes, and its processes may use files.
const WITH_NODES: [&str; 9] =
    ["RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT", "REQUEUED"];

/// Longer texts are cut: no rule has that many characters.
const LONGEST: usize = 1024;

const NODES: usize = 65_536;

/// The characters of a text that a message shows.
const SHOWN: usize = 200;

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(default)]
    errors: Vec<Complaint>,
    #[serde(borrow)]
    jobs: Vec<&'a RawValue>,
}

/// What is needed to name a job.
#[derive(Deserialize)]
struct Named {
    job_id: Number,
}

/// Why squeue could not ask slurmctld.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Complaint {
    #[serde(deserialize_with = "text")]
    description: String,
    #[serde(deserialize_with = "text")]
    error: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Raw {
    job_id: Number,
    array_job_id: Number,
    array_task_id: Number,
    het_job_id: Number,
    job_state: States,
    user_id: Number,
    #[serde(deserialize_with = "text")]
    user_name: String,
    #[serde(deserialize_with = "text")]
    account: String,
    #[serde(deserialize_with = "text")]
    partition: String,
    #[serde(deserialize_with = "text")]
    qos: String,
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    comment: String,
    #[serde(deserialize_with = "text")]
    licenses: String,
    nodes: Option<Text>,
}

/// `7`, `null`, or `{"set": true, "infinite": false, "number": 7}`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(u64),
    Set {
        set: bool,
        number: u64,
    },
    #[default]
    None,
}

impl Number {
    fn get(self) -> Option<u64> {
        match self {
            Self::Plain(number) | Self::Set { set: true, number } => Some(number),
            Self::Set { set: false, .. } | Self::None => None,
        }
    }
}

/// `"RUNNING"`, or `["RUNNING", "COMPLETING"]`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum States {
    One(String),
    All(Vec<String>),
}

impl Default for States {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl States {
    fn have_nodes(&self) -> bool {
        let all = match self {
            Self::One(state) => std::slice::from_ref(state),
            Self::All(states) => states,
        };
        all.iter().any(|state| WITH_NODES.contains(&state.as_str()))
    }
}

/// A text. What is no character becomes U+FFFD: a byte that is not UTF-8, or half of a surrogate pair.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Characters;

        impl Visitor<'_> for Characters {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned()))
            }
        }

        // As a string, serde_json refuses surrogates that stand alone.
        deserializer.deserialize_bytes(Characters)
    }
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let mut text = Option::<Text>::deserialize(deserializer)?.map(|text| text.0).unwrap_or_default();
    text.truncate((0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default());
    Ok(text)
}

/// What was printed, as JSON: control characters in texts, and numbers that are none, become blanks and empty texts.
fn legible(mut bytes: Vec<u8>) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    for at in 0..bytes.len() {
        match bytes[at] {
            0..b' ' => bytes[at] = b' ',
            b'\\' if is_text && !is_escaped => {
                is_escaped = true;
                continue;
            }
            b'"' if !is_escaped => is_text = !is_text,
            // As json-c writes them.
            b'N' | b'I' | b'-' if !is_text => {
                let words: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
                if let Some(word) = words.into_iter().find(|word| bytes[at..].starts_with(word)) {
                    bytes[at..at + word.len()].fill(b' ');
                    bytes[at..at + 2].fill(b'"');
                    // The second quote ends the text that the first one begins.
                    is_text = true;
                }
            }
            _ => {}
        }
        is_escaped = false;
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Text of others in a message.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN).collect();
    let more = if cut.len() < text.len() { "..." } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}

impl Jobs {
    /// Reads it; an error says that squeue failed, or printed no list of jobs. Memory in proportion to the text.
    pub fn parse(mut json: impl Read) -> Result<Self, String> {
        let unclear = |error: serde_json::Error| format!("prints something else than jobs: {error}");
        // Nearly all of it is skipped, which is several times faster in memory than byte by byte from a reader.
        let mut bytes = Vec::new();
        json.read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
        let text = legible(bytes);
        let Answer { errors, jobs: records } = serde_json::from_str(&text).map_err(unclear)?;
        if let Some(Complaint { description, error }) = errors.first() {
            let said = format!("failed: {description} ({error})");
            return Err(said.chars().flat_map(char::escape_debug).collect());
        }
        let mut found = Self::default();
        for record in records.iter().map(|record| record.get()) {
            match serde_json::from_str::<Raw>(record).map_err(|error| error.to_string()).and_then(Raw::job) {
                Ok(job) => found.jobs.extend(job),
                Err(why) => found.unreadable.push(Unreadable { id: number_of(record), why }),
            }
        }
        // No user decides about numbers of jobs: without any, it is another format, and not a cluster without jobs.
        if !found.unreadable.is_empty() && records.iter().all(|record| number_of(record.get()).is_none()) {
            return Err(format!("prints jobs without job_id, such as {}", shown(records[0].get())));
        }
        found.jobs.sort_by_key(|job| job.id);
        Ok(found)
    }
}

fn number_of(record: &str) -> Option<u64> {
    serde_json::from_str::<Named>(record).ok()?.job_id.get()
}

impl Raw {
    /// `None` without nodes.
    fn job(self) -> Result<Option<Job>, String> {
        let nodes = self.nodes.map(|nodes| nodes.0).filter(|nodes| !nodes.is_empty() && self.job_state.have_nodes());
        let Some(nodes) = nodes else { return Ok(None) };
        let id = self.job_id.get().ok_or("it has no job_id")?;
        let uid = self.user_id.get().and_then(|uid| u32::try_from(uid).ok()).ok_or("it has no user_id")?;
        let nodes = read_nodes(&nodes)?;
        let part_of = |number: Number| number.get().filter(|number| *number > 0);
        let (name, family) = match (part_of(self.het_job_id), part_of(self.array_job_id), self.array_task_id.get()) {
            (Some(whole), ..) => (whole.to_string(), whole),
            (None, Some(array), Some(task)) => (format!("{array}_{task}"), array),
            _ => (id.to_string(), id),
        };
        let Self { user_name: user, name: title, account, partition, qos, comment, licenses, .. } = self;
        Ok(Some(Job { id, name, family, uid, user, account, partition, qos, title, comment, licenses, nodes }))
    }
}

fn read_nodes(list: &str) -> Result<Vec<String>, String> {
    let hosts = HostList::parse(list, NODES)
        .map_err(|error| format!("its list of nodes {} cannot be read: {}", shown(list), shown(&error)))?;
    let names = hosts.names.into_iter().map(|(name, _)| name);
    Ok(names.chain(hosts.nets.iter().map(|net| net.addr().to_string())).collect())
}

// Jobs to a set of applications.
//
// Requests show where they come from, and sometimes whose they are. So a job that has its nodes for itself is told by
// their addresses, and one that shares a node also by its user. Two jobs of one user on one node look the same: what
// happens there counts as that of the older one, and [`Built::unclear`] says so.
//
// A mount sees the control groups that slurmd makes, and so tells all jobs of its node apart.

/// A set, and what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// By age: of two that match a request, the older one counts.
    pub apps: Vec<AppText>,
    /// Jobs that look the same on some nodes.
    pub unclear: Vec<Unclear>,
    /// Nodes whose address is not known; jobs are not recognised there.
    pub unknown_nodes: BTreeSet<String>,
    /// Jobs that do not fit the limits of a set; the newest ones.
    pub left_out: usize,
}

/// Several jobs of one user that share a client host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// Whose.
    pub user: String,
    /// As which of them everything counts that happens there.
    pub counts_as: String,
    /// The others.
    pub others: Vec<String>,
}

/// A job with all its components, and where it runs: hosts' addresses, or names of nodes.
struct Whole<'a, P> {
    job: &'a Job,
    /// The numbers of its components.
    ids: Vec<u64>,
    places: BTreeSet<P>,
}

/// The nodes of all jobs, each once.
pub fn nodes_of(jobs: &[Job]) -> BTreeSet<String> {
    jobs.iter().flat_map(|job| &job.nodes).cloned().collect()
}

/// The set for `jobs`, by age; `addresses` has those of each node's client host, or none. O(jobs and their nodes).
pub fn build(jobs: &[Job], settings: &Settings, addresses: &dyn Fn(&str) -> Vec<IpAddr>) -> Built {
    let mut built = Built::default();
    let wholes = wholes(jobs, |node| {
        let found = addresses(node);
        if found.is_empty() {
            built.unknown_nodes.insert(node.to_owned());
        }
        found
    });
    let mut at_host = HashMap::<IpAddr, Vec<usize>>::new();
    for (index, whole) in wholes.iter().enumerate() {
        whole.places.iter().for_each(|host| at_host.entry(*host).or_default().push(index));
    }
    let mut hosts_left = crate::HOSTS_LIMIT;
    for whole in wholes.iter().filter(|whole| !whole.places.is_empty()) {
        let Some(left) = hosts_left.checked_sub(whole.places.len()).filter(|_| built.apps.len() < Set::APPS) else {
            built.left_out += 1;
            continue;
        };
        hosts_left = left;
        let is_shared = whole.places.iter().any(|host| at_host[host].len() > 1);
        built.apps.push(AppText {
            clients: whole.places.iter().map(ToString::to_string).collect(),
            uids: is_shared.then_some(IdText::One(whole.job.uid)).into_iter().collect(),
            ..app(whole.job, settings)
        });
    }
    built.unclear = unclear(&wholes, &at_host);
    built
}

/// The applications of each node's mount, by age. O(jobs and their nodes).
pub fn build_for_mounts(jobs: &[Job], settings: &Settings) -> HashMap<String, Vec<AppText>> {
    let mut at_node = HashMap::<String, Vec<AppText>>::new();
    for whole in wholes(jobs, |node| [node.to_owned()]) {
        let jobs = whole.ids.iter().filter_map(|id| u32::try_from(*id).ok()).collect();
        let app = AppText { jobs, ..app(whole.job, settings) };
        for node in whole.places {
            at_node.entry(node).or_default().push(app.clone());
        }
    }
    at_node
}

/// Components of heterogeneous jobs are one: they run as one program.
fn wholes<P: Ord, I: IntoIterator<Item = P>>(jobs: &[Job], mut places: impl FnMut(&str) -> I) -> Vec<Whole<'_, P>> {
    let mut wholes = Vec::<Whole<'_, P>>::new();
    let mut by_name = HashMap::<&str, usize>::new();
    for job in jobs {
        let index = *by_name.entry(&job.name).or_insert_with(|| {
            wholes.push(Whole { job, ids: Vec::new(), places: BTreeSet::new() });
            wholes.len() - 1
        });
        wholes[index].ids.push(job.id);
        wholes[index].places.extend(job.nodes.iter().flat_map(|node| places(node)));
    }
    wholes
}

fn app(job: &Job, settings: &Settings) -> AppText {
    let rule = settings.rule_for(job);
    AppText {
        name: job.name.clone(),
        share: rule.and_then(|rule| rule.share_of(job)),
        weight: Some(rule.map_or(1, |rule| rule.weight)),
        cap: rule.and_then(|rule| rule.cap).map(|cap| cap.to_string()),
        account: (!job.account.is_empty()).then(|| name_of(&job.account)),
        user: (!job.user.is_empty()).then(|| name_of(&job.user)),
        ..AppText::default()
    }
}

fn unclear(wholes: &[Whole<'_, IpAddr>], at_host: &HashMap<IpAddr, Vec<usize>>) -> Vec<Unclear> {
    let mut same = BTreeMap::<usize, BTreeSet<usize>>::new();
    for there in at_host.values().filter(|there| there.len() > 1) {
        let mut first = HashMap::<u32, usize>::new();
        for &index in there {
            let oldest = *first.entry(wholes[index].job.uid).or_insert(index);
            if oldest != index {
                same.entry(oldest).or_default().insert(index);
            }
        }
    }
    let name = |index: usize| wholes[index].job.name.clone();
    let of = |(oldest, others): (usize, BTreeSet<usize>)| Unclear {
        user: wholes[oldest].job.user.clone(),
        counts_as: name(oldest),
        others: others.into_iter().map(name).collect(),
    };
    same.into_iter().map(of).collect()
}

const FIELDS: [&str; 5] = ["account", "user", "qos", "partition", "job"];

/// A text with fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Template(String);

impl Template {
    /// An error says what is wrong in the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let template = Self(text.to_owned());
        let filled = template.fill(&Job::default());
        if filled.contains(['{', '}']) {
            let fields = FIELDS.map(|field| format!("{{{field}}}")).join(", ");
            return Err(format!("{text:?} has braces that are no field; there are {fields}"));
        }
        check_share(&filled)?;
        Ok(template)
    }

    fn has_account(&self) -> bool {
        self.0.contains("{account}")
    }

    /// Whether the account decides about the top-level share.
    fn begins_with_account(&self) -> bool {
        self.0.split('/').next().is_some_and(|top| top.contains("{account}"))
    }

    /// The text for a job. Whatever a field has, its place stays one name.
    fn fill(&self, job: &Job) -> String {
        let family = job.family.to_string();
        let values = [&job.account, &job.user, &job.qos, &job.partition, &family];
        FIELDS
            .iter()
            .zip(values)
            .fold(self.0.clone(), |text, (field, value)| text.replace(&format!("{{{field}}}"), &name_of(value)))
    }
}

/// A name that is permitted everywhere; `none` for a text without any.
fn name_of(text: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = text.chars().take(64).map(|c| if legal(c) { c } else { '_' }).collect();
    if name.is_empty() { "none".to_owned() } else { name }
}

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
    /// Reads the text of a file in `folder`, which is called `file` in messages. An error has all problems at once.
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
    fn rule_for(&self, job: &Job) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches(job))
    }
}

fn read(agent: &Table<'_>, folder: &Path, rules: Vec<Rule>) -> Settings {
    let text = |key: &str, default: &'static str| agent.text(key).unwrap_or(default);
    let owner = text("owner", "slurm");
    let owner = SetName::parse(owner).map_err(|problem| agent.refuse("owner", problem));
    let clients = text("clients", "{address}");
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
        config: folder.join(text("config", "/etc/vpfs/vpfs.toml")),
        owner: owner.unwrap_or_else(|()| SetName::parse("slurm").expect("a name")),
        token: agent.text("token").map(|token| folder.join(token)),
        reach,
        clients: clients.to_owned(),
        interval,
        ttl,
        timeout,
        wake: folder.join(text("wake", "/run/vpfs-slurm/wake.sock")),
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
    fn share_of(&self, job: &Job) -> Option<String> {
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

<!-- Printed from crates/vpfs-config/src/slurm.rs; do not edit. UPDATE=1 cargo test -p vpfs-config rewrites it. -->

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

const AGENT: Section = Section {
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

const RULE: Section = Section {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(jobs: &[u8]) -> Result<Jobs, String> {
        Jobs::parse(&[b"{\"errors\": [], \"jobs\": [", jobs, b"]}"].concat()[..])
    }

    fn parse(jobs: &str) -> Result<Vec<Job>, String> {
        read(jobs.as_bytes()).map(|jobs| jobs.jobs)
    }

    #[test]
    fn both_ways_of_writing_are_read() {
        let older = "\"job_id\": 9, \"array_job_id\": 7, \"array_task_id\": 2, \"het_job_id\": 0, \"user_id\": 3001, \
                     \"job_state\": \"RUNNING\", \"nodes\": \"c1\", \"comment\": \"\", \"qos\": null";
        let number = |number: u32| format!("{{\"set\": true, \"infinite\": false, \"number\": {number}}}");
        let newer = format!(
            "\"job_id\": 9, \"array_job_id\": {}, \"array_task_id\": {}, \"het_job_id\": {}, \"user_id\": 3001, \
             \"job_state\": [\"RUNNING\"], \"nodes\": \"c1\"",
            number(7),
            number(2),
            number(0)
        );
        let job = Job { id: 9, name: "7_2".into(), family: 7, uid: 3001, nodes: vec!["c1".into()], ..Job::default() };
        assert_eq!(parse(&format!("{{{older}}}")), Ok(vec![job.clone()]));
        assert_eq!(parse(&format!("{{{newer}}}")), Ok(vec![job]));
    }

    #[test]
    fn jobs_without_nodes_are_left_out() {
        let job = |state: &str, nodes: &str| {
            parse(&format!("{{\"job_id\": 1, \"user_id\": 0, \"job_state\": \"{state}\", \"nodes\": \"{nodes}\"}}"))
        };
        for state in WITH_NODES {
            assert_eq!(job(state, "c1").unwrap().len(), 1, "{state}");
            assert_eq!(job(state, "").unwrap().len(), 0, "{state}");
        }
        for state in ["PENDING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"] {
            assert_eq!(job(state, "c1").unwrap().len(), 0, "{state}");
        }
    }

    /// slurmctld does not answer, or another program is called squeue: what was known stays.
    #[test]
    fn a_failure_is_not_an_empty_cluster() {
        for nonsense in ["", "{}", "slurm_load_jobs error", "{\"jobs\": 7}", "{\"jobs\": [{\"job_id\": \"x\"}]}"] {
            assert!(Jobs::parse(nonsense.as_bytes()).is_err(), "{nonsense}");
        }
        let failed = "{\"errors\": [{\"error\": \"Unable to\\u001b contact\"}], \"jobs\": []}";
        let error = Jobs::parse(failed.as_bytes()).unwrap_err();
        assert!(error.contains("Unable to") && !error.contains('\u{1b}'), "{error}");
        let nameless = "{\"job_state\": \"RUNNING\", \"nodes\": \"c1\"}";
        assert!(parse(nameless).is_err());
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    /// Symptom: one job with a byte that is not UTF-8 in its name, comment or directory, half of a surrogate pair, or
    /// without a user stopped shares for everybody's new jobs, and ended ones kept theirs. Cause: all records were one
    /// text. Proof: whatever is wrong with one, the other is read, and so is the text as far as it is one.
    #[test]
    fn a_record_costs_no_other_job() {
        let fine = "{\"job_id\": 1, \"user_id\": 7, \"job_state\": \"RUNNING\", \"nodes\": \"c1\"}";
        let with = |fields: &[u8]| {
            let record = "{\"job_id\": 2, \"job_state\": \"RUNNING\", \"nodes\": \"c2\", ".as_bytes();
            let Jobs { jobs, unreadable } = read(&[record, fields, b"}, ", fine.as_bytes()].concat()).unwrap();
            assert_eq!(jobs[0].id, 1, "{}", String::from_utf8_lossy(fields));
            assert_eq!(jobs.len() + unreadable.len(), 2);
            assert!(unreadable.iter().all(|job| job.id == Some(2)), "{unreadable:?}");
            jobs.get(1).cloned().ok_or_else(|| unreadable[0].why.clone())
        };
        let title = |json: &[u8]| with(&[b"\"user_id\": 8, \"name\": \"", json, b"\""].concat()).unwrap().title;
        assert_eq!(title(b"a\xffb"), "a\u{fffd}b");
        assert!(title(b"a\\ud83db").starts_with("a\u{fffd}"));
        assert_eq!(title(b"a\\ud83d\\ude00\\\\"), "a\u{1f600}\\");
        assert_eq!(title(b"a\x1b\n\\\"NaN\xc3\xa9"), "a  \"NaN\u{e9}");
        // What is not read is no reason either.
        let directory =
            b"\"user_id\": 8, \"name\": \"x\", \"current_working_directory\": \"/\xfe\\udc00\x01\", \"priority\": ";
        for priority in ["NaN", "-Infinity", "Infinity", "1e999", "{\"number\": NaN, \"of\": \"-Infinity\"}"] {
            assert_eq!(with(&[directory, priority.as_bytes()].concat()).unwrap().title, "x", "{priority}");
        }
        for (fields, why) in [
            ("\"user_id\": null", "it has no user_id"),
            ("\"name\": \"x\"", "it has no user_id"),
            ("\"user_id\": 4294967296", "it has no user_id"),
            ("\"user_id\": \"root\"", "did not match"),
            ("\"user_id\": NaN", "did not match"),
            ("\"user_id\": -1", "did not match"),
            ("\"user_id\": 8, \"name\": {}", "expected a text"),
            ("\"user_id\": 8, \"name\": \"x\", \"name\": \"y\"", "duplicate field"),
        ] {
            let said = with(fields.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        for record in ["null", "7", "\"x\""] {
            let Jobs { jobs, unreadable } = read(format!("{record}, {fine}").as_bytes()).unwrap();
            assert_eq!((jobs.len(), unreadable.len()), (1, 1), "{record}");
        }
    }

    #[test]
    fn a_list_of_nodes_that_cannot_be_read_is_told() {
        let job = |nodes: &str| {
            format!("{{\"job_id\": 1, \"user_id\": 7, \"job_state\": \"RUNNING\", \"nodes\": \"{nodes}\"}}")
        };
        let Jobs { jobs, unreadable } = read(job("c[1-\\u001b").as_bytes()).unwrap();
        assert_eq!((jobs.len(), unreadable[0].id), (0, Some(1)));
        assert!(unreadable[0].why.starts_with("its list of nodes \"c[1-\\u{1b}\" cannot be read"), "{unreadable:?}");
        let long = read(job(&format!("c[{}", "1,".repeat(9999))).as_bytes()).unwrap().unreadable;
        assert!(long[0].why.len() < 1000, "{long:?}");
    }

    #[test]
    fn long_texts_are_cut() {
        let comment = "é".repeat(LONGEST);
        let job = format!(
            "{{\"job_id\": 1, \"user_id\": 0, \"job_state\": \"RUNNING\", \"nodes\": \"c1\", \"comment\": \"{comment}\"}}"
        );
        assert_eq!(parse(&job).unwrap()[0].comment.len(), LONGEST);
    }

    #[test]
    fn whatever_a_field_has_the_place_is_valid() {
        let template = Template::parse("batch/{account}/{user}").unwrap();
        let fill =
            |account: &str| template.fill(&Job { account: account.into(), user: "alice".into(), ..Job::default() });
        assert_eq!(fill("physics"), "batch/physics/alice");
        assert_eq!(fill(""), "batch/none/alice");
        for hostile in ["a/b", "../..", "{user}", "\u{1b}[31m", "\n", "é", &"x".repeat(999)] {
            assert!(check_share(&fill(hostile)).is_ok(), "{}", fill(hostile));
            assert_eq!(fill(hostile).matches('/').count(), 2);
        }
        for wrong in ["{acount}", "a b", "", "/x", "{user", "a//b"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }
}

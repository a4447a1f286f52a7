//! Running jobs of Slurm to a set of applications, without I/O: [`Jobs::parse`] reads what `squeue --json` prints, and
//! [`Settings`] are the rules of slurm.toml. [`build`] makes the set of both for proxies, [`build_for_mounts`] those
//! for mounts.
//!
//! Names and comments of jobs are text of users: nothing of them gets into a set but what rules take, and of that only
//! letters, digits, `-`, `_` and `.`.

mod settings;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io::Read;
use std::net::IpAddr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::HostList;
use crate::sets::{AppText, IdText, Set};
pub use settings::{Reach, Rule, Settings, slurm_manual};

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

/// The most nodes of one job.
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
    /// Reads it. Memory in proportion to the text.
    ///
    /// # Errors
    /// What it says instead: that it failed, or something that is no list of jobs.
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

/// The nodes of a host list, as in `c[1-2]`.
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

/// What a job gets.
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

/// What may stand in braces.
pub(crate) const FIELDS: [&str; 5] = ["account", "user", "qos", "partition", "job"];

/// A text with fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(String);

impl Template {
    /// # Errors
    /// What is wrong in it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let template = Self(text.to_owned());
        let filled = template.fill(&Job::default());
        if filled.contains(['{', '}']) {
            let fields = FIELDS.map(|field| format!("{{{field}}}")).join(", ");
            return Err(format!("{text:?} has braces that are no field; there are {fields}"));
        }
        crate::sets::check_share(&filled)?;
        Ok(template)
    }

    pub(crate) fn has_account(&self) -> bool {
        self.0.contains("{account}")
    }

    /// Whether the account decides about the top-level share.
    pub(crate) fn begins_with_account(&self) -> bool {
        self.0.split('/').next().is_some_and(|top| top.contains("{account}"))
    }

    /// The text for a job. Whatever a field has, its place stays one name.
    pub(crate) fn fill(&self, job: &Job) -> String {
        let family = job.family.to_string();
        let values = [&job.account, &job.user, &job.qos, &job.partition, &family];
        FIELDS
            .iter()
            .zip(values)
            .fold(self.0.clone(), |text, (field, value)| text.replace(&format!("{{{field}}}"), &name_of(value)))
    }
}

/// A name that is permitted everywhere; `none` for a text without any.
pub(crate) fn name_of(text: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = text.chars().take(64).map(|c| if legal(c) { c } else { '_' }).collect();
    if name.is_empty() { "none".to_owned() } else { name }
}

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
            assert!(crate::sets::check_share(&fill(hostile)).is_ok(), "{}", fill(hostile));
            assert_eq!(fill(hostile).matches('/').count(), 2);
        }
        for wrong in ["{acount}", "a b", "", "/x", "{user", "a//b"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }
}

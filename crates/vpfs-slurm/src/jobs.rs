//! What `squeue --json` prints, of Slurm 21.08 and later: the versions write numbers and states in different ways.

use std::io::Read;

use serde::{Deserialize, Deserializer};

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
    /// Its nodes as a host list, as in `c[1-2]`.
    pub nodes: String,
}

/// Jobs that have nodes, in the order in which they were submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs(pub Vec<Job>);

/// States in which a job has nodes, and its processes may use files.
const WITH_NODES: [&str; 9] =
    ["RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT", "REQUEUED"];

/// Longer texts are cut: no rule has that many characters.
const LONGEST: usize = 1024;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    errors: Vec<Complaint>,
    jobs: Vec<Raw>,
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
    nodes: Option<String>,
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

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let mut text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    text.truncate((0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default());
    Ok(text)
}

impl Jobs {
    /// Reads it. Memory in proportion to the text.
    ///
    /// # Errors
    /// What it says instead: that it failed, or something that is no list of jobs.
    pub fn parse(mut json: impl Read) -> Result<Self, String> {
        let unclear = |error: serde_json::Error| format!("prints something else than jobs: {error}");
        // Nearly all of it is skipped, which is several times faster in memory than byte by byte from a reader.
        let mut text = String::new();
        json.read_to_string(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
        let Answer { errors, jobs } = serde_json::from_str(&text).map_err(unclear)?;
        if let Some(Complaint { description, error }) = errors.first() {
            let said = format!("failed: {description} ({error})");
            return Err(said.chars().flat_map(char::escape_debug).collect());
        }
        let mut jobs = jobs.into_iter().filter_map(Raw::job).collect::<Result<Vec<_>, _>>()?;
        jobs.sort_by_key(|job| job.id);
        Ok(Self(jobs))
    }
}

impl Raw {
    /// `None` without nodes.
    fn job(self) -> Option<Result<Job, String>> {
        let nodes = self.nodes.filter(|nodes| !nodes.is_empty() && self.job_state.have_nodes())?;
        let (Some(id), Some(uid)) = (self.job_id.get(), self.user_id.get().and_then(|uid| u32::try_from(uid).ok()))
        else {
            return Some(Err("prints a job without job_id or user_id".to_owned()));
        };
        let part_of = |number: Number| number.get().filter(|number| *number > 0);
        let (name, family) = match (part_of(self.het_job_id), part_of(self.array_job_id), self.array_task_id.get()) {
            (Some(whole), ..) => (whole.to_string(), whole),
            (None, Some(array), Some(task)) => (format!("{array}_{task}"), array),
            _ => (id.to_string(), id),
        };
        let Self { user_name: user, name: title, account, partition, qos, comment, licenses, .. } = self;
        Some(Ok(Job { id, name, family, uid, user, account, partition, qos, title, comment, licenses, nodes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(jobs: &str) -> Result<Vec<Job>, String> {
        Jobs::parse(format!("{{\"errors\": [], \"jobs\": [{jobs}]}}").as_bytes()).map(|jobs| jobs.0)
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
        let job = Job { id: 9, name: "7_2".into(), family: 7, uid: 3001, nodes: "c1".into(), ..Job::default() };
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

    #[test]
    fn long_texts_are_cut() {
        let comment = "é".repeat(LONGEST);
        let job = format!(
            "{{\"job_id\": 1, \"user_id\": 0, \"job_state\": \"RUNNING\", \"nodes\": \"c1\", \"comment\": \"{comment}\"}}"
        );
        assert_eq!(parse(&job).unwrap()[0].comment.len(), LONGEST);
    }
}

//! One set: its JSON, and what it means.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use vpfs_core::{Bytes, Scope, Weight};

use crate::names::{NAME_RULE, is_name};
use crate::schema::tunables::Absent;
use crate::schema::units::{Span, parse_duration, parse_rate, parse_size, quote};
use crate::vpfs_toml::apps::App;
use crate::vpfs_toml::host_list::HostList;
use crate::vpfs_toml::keys::APP;
use crate::vpfs_toml::paths::check_share;
use crate::vpfs_toml::rates::Cap;
use crate::vpfs_toml::rule::{HOSTS_LIMIT, Ids, Rule, id_range};

/// A set as its owner writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetText {
    /// Larger than that of the set that it replaces; microseconds since 1970, for example.
    pub version: u64,
    /// How long it holds unless it is pushed again, with its unit: `2min`.
    pub ttl: String,
    /// In order: of two that match a client, the first one counts.
    pub apps: Vec<AppText>,
}

/// An application of a set as its owner writes it; all that is not needed may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppText {
    /// Its name, which is shown after that of the owner: `slurm:4711`.
    pub name: String,
    /// Its place among the shares, for example `physics/alice`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// Its weight; 1 if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Its maximum rate as the sum over all servers, with its unit: `500MB/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// Addresses and networks. No host names: the owner looks them up, so that all servers have the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// Users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uids: Vec<IdText>,
    /// Groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gids: Vec<IdText>,
    /// The account that it is charged to, for metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The name of its user, for metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Slurm jobs, by the control groups that slurmd makes for them; programs on a mount alone have any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<u32>,
}

/// One id, or a range such as `"1000-1999"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IdText {
    /// A number.
    One(u32),
    /// A range, ends included.
    Range(String),
}

/// A set that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// As it was written.
    pub text: SetText,
    /// How long it holds.
    pub ttl: Duration,
    /// By position in the text.
    pub(super) apps: Vec<App>,
}

impl Set {
    /// Applications of one set.
    pub const APPS: usize = 16_384;
    /// The longest JSON text that is read: that many applications at four hosts each.
    pub const LONGEST: usize = 8 << 20;
    const TTL: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30 * 24 * 3600)];

    /// Reads JSON. O(length).
    ///
    /// # Errors
    /// The place and the remedy.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        if json.len() > Self::LONGEST {
            return Err(format!("a set has at most {} bytes", Self::LONGEST));
        }
        serde_json::from_slice(json).map_err(|error| error.to_string()).and_then(Self::check)
    }

    /// Checks what an owner wrote.
    ///
    /// # Errors
    /// The place and the remedy.
    pub fn check(text: SetText) -> Result<Self, String> {
        let ttl = parse_duration(&text.ttl).map_err(|error| format!("ttl: {error}"))?;
        let [least, most] = Self::TTL;
        if !(least..=most).contains(&ttl) {
            return Err(format!("ttl: {} is out of range; allowed are 1s to {}", Span(ttl), Span(most)));
        }
        if text.apps.len() > Self::APPS {
            return Err(format!("apps: {} are too many; a set has at most {}", text.apps.len(), Self::APPS));
        }
        let mut hosts_left = HOSTS_LIMIT;
        let mut read = |(index, app): (usize, &AppText)| {
            let at = |problem| format!("apps[{index}] ({}): {problem}", shown(&app.name));
            read_app(app, &mut hosts_left).map_err(at)
        };
        let apps = text.apps.iter().enumerate().map(&mut read).collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<&str> = apps.iter().map(|app| app.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("apps: {:?} is there twice; give each application a name of its own", twice[0]));
        }
        Ok(Self { text, ttl, apps })
    }
}

fn shown(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_debug).collect()
}

fn read_app(text: &AppText, hosts_left: &mut usize) -> Result<App, String> {
    if !is_name(&text.name) {
        return Err(format!("name: {} is not a name; {NAME_RULE}", quote(&text.name)));
    }
    if let Some(share) = &text.share {
        check_share(share).map_err(|problem| format!("share: {problem}"))?;
    }
    for (key, name) in [("account", &text.account), ("user", &text.user)] {
        if let Some(name) = name.as_ref().filter(|name| !is_name(name)) {
            return Err(format!("{key}: {} is not a name; {NAME_RULE}", quote(name)));
        }
    }
    let weight = text.weight.unwrap_or(1);
    let weight = Weight::new(weight)
        .ok_or_else(|| format!("weight: {weight} is out of range; allowed are 1 to {}", Weight::MAX))?;
    let rule = Rule {
        clients: (!text.clients.is_empty()).then(|| read_clients(&text.clients, hosts_left)).transpose()?,
        uids: (!text.uids.is_empty()).then(|| read_ids("uids", &text.uids)).transpose()?,
        gids: (!text.gids.is_empty()).then(|| read_ids("gids", &text.gids)).transpose()?,
        jobs: (!text.jobs.is_empty()).then(|| Ids::of(text.jobs.iter().map(|job| (*job, *job)).collect())),
        ..Rule::default()
    };
    if !rule.is_given() {
        return Err("no client can belong to it; give it clients, uids, gids or jobs".into());
    }
    let cap = text.cap.as_deref().map(read_cap).transpose()?;
    let (name, share) = (text.name.clone(), text.share.clone());
    Ok(App {
        name,
        share,
        weight,
        cap,
        target: None,
        minimum: None,
        latency: None,
        exempt: false,
        rule,
        alternatives: Vec::new(),
    })
}

fn read_cap(text: &str) -> Result<Cap, String> {
    let rate = parse_rate(text).map_err(|error| format!("cap: {error}"))?;
    if rate.0 == 0 {
        return Err("cap: 0 would block all requests; remove it or raise it".into());
    }
    Ok(Cap { rate, burst: default_burst(), scope: Scope::Total })
}

/// That of `[[app]]`.
fn default_burst() -> Bytes {
    match APP.key("burst").map(|row| row.absent) {
        Some(Absent::Is(text)) => parse_size(text).expect("a test reads the default"),
        _ => unreachable!("the row has a default"),
    }
}

fn read_clients(texts: &[String], hosts_left: &mut usize) -> Result<HostList, String> {
    let mut all = HostList::default();
    for text in texts {
        let list = HostList::parse(text, *hosts_left).map_err(|problem| format!("clients: {problem}"))?;
        if let Some((name, _)) = list.names.first() {
            return Err(format!("clients: {} is a name; send its addresses", quote(name)));
        }
        *hosts_left -= list.nets.len();
        all.nets.extend(list.nets);
    }
    Ok(all)
}

fn read_ids(key: &str, texts: &[IdText]) -> Result<Ids, String> {
    let range = |text: &IdText| match text {
        IdText::One(id) => Ok((*id, *id)),
        IdText::Range(text) => {
            id_range(text).ok_or_else(|| format!("{key}: {} is no range; write numbers, or \"1000-1999\"", quote(text)))
        }
    };
    texts.iter().map(range).collect::<Result<Vec<_>, _>>().map(Ids::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(json: &str) -> String {
        Set::parse(json.as_bytes()).expect_err(json)
    }

    fn with_app(fields: &str) -> String {
        format!("{{\"version\": 1, \"ttl\": \"2min\", \"apps\": [{{\"name\": \"a\", {fields}}}]}}")
    }

    #[test]
    fn what_is_written_is_read() {
        let json = with_app(
            "\"share\": \"physics/alice\", \"weight\": 4, \"cap\": \"1GB/s\", \"clients\": [\"10.0.0.1\"], \"uids\": [7, \"9-11\"]",
        );
        let set = Set::parse(json.as_bytes()).unwrap();
        assert_eq!((set.ttl, set.apps[0].weight.get()), (Duration::from_secs(120), 4));
        assert_eq!(set.apps[0].cap.map(|cap| cap.rate.0), Some(1_000_000_000));
        assert_eq!(set.apps[0].rule.uids.as_ref().map(ToString::to_string), Some("7, 9-11".to_owned()));
        let again = serde_json::to_vec(&set.text).unwrap();
        assert_eq!(Set::parse(&again), Ok(set));
    }

    #[test]
    fn each_mistake_has_its_place_and_remedy() {
        let app = |fields: &str| problem(&with_app(fields));
        for (found, said) in [
            (app("\"weight\": 1"), "apps[0] (a): no client can belong"),
            (app("\"account\": \"a b\", \"uids\": [1]"), "account: \"a b\" is not a name"),
            (app("\"weight\": 0, \"uids\": [1]"), "allowed are 1 to 1000000"),
            (app("\"wieght\": 2, \"uids\": [1]"), "unknown field `wieght`"),
            (app("\"clients\": [\"c1\"]"), "\"c1\" is a name; send its addresses"),
            (app("\"clients\": [\"10.0.0.300\"]"), "clients: "),
            (app("\"uids\": [\"9-7\"]"), "write numbers"),
            (app("\"uids\": [-1]"), "IdText"),
            (app("\"share\": \"a//b\", \"uids\": [1]"), "is not a path of shares"),
            (app("\"cap\": \"0GB/s\", \"uids\": [1]"), "would block all"),
            (app("\"cap\": \"5\", \"uids\": [1]"), "cap: "),
            (problem("{\"version\": 1, \"ttl\": \"5\", \"apps\": []}"), "ttl: "),
            (problem("{\"version\": 1, \"ttl\": \"10ms\", \"apps\": []}"), "allowed are 1s to 30d"),
            (problem("{\"version\": 1, \"ttl\": \"1min\"}"), "missing field `apps`"),
            (problem("nonsense"), "line 1"),
            (app("\"uids\": [1]}, {\"name\": \"a\", \"uids\": [2]"), "\"a\" is there twice"),
            (app("\"uids\": [1]}, {\"name\": \"\\u001b[31m\", \"uids\": [2]"), "\\u{1b}[31m"),
        ] {
            assert!(found.contains(said), "{found}");
            assert!(!found.contains('\u{1b}'), "{found}");
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let app = |index: usize| AppText { name: index.to_string(), uids: vec![IdText::One(7)], ..AppText::default() };
        let text = |apps| SetText { version: 1, ttl: "1min".into(), apps };
        assert!(Set::check(text((0..Set::APPS).map(app).collect())).is_ok());
        assert!(Set::check(text((0..=Set::APPS).map(app).collect())).is_err());
        let hosts = AppText { clients: vec!["10.0.0.1".into(); HOSTS_LIMIT + 1], ..app(0) };
        assert!(Set::check(text(vec![hosts])).is_err());
        assert!(Set::parse(&vec![b' '; Set::LONGEST + 1]).is_err());
    }
}

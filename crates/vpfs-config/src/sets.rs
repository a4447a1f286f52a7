//! Sets of applications that an owner pushes while a daemon runs, for example a job scheduler: one [`Set`] and its
//! JSON, and all [`Sets`] that a daemon holds.
//!
//! A set replaces its owner's last one as a whole, and expires by itself (docs/decisions/0013-jobs-and-rules.md).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vpfs_core::{Bytes, Scope, Time, Weight};

use crate::apps::{App, Cap, Clients, check_share};
use crate::clients::{AppEntry, Charge, HOSTS_LIMIT, Ids, Place, PushedApps, Rule, id_range};
use crate::hosts::HostList;
use crate::keys::APP;
use crate::network::Owner;
use crate::tunables::Absent;
pub use crate::units::SetName;
use crate::units::{NAME_RULE, Span, is_name, parse_duration, parse_rate, parse_size, quote};

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
    apps: Vec<App>,
}

impl Set {
    /// Applications of one set.
    pub const APPS: usize = 16_384;
    /// The longest JSON text that is read: that many applications at four hosts each.
    pub const LONGEST: usize = 8 << 20;
    const TTL: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30 * 24 * 3600)];

    /// Reads JSON; an error states place and remedy. O(length).
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        if json.len() > Self::LONGEST {
            return Err(format!("a set has at most {} bytes", Self::LONGEST));
        }
        serde_json::from_slice(json).map_err(|error| error.to_string()).and_then(Self::check)
    }

    /// Checks what an owner wrote; an error states place and remedy.
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
    Ok(App { share: text.share.clone(), weight, cap, rule, ..App::named(&text.name) })
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

/// The sets of all owners, each until it expires. Times are since 1970, so that they hold over restarts.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    by_name: BTreeMap<SetName, Held>,
}

#[derive(Clone, Debug)]
struct Held {
    set: Set,
    expires: Time,
}

/// What became of a set that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It replaced the owner's last one, or is new.
    Replaced,
    /// It has the same applications; its time begins anew.
    Renewed,
}

/// Why a set was not accepted; what was there stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another one with this version is there, which is the same or a later one.
    Older(u64),
    /// There would be too much, or an application twice: the reason.
    Full(String),
}

/// Two applications of different owners that may have the same client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The one that gets it.
    pub first: String,
    /// The other one.
    pub second: String,
    /// A client of both.
    pub common: String,
}

impl Overlap {
    /// The owners of both.
    pub fn owners(&self) -> [&str; 2] {
        [&self.first, &self.second].map(|app| app.split_once(':').map_or(&app[..], |(owner, _)| owner))
    }
}

/// Pairs of applications that are compared when a set changes.
const COMPARISONS: usize = 100_000;

/// A set in a file.
#[derive(Serialize, Deserialize)]
struct Kept {
    set: SetName,
    /// Seconds since 1970.
    expires: u64,
    #[serde(flatten)]
    text: SetText,
}

impl Sets {
    /// All owners' sets.
    pub const SETS: usize = 256;
    /// Their applications together.
    pub const APPS: usize = 32_768;

    /// Replaces the set of this name, or renews it. A version that is there already is accepted with the same
    /// applications, so that a push can be repeated; an older one never is. O(applications of all sets).
    pub fn put(&mut self, now: Time, name: SetName, set: Set) -> Result<Put, Refusal> {
        let before = self.by_name.get(&name).map(|held| &held.set.text);
        let is_same = before.is_some_and(|before| before.apps == set.text.apps);
        match before {
            Some(before) if set.text.version < before.version => return Err(Refusal::Older(before.version)),
            Some(before) if set.text.version == before.version && !is_same => {
                return Err(Refusal::Older(before.version));
            }
            _ => {}
        }
        self.check_room(&name, &set)?;
        let expires = now + set.ttl;
        self.by_name.insert(name, Held { set, expires });
        Ok(if is_same { Put::Renewed } else { Put::Replaced })
    }

    fn check_room(&self, name: &SetName, set: &Set) -> Result<(), Refusal> {
        let others = || self.by_name.iter().filter(|(other, _)| *other != name);
        if others().count() >= Self::SETS {
            return Err(Refusal::Full(format!("there are {} sets already; remove one", Self::SETS)));
        }
        let apps = set.apps.len() + others().map(|(_, held)| held.set.apps.len()).sum::<usize>();
        if apps > Self::APPS {
            let most = Self::APPS;
            return Err(Refusal::Full(format!("all sets together would have {apps} applications; the most is {most}")));
        }
        let same_owner = others().filter(|(other, _)| other.owner() == name.owner());
        let taken: HashMap<&str, &SetName> = same_owner
            .flat_map(|(other, held)| held.set.apps.iter().map(move |app| (app.name.as_str(), other)))
            .collect();
        match set.apps.iter().find_map(|app| Some((&app.name, taken.get(app.name.as_str())?))) {
            Some((app, other)) => Err(Refusal::Full(format!("the set {other} has an application {app:?} already"))),
            None => Ok(()),
        }
    }

    /// The applications of the set of this name, or none.
    pub fn apps_of(&self, name: &SetName) -> &[AppText] {
        self.by_name.get(name).map_or(&[], |held| &held.set.text.apps)
    }

    /// Removes a set; whether there was one.
    pub fn remove(&mut self, name: &SetName) -> bool {
        self.by_name.remove(name).is_some()
    }

    /// Removes the sets whose time has passed; their names.
    pub fn expire(&mut self, now: Time) -> Vec<SetName> {
        let expired = |held: &Held| held.expires <= now;
        let names = self.by_name.iter().filter(|(_, held)| expired(held)).map(|(name, _)| name.clone()).collect();
        self.by_name.retain(|_, held| !expired(held));
        names
    }

    /// All sets by name, and how long each still holds.
    pub fn iter(&self, now: Time) -> impl Iterator<Item = (&SetName, &SetText, Duration)> {
        self.by_name.iter().map(move |(name, held)| (name, &held.set.text, held.expires.since(now)))
    }

    /// All sets in the order in which their applications count: those whose owner is not listed, which root or the
    /// proxy's own user has pushed, then as their owners are listed in the file; those of one owner by name.
    fn ranked(&self, owners: &[Owner]) -> Vec<(&SetName, &Held)> {
        let rank = |name: &SetName| owners.iter().position(|owner| owner.name == name.owner());
        let mut ranked: Vec<_> = self.by_name.iter().collect();
        ranked.sort_by_key(|(name, _)| (rank(name), *name));
        ranked
    }

    /// All their applications, by the rank of their `owners` in the file, set, and order in it.
    pub fn apps(&self, owners: &[Owner]) -> Arc<PushedApps> {
        Arc::new(PushedApps::new(self.ranked(owners).into_iter().flat_map(|(name, held)| {
            let owner = name.owner();
            held.set.apps.iter().zip(&held.set.text.apps).map(move |(app, text)| {
                let name = format!("{owner}:{}", app.name);
                let share = app.share.clone().map(Place::at);
                let charge = Charge { account: text.account.clone(), user: text.user.clone() };
                (AppEntry { name, is_automatic: true, charge, share, policy: app.policy() }, &app.rule)
            })
        })))
    }

    /// Where applications of the set of this name and of other owners may have the same client; at most one of each
    /// owner. O(applications), and so many comparisons that it takes milliseconds at most: beyond those, no more are
    /// found.
    pub fn overlaps(&self, name: &SetName, owners: &[Owner]) -> Vec<Overlap> {
        let ranked = self.ranked(owners);
        let Some(place) = ranked.iter().position(|(known, _)| *known == name) else { return Vec::new() };
        let apps = |at: usize| ranked[at].1.set.apps.iter();
        let own: Vec<(&App, Clients<'_>)> = apps(place).map(|app| (app, Clients::of(&app.rule))).collect();
        let (mut found, mut left) = (Vec::<Overlap>::new(), COMPARISONS);
        'others: for (at, (other, _)) in ranked.iter().enumerate() {
            let is_known = |overlap: &Overlap| overlap.owners().contains(&other.owner());
            if other.owner() == name.owner() || found.iter().any(is_known) {
                continue;
            }
            for app in apps(at) {
                let clients = Clients::of(&app.rule);
                for (own, rule) in &own {
                    let Some(fewer) = left.checked_sub(1) else { break 'others };
                    left = fewer;
                    let Some(common) = rule.common_with(&clients) else { continue };
                    let own = format!("{}:{}", name.owner(), own.name);
                    let theirs = format!("{}:{}", other.owner(), app.name);
                    let (first, second) = if place < at { (own, theirs) } else { (theirs, own) };
                    found.push(Overlap { first, second, common });
                    continue 'others;
                }
            }
        }
        found
    }

    /// What [`Sets::from_json`] reads.
    pub fn to_json(&self) -> String {
        let kept: Vec<Kept> = self.by_name.iter().map(|(name, held)| held.kept(name)).collect();
        serde_json::to_string(&kept).expect("names, numbers and lists are JSON")
    }

    /// What an earlier process held, without what has expired since; fails if that was damaged.
    pub fn from_json(now: Time, json: &[u8]) -> Result<Self, String> {
        let kept: Vec<Kept> = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let mut sets = Self::default();
        for Kept { set: name, expires, text } in kept {
            let set = Set::check(text)?;
            // The clock may have been set back since; no set holds longer than its owner said.
            let expires = (Time::ZERO + Duration::from_secs(expires)).min(now + set.ttl);
            if expires > now {
                sets.put(now, name.clone(), set).map_err(|refusal| refusal.to_string())?;
                sets.by_name.entry(name).and_modify(|held| held.expires = expires);
            }
        }
        Ok(sets)
    }
}

impl Held {
    fn kept(&self, name: &SetName) -> Kept {
        let expires = self.expires.since(Time::ZERO).as_secs();
        Kept { set: name.clone(), expires, text: self.set.text.clone() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Older(version) => {
                write!(f, "version {version} is here already; send a larger one, such as microseconds since 1970")
            }
            Self::Full(reason) => f.write_str(reason),
        }
    }
}

const NAMED: usize = 8;

/// For example `4711 added (weight 4, share bio), 4712 (weight 1 -> 4), 4713 removed`; empty if nothing differs. The
/// first eight, and how many more. O(n log n) in applications.
pub fn difference(before: &[AppText], after: &[AppText]) -> String {
    let by_name = |apps: &[AppText]| apps.iter().map(|app| (app.name.clone(), values(app))).collect::<BTreeMap<_, _>>();
    let (mut before, mut differing) = (by_name(before), Vec::new());
    for (name, new) in by_name(after) {
        match before.remove(&name) {
            Some(old) if old == new => {}
            Some(old) => differing.push(format!("{name} ({})", changes(&old, &new))),
            None => differing.push(format!("{name} added ({})", given(&new))),
        }
    }
    differing.extend(before.into_keys().map(|name| format!("{name} removed")));
    let more = differing.len().saturating_sub(NAMED);
    differing.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", differing.join(", "))
}

/// What an application gets, and then whose requests.
type Values = [(&'static str, String); 6];

fn values(app: &AppText) -> Values {
    let ids = |ids: &[IdText]| {
        let id = |id: &IdText| match id {
            IdText::One(id) => id.to_string(),
            IdText::Range(range) => range.clone(),
        };
        ids.iter().map(id).collect::<Vec<_>>().join(" ")
    };
    [
        ("weight", app.weight.unwrap_or(1).to_string()),
        ("share", app.share.clone().unwrap_or_default()),
        ("cap", app.cap.clone().unwrap_or_default()),
        ("clients", app.clients.join(" ")),
        ("users and groups", format!("{};{}", ids(&app.uids), ids(&app.gids))),
        ("jobs", app.jobs.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")),
    ]
}

/// Lists of clients have any length, so they are only said to differ.
fn changes(old: &Values, new: &Values) -> String {
    let shown = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    let differing = (0..old.len()).filter(|at| old[*at] != new[*at]);
    let change = |at: usize| match (old[at].0, at) {
        (key, 0..3) => format!("{key} {} -> {}", shown(&old[at].1), shown(&new[at].1)),
        (key, _) => format!("other {key}"),
    };
    differing.map(change).collect::<Vec<_>>().join(", ")
}

fn given(values: &Values) -> String {
    let given = values.iter().take(3).filter(|(_, value)| !value.is_empty());
    given.map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
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

    fn secs(secs: u64) -> Time {
        Time::ZERO + Duration::from_secs(secs)
    }

    fn name(text: &str) -> SetName {
        SetName::parse(text).unwrap()
    }

    fn set(version: u64, apps: &[&str]) -> Set {
        let app = |name: &&str| AppText { name: (*name).into(), uids: vec![IdText::One(7)], ..AppText::default() };
        Set::check(SetText { version, ttl: "10s".into(), apps: apps.iter().map(app).collect() }).unwrap()
    }

    fn names(sets: &Sets) -> Vec<String> {
        let apps = sets.apps(&[]);
        (0..apps.len()).filter_map(|index| Some(apps.get(index)?.name.clone())).collect()
    }

    #[test]
    fn the_last_version_counts_however_often_it_comes() {
        let mut sets = Sets::default();
        let mut put = |version, apps: &[&str]| sets.put(secs(1), name("slurm"), set(version, apps));
        assert_eq!(put(5, &["1", "2"]), Ok(Put::Replaced));
        assert_eq!(put(5, &["1", "2"]), Ok(Put::Renewed), "a push that is repeated");
        assert_eq!(put(4, &["1"]), Err(Refusal::Older(5)), "a push that was delayed");
        assert_eq!(put(5, &["1"]), Err(Refusal::Older(5)), "two that claim the same version");
        assert_eq!(put(6, &["1", "2"]), Ok(Put::Renewed));
        assert_eq!(put(7, &["2", "3"]), Ok(Put::Replaced));
        assert_eq!(names(&sets), ["slurm:2", "slurm:3"]);
        assert!(sets.remove(&name("slurm")) && !sets.remove(&name("slurm")));
        assert_eq!(sets.put(secs(1), name("slurm"), set(1, &["1"])), Ok(Put::Replaced), "nothing is left of it");
    }

    #[test]
    fn a_set_expires_unless_it_is_pushed_again() {
        let mut sets = Sets::default();
        sets.put(secs(0), name("slurm"), set(1, &["1"])).unwrap();
        sets.put(secs(5), name("admin.x"), set(1, &["x"])).unwrap();
        sets.put(secs(6), name("slurm"), set(1, &["1"])).unwrap();
        assert_eq!(sets.expire(secs(14)), []);
        assert_eq!(sets.expire(secs(15)), [name("admin.x")]);
        assert_eq!(names(&sets), ["slurm:1"]);
        assert_eq!((sets.expire(secs(16)), names(&sets).len()), (vec![name("slurm")], 0));
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut sets = Sets::default();
        sets.put(secs(0), name("admin.a"), set(1, &["x"])).unwrap();
        assert!(matches!(sets.put(secs(0), name("admin.b"), set(1, &["x"])), Err(Refusal::Full(_))), "twice");
        sets.put(secs(0), name("slurm"), set(1, &["x"])).unwrap();
        let many: Vec<String> = (0..Set::APPS).map(|app| app.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        sets.put(secs(0), name("one"), set(1, &many)).unwrap();
        assert!(matches!(sets.put(secs(0), name("two"), set(1, &many)), Err(Refusal::Full(_))));
        for part in 0..Sets::SETS - 3 {
            sets.put(secs(0), name(&format!("small.{part}")), set(1, &[])).unwrap();
        }
        assert!(matches!(sets.put(secs(0), name("more"), set(1, &[])), Err(Refusal::Full(_))));
        assert_eq!(sets.put(secs(0), name("slurm"), set(2, &["y"])), Ok(Put::Replaced));
    }

    #[test]
    fn sets_survive_a_restart_for_the_rest_of_their_time() {
        let mut sets = Sets::default();
        sets.put(secs(100), name("slurm"), set(3, &["1"])).unwrap();
        sets.put(secs(105), name("admin.x"), set(1, &["x"])).unwrap();
        let json = sets.to_json();
        let read = |now| Sets::from_json(secs(now), json.as_bytes()).unwrap();
        assert_eq!((names(&read(109)), read(109).expire(secs(110))), (names(&sets), vec![name("slurm")]));
        assert_eq!(names(&read(110)), ["admin:x"]);
        assert_eq!(names(&read(115)).len(), 0);
        let mut set_back = read(1);
        assert_eq!((set_back.expire(secs(10)), set_back.expire(secs(11)).len()), (vec![], 2), "the clock was set back");
        for cut in 1..json.len() {
            assert!(Sets::from_json(secs(106), &json.as_bytes()[..cut]).is_err(), "cut at {cut}");
        }
    }

    fn pushed(name: &str, client: &str, uids: &[u32]) -> Set {
        let uids = uids.iter().map(|uid| IdText::One(*uid)).collect();
        let app = AppText { name: name.into(), clients: vec![client.into()], uids, ..AppText::default() };
        Set::check(SetText { version: 1, ttl: "10s".into(), apps: vec![app] }).unwrap()
    }

    /// Symptom: an owner `fake` pushed an application for 0.0.0.0/0, and had all clients of `slurm`. Cause: owners
    /// ranked by the alphabet.
    #[test]
    fn owners_rank_as_they_are_listed() {
        let mut sets = Sets::default();
        let sets_of = [("fake", "0.0.0.0/0"), ("slurm", "10.0.0.1"), ("admin.x", "10.0.0.9"), ("slurm.b", "10.0.0.2")];
        for (set, client) in sets_of {
            let app = if set == "slurm.b" { "2" } else { "1" };
            sets.put(secs(0), name(set), pushed(app, client, &[])).unwrap();
        }
        let owner = |name: &str| Owner { name: name.to_owned(), token: "token".into() };
        let order = |owners: &[Owner]| {
            let apps = sets.apps(owners);
            (0..apps.len()).map(|index| apps.get(index).unwrap().name.clone()).collect::<Vec<_>>()
        };
        let listed = [owner("slurm"), owner("fake")];
        assert_eq!(order(&listed), ["admin:1", "slurm:1", "slurm:2", "fake:1"], "an owner that is not listed is root");
        assert_eq!(order(&[owner("fake"), owner("slurm")]), ["admin:1", "fake:1", "slurm:1", "slurm:2"]);
        let overlaps = |set: &str| sets.overlaps(&name(set), &listed);
        let with =
            |first: &str, common: &str| Overlap { first: first.into(), second: "fake:1".into(), common: common.into() };
        assert_eq!(overlaps("slurm"), [with("slurm:1", "client 10.0.0.1")]);
        assert_eq!(overlaps("fake"), [with("admin:1", "client 10.0.0.9"), with("slurm:1", "client 10.0.0.1")]);
        assert_eq!(sets.overlaps(&name("fake"), &[owner("fake")])[1].first, "slurm:1", "it is root's");
    }

    #[test]
    fn applications_overlap_if_one_client_can_belong_to_both() {
        let overlap = |one: (&str, &[u32]), other: (&str, &[u32])| {
            let mut sets = Sets::default();
            sets.put(secs(0), name("a"), pushed("1", one.0, one.1)).unwrap();
            sets.put(secs(0), name("b"), pushed("1", other.0, other.1)).unwrap();
            sets.overlaps(&name("b"), &[]).pop().map(|overlap| overlap.common)
        };
        assert_eq!(overlap(("10.0.0.0/24", &[]), ("10.0.0.7", &[1])).as_deref(), Some("client 10.0.0.7"));
        assert_eq!(overlap(("10.0.0.0/24", &[1]), ("10.0.0.7", &[2])), None, "other users");
        assert_eq!(overlap(("10.0.0.0/24", &[]), ("10.0.1.7", &[])), None, "other hosts");
        assert_eq!(overlap(("0.0.0.0/0", &[]), ("::/0", &[])).as_deref(), Some("all clients"));
    }

    #[test]
    fn what_differs_is_named() {
        let app = |name: &str, weight| AppText { name: name.into(), weight: Some(weight), ..AppText::default() };
        let before = [app("1", 1), app("2", 1), app("3", 1), app("4", 1)];
        let share = Some("bio".to_owned());
        let [clients, others] = [vec!["10.0.0.1".to_owned()], vec!["10.0.0.2".to_owned()]];
        let after = [
            app("1", 1),
            AppText { share: share.clone(), ..app("2", 4) },
            AppText { clients, ..app("3", 1) },
            AppText { share, clients: others, ..app("9", 2) },
        ];
        let said = "2 (weight 1 -> 4, share none -> bio), 3 (other clients), 9 added (weight 2, share bio), 4 removed";
        assert_eq!(difference(&before, &after), said);
        assert_eq!(difference(&before, &before), "");
        let many: Vec<AppText> = (10..30).map(|name| app(&name.to_string(), 1)).collect();
        assert!(difference(&[], &many).ends_with("17 added (weight 1) and 12 more"));
    }
}

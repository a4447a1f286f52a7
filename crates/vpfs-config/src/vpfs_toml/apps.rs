//! `[[app]]` and `[apps]`: the applications that share the storage, and the treatment of all other clients.

use std::collections::HashMap;
use std::time::Duration;

use vpfs_core::{AppPolicy, Minimum, PolicyKind, Target, Weight};

use super::clients::{AppIndex, Auto, AutoBy, AutoShare};
use super::ignored;
use super::keys::{APP, APPS, MATCH};
use super::paths::read_path;
use super::rates::{Cap, Capacity, read_cap, read_minimum, read_target};
use super::rule::{Reading, Rule};
use crate::names::{NAME_RULE, is_name};
use crate::schema::problem::did_you_mean;
use crate::schema::settings::{Setting, quoted};
use crate::schema::table::Table;
use crate::schema::units::quote;

/// An application: the unit that gets shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// Letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The path of the share that it is in; `None` at the top.
    pub share: Option<String>,
    /// Its weight among those in the same share.
    pub weight: Weight,
    /// Its maximum rate.
    pub cap: Option<Cap>,
    /// Its promised rate, on each server or as the sum over all, and its deadline, for policies with deadlines.
    pub target: Option<Target>,
    /// The least that it gets, on each server or as the sum over all, for policies that keep minima.
    pub minimum: Option<Minimum>,
    /// The latency to keep for nine in ten of its requests on each server, for policies that isolate.
    pub latency: Option<Duration>,
    /// Its requests pass at once.
    pub exempt: bool,
    /// Which clients belong to this application.
    pub rule: Rule,
    /// Other rules by which clients belong to it, each with the place of its `[[match]]` among all in the file.
    pub alternatives: Vec<(usize, Rule)>,
}

impl App {
    /// All rules that have any part.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let others = self.alternatives.iter().map(|(_, rule)| rule);
        [&self.rule].into_iter().chain(others).filter(|rule| rule.is_given())
    }

    /// The same with the names of their tables in [`crate::Config::setting`], such as `app.climate` and `match.1`.
    pub fn rule_tables(&self) -> impl Iterator<Item = (String, &Rule)> {
        let others = self.alternatives.iter().map(|(place, rule)| (format!("match.{place}"), rule));
        let own = (format!("app.{}", self.name), &self.rule);
        [own].into_iter().chain(others).filter(|(_, rule)| rule.is_given())
    }

    /// What schedulers need to know of it.
    pub(crate) fn policy(&self) -> AppPolicy {
        let Self { weight, cap, target, minimum, latency, exempt, .. } = *self;
        let cap = cap.and_then(Cap::policy);
        AppPolicy { weight, cap, target, minimum, latency, exempt, ..AppPolicy::default() }
    }
}

/// The name of the default application if the file names none.
const DEFAULT_APP: &str = "other";

/// The names of one kind of table, in the order of the file.
pub(crate) struct Names {
    kind: &'static str,
    list: Vec<String>,
    /// Position and line.
    known: HashMap<String, (usize, usize)>,
}

impl Names {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, list: Vec::new(), known: HashMap::new() }
    }

    /// Reads a new name; `None` if it is missing, invalid or taken.
    pub(crate) fn read(&mut self, table: &Table<'_>, key: &str) -> Option<String> {
        let found = table.text(key)?;
        if !is_name(found) {
            table.refuse(key, format!("{} is not a name; {NAME_RULE}", quote(found)));
            return None;
        }
        if let Some((_, line)) = self.known.get(found) {
            table.refuse(key, format!("line {line} already has [[{}]] {:?}; choose another name", self.kind, found));
            return None;
        }
        table.set(key, found);
        self.add(found, table.line_of(key));
        Some(found.to_owned())
    }

    fn add(&mut self, name: &str, line: usize) {
        self.known.insert(name.to_owned(), (self.list.len(), line));
        self.list.push(name.to_owned());
    }

    /// The line of a name; 0 if the file does not have it.
    pub(crate) fn line_of(&self, name: &str) -> usize {
        self.known.get(name).map_or(0, |(_, line)| *line)
    }

    /// The application to which `key` refers.
    pub(crate) fn find(&self, table: &Table<'_>, key: &str, name: &str) -> Option<AppIndex> {
        let found = self.known.get(name).map(|(index, _)| AppIndex(*index));
        if found.is_none() {
            let hint = did_you_mean(name, self.list.iter().map(String::as_str));
            table.refuse(key, format!("there is no [[{}]] named {}{hint}", self.kind, quote(name)));
        }
        found
    }
}

/// The applications of a file, including the default one.
pub(crate) struct Apps {
    pub(crate) list: Vec<App>,
    pub(crate) names: Names,
    pub(crate) default: AppIndex,
    pub(crate) auto: Auto,
}

/// Reads the applications and their rules.
pub(crate) fn read(root: &Table<'_>, policy: PolicyKind, capacity: Option<Capacity>, rules: &mut Reading<'_>) -> Apps {
    let mut names = Names::new("app");
    let (mut list, mut tables) = (Vec::new(), Vec::new());
    for (index, value) in root.list("app").iter().enumerate() {
        let unnamed = format!("app.{}", index + 1);
        let name = value.get_ref().as_table().and_then(|keys| keys.get("name")?.get_ref().as_str());
        let path = match name {
            Some(name) => format!("app.{name}"),
            None => unnamed,
        };
        let table = Table::open(root.cx, &APP, path, Some(value));
        let name = names.read(&table, "name");
        let cap = read_cap(&table, capacity);
        let app = App {
            name: name.clone().unwrap_or_default(),
            share: read_path(&table, "share"),
            weight: weight(&table, "weight"),
            minimum: read_minimum(&table, cap.and_then(Cap::policy)),
            cap,
            target: read_target(&table),
            latency: table.number("latency").map(Duration::from_nanos),
            exempt: read_exempt(&table),
            rule: rules.rule(&table),
            alternatives: Vec::new(),
        };
        // Positions of names and applications must agree; for the one left out, a problem has been reported.
        list.extend(name.map(|_| app));
        tables.push(table);
    }
    ignored::warn(&tables, policy);
    for (place, value) in (1..).zip(root.list("match")) {
        let table = Table::open(root.cx, &MATCH, format!("match.{place}"), Some(value));
        let rule = rules.rule(&table);
        if !rule.is_given() {
            table.refuse("app", "has nothing to match here; add for example clients or uids");
        }
        let name = table.text("app");
        name.iter().for_each(|name| table.set("app", *name));
        let app = name.and_then(|name| names.find(&table, "app", name));
        if let Some(app) = app.and_then(|app| list.get_mut(app.0)) {
            app.alternatives.push((place, rule));
        }
    }
    let table = root.table("apps", &APPS);
    ignored::warn(std::slice::from_ref(&table), policy);
    let default = read_default(&table, &mut names, &mut list);
    let order = names.list.join(", ");
    let order = Setting { value: quoted(&order), text: order, live: true, given: false, implied: None };
    root.cx.set("app.order".into(), order);
    Apps { list, names, default, auto: read_auto(&table, rules.are_mounts) }
}

/// Nothing else has an effect then.
fn read_exempt(table: &Table<'_>) -> bool {
    let is_exempt = table.choice("exempt") == Some(1);
    if is_exempt {
        let caps = ["cap", "server_cap", "burst"];
        let promises = ["target_rate", "server_target_rate", "deadline", "min_rate", "server_min_rate", "latency"];
        for key in ["weight"].into_iter().chain(caps).chain(promises).filter(|key| table.differs(key)) {
            table.refuse(key, "has no effect with exempt = \"on\"; remove one of them");
        }
    }
    is_exempt
}

pub(super) fn weight(table: &Table<'_>, key: &str) -> Weight {
    table.count(key).and_then(Weight::new).expect("the row has a default and the range of weights")
}

/// Programs of mounts are on one host, and those of others have no known job.
fn read_auto_by(table: &Table<'_>, are_mounts: bool) -> AutoBy {
    let by = [AutoBy::Off, AutoBy::ClientHost, AutoBy::Uid, AutoBy::Job];
    match table.choice("auto").map_or(AutoBy::Off, |index| by[index]) {
        AutoBy::ClientHost if are_mounts && table.has("auto") => {
            table.refuse("auto", "is one application for all programs of a mount; write \"uid\", \"job\" or \"off\"");
            AutoBy::Uid
        }
        AutoBy::ClientHost if are_mounts => {
            table.set("auto", "uid");
            table.imply("auto", "of mounts");
            AutoBy::Uid
        }
        AutoBy::Job if !are_mounts => {
            table
                .refuse("auto", "\"job\" is known of programs that use a mount only; write \"uid\" or \"client-host\"");
            AutoBy::Uid
        }
        by => by,
    }
}

fn read_auto(table: &Table<'_>, are_mounts: bool) -> Auto {
    let by = read_auto_by(table, are_mounts);
    if by == AutoBy::Off {
        table.warn_of(&["auto_limit", "auto_weight", "auto_share"], "has no effect with auto = \"off\"; remove it");
    }
    Auto {
        by,
        limit: usize::try_from(table.number_or_default("auto_limit")).unwrap_or(usize::MAX),
        have_runs: are_mounts,
        weight: weight(table, "auto_weight"),
        share: read_auto_share(table, by),
    }
}

fn read_auto_share(table: &Table<'_>, by: AutoBy) -> AutoShare {
    let share = table.choice("auto_share");
    let prefix = u8::try_from(table.number_or_default("auto_prefix")).unwrap_or(u8::MAX);
    let by_network = share == Some(1);
    if !by_network {
        table.imply("auto_prefix", "which has no effect without auto_share = \"network\"");
    }
    if table.has("auto_prefix") && !by_network {
        table.refuse("auto_prefix", "has no effect without auto_share = \"network\"; add it or remove this");
    }
    if by_network && (by != AutoBy::ClientHost) {
        table.refuse("auto_share", "\"network\" needs auto = \"client-host\"; users have no network");
    }
    match share {
        Some(1) => AutoShare::Network(prefix),
        Some(2) => AutoShare::Each,
        _ => AutoShare::Together,
    }
}

/// A default that is named in the file must exist, so that a typing error is noticed; otherwise it is created if
/// necessary.
fn read_default(table: &Table<'_>, names: &mut Names, list: &mut Vec<App>) -> AppIndex {
    let name = table.text("default").unwrap_or(DEFAULT_APP);
    table.set("default", name);
    table.imply("default", "created unless there is an [[app]] of that name");
    if !table.has("default") && !names.known.contains_key(DEFAULT_APP) {
        names.add(DEFAULT_APP, 0);
        list.push(App {
            name: DEFAULT_APP.into(),
            share: None,
            weight: Weight::ONE,
            cap: None,
            target: None,
            minimum: None,
            latency: None,
            exempt: false,
            rule: Rule::default(),
            alternatives: Vec::new(),
        });
    }
    names.find(table, "default", name).unwrap_or(AppIndex(0))
}

/// Warns about a policy that has no promises to keep.
pub(crate) fn warn_of_no_target(root: &Table<'_>, apps: &Apps, policy: PolicyKind) {
    if policy.keeps_deadlines() && apps.list.iter().all(|app| app.target.is_none()) {
        let message = "keeps promises to applications, but no [[app]] has target_rate and deadline";
        root.cx.warn(root.line_of("scheduler"), "scheduler.policy", format!("{} {message}", policy.name()));
    }
}

/// Warns about applications that no client can belong to, since they have neither a rule nor a listener, or since each
/// listener has an application; `listeners` are those.
pub(crate) fn warn_of_unreachable(root: &Table<'_>, apps: &Apps, listeners: &[Option<AppIndex>], are_mounts: bool) {
    let all_are_bound = listeners.iter().all(Option::is_some);
    for (index, app) in apps.list.iter().enumerate() {
        let index = AppIndex(index);
        let is_bound = listeners.contains(&Some(index));
        let message = match (is_bound, app.rules().next().is_some()) {
            (false, true) if all_are_bound && !listeners.is_empty() => {
                "no client can belong to this application: each listener has an app, which goes before clients, uids \
                 and gids; give this one a listener, or remove app from one"
            }
            (false, false) if index != apps.default && are_mounts => {
                "no program can belong to this application; give it uids, gids, programs, cgroups or files"
            }
            (false, false) if index != apps.default => {
                "no client can belong to this application; give it clients, uids, gids or a listener"
            }
            _ => continue,
        };
        root.cx.warn(apps.names.line_of(&app.name), format!("app.{}", app.name), message);
    }
}

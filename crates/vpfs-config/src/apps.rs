//! `[[app]]` and `[apps]`: the applications that share the storage, and the treatment of all other clients.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use vpfs_core::{AppPolicy, Bytes, Minimum, PolicyKind, Scope, SharePolicy, Target, Weight};

use crate::clients::{AUTO, AppIndex, Auto, AutoBy, AutoShare, Ids, Reading, Rule};
use crate::hosts::HostList;
use crate::keys;
use crate::keys::{APP, APPS, MATCH, SHARE};
use crate::schema::{Setting, Table, did_you_mean, quoted};
use crate::tunables::Section;
use crate::units::{NAME_RULE, Rate, Size, decimal, is_name, parse_rate, quote};

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
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            share: None,
            weight: Weight::ONE,
            cap: None,
            target: None,
            minimum: None,
            latency: None,
            exempt: false,
            rule: Rule::default(),
            alternatives: Vec::new(),
        }
    }

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

    pub(crate) fn policy(&self) -> AppPolicy {
        let Self { weight, cap, target, minimum, latency, exempt, .. } = *self;
        let cap = cap.and_then(Cap::policy);
        AppPolicy { weight, cap, target, minimum, latency, exempt, ..AppPolicy::default() }
    }
}

const DEFAULT_APP: &str = "other";

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

    pub(crate) fn line_of(&self, name: &str) -> usize {
        self.known.get(name).map_or(0, |(_, line)| *line)
    }

    pub(crate) fn find(&self, table: &Table<'_>, key: &str, name: &str) -> Option<AppIndex> {
        let found = self.known.get(name).map(|(index, _)| AppIndex(*index));
        if found.is_none() {
            let hint = did_you_mean(name, self.list.iter().map(String::as_str));
            table.refuse(key, format!("there is no [[{}]] named {}{hint}", self.kind, quote(name)));
        }
        found
    }
}

pub(crate) struct Apps {
    pub(crate) list: Vec<App>,
    pub(crate) names: Names,
    pub(crate) default: AppIndex,
    pub(crate) auto: Auto,
}

/// The tables of a list, called by their names as far as these are texts.
fn named_tables<'a>(root: &Table<'a>, section: &'static Section) -> impl Iterator<Item = Table<'a>> {
    root.list(section.name).iter().enumerate().map(move |(index, value)| {
        let name = value.get_ref().as_table().and_then(|keys| keys.get("name")?.get_ref().as_str());
        let name = name.map_or_else(|| (index + 1).to_string(), str::to_owned);
        Table::open(root.cx, section, format!("{}.{name}", section.name), Some(value))
    })
}

pub(crate) fn read(root: &Table<'_>, policy: PolicyKind, capacity: Option<Capacity>, rules: &mut Reading<'_>) -> Apps {
    let mut names = Names::new("app");
    let (mut list, mut tables) = (Vec::new(), Vec::new());
    for table in named_tables(root, &APP) {
        let name = names.read(&table, "name");
        let cap = read_cap(&table, capacity);
        let app = App {
            name: name.clone().unwrap_or_default(),
            share: table.share_path("share"),
            weight: weight(&table, "weight"),
            minimum: table.minimum(cap.and_then(Cap::policy)),
            cap,
            target: table.target(),
            latency: table.number("latency").map(Duration::from_nanos),
            exempt: read_exempt(&table),
            rule: rules.rule(&table),
            alternatives: Vec::new(),
        };
        // Positions of names and applications must agree; for the one left out, a problem has been reported.
        list.extend(name.map(|_| app));
        tables.push(table);
    }
    keys::warn(&tables, policy);
    for (place, value) in (1..).zip(root.list("match")) {
        let table = Table::open(root.cx, &MATCH, format!("match.{place}"), Some(value));
        let rule = rules.rule(&table);
        if !rule.is_given() {
            table.refuse("app", "has nothing to match here; add for example clients or uids");
        }
        let app = table.shown_text("app").and_then(|name| names.find(&table, "app", name));
        if let Some(app) = app.and_then(|app| list.get_mut(app.0)) {
            app.alternatives.push((place, rule));
        }
    }
    let table = root.table("apps", &APPS);
    keys::warn(std::slice::from_ref(&table), policy);
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

pub(crate) fn weight(table: &Table<'_>, key: &str) -> Weight {
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
        list.push(App::named(DEFAULT_APP));
    }
    names.find(table, "default", name).unwrap_or(AppIndex(0))
}

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

/// A share: its weight is divided among the applications and shares in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Names separated by `/`, the one at the top first.
    pub path: String,
    /// What is due to it. Where it stands follows from its path.
    pub policy: SharePolicy,
}

impl Table<'_> {
    /// The path of a share.
    pub fn share_path(&self, key: &str) -> Option<String> {
        let found = self.text(key)?;
        if let Err(problem) = check_share(found) {
            self.refuse(key, problem);
            return None;
        }
        self.set(key, found);
        Some(found.to_owned())
    }

    /// What the table promises with `min_rate` or `server_min_rate`, to an application with this cap.
    pub fn minimum(&self, cap: Option<vpfs_core::Cap>) -> Option<Minimum> {
        let (key, scope) = scoped(self, ["min_rate", "server_min_rate"]);
        let rate = self.number(key).map(Bytes)?;
        if cap.is_some_and(|cap| cap.scope() == scope && cap.bytes_per_second() < rate.0) {
            self.refuse(key, "is more than its cap; lower it, or raise the cap");
        }
        Some(Minimum { rate, scope })
    }

    /// What it promises with `target_rate` or `server_target_rate`, and `deadline`.
    pub fn target(&self) -> Option<Target> {
        let (key, scope) = scoped(self, ["target_rate", "server_target_rate"]);
        if self.has(key) && !self.has("deadline") {
            self.refuse(key, "has no effect without deadline; add it or remove this");
        }
        if self.has("deadline") && !self.has(key) {
            self.refuse("deadline", "has no effect without target_rate or server_target_rate; add one or remove this");
        }
        let rate = self.number(key).map(Bytes);
        Some(Target { deadline: self.number("deadline").map(Duration::from_nanos)?, rate: rate?, scope })
    }

    /// The list `share` of the file, for another file than vpfs.toml: one with so many servers and applications with
    /// these minima, each with the path of the share that it is in.
    pub fn shares<'b>(
        &self,
        minima: impl IntoIterator<Item = (Option<&'b str>, Minimum)>,
        servers: usize,
    ) -> Vec<Share> {
        let (shares, tables) = read_shares(self, None);
        check_in_shares((&shares, &tables), minima, servers);
        shares
    }
}

pub(crate) fn read_shares<'a>(root: &Table<'a>, capacity: Option<Capacity>) -> (Vec<Share>, Vec<Table<'a>>) {
    let mut lines: HashMap<String, usize> = HashMap::new();
    let (mut list, mut tables) = (Vec::new(), Vec::new());
    for table in named_tables(root, &SHARE) {
        let cap = read_cap(&table, capacity).and_then(Cap::policy);
        let (weight, minimum) = (weight(&table, "weight"), table.minimum(cap));
        let policy = SharePolicy { weight, minimum, cap, parent: None };
        let Some(path) = table.share_path("name") else { continue };
        if let Some(line) = lines.insert(path.clone(), table.line()) {
            table.refuse("name", format!("line {line} already has [[share]] {}; put both together", quote(&path)));
        }
        list.push(Share { path, policy });
        tables.push(table);
    }
    (list, tables)
}

/// A limit on a rate, which holds even if the storage is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// In the long run; never 0.
    pub rate: Rate,
    /// Amount at once after a pause; never 0.
    pub burst: Bytes,
    /// On each server, or as the sum over all.
    pub scope: Scope,
}

impl Cap {
    pub(crate) fn policy(self) -> Option<vpfs_core::Cap> {
        let Self { rate, burst, scope } = self;
        let at_each = vpfs_core::Cap::new(rate.0, burst)?;
        Some(if scope == Scope::Total { at_each.over_all_servers() } else { at_each })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) server: Rate,
    pub(crate) servers: usize,
}

impl Capacity {
    pub(crate) fn of(self, scope: Scope) -> Rate {
        match scope {
            Scope::Server => self.server,
            Scope::Total => Rate(self.server.0.saturating_mul(self.servers as u64)),
        }
    }
}

/// Which one of two keys for the same rate the file has.
fn scoped(table: &Table<'_>, [total, server]: [&'static str; 2]) -> (&'static str, Scope) {
    if table.has(total) && table.has(server) {
        let problem = format!("cannot be together with {total}, which is for the sum over all servers; remove one");
        table.refuse(server, problem);
    }
    if table.has(server) { (server, Scope::Server) } else { (total, Scope::Total) }
}

pub(crate) fn read_cap(table: &Table<'_>, capacity: Option<Capacity>) -> Option<Cap> {
    let (key, scope) = scoped(table, ["cap", "server_cap"]);
    if table.has("burst") && !table.has(key) {
        table.refuse("burst", "has no effect without cap or server_cap; add one or remove it");
    }
    let found = table.text(key)?;
    let burst = Bytes(table.number_or_default("burst"));
    match cap_rate(found, capacity.map(|capacity| capacity.of(scope))) {
        Ok(rate) => {
            table.set(key, rate.to_string());
            Some(Cap { rate, burst, scope })
        }
        Err(message) => {
            table.refuse(key, message);
            None
        }
    }
}

fn cap_rate(text: &str, capacity: Option<Rate>) -> Result<Rate, String> {
    let rate = match text.trim().strip_suffix('%') {
        None => parse_rate(text).map_err(|error| error.to_string())?,
        Some(percent) => {
            let Some((digits, places)) = decimal(percent.trim()).filter(|(_, places)| *places <= 9) else {
                return Err(format!("{} is not a share; write for example \"25%\"", quote(text)));
            };
            let whole = 100 * 10_u128.pow(places);
            if digits > whole {
                return Err(format!("{} is more than 100%", quote(text)));
            }
            let Some(capacity) = capacity else {
                return Err("a percentage needs the capacity; set capacity in [scheduler], or write a rate".into());
            };
            // No overflow: 64 bits of capacity times 37 bits of share.
            Rate(u64::try_from(u128::from(capacity.0) * digits / whole).unwrap_or(capacity.0))
        }
    };
    if rate.0 == 0 {
        return Err("a cap of 0 would block all requests; remove the cap or raise it".into());
    }
    Ok(rate)
}

impl std::fmt::Display for Cap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = if self.scope == Scope::Server { " on each server" } else { "" };
        write!(f, "{}{each} (burst {})", self.rate, Size(self.burst))
    }
}

/// Why a text is not the path of a share, names with `/` between them, and what would be.
pub(crate) fn check_share(text: &str) -> Result<(), String> {
    let (names, most) = (text.split('/').count(), SharePolicy::DEPTH_MAX);
    if !text.split('/').all(is_name) {
        return Err(format!("{} is not a path of shares; {NAME_RULE}, and \"/\" between names", quote(text)));
    }
    if names > most {
        return Err(format!("{} has {names} levels; at most {most} are possible", quote(text)));
    }
    if text.split('/').next() == Some(AUTO) {
        return Err("\"auto\" is the share of automatic applications, see auto_weight; choose another name".to_owned());
    }
    Ok(())
}

/// Refuses promises that cannot be kept: in a share, beyond what is promised to it or its cap; all together, beyond
/// what the servers have.
pub(crate) fn check_promises(
    root: &Table<'_>,
    shares: (&[Share], &[Table<'_>]),
    apps: &[App],
    servers: usize,
    capacity: Option<Capacity>,
) {
    let in_shares = apps.iter().filter_map(|app| Some((app.share.as_deref(), app.minimum?)));
    let minima = check_in_shares(shares, in_shares, servers);
    let Some(capacity) = capacity else { return };
    let targets = apps.iter().filter_map(|app| app.target).map(|target| ("target_rate", target.scope, target.rate.0));
    let promises = minima.iter().map(|minimum| ("min_rate", minimum.scope, minimum.rate.0));
    let promises: Vec<_> = promises.chain(targets).collect();
    for (key, scope) in
        ["min_rate", "target_rate"].into_iter().flat_map(|key| [Scope::Server, Scope::Total].map(|scope| (key, scope)))
    {
        let rates = promises.iter().filter(|promise| (promise.0, promise.1) == (key, scope)).map(|promise| promise.2);
        let (sum, most) = (Rate(rates.fold(0, u64::saturating_add)), capacity.of(scope));
        if sum.0 > most.0 {
            let of = if scope == Scope::Server { "each server has" } else { "all servers have" };
            let message = format!(
                "the {} of all applications together is {sum}, but {of} {most} by scheduler.capacity; lower some",
                key_for(key, scope)
            );
            root.cx.refuse(0, "app", message);
        }
    }
}

/// Refuses minima in a share, by its path, beyond what is promised to it or its cap; returns those that are in none
/// with a minimum.
fn check_in_shares<'b>(
    (shares, tables): (&[Share], &[Table<'_>]),
    apps: impl IntoIterator<Item = (Option<&'b str>, Minimum)>,
    servers: usize,
) -> Vec<Minimum> {
    let mut minima = Minima { shares: shares.iter().map(|share| (&*share.path, share)).collect(), ..Minima::default() };
    for (share, minimum) in apps {
        minima.add(share, minimum);
    }
    for share in shares {
        let outside = share.path.rsplit_once('/').map(|(outside, _)| outside);
        share.policy.minimum.iter().for_each(|minimum| minima.add(outside, *minimum));
    }
    for (share, table) in shares.iter().zip(tables) {
        let Some(inside) = minima.inside.get(&*share.path) else { continue };
        let cap = share.policy.cap.map(|cap| ("cap", cap.scope(), cap.bytes_per_second()));
        let minimum = share.policy.minimum.map(|minimum| ("min_rate", minimum.scope, minimum.rate.0));
        let exceeded =
            [minimum, cap].into_iter().flatten().find(|(_, scope, rate)| sum(inside, *scope, servers) > *rate);
        if let Some((key, scope, _)) = exceeded {
            let (key, sum) = (key_for(key, scope), Rate(sum(inside, scope, servers)));
            table.refuse(
                &key,
                format!("is less than what has minima in it needs together, {sum}; raise it, or lower those"),
            );
        }
    }
    minima.at_the_top
}

/// What is promised by its place in the tree of shares.
#[derive(Default)]
struct Minima<'a> {
    shares: HashMap<&'a str, &'a Share>,
    /// By path of a share: the minima of what is in it, but in no share in it with a minimum.
    inside: HashMap<&'a str, Vec<Minimum>>,
    at_the_top: Vec<Minimum>,
}

impl<'a> Minima<'a> {
    fn add(&mut self, mut share: Option<&'a str>, minimum: Minimum) {
        while let Some(path) = share {
            self.inside.entry(path).or_default().push(minimum);
            if self.shares.get(path).is_some_and(|share| share.policy.minimum.is_some()) {
                return;
            }
            share = path.rsplit_once('/').map(|(outside, _)| outside);
        }
        self.at_the_top.push(minimum);
    }
}

/// What minima may need at one server, or at all of these. Any server may have all of what is for all.
fn sum(minima: &[Minimum], scope: Scope, servers: usize) -> u64 {
    let need = |minimum: &Minimum| match (minimum.scope, scope) {
        (Scope::Server, Scope::Total) => minimum.rate.0.saturating_mul(servers as u64),
        _ => minimum.rate.0,
    };
    minima.iter().map(need).fold(0, u64::saturating_add)
}

fn key_for(key: &str, scope: Scope) -> String {
    if scope == Scope::Server { format!("server_{key}") } else { key.to_owned() }
}

/// The rules that are compared with each other: far more than people write, and few enough to take no time.
const COMPARED: usize = 500;

/// Warns about applications that get no client because of those before them, and about clients of two applications.
/// Only applications with one rule, of addresses and ids, are compared: those of names are not known here. That a
/// general rule follows a narrower one is how exceptions are written, and no reason for a warning.
pub(crate) fn warn(root: &Table<'_>, apps: &Apps) {
    let is_compared = |app: &App| app.rule.is_given() && app.alternatives.is_empty() && !app.rule.has_more();
    let rules = apps.list.iter().filter(|app| is_compared(app));
    let rules: Vec<(&str, Clients<'_>)> =
        rules.take(COMPARED).map(|app| (app.name.as_str(), Clients::of(&app.rule))).collect();
    for (index, (name, rule)) in rules.iter().enumerate() {
        let before = &rules[..index];
        let line = |name: &str| apps.names.line_of(name);
        let place = |other: &str| format!("{other:?} (line {})", line(other));
        let message = if let Some((other, _)) = before.iter().find(|(_, other)| other.has_all_of(rule)) {
            let other = place(other);
            format!("no client can belong to it: {other} comes first and has all of them; put the narrower one first")
        } else if let Some(others) = rule.parts_before(before) {
            let others = others.into_iter().map(place).collect::<Vec<_>>().join(", ");
            format!("no client can belong to it: {others} come first and together have all of them")
        } else if let Some((other, common)) =
            before.iter().find_map(|(other, earlier)| Some((other, earlier.shared_with(rule)?)))
        {
            let other = place(other);
            format!("{common} is also in {other}, which comes first and gets it; remove it from one of them")
        } else {
            continue;
        };
        root.cx.warn(line(name), format!("app.{name}"), message);
    }
}

/// What a rule matches: all these sets, where `None` is everybody.
pub(crate) struct Clients<'a>([Option<Set<'a>>; PARTS]);

/// Hosts, users, groups and jobs.
const PARTS: usize = 4;

impl<'a> Clients<'a> {
    pub(crate) fn of(rule: &'a Rule) -> Self {
        let ids = |ids: &Ids| Set::of_ids(ids);
        let hosts = rule.clients.as_ref().map(Set::of_hosts);
        let [uids, gids, jobs] = [&rule.uids, &rule.gids, &rule.jobs].map(|list| list.as_ref().map(ids));
        let sets = [hosts, uids, gids, jobs];
        Self(sets.map(|set| set.filter(|set| !set.is_everybody())))
    }

    fn has_all_of(&self, other: &Self) -> bool {
        (0..PARTS).all(|part| self.covers(other, part))
    }

    fn covers(&self, other: &Self, part: usize) -> bool {
        match (&self.0[part], &other.0[part]) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => own.has_all_of(other),
        }
    }

    /// Several rules that together have all of this one, if they differ from it in one part only.
    fn parts_before<'n>(&self, before: &[(&'n str, Self)]) -> Option<Vec<&'n str>> {
        (0..PARTS).find_map(|part| {
            let own = self.0[part].as_ref()?;
            let others = |rule: &Self| (0..PARTS).all(|other| other == part || rule.covers(self, other));
            let parts: Vec<_> = before.iter().filter(|(_, rule)| others(rule)).collect();
            let sets = parts.iter().filter_map(|(name, rule)| Some((*name, rule.0[part].as_ref()?)));
            let sets: Vec<_> = sets.filter(|(_, set)| set.shared_with(own).is_some()).collect();
            let all = Set::union(sets.iter().map(|(_, set)| *set));
            all.has_all_of(own).then(|| sets.into_iter().map(|(name, _)| name).collect())
        })
    }

    /// Something that both rules may match, such as `client 10.1.2.3`, or `None` if nothing can.
    pub(crate) fn common_with(&self, other: &Self) -> Option<String> {
        let mut common = None;
        for (kind, pair) in ["client", "user", "group", "job"].into_iter().zip(self.0.iter().zip(&other.0)) {
            let of_both = match pair {
                (Some(own), Some(other)) => Some(own.shared_with(other)?),
                (Some(one), None) | (None, Some(one)) => one.shared_with(one),
                (None, None) => None,
            };
            common = common.or(of_both.map(|of_both| format!("{kind} {of_both}")));
        }
        Some(common.unwrap_or_else(|| "all clients".to_owned()))
    }

    /// Something that both rules match, if they have the same parts and neither is an exception from the other.
    fn shared_with(&self, later: &Self) -> Option<String> {
        if later.has_all_of(self) {
            return None;
        }
        let mut common = None;
        for pair in self.0.iter().zip(&later.0) {
            match pair {
                (None, None) => {}
                (Some(own), Some(later)) => common = common.or(Some(own.shared_with(later)?)),
                _ => return None,
            }
        }
        common
    }
}

/// Addresses and names, or ids.
struct Set<'a> {
    /// Sorted, and with gaps between them; IPv4 addresses as part of IPv6.
    ranges: Vec<(u128, u128)>,
    names: BTreeSet<&'a str>,
    is_of_hosts: bool,
}

/// Where IPv4 addresses are among those of IPv6.
const IPV4: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);

impl<'a> Set<'a> {
    fn of_hosts(list: &'a HostList) -> Self {
        let names = list.names.iter().map(|(name, _)| name.as_str()).collect();
        Self { ranges: merged(list.nets.iter().map(range_of).collect()), names, is_of_hosts: true }
    }

    fn of_ids(ids: &Ids) -> Self {
        let ranges = ids.ranges().iter().map(|&(low, high)| (low.into(), high.into())).collect();
        Self { ranges, names: BTreeSet::new(), is_of_hosts: false }
    }

    fn union<'s>(sets: impl Iterator<Item = &'s Self>) -> Self
    where
        'a: 's,
    {
        let mut all = Self { ranges: Vec::new(), names: BTreeSet::new(), is_of_hosts: true };
        for set in sets {
            all.ranges.extend(&set.ranges);
            all.names.extend(&set.names);
        }
        all.ranges = merged(all.ranges);
        all
    }

    /// All ids, or all IPv4 addresses: servers of OrangeFS have no others.
    fn is_everybody(&self) -> bool {
        let all = if self.is_of_hosts { IPV4 } else { (0, u32::MAX.into()) };
        self.ranges.iter().any(|range| range.0 <= all.0 && all.1 <= range.1)
    }

    fn has_all_of(&self, other: &Self) -> bool {
        let has = |range: &(u128, u128)| {
            let after = self.ranges.partition_point(|own| own.0 <= range.0);
            after > 0 && range.1 <= self.ranges[after - 1].1
        };
        other.ranges.iter().all(has) && other.names.is_subset(&self.names)
    }

    fn shared_with(&self, other: &Self) -> Option<String> {
        if let Some(name) = other.names.iter().find(|name| self.names.contains(*name)) {
            return Some((*name).to_owned());
        }
        let common = other.ranges.iter().find_map(|range| {
            let after = self.ranges.partition_point(|own| own.1 < range.0);
            let own = self.ranges.get(after).filter(|own| own.0 <= range.1)?;
            Some((own.0.max(range.0), own.1.min(range.1)))
        });
        common.map(|range| self.show(range))
    }

    fn show(&self, (low, high): (u128, u128)) -> String {
        let text = |value: u128| match self.is_of_hosts {
            true => IpAddr::from(value.to_be_bytes()).to_canonical().to_string(),
            false => value.to_string(),
        };
        if low == high { text(low) } else { format!("{}-{}", text(low), text(high)) }
    }
}

fn range_of(net: &IpNet) -> (u128, u128) {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    (bits(net.network()), bits(net.broadcast()))
}

/// The same numbers as sorted ranges with gaps between them.
fn merged(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match merged.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => merged.push((low, high)),
        }
    }
    merged
}

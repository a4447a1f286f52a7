//! Reads scenario files, and prints `docs/scenarios.md` from the table of their keys.

mod app;
mod keys;
mod servers;
mod workload;

use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

use vpfs_config::{Problems, Table, read_file};
use vpfs_harl::Log;

use crate::bounds::{self, Misfit};
use crate::model::device::DeviceProfile;
use crate::network::LinkProfile;
use crate::scenario::{PolicySpec, RequestTime, Scenario};

impl Scenario {
    /// Reads the text of a scenario file that refers to no other file; `file` is its name for messages.
    ///
    /// # Errors
    /// All problems that were found, each with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problems> {
        const NONE: &str = "a scenario without a directory cannot name files";
        let files = Files { text: &|_| Err(io::Error::other(NONE)), log: &|_| Err(NONE.into()) };
        Self::parse_with(file, text, &files, |scenario| scenario)
    }

    /// [`Scenario::parse`] for a file that may name `files`; `change` makes changes that others have asked for, before
    /// the whole is checked.
    ///
    /// # Errors
    /// All problems that were found, each with its line.
    pub fn parse_with(
        file: &str,
        text: &str,
        files: &Files<'_>,
        change: impl FnOnce(Self) -> Self,
    ) -> Result<Self, Problems> {
        read_file(file, text, &keys::ROOT, |root| checked(root, change(read(root, file, files))))
    }
}

/// The files that a scenario names, by their names in it.
pub struct Files<'a> {
    /// The text of a profile of `vpfs profile`, which policies may name.
    pub text: &'a dyn Fn(&str) -> io::Result<String>,
    /// A log of requests, which applications may replay; or why it cannot be read.
    pub log: &'a dyn Fn(&str) -> Result<Log, String>,
}

impl fmt::Debug for Files<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

fn read(root: &Table<'_>, file: &str, files: &Files<'_>) -> Scenario {
    let file_name = || Path::new(file).file_stem().map_or(file.into(), |stem| stem.to_string_lossy().into_owned());
    let groups = root.tables("servers", &keys::SERVER_GROUP);
    let apps = app::read(root, &app::read_classes(&groups), files);
    let policies = read_policies(root, files);
    let servers: Vec<_> = groups.iter().map(servers::read_group).collect();
    let minima = apps.iter().filter_map(|app| Some((app.share.as_deref(), app.minimum?)));
    let shares = root.shares(minima, servers.iter().map(|group| group.count as usize).sum());
    Scenario {
        name: root.text("name").map_or_else(file_name, str::to_owned),
        seed: root.number("seed").unwrap_or(1),
        duration: root.duration("duration"),
        interval: root.duration("interval").unwrap_or(Duration::from_secs(1)),
        wait_limit: root.duration("wait_limit").unwrap_or(Duration::MAX),
        by_server: is_on(root, "by_server"),
        trace: is_on(root, "trace"),
        servers,
        jitter: root.duration("jitter").unwrap_or_default(),
        skew: root.duration("skew").unwrap_or_default(),
        node_link: root.has("node_link").then(|| read_node_link(root)),
        peers: servers::read_peers(&root.table("peers", &keys::PEERS)),
        policies,
        shares,
        apps,
    }
}

/// Reports what does not fit together.
fn checked(root: &Table<'_>, scenario: Scenario) -> Scenario {
    // What is missing after another problem would be misleading.
    if !root.has_problems() {
        let parts = scenario.policies.iter().map(|policy| bounds::check_parts(&scenario, policy));
        let misfits = parts.chain([bounds::check_end(&scenario)]).filter_map(Result::err);
        misfits.for_each(|misfit| refuse(root, &misfit));
    }
    scenario
}

/// Reports a problem at the application that has it.
fn refuse(root: &Table<'_>, misfit: &Misfit) {
    match misfit.app().and_then(|number| app::of_number(root, number)) {
        Some(table) => table.refuse(misfit.key, &misfit.problem),
        None => root.refuse(misfit.key, &misfit.problem),
    }
}

fn read_node_link(root: &Table<'_>) -> LinkProfile {
    let rate = root.table("node_link", &keys::NODE_LINK).number("rate");
    // The latency between a client and a server is that of the server's link.
    LinkProfile { bytes_per_second: rate.unwrap_or(u64::MAX), latency: Duration::ZERO }
}

fn read_policies(root: &Table<'_>, files: &Files<'_>) -> Vec<PolicySpec> {
    let mut policies: Vec<PolicySpec> = Vec::new();
    for table in root.tables("policy", &keys::POLICY) {
        let scheduler = table.scheduler(files.text);
        if scheduler.observed.is_some() {
            table.refuse("scheduler", "mode = \"observe\" is for a proxy; compare with policy = \"fifo\" here");
        }
        let name = read_name(&table);
        if policies.iter().any(|policy| policy.name == name) {
            table.refuse("name", format!("another policy is called {name:?}"));
        }
        let request_time =
            if table.choice("request_time") == Some(1) { RequestTime::Issue } else { RequestTime::Arrival };
        let metadata_cost = scheduler.metadata_cost;
        policies.push(PolicySpec { metadata_cost, request_time, ..PolicySpec::new(name, scheduler.policy) });
    }
    if !root.has("policy") {
        root.refuse("policy", "is missing; add [[policy]] with a name and [policy.scheduler]");
    }
    policies
}

/// The name of a policy or application.
fn read_name<'a>(table: &'a Table<'_>) -> &'a str {
    let name = table.text("name").unwrap_or_default();
    if name.trim().is_empty() && table.has("name") {
        table.refuse("name", "is empty; tables and charts need one");
    }
    name
}

fn is_on(table: &Table<'_>, key: &str) -> bool {
    table.choice(key) == Some(1)
}

/// Numbers and ranges such as `0-3`.
fn read_numbers(table: &Table<'_>, key: &str) -> Vec<u32> {
    const MOST: u32 = 1_000_000;
    let mut numbers = Vec::new();
    for text in table.texts(key) {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) if first <= last && last < MOST => numbers.extend(first..=last),
            _ => table.refuse(key, format!("{text:?} is not a number or a range such as \"0-3\", below {MOST}")),
        }
    }
    numbers
}

const INTRODUCTION: &str = r#"# Scenario files

<!-- Printed from crates/vpfs-sim/src/read/keys.rs; do not edit. UPDATE=1 cargo test -p vpfs-sim rewrites it. -->

Servers, a network, policies to compare, and applications, for `vpfs sim`. [`scenarios/`](../scenarios) has files to
start from; the [guide](guide/simulate.md) explains one. Units, `[[share]]`, and the keys of a policy's `scheduler` are
those of [vpfs.toml](config.md). An unknown key is an error. An application has exactly one workload, with its parameters
in a table.
"#;

/// The text of `docs/scenarios.md`.
pub fn scenario_manual() -> String {
    let phases = app::PHASES.map(|phase| format!("`{phase}`")).join(", ");
    let models: String = DeviceProfile::NAMED.iter().map(|(name, what)| format!("|`{name}`|{what}|\n")).collect();
    let keys = {
        let own: Vec<_> = keys::SECTIONS.iter().copied().filter(|section| section.name != "share").collect();
        vpfs_config::manual(INTRODUCTION, &own)
    };
    format!(
        "{keys}\n## Device models\n\nValues of `device`; most represent the hardware of a paper.\n\n|name|description|\n|---|---|\n{models}\n\
         ## Phases\n\nFor `phases`: {phases}. Each workload has some of them.\n"
    )
}

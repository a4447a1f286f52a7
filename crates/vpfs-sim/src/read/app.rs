//! `[[app]]`, and how its files are striped.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use vpfs_config::Table;
use vpfs_config::units::parse_size;
use vpfs_core::stripe::{Distribution, VarStrip};
use vpfs_core::{Bytes, Cap, Weight};

use super::{Files, is_on, keys, read_name, read_numbers, workload};
use crate::bounds::APPS;
use crate::layout::{Layout, Region, Start};
use crate::model::plan::Phase;
use crate::scenario::App;

/// Reads all applications and checks their names.
pub(super) fn read(root: &Table<'_>, classes: &[Class], files: &Files<'_>) -> Vec<App> {
    let (mut apps, mut names) = (Vec::new(), BTreeSet::new());
    for table in root.tables("app", &keys::APP) {
        let copies = read_copies(&table, classes, files);
        if (apps.len() + copies.len()) as u64 > APPS {
            table.refuse("copies", format!("makes more than {APPS} applications"));
            break;
        }
        for app in copies {
            if !names.insert(app.name.clone()) {
                table.refuse("name", format!("another application is called {:?}", app.name));
            }
            apps.push(app);
        }
    }
    if !root.has("app") {
        root.refuse("app", "is missing; add [[app]] with a name and a workload such as [app.ior]");
    }
    apps
}

/// The table of the application of this number, of the file that was read.
pub(super) fn of_number<'a>(root: &Table<'a>, number: usize) -> Option<Table<'a>> {
    let mut past = 0;
    root.tables("app", &keys::APP).into_iter().find(|table| {
        past += table.count("copies").unwrap_or(1) as usize;
        number < past
    })
}

fn read_copies(table: &Table<'_>, classes: &[Class], files: &Files<'_>) -> Vec<App> {
    let (copies, stagger) = (table.count("copies").unwrap_or(1), table.duration("stagger").unwrap_or_default());
    let Some(app) = read_app(table, classes, files) else { return Vec::new() };
    let name = |copy: u32| if copies == 1 { app.name.clone() } else { format!("{}-{}", app.name, copy + 1) };
    let copy = |copy: u32| App { name: name(copy), start: app.start + stagger.saturating_mul(copy), ..app.clone() };
    (0..copies).map(copy).collect()
}

/// `None` after a problem that prevents reading further.
fn read_app(table: &Table<'_>, classes: &[Class], files: &Files<'_>) -> Option<App> {
    let name = read_name(table);
    let nodes = table.count("nodes").unwrap_or(1);
    let (phases, layout, cap) = (read_phases(table), read_layout(table, classes), read_cap(table));
    let workload = workload::read(table, nodes, files)?;
    Some(App {
        weight: table.count("weight").and_then(Weight::new).unwrap_or(Weight::ONE),
        share: table.share_path("share"),
        cap,
        target: table.target(),
        minimum: table.minimum(cap),
        latency: table.duration("latency"),
        order: table.count("order").and_then(|order| u16::try_from(order).ok()),
        start: table.duration("start").unwrap_or(Duration::ZERO),
        end: table.duration("end"),
        background: is_on(table, "background"),
        stable: is_on(table, "stable"),
        phases,
        nodes,
        outstanding: table.count("outstanding").unwrap_or(1),
        layout,
        ..App::new(name, workload)
    })
}

fn read_cap(table: &Table<'_>) -> Option<Cap> {
    let (total, server) = (table.has("cap"), table.has("server_cap"));
    if table.has("burst") && !total && !server {
        table.refuse("burst", "has no effect without cap or server_cap; add one or remove this");
    }
    if total && server {
        table.refuse("server_cap", "cannot be together with cap, which is for the sum over all servers; remove one");
    }
    let burst = table.size("burst").unwrap_or(Bytes::mib(16));
    let total = table.number("cap").and_then(|rate| Cap::new(rate, burst)).map(Cap::over_all_servers);
    total.or_else(|| table.number("server_cap").and_then(|rate| Cap::new(rate, burst)))
}

/// Every phase of a workload; a new one must be added here so that files can name it.
pub(super) const PHASES: [Phase; 14] = {
    use Phase::*;
    [Setup, MakeDir, Create, Open, Write, Sync, Read, Mixed, Stat, SetTimes, ListDir, Remove, RemoveDir, Cleanup]
};

fn read_phases(table: &Table<'_>) -> Vec<Phase> {
    let names = || PHASES.map(|phase| phase.to_string()).join(", ");
    let phase = |text: &str| {
        let found = PHASES.into_iter().find(|phase| phase.to_string() == text);
        if found.is_none() {
            table.refuse("phases", format!("{text:?} is not a phase; the phases are {}", names()));
        }
        found
    };
    table.texts("phases").into_iter().filter_map(phase).collect()
}

/// A named group of servers.
#[derive(Clone, Debug)]
pub(super) struct Class {
    name: String,
    servers: Range<u32>,
}

/// The classes of all groups that have a name.
pub(super) fn read_classes(groups: &[Table<'_>]) -> Vec<Class> {
    let (mut classes, mut first): (Vec<Class>, u32) = (Vec::new(), 0);
    for group in groups {
        let servers = first..first.saturating_add(group.count("count").unwrap_or(1));
        first = servers.end;
        let Some(name) = group.text("name") else { continue };
        if name.is_empty() || name.contains(':') {
            group.refuse("name", "is empty or contains \":\"; give a plain name such as \"disk\"");
        } else if classes.iter().any(|class| class.name == name) {
            group.refuse("name", format!("another group of servers is called {name:?}"));
        } else {
            classes.push(Class { name: name.to_owned(), servers });
        }
    }
    classes
}

/// The layout of an application's files.
fn read_layout(table: &Table<'_>, classes: &[Class]) -> Layout {
    let starts = [Start::First, Start::ByFile];
    Layout {
        regions: read_regions(table, classes),
        distribution: read_distribution(table),
        servers: read_numbers(table, "servers"),
        start: table.choice("start_server").map_or(Start::ByFile, |index| starts[index]),
    }
}

fn read_distribution(table: &Table<'_>) -> Distribution {
    let strip = table.number("strip").unwrap_or(1);
    let count = |key| table.count(key).unwrap_or(1);
    match table.choice("distribution") {
        Some(1) => Distribution::Basic,
        Some(2) => match VarStrip::parse(table.text("strips").unwrap_or_default()) {
            Ok(strips) => Distribution::VarStrip(strips),
            Err(error) => {
                table.refuse("strips", error.to_string());
                Distribution::Basic
            }
        },
        Some(3) => Distribution::TwoDStripe { groups: count("groups"), strip, factor: count("factor") },
        _ => Distribution::SimpleStripe { strip },
    }
}

fn read_regions(table: &Table<'_>, classes: &[Class]) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for region in table.tables("region", &keys::REGION) {
        let start = region.number("start").unwrap_or(0);
        let follows = regions.last().map_or(start == 0, |last| start > last.start);
        if !follows {
            region.refuse("start", "regions must be in the order of the file, the first one at 0B");
        }
        regions.push(Region { start, stripes: read_stripes(&region, classes) });
    }
    if table.has("region") {
        for key in ["distribution", "strip", "strips", "servers", "start_server", "groups", "factor"] {
            if table.has(key) {
                table.refuse(key, "has no effect together with region; remove one of them");
            }
        }
    }
    regions
}

/// The stripes of a round, in the order of the classes.
fn read_stripes(region: &Table<'_>, classes: &[Class]) -> Vec<(u32, u64)> {
    let (mut stripes, mut seen) = (Vec::new(), BTreeSet::new());
    for text in region.texts("stripes") {
        match read_stripe(text, classes) {
            Ok((class, _)) if !seen.insert(&class.name) => {
                region.refuse("stripes", format!("{:?} has two stripes; remove one", class.name));
            }
            Ok((_, 0)) => {}
            Ok((class, bytes)) => stripes.extend(class.servers.clone().map(|server| (server, bytes))),
            Err(problem) => region.refuse("stripes", format!("{text:?}: {problem}")),
        }
    }
    if stripes.is_empty() {
        region.refuse("stripes", "no class of servers holds any byte; give one a stripe, such as \"disk:64KiB\"");
    }
    stripes
}

/// `class:size`.
fn read_stripe<'a>(text: &str, classes: &'a [Class]) -> Result<(&'a Class, u64), String> {
    let (name, size) = text.split_once(':').ok_or("is not a class and a size such as \"disk:64KiB\"")?;
    let names = || classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", ");
    let class = classes.iter().find(|class| class.name == name.trim()).ok_or_else(|| match classes {
        [] => "no group of servers has a name; add name to [[servers]]".to_owned(),
        _ => format!("no group of servers has this name; the names are {}", names()),
    })?;
    let bytes = parse_size(size.trim()).map_err(|error| error.to_string())?.0;
    if bytes > 1 << 40 { Err("a stripe is at most 1TiB".into()) } else { Ok((class, bytes)) }
}

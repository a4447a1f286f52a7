//! `[[app]]`.

use std::collections::BTreeSet;
use std::time::Duration;

use vpfs_config::Table;
use vpfs_core::{Bytes, Cap, Weight};

use crate::model::plan::Phase;

use super::layout::{self, Class};
use super::{Files, is_on, keys, workload};
use crate::bounds::APPS;
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
    let name = super::read_name(table);
    let nodes = table.count("nodes").unwrap_or(1);
    let (phases, layout, cap) = (read_phases(table), layout::read(table, classes), read_cap(table));
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

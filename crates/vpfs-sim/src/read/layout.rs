//! How the files of an `[[app]]` are striped.

use std::collections::BTreeSet;
use std::ops::Range;

use vpfs_config::Table;
use vpfs_config::units::parse_size;
use vpfs_core::stripe::{Distribution, VarStrip};

use super::{keys, read_numbers};
use crate::layout::{Layout, Region, Start};

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
pub(super) fn read(table: &Table<'_>, classes: &[Class]) -> Layout {
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

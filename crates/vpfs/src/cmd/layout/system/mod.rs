//! What an administrator sets so that files get the advised layout, within the rules of each file system.

mod beegfs;
mod ceph;
mod lustre;
mod mpi;

use clap::ValueEnum;
use vpfs_harl::{Adapted, Component, Rules, adapt};

use super::advised::{Advised, no_advice, shown};
use super::answer::Group;
use super::classes::Classes;
use super::orangefs;
use super::show::stripes;
use super::size::{exact, size};
use crate::exit::Exit;

/// File systems, and a library that creates files in some of them.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum System {
    /// Hints of a directory, with stripes of any size for each class
    Orangefs,
    /// A command with components
    Lustre,
    /// The same as a template for `lfs setstripe --yaml`
    LustreYaml,
    /// The pattern of a directory
    Beegfs,
    /// The layout of an empty file
    Ceph,
    /// Hints of ROMIO, for Lustre and OrangeFS
    MpiHints,
}

/// A file system that cannot have every layout.
struct Limited {
    name: &'static str,
    rules: Rules,
    /// Why the layout differs from the advised one.
    reason: &'static str,
    commands: fn(&Classes, &[Component]) -> Result<String, Exit>,
}

/// The smallest stripe of all these file systems, which larger ones are multiples of.
const UNIT: u64 = 64 << 10;

impl System {
    /// What to set for files that are alike.
    pub(super) fn of_group(self, classes: &Classes, group: &Group<'_>) -> Result<String, Exit> {
        let others = group.others().map_or_else(String::new, |others| format!("# {others}\n"));
        Ok(self.text(classes, group.first)? + &others)
    }

    /// What to set for a file.
    fn text(self, classes: &Classes, advised: &Advised) -> Result<String, Exit> {
        let limited = match self {
            Self::Orangefs => return orangefs::commands(classes, advised),
            Self::Lustre => lustre::SYSTEM,
            Self::LustreYaml => lustre::YAML,
            Self::Beegfs => beegfs::SYSTEM,
            Self::Ceph => ceph::SYSTEM,
            Self::MpiHints => mpi::SYSTEM,
        };
        limited.text(classes, advised)
    }
}

impl Limited {
    fn text(&self, classes: &Classes, advised: &Advised) -> Result<String, Exit> {
        let adapted = adapt(&classes.cluster, &advised.runs, &advised.advice, &advised.question, &self.rules)
            .map_err(|error| no_advice(&advised.name, &error))?;
        let heading = self.heading(classes, advised, &adapted);
        if !adapted.is_worth_it {
            let gain = advised.question.gain_percent;
            return Ok(heading + &format!("# That is less than {gain} % faster than now: keep the layout.\n"));
        }
        Ok(heading + &(self.commands)(classes, &adapted.components)?)
    }

    /// What was advised, what becomes of it, and what that costs.
    fn heading(&self, classes: &Classes, advised: &Advised, adapted: &Adapted) -> String {
        let mut text = format!("\n# {}: {}\n{}", self.name, shown(&advised.name), self.reason);
        text += "# Advised:\n";
        for row in advised.advice.table.rows() {
            let stripes = stripes(classes, &row.stripes);
            text += &format!("#   {} - {}: {stripes}\n", size(row.bytes.start), size(row.bytes.end));
        }
        text += "# The best that can be set:\n";
        for (index, component) in adapted.components.iter().enumerate() {
            let is_last = index + 1 == adapted.components.len();
            let end = if is_last { "end".into() } else { size(component.bytes.end) };
            let place = place(classes, component);
            text += &format!("#   {} - {end}: {} on {place}\n", size(component.bytes.start), exact(component.stripe));
        }
        let (now, exact) = advised.advice.times();
        let (cost, gain) = (percent(adapted.time, exact), percent(adapted.time, now));
        text + &format!("# Predicted time: {cost} against the advised stripes, {gain} against the layout now.\n")
    }
}

fn percent(time: u128, reference: u128) -> String {
    format!("{:+.1} %", (time as f64 / reference.max(1) as f64 - 1.0) * 100.0)
}

/// The servers of a component, in words.
fn place(classes: &Classes, component: &Component) -> String {
    let all = classes.cluster.classes();
    component
        .class
        .map_or_else(|| format!("all {} servers", classes.cluster.servers()), |class| all[class].name.clone())
}

/// The number of servers of a component.
fn servers(classes: &Classes, component: &Component) -> u32 {
    component.class.map_or(classes.cluster.servers(), |class| classes.cluster.classes()[class].servers)
}

/// The name of the pool of a component that lies on one class: that of the class, which file systems restrict.
fn pool<'a>(classes: &'a Classes, component: &Component, longest: usize) -> Result<Option<&'a str>, Exit> {
    let Some(class) = component.class else { return Ok(None) };
    let name = &classes.cluster.classes()[class].name;
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-');
    if !is_plain || name.len() > longest || !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        let rule = format!("1 to {longest} letters, digits, \"-\" and \"_\", a letter first");
        return Err(Exit::Usage(format!("class {name:?} cannot name a pool of servers, which has {rule}; rename it")));
    }
    Ok(Some(name))
}

/// In the largest binary unit that gives a whole number: `512K`.
fn short(bytes: u64) -> String {
    let unit =
        [("T", 40), ("G", 30), ("M", 20), ("K", 10)].into_iter().find(|(_, bits)| bytes.is_multiple_of(1 << bits));
    unit.map_or_else(|| bytes.to_string(), |(unit, bits)| format!("{}{unit}", bytes >> bits))
}

#[cfg(test)]
mod tests;

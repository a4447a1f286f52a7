//! The scenario files of figures, in `scenarios/figures/` of the repository.

use vpfs_sim::{PolicySpec, Results, Scenario, SimError, Simulation};

use crate::{Section, Table};

/// Seeds of the runs of which a row has the median.
pub(crate) const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// Parses the scenario file of a figure; the figure then changes the parameters that it sweeps.
pub(crate) fn parse(file: &str, text: &str) -> Result<Scenario, SimError> {
    Scenario::parse(file, text).map_err(|problems| SimError::Scenario(problems.to_string()))
}

/// The scenario with its policy of that name.
pub(crate) fn run(scenario: &Scenario, policy: &str) -> Result<Results, SimError> {
    let missing = || SimError::Scenario(format!("{}: there is no policy {policy:?}", scenario.name));
    let policy: &PolicySpec = scenario.policies.iter().find(|found| found.name == policy).ok_or_else(missing)?;
    Simulation::new(scenario, policy)?.run()
}

/// The same scenario with another seed.
pub(crate) fn seeded(scenario: &Scenario, seed: u64) -> Scenario {
    Scenario { seed, ..scenario.clone() }
}

/// What a scenario file says of its assumptions and sources, as a table: the comments at its head, an item for each "-
/// ".
pub(crate) fn assumptions(section: Section, text: &str) -> Section {
    let head = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let mut items: Vec<String> = Vec::new();
    for line in head {
        match line.strip_prefix("- ") {
            Some(item) => items.push(item.to_owned()),
            None => match items.last_mut() {
                Some(item) if !line.is_empty() => *item = format!("{item} {line}"),
                _ => {}
            },
        }
    }
    let heading = Table::new(["assumptions and sources, with the hardware of the testbed"]);
    section.table(items.into_iter().fold(heading, |table, item| table.row([item])))
}

/// Changes of a scenario that take away what conclusions are about.
#[cfg(test)]
pub(crate) mod changes {
    use vpfs_core::{PolicyKind, Sharing, SlotCostTable, Weight};
    use vpfs_sim::Scenario;

    /// The scenario with a change by name; other names are those of changes that a figure makes itself.
    pub(crate) fn apply(scenario: &Scenario, change: &str) -> Scenario {
        let mut scenario = scenario.clone();
        match change {
            "fifo" => with_policies(&mut scenario, |policy| {
                policy.settings.kind = PolicyKind::Fifo;
                policy.settings.metadata_depth = None;
            }),
            "halved" => scenario.apps.iter_mut().for_each(|app| {
                app.weight = Weight::new((app.weight.get() / 2).max(1)).unwrap_or(Weight::ONE);
            }),
            "unsynchronised" => with_policies(&mut scenario, |policy| policy.settings.sharing = Sharing::default()),
            "one-slot" => with_policies(&mut scenario, |policy| policy.settings.slot_costs = SlotCostTable::uniform()),
            _ => {}
        }
        scenario
    }

    pub(crate) fn with_policies(scenario: &mut Scenario, change: impl Fn(&mut vpfs_sim::PolicySpec)) {
        scenario.policies.iter_mut().for_each(change);
    }
}

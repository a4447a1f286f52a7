//! The scenario files of figures, in `scenarios/figures/` of the repository.

use vpfs_report::{Section, Table};
use vpfs_sim::{PolicySpec, Results, Scenario, SimError, Simulation};

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

/// Changes of a scenario under which rows must no longer agree: a row that does is no evidence.
#[cfg(test)]
pub(crate) mod perturbed {
    use vpfs_core::{PolicyKind, Sharing, Weight};
    use vpfs_report::{Check, Kind, Verdict};
    use vpfs_sim::Scenario;

    /// Every policy serves requests in order of arrival, all in one queue.
    pub(crate) fn fifo(scenario: &Scenario) -> Scenario {
        with_policies(scenario, |policy| {
            policy.settings.kind = PolicyKind::Fifo;
            policy.settings.metadata_depth = None;
        })
    }

    /// Every weight above 1 is half of what it was.
    pub(crate) fn halved(scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        for app in &mut scenario.apps {
            app.weight = Weight::new((app.weight.get() / 2).max(1)).unwrap_or(Weight::ONE);
        }
        scenario
    }

    /// Servers tell each other nothing.
    pub(crate) fn unsynchronised(scenario: &Scenario) -> Scenario {
        with_policies(scenario, |policy| policy.settings.sharing = Sharing::default())
    }

    pub(crate) fn with_policies(scenario: &Scenario, change: impl Fn(&mut vpfs_sim::PolicySpec)) -> Scenario {
        let mut scenario = scenario.clone();
        scenario.policies.iter_mut().for_each(change);
        scenario
    }

    /// Asserts that the rows of evidence about a subject differ, and that there are some.
    pub(crate) fn must_differ(rows: &[Check], about: impl Fn(&str) -> bool) {
        let rows: Vec<_> = rows.iter().filter(|row| row.kind == Kind::Evidence && about(&row.what)).collect();
        assert!(!rows.is_empty(), "no row is about it");
        let agree: Vec<_> = rows.into_iter().filter(|row| row.verdict() == Verdict::Passes).collect();
        assert!(agree.is_empty(), "agrees all the same: {agree:#?}");
    }
}

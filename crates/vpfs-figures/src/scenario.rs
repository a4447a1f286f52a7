//! The scenario files of figures, in `scenarios/figures/` of the repository.

use vpfs_sim::{PolicySpec, Results, Scenario, SimError, Simulation};

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

//! The page: for each experiment a table of the papers' values, the simulated and the live ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use vpfs_sim::{Simulation, parallel};

use super::experiments::{Experiment, Row};
use super::outcome::Outcome;
use super::record::Record;
use super::trial::Trial;

/// Markdown. `embedded` names the device of embedded servers.
pub(super) fn markdown(chosen: &[Experiment], record: &Record, embedded: Option<&str>) -> Result<String, String> {
    let simulated = simulate(chosen)?;
    let simulated: BTreeMap<&str, &Outcome> = simulated.iter().map(|(key, outcome)| (key.as_str(), outcome)).collect();
    let runs: Vec<_> = (1..=record.runs()).map(|run| record.run(run)).collect();
    let storage = embedded.map_or("OrangeFS servers".to_owned(), |device| format!("**embedded** servers ({device})"));
    let mut text = format!(
        "Live: four {storage}; the median of up to {} runs, and the smallest and largest. Simulated: the same \
         scenario in `vpfs sim`, which knows no processors and no overhead of proxies.\n",
        runs.len()
    );
    for experiment in chosen {
        let Experiment { name, title, scaled, servers, rows, .. } = experiment;
        let servers = servers.as_ref().map_or_else(String::new, |servers| format!(" Live servers: {servers}."));
        let _ = writeln!(
            text,
            "\n## {title}\n\n`{name}`: {scaled}{servers}\n\n| | paper | simulated | live |\n|---|---|---|---|"
        );
        for row in rows {
            let live: Vec<f64> = runs.iter().filter_map(|run| row.value(name, run)).collect();
            let cell = |value: Option<f64>| value.map_or("–".to_owned(), |value| row.number(value));
            let simulated = row.value(name, &simulated);
            let _ =
                writeln!(text, "| {} | {} | {} | {} |", row.what, cell(row.paper), cell(simulated), spread(row, live));
        }
    }
    Ok(text)
}

/// The median, with the smallest and the largest.
fn spread(row: &Row, mut live: Vec<f64>) -> String {
    live.sort_by(f64::total_cmp);
    match live.as_slice() {
        [] => "–".to_owned(),
        [one] => row.number(*one),
        [least, .., most] => {
            let median = (live[(live.len() - 1) / 2] + live[live.len() / 2]) / 2.0;
            format!("**{}** ({} to {})", row.number(median), row.number(*least), row.number(*most))
        }
    }
}

/// All cases whose experiments the simulator can tell something about.
fn simulate(chosen: &[Experiment]) -> Result<Vec<(String, Outcome)>, String> {
    let trials = super::trials(chosen, |experiment| experiment.is_simulated)?;
    let one = |trial: &Trial| {
        let results = Simulation::new(&trial.scenario, &trial.policy).and_then(Simulation::run);
        let outcome = Outcome::simulated(&results.map_err(|error| format!("{}: {error}", trial.key))?);
        Ok((trial.key.clone(), outcome))
    };
    parallel::map(&trials, one).into_iter().collect()
}

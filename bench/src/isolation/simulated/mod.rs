//! In simulation, under every policy and with caps set by hand.
//!
//! - [`beside`]: a small and a large application.
//! - [`only_large`]: the cost of isolation without an application to protect.
//! - [`backlogged`]: two applications that take as much as they can get, and the device time that each receives.
//!
//! [`case`] has the factors that are varied.

mod backlogged;
mod beside;
mod case;
mod load;
mod only_large;
mod policy;

use std::fs;
use std::path::Path;

use serde::Serialize;
use vpfs_report::{Report, Section};

use super::{Options, Simulated};
use case::Case;
pub(super) use case::MODELS;
use policy::Candidate;

/// All measurements.
#[derive(Debug, Serialize)]
struct Outcome {
    cases: Vec<beside::Row>,
    only_large: Vec<only_large::Row>,
    backlogged: Vec<backlogged::Row>,
}

/// Measures, prints and writes the selected cases.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(super) fn run(options: &Options) -> Result<(), String> {
    let candidates = candidates(&options.policies)?;
    let outcome = measure(options, &candidates)?;
    let sheets = [
        beside::sheet(&outcome.cases),
        beside::summary(&outcome.cases, &candidates),
        only_large::sheet(&outcome.only_large),
        backlogged::sheet(&outcome.backlogged),
    ];
    for sheet in sheets.iter().filter(|sheet| !sheet.rows.is_empty()) {
        println!("{}", sheet.markdown());
    }
    if let Some(path) = &options.json {
        let json = serde_json::to_string_pretty(&outcome).map_err(|error| error.to_string())?;
        write(path, json + "\n")?;
    }
    if let Some(path) = &options.simulated.html {
        let report = Report::new("Isolation, simulated").introduction(INTRODUCTION).section(pictures(&outcome.cases));
        let tables = sheets.iter().map(|sheet| Section::new(sheet.title).table(sheet.table()));
        write(path, tables.fold(report, Report::section).html())?;
    }
    Ok(())
}

const INTRODUCTION: &str = "Share delivered is an application's throughput ÷ what is due to it: what it does alone, or its weight's share of the \
    storage's time turned into its own requests, whichever is less. 1 is perfect; the large application gets more where the small one \
    leaves some of its share unused.";

fn candidates(policies: &[String]) -> Result<Vec<Candidate>, String> {
    if policies.is_empty() {
        return Ok(Candidate::ALL.to_vec());
    }
    let is_known = |name: &String| Candidate::ALL.iter().any(|candidate| candidate.name == name);
    if let Some(unknown) = policies.iter().find(|name| !is_known(name)) {
        let known = Candidate::ALL.map(|candidate| candidate.name).join(", ");
        return Err(format!("--policy {unknown}: in simulation there are {known}"));
    }
    Ok(Candidate::ALL.into_iter().filter(|candidate| policies.iter().any(|name| name == candidate.name)).collect())
}

fn cases(options: &Simulated) -> Vec<Case> {
    let model = MODELS.into_iter().find(|model| *model == options.model).unwrap_or(MODELS[0]);
    let mut cases = if options.all { Case::all() } else { Case::selection(model) };
    cases.retain(|case| case.name().contains(&options.case));
    cases
}

fn measure(options: &Options, candidates: &[Candidate]) -> Result<Outcome, String> {
    let Options { policies, seconds, simulated, .. } = options;
    let Simulated { all, case, model, .. } = simulated;
    let seconds = u64::from(*seconds);
    let cases = beside::rows(&cases(simulated), candidates, seconds)?;
    let has_isolation = candidates.contains(&Candidate::ISOLATION);
    let only_large = if has_isolation { only_large::rows(*all, case, seconds)? } else { Vec::new() };
    // Compares the policies that were named, or else the usual ones. Caps are left out, because they do not share.
    let is_compared = |candidate: &Candidate| {
        let usual = [Candidate::SFQ_D_PLUS, Candidate::ISOLATION].contains(candidate);
        !candidate.is_capped() && (usual || !policies.is_empty())
    };
    let compared: Vec<Candidate> = candidates.iter().copied().filter(is_compared).collect();
    let models = if *all { &MODELS[..] } else { &[model.as_str()] };
    Ok(Outcome { cases, only_large, backlogged: backlogged::rows(models, case, &compared, seconds)? })
}

/// A picture for each case.
fn pictures(rows: &[beside::Row]) -> Section {
    rows.chunk_by(|a, b| a.case == b.case).fold(Section::new("Share delivered"), |section, rows| {
        let chart = beside::chart(&rows[0].case, &rows.iter().collect::<Vec<_>>());
        section.figure(chart, "")
    })
}

fn write(path: &Path, text: String) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("Cannot write {}: {error}.", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::parsed;
    use super::*;

    fn measured(case: &str, policies: &[&str]) -> Outcome {
        let policies = policies.iter().flat_map(|name| ["--policy", name]);
        let arguments: Vec<&str> = ["--seconds", "2", "--case", case].into_iter().chain(policies).collect();
        let options = parsed(&arguments).unwrap();
        measure(&options, &candidates(&options.policies).unwrap()).unwrap()
    }

    #[test]
    fn an_unknown_policy_is_named_with_those_that_there_are() {
        let error = candidates(&["cap-70".to_owned()]).unwrap_err();
        assert!(error.contains("cap-70") && error.contains("cap-66"), "{error}");
    }

    /// A smoke test: every table has a row, and FIFO behaves as known.
    #[test]
    fn a_tiny_run_has_all_tables() {
        let outcome = measured("one-head, 4KiB beside 64KiB, 1:1", &["fifo", "isolation"]);
        assert_eq!((outcome.cases.len(), outcome.only_large.len(), outcome.backlogged.len()), (0, 0, 2));
        assert!(outcome.backlogged.iter().all(|row| row.of_weights > 0.0), "{outcome:?}");
    }

    #[test]
    fn a_tiny_run_compares_policies() {
        let outcome = measured("throttled-disk x4", &["fifo", "cap-66", "isolation"]);
        let policies: Vec<&str> = outcome.cases.iter().map(|row| row.policy).collect();
        assert_eq!(policies, ["alone", "fifo", "isolation", "cap-66"]);
        let [fifo, cap] = [1, 3].map(|row| outcome.cases[row].small_delivered);
        assert!(fifo < 0.5 && cap > fifo, "{outcome:?}");
        assert_eq!(outcome.only_large.len(), 4);
        assert!(outcome.only_large.iter().all(|row| row.isolation_of_fifo > 0.0), "{outcome:?}");
        assert_eq!(pictures(&outcome.cases).charts().count(), 1);
    }
}

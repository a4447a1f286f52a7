//! `vpfs-bench isolation`: how much of its speed a small application keeps beside a large one, in simulation.
//!
//! - [`beside`]: a small and a large application, under every policy and with caps set by hand.
//! - [`only_large`]: the cost of isolation without an application to protect.
//! - [`backlogged`]: two applications that take as much as they can get, and the device time that each receives.
//!
//! [`share`] defines the measure, [`case`] the factors that are varied.

mod backlogged;
mod beside;
mod case;
mod load;
mod only_large;
mod policy;
mod share;
mod sheet;

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use serde::Serialize;
use vpfs_report::{Report, Section};

use case::{Case, MODELS};
use policy::Candidate;

/// A small application beside a large one, on simulated storage, under every policy.
#[derive(Debug, clap::Args)]
#[command(after_help = "In front of real servers: cargo xtask bench isolation --orangefs DIR")]
pub(crate) struct Options {
    /// Every combination of all factors; by default one factor at a time is varied.
    #[arg(long)]
    all: bool,
    /// Only cases with this text in their name.
    #[arg(long, value_name = "TEXT", default_value = "")]
    case: String,
    /// Only this policy; repeatable.
    #[arg(long = "policy", value_name = "NAME", value_parser = PossibleValuesParser::new(Candidate::ALL.map(|candidate| candidate.name)))]
    policies: Vec<String>,
    /// The storage model on which factors are varied, unless --all is given.
    #[arg(long, value_parser = PossibleValuesParser::new(MODELS), default_value = "one-head")]
    model: String,
    /// Simulated time that is measured for each case, and twice and four times that with large calls of 4 and 16 MiB.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Also write the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with charts of the shares delivered to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// All measurements.
#[derive(Debug, Serialize)]
struct Outcome {
    cases: Vec<beside::Row>,
    only_large: Vec<only_large::Row>,
    backlogged: Vec<backlogged::Row>,
}

/// Measures, prints and writes the selected cases.
///
/// # Errors
/// A broken rule in a simulation, or a file that cannot be written.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let candidates = options.candidates();
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
    if let Some(path) = &options.html {
        let report = Report::new("Isolation, simulated").introduction(INTRODUCTION).section(pictures(&outcome.cases));
        let tables = sheets.iter().map(|sheet| Section::new(sheet.title).table(sheet.table()));
        write(path, tables.fold(report, Report::section).html())?;
    }
    Ok(())
}

const INTRODUCTION: &str = "Share delivered is an application's throughput ÷ what is due to it: what it does alone, or its weight's share of the \
    storage's time turned into its own requests, whichever is less. 1 is perfect; the large application gets more where the small one \
    leaves some of its share unused.";

impl Options {
    fn candidates(&self) -> Vec<Candidate> {
        let is_wanted = |name: &str| self.policies.is_empty() || self.policies.iter().any(|policy| policy == name);
        Candidate::ALL.into_iter().filter(|candidate| is_wanted(candidate.name)).collect()
    }

    fn cases(&self) -> Vec<Case> {
        let model = MODELS.into_iter().find(|model| *model == self.model).unwrap_or(MODELS[0]);
        let mut cases = if self.all { Case::all() } else { Case::selection(model) };
        cases.retain(|case| case.name().contains(&self.case));
        cases
    }
}

fn measure(options: &Options, candidates: &[Candidate]) -> Result<Outcome, String> {
    let Options { all, case, policies, model, seconds, .. } = options;
    let cases = beside::rows(&options.cases(), candidates, *seconds)?;
    let has_isolation = candidates.contains(&Candidate::ISOLATION);
    let only_large = if has_isolation { only_large::rows(*all, case, *seconds)? } else { Vec::new() };
    // Compares the policies that were named, or else the usual ones. Caps are left out, because they do not share.
    let is_compared = |candidate: &Candidate| {
        let usual = [Candidate::SFQ_D_PLUS, Candidate::ISOLATION].contains(candidate);
        !candidate.is_capped() && (usual || !policies.is_empty())
    };
    let compared: Vec<Candidate> = candidates.iter().copied().filter(is_compared).collect();
    let models = if *all { &MODELS[..] } else { &[model.as_str()] };
    Ok(Outcome { cases, only_large, backlogged: backlogged::rows(models, case, &compared, *seconds)? })
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
    use super::*;

    fn options(case: &str, policies: &[&str]) -> Options {
        Options {
            all: false,
            case: case.to_owned(),
            policies: policies.iter().map(|name| (*name).to_owned()).collect(),
            model: "one-head".to_owned(),
            seconds: 2,
            json: None,
            html: None,
        }
    }

    /// A smoke test: every table has a row, and FIFO behaves as known.
    #[test]
    fn a_tiny_run_has_all_tables() {
        let options = options("one-head, 4KiB beside 64KiB, 1:1", &["fifo", "isolation"]);
        let outcome = measure(&options, &options.candidates()).unwrap();
        assert_eq!((outcome.cases.len(), outcome.only_large.len(), outcome.backlogged.len()), (0, 0, 2));
        assert!(outcome.backlogged.iter().all(|row| row.of_weights > 0.0), "{outcome:?}");
    }

    #[test]
    fn a_tiny_run_compares_policies() {
        let options = options("throttled-disk x4", &["fifo", "cap-66", "isolation"]);
        let outcome = measure(&options, &options.candidates()).unwrap();
        let policies: Vec<&str> = outcome.cases.iter().map(|row| row.policy).collect();
        assert_eq!(policies, ["alone", "fifo", "isolation", "cap-66"]);
        let [fifo, cap] = [1, 3].map(|row| outcome.cases[row].small_delivered);
        assert!(fifo < 0.5 && cap > fifo, "{outcome:?}");
        assert_eq!(outcome.only_large.len(), 4);
        assert!(outcome.only_large.iter().all(|row| row.isolation_of_fifo > 0.0), "{outcome:?}");
        assert_eq!(pictures(&outcome.cases).charts().count(), 1);
    }
}

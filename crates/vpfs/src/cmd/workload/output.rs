//! Output of results: tables on standard output, JSON in a file, wrong data on standard error and in the exit code.

use std::fs::{self, OpenOptions};
use std::path::Path;

use serde_json::{Value, json};
use vpfs_model::plan::{Phase, Plan};
use vpfs_testbed::load::measure::Report;
use vpfs_testbed::load::table;

use super::Job;
use crate::exit::Exit;
use crate::print::print;

/// A table, then latencies of the last repetition.
pub(super) fn with_latencies(table: &str, reports: &[Report]) -> String {
    let latencies = reports.last().map(table::latency).unwrap_or_default();
    format!("{table}\n{latencies}")
}

/// Parameters and all measurements, if a file for them was given.
pub(super) fn write_json<P: Plan + serde::Serialize>(job: &Job<'_, P>, reports: &[Report]) -> Result<(), Exit> {
    let Some(path) = &job.target.json else { return Ok(()) };
    let summary: Vec<_> =
        [Phase::Write, Phase::Read].into_iter().filter_map(|phase| table::summarize(reports, phase)).collect();
    let document = json!({
        "workload": job.name,
        "url": job.target.url,
        "parameters": job.plan,
        "summary": summary,
        "repetitions": reports,
    });
    write(path, &document)
}

/// Writes a document to a file, or to standard output if the path is "-".
pub(crate) fn write(path: &Path, document: &Value) -> Result<(), Exit> {
    if path == Path::new("-") {
        return print(format_args!("{document:#}"));
    }
    write_text(path, &format!("{document:#}\n"))
}

/// Writes a file.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Exit> {
    fs::write(path, text).map_err(|error| Exit::cannot_write(path, &error))
}

/// Fails now if what a long run finds could not be written to this file then; leaves it as it is.
pub(crate) fn check(path: &Path) -> Result<(), Exit> {
    if path == Path::new("-") {
        return Ok(());
    }
    let is_new = !path.exists();
    OpenOptions::new().append(true).create(true).open(path).map_err(|error| Exit::cannot_write(path, &error))?;
    if is_new { fs::remove_file(path).map_err(|error| Exit::cannot_write(path, &error)) } else { Ok(()) }
}

/// Fails if data read back differs from what was written, and reports where.
pub(crate) fn verdict<'a>(reports: impl IntoIterator<Item = &'a Report, IntoIter: Clone>) -> Result<(), Exit> {
    let reports = reports.into_iter();
    let wrong: u64 = reports.clone().map(|report| report.verification.wrong_reads).sum();
    if wrong == 0 {
        return Ok(());
    }
    let examples = reports.flat_map(|report| &report.verification.examples);
    let lines: Vec<String> = examples.map(|example| format!("  {example}")).collect();
    Err(Exit::Corrupt(format!("{wrong} reads returned wrong data; the first ones:\n{}", lines.join("\n"))))
}

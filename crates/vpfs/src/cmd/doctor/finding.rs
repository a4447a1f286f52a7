//! What a check found, and how it is shown.

use std::fmt::Display;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use crate::print::plain;

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cmd) struct Finding {
    check: &'static str,
    pub(super) result: Verdict,
    /// What is so.
    finding: String,
    /// How to fix it; empty if nothing has to be done.
    fix: String,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cmd) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but probably not as intended.
    Warning,
    /// Something does not work.
    Failed,
    /// It could not be checked.
    Skipped,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

/// The findings of one check.
pub(super) struct Check {
    name: &'static str,
    findings: Vec<Finding>,
}

impl Check {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, findings: Vec::new() }
    }

    pub(super) fn warn(&mut self, finding: impl Display, fix: impl Display) {
        self.add(Verdict::Warning, finding, fix);
    }

    pub(super) fn fail(&mut self, finding: impl Display, fix: impl Display) {
        self.add(Verdict::Failed, finding, fix);
    }

    /// Something could not be checked.
    pub(super) fn note(&mut self, why: impl Display, fix: impl Display) {
        self.add(Verdict::Skipped, why, fix);
    }

    pub(super) fn skip(mut self, why: impl Display, fix: impl Display) -> Vec<Finding> {
        self.note(why, fix);
        self.findings
    }

    /// What was found; `fine` if that was nothing.
    pub(super) fn or(mut self, fine: impl Display) -> Vec<Finding> {
        if self.findings.is_empty() {
            self.add(Verdict::Ok, fine, "");
        }
        self.findings
    }

    fn add(&mut self, result: Verdict, finding: impl Display, fix: impl Display) {
        let (finding, fix) = (finding.to_string(), fix.to_string());
        self.findings.push(Finding { check: self.name, result, finding, fix });
    }
}

/// A table as wide as the terminal.
pub(in crate::cmd) fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["check", "result", "what is so", "how to fix it"]);
    for Finding { check, result, finding, fix } in findings {
        let lines = |text: &str| text.lines().map(plain).collect::<Vec<_>>().join("\n");
        table.add_row([(*check).to_owned(), result.name().to_owned(), lines(finding), lines(fix)]);
    }
    table
}

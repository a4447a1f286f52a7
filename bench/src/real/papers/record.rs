//! The live results so far, in a file, so that an interrupted run can go on.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use crate::real::origin::Origin;

/// Outcomes by case and run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Record(BTreeMap<String, BTreeMap<u32, Run>>);

/// An outcome and where it comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Run {
    origin: Origin,
    #[serde(flatten)]
    outcome: Outcome,
}

impl Record {
    /// Reads a file; one that does not exist is empty.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        match std::fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| format!("{}: {error}; give --json another file", file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }

    /// Replaces the file at once, so that an interruption leaves the old one. A line for each case: with one for each
    /// number of all series, nobody could look at it.
    pub(super) fn write(&self, file: &Path) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let line = |(case, runs)| Ok(format!("{}:{}", serde_json::to_string(case)?, serde_json::to_string(runs)?));
        let lines = self.0.iter().map(line).collect::<Result<Vec<_>, serde_json::Error>>();
        let new = file.with_extension("new");
        let lines = lines.map_err(|error| failed(&error))?;
        crate::real::write(&new, &format!("{{\n{}\n}}\n", lines.join(",\n")))?;
        std::fs::rename(&new, file).map_err(|error| failed(&error))
    }

    pub(super) fn has(&self, case: &str, run: u32) -> bool {
        self.0.get(case).is_some_and(|runs| runs.contains_key(&run))
    }

    pub(super) fn add(&mut self, case: &str, run: u32, outcome: Outcome) {
        let origin = Origin::here();
        self.0.entry(case.to_owned()).or_default().insert(run, Run { origin, outcome });
    }

    /// The outcomes of a run, by case.
    pub(super) fn run(&self, run: u32) -> BTreeMap<&str, &Outcome> {
        self.0.iter().filter_map(|(case, runs)| Some((case.as_str(), &runs.get(&run)?.outcome))).collect()
    }

    /// The largest number of runs of a case.
    pub(super) fn runs(&self) -> u32 {
        self.0.values().filter_map(|runs| runs.keys().max()).max().copied().unwrap_or_default()
    }
}

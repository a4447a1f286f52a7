//! What a paper states, compared with ours: its conclusions and its values. Whether ours agree is computed, never
//! stated; whether a value is evidence is stated with it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::axis::{number, with_unit};

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim holds.
    Passes,
    /// The claim does not hold.
    Differs,
}

impl Verdict {
    fn of(holds: bool) -> Self {
        if holds { Self::Passes } else { Self::Differs }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passes => "passes",
            Self::Differs => "differs",
        })
    }
}

/// What a value shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The paper states the value, and nothing was chosen so that ours is near it: the only rows that count.
    #[default]
    Evidence,
    /// A parameter of the model was chosen for it.
    Calibrated,
    /// Ours follows from what was set, whatever is simulated.
    Input,
    /// It follows from other rows, or repeats one.
    Derived,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Evidence => "evidence",
            Self::Calibrated => "calibrated",
            Self::Input => "input",
            Self::Derived => "derived",
        })
    }
}

/// Our value: of one run, or the median of several with the smallest and the largest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    median: f64,
    spread: Option<[f64; 2]>,
}

impl Measured {
    /// The median of some runs; not a number if there are none, or if one of them is not a number. O(n log n).
    pub fn of(runs: impl IntoIterator<Item = f64>) -> Self {
        let mut runs: Vec<f64> = runs.into_iter().collect();
        runs.sort_by(f64::total_cmp);
        let (Some(&least), Some(&largest)) = (runs.first(), runs.last()) else { return f64::NAN.into() };
        let middle = f64::midpoint(runs[(runs.len() - 1) / 2], runs[runs.len() / 2]);
        let median = if runs.iter().any(|run| run.is_nan()) { f64::NAN } else { middle };
        Self { median, spread: (runs.len() > 1).then_some([least, largest]) }
    }

    /// The value that is judged.
    pub fn median(self) -> f64 {
        self.median
    }

    /// The smallest and the largest; both are the value itself if there is only one run.
    pub fn spread(self) -> [f64; 2] {
        self.spread.unwrap_or([self.median; 2])
    }
}

impl From<f64> for Measured {
    fn from(median: f64) -> Self {
        Self { median, spread: None }
    }
}

/// A value of a paper next to ours. They agree if ours differs by at most `percent` % of the paper's; a value that is
/// not a number never does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The figure or table of the paper.
    pub figure: String,
    /// What is compared.
    pub what: String,
    /// Unit of all values; empty if they have none.
    pub unit: String,
    /// What it shows.
    pub kind: Kind,
    /// The paper's value.
    pub paper: f64,
    /// Ours.
    pub ours: Measured,
    /// The tolerance.
    pub percent: f64,
    /// Why ours differs, or what the reader should know.
    pub why: String,
}

impl Check {
    /// Whether the values agree. O(1).
    pub fn verdict(&self) -> Verdict {
        // A margin so that rounding does not decide.
        let most = self.paper.abs() * self.percent / 100.0 * (1.0 + 1e-9);
        Verdict::of((self.ours.median - self.paper).abs() <= most)
    }

    pub(crate) fn cells(&self) -> [String; 8] {
        let runs = self.ours.spread.map(|[least, largest]| format!(" ({} to {})", number(least), number(largest)));
        [
            self.figure.clone(),
            self.what.clone(),
            self.kind.to_string(),
            with_unit(self.paper, &self.unit),
            with_unit(self.ours.median, &self.unit) + &runs.unwrap_or_default(),
            format!("± {} %", number(self.percent)),
            self.verdict().to_string(),
            self.why.clone(),
        ]
    }
}

/// Headings of [`Check::cells`].
pub(crate) const VALUES: [&str; 8] = ["figure", "what", "kind", "paper", "ours", "tolerance", "verdict", "why"];

/// A conclusion of a paper: what must hold of our values, whether it does with each seed, and why.
///
/// The medians of all seeds are judged, as for values; how many seeds agree is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conclusion {
    /// The figure or table of the paper.
    pub figure: String,
    /// What the paper concludes.
    pub says: String,
    /// Relations of our values, all of which must hold.
    pub relations: Vec<String>,
    /// Why these limits.
    pub reason: String,
    /// The values in them, by name.
    pub ours: BTreeMap<String, Measured>,
    /// Whether all relations hold for the medians.
    pub holds: bool,
    /// Number of seeds with which they hold,
    pub held: usize,
    /// and of all seeds.
    pub seeds: usize,
    /// Why it does not hold.
    pub cause: String,
}

impl Conclusion {
    /// Whether it holds. O(1).
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.holds)
    }

    pub(crate) fn cells(&self) -> [String; 6] {
        let ours = self.ours.iter().map(|(name, value)| format!("{name} {}", number(value.median)));
        let why = if self.verdict() == Verdict::Passes { &self.reason } else { &self.cause };
        [
            self.figure.clone(),
            self.says.clone(),
            self.relations.join("; "),
            ours.collect::<Vec<_>>().join(", "),
            format!("{}, {} of {}", self.verdict(), self.held, self.seeds),
            why.clone(),
        ]
    }
}

/// Headings of [`Conclusion::cells`].
pub(crate) const CONCLUSIONS: [&str; 6] =
    ["figure", "conclusion", "must hold", "ours", "verdict, seeds", "why this limit, or why it differs"];

/// Numbers of rows. The sentence that it displays is the headline of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Conclusions that hold.
    pub hold: usize,
    /// All conclusions.
    pub conclusions: usize,
    /// Rows of evidence that agree with the paper.
    pub agree: usize,
    /// All rows of evidence.
    pub evidence: usize,
}

impl Tally {
    /// Counts verdicts.
    pub fn of<'a>(
        conclusions: impl IntoIterator<Item = &'a Conclusion>,
        checks: impl IntoIterator<Item = &'a Check>,
    ) -> Self {
        let passes = |verdict: Verdict| usize::from(verdict == Verdict::Passes);
        let mut tally = Self::default();
        for conclusion in conclusions {
            tally.conclusions += 1;
            tally.hold += passes(conclusion.verdict());
        }
        for check in checks.into_iter().filter(|check| check.kind == Kind::Evidence) {
            tally.evidence += 1;
            tally.agree += passes(check.verdict());
        }
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hold, conclusions, agree, evidence } = self;
        write!(f, "{hold} of {conclusions} conclusions hold (simulated). {agree} of {evidence} values agree.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paper: f64, ours: impl Into<Measured>, percent: f64) -> Check {
        let ([figure, what, unit, why], kind) = (["Fig. 1", "ratio", "", ""].map(String::from), Kind::Evidence);
        Check { figure, what, unit, kind, paper, ours: ours.into(), percent, why }
    }

    fn conclusion(holds: bool) -> Conclusion {
        let (figure, says, relations) = ("Fig. 1".into(), "a is larger".into(), vec!["a > 2 * b".into()]);
        let ours = [("a".to_owned(), 5.0.into()), ("b".to_owned(), 2.0.into())].into();
        let (held, seeds) = (3, 5);
        Conclusion { figure, says, relations, reason: "twice".into(), ours, holds, held, seeds, cause: "noise".into() }
    }

    #[test]
    fn values_agree_within_a_part_of_the_papers() {
        for (ours, agree) in [(2.0, true), (2.02, true), (1.98, true), (2.03, false), (1.97, false), (f64::NAN, false)]
        {
            assert_eq!(check(2.0, ours, 1.0).verdict() == Verdict::Passes, agree, "{ours}");
        }
        assert_eq!(check(-28.0, -30.0, 10.0).verdict(), Verdict::Passes);
        assert_eq!(check(f64::NAN, 1.0, 100.0).verdict(), Verdict::Differs);
    }

    #[test]
    fn a_row_says_all_of_it() {
        let row = Check { unit: "%".into(), why: "shorter run".into(), ..check(3.2, 3.5, 5.0) };
        assert_eq!(row.cells(), ["Fig. 1", "ratio", "evidence", "3.2 %", "3.5 %", "± 5 %", "differs", "shorter run"]);
        assert_eq!(check(2.0, Measured::of([2.5, 2.0, 1.5, 9.0, 1.75]), 1.0).cells()[4], "2 (1.5 to 9)");
        assert_eq!(conclusion(true).cells()[2..], ["a > 2 * b", "a 5, b 2", "passes, 3 of 5", "twice"]);
        assert_eq!(conclusion(false).cells()[5], "noise");
    }

    #[test]
    fn the_median_of_runs_is_judged() {
        for (runs, median) in [(vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 9.0], 3.0)] {
            assert!((Measured::of(runs).median() - median).abs() < 1e-9);
        }
        assert!(Measured::of([]).median().is_nan() && Measured::of([1.0, f64::NAN, 2.0]).median().is_nan());
    }

    #[test]
    fn only_evidence_is_counted() {
        let checks =
            [check(2.0, 2.1, 10.0), check(2.0, 3.0, 10.0), Check { kind: Kind::Input, ..check(2.0, 2.0, 1.0) }];
        let tally = Tally::of(&[conclusion(true), conclusion(false)], &checks);
        assert_eq!(tally, Tally { hold: 1, conclusions: 2, agree: 1, evidence: 2 });
        assert_eq!(tally.to_string(), "1 of 2 conclusions hold (simulated). 1 of 2 values agree.");
    }
}

//! Comparison of a value of a paper with ours. Whether they agree is computed, never stated; whether a row is evidence
//! is stated with it.

use std::fmt;

use serde::Serialize;

use crate::number::{number, with_unit};

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim holds.
    Passes,
    /// The claim does not hold.
    Differs,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passes => "passes",
            Self::Differs => "differs",
        })
    }
}

/// What a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The paper states the value, and nothing was chosen so that ours is near it: the only rows that count.
    Evidence,
    /// A parameter of the model was chosen for it.
    Calibrated,
    /// Ours follows from what was set, whatever is simulated.
    Input,
    /// It follows from other rows, or repeats one.
    Derived,
    /// The paper states no number.
    OursOnly,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Evidence => "evidence",
            Self::Calibrated => "calibrated",
            Self::Input => "input",
            Self::Derived => "derived",
            Self::OursOnly => "ours only",
        })
    }
}

/// Our value: of one run, or the median of several with the smallest and the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// A statement about our values that holds or does not. No statement holds for a value that is not a number.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Claim {
    /// Our value differs from the paper's by at most this percentage of the paper's.
    Within { ours: f64, paper: f64, percent: f64 },
    /// Our value is at most the limit.
    AtMost { ours: f64, limit: f64 },
    /// Our value is at least the limit.
    AtLeast { ours: f64, limit: f64 },
    /// Our value lies between two limits, inclusive.
    Between { ours: f64, low: f64, high: f64 },
    /// The paper's value lies between our smallest and our largest value.
    Covers { ours: f64, paper: f64, least: f64, largest: f64 },
    /// Our values, each with its name, in the paper's order, do not rise from the first to the last; a value may exceed
    /// the one before it by this percentage of that one: the noise.
    Falling { ours: Vec<(String, f64)>, slack_percent: f64 },
}

impl Claim {
    fn holds(&self) -> bool {
        match self {
            Self::Within { ours, paper, percent } => (ours - paper).abs() <= part(*paper, *percent),
            Self::AtMost { ours, limit } => ours <= limit,
            Self::AtLeast { ours, limit } => ours >= limit,
            Self::Between { ours, low, high } => (low..=high).contains(&ours),
            Self::Covers { paper, least, largest, .. } => (least..=largest).contains(&paper),
            Self::Falling { ours, slack_percent } => {
                let falls = |a: f64, b: f64| b - a <= part(a, *slack_percent);
                ours.len() > 1 && ours.windows(2).all(|pair| falls(pair[0].1, pair[1].1))
            }
        }
    }

    fn ours(&self, unit: &str) -> String {
        match self {
            Self::Within { ours, .. }
            | Self::AtMost { ours, .. }
            | Self::AtLeast { ours, .. }
            | Self::Covers { ours, .. }
            | Self::Between { ours, .. } => with_unit(*ours, unit),
            Self::Falling { ours, .. } => {
                let values: Vec<_> = ours.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect();
                let values = values.join(", ");
                if unit.is_empty() { values } else { format!("{values} {unit}") }
            }
        }
    }

    fn tolerance(&self, unit: &str) -> String {
        match self {
            Self::Within { percent, .. } => format!("± {} %", number(*percent)),
            Self::AtMost { limit, .. } => format!("at most {}", with_unit(*limit, unit)),
            Self::AtLeast { limit, .. } => format!("at least {}", with_unit(*limit, unit)),
            Self::Between { low, high, .. } => format!("{} to {}", number(*low), with_unit(*high, unit)),
            Self::Covers { .. } => "in our range".to_owned(),
            Self::Falling { slack_percent: 0.0, .. } => "in this order".to_owned(),
            Self::Falling { slack_percent, .. } => format!("in this order, ± {} %", number(*slack_percent)),
        }
    }
}

/// `percent` of a value, plus a margin so that rounding does not decide.
fn part(value: f64, percent: f64) -> f64 {
    value.abs() * percent / 100.0 * (1.0 + 1e-9)
}

/// The subject of a check; its methods state what must hold and create the [`Check`].
#[derive(Clone, Debug)]
pub struct Subject {
    figure: String,
    what: String,
}

impl Subject {
    /// Our value is within ± `percent` % of the paper's.
    pub fn within(self, paper: f64, ours: impl Into<Measured>, percent: f64) -> Check {
        self.one(ours, |ours| Claim::Within { ours, paper, percent }).paper(paper)
    }

    /// Our value is at most `limit`.
    pub fn at_most(self, ours: impl Into<Measured>, limit: f64) -> Check {
        self.one(ours, |ours| Claim::AtMost { ours, limit })
    }

    /// Our value is at least `limit`.
    pub fn at_least(self, ours: impl Into<Measured>, limit: f64) -> Check {
        self.one(ours, |ours| Claim::AtLeast { ours, limit })
    }

    /// Our value lies in `low..=high`.
    pub fn between(self, ours: impl Into<Measured>, low: f64, high: f64) -> Check {
        self.one(ours, |ours| Claim::Between { ours, low, high })
    }

    /// The paper's value is one of many that ours cover, from the smallest to the largest: for experiments of which the
    /// paper does not say which of many it made.
    pub fn covers(self, paper: f64, ours: Measured) -> Check {
        let [least, largest] = ours.spread();
        self.one(ours, |ours| Claim::Covers { ours, paper, least, largest }).paper(paper)
    }

    /// Our values, at least two and with names, are in the paper's order: none exceeds the one before it by more than
    /// `slack_percent` %.
    pub fn falling<N: Into<String>>(self, ours: impl IntoIterator<Item = (N, f64)>, slack_percent: f64) -> Check {
        let ours = ours.into_iter().map(|(name, value)| (name.into(), value)).collect();
        self.claim(Claim::Falling { ours, slack_percent })
    }

    fn one(self, ours: impl Into<Measured>, claim: impl FnOnce(f64) -> Claim) -> Check {
        let ours = ours.into();
        Check { spread: ours.spread, ..self.claim(claim(ours.median)) }
    }

    fn claim(self, claim: Claim) -> Check {
        let Self { figure, what } = self;
        let (unit, why) = (String::new(), String::new());
        Check { figure, what, unit, kind: Kind::OursOnly, paper: None, claim, spread: None, why }
    }
}

/// One verdict row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The figure or table of the paper.
    pub figure: String,
    /// What is compared.
    pub what: String,
    /// Unit of all values; empty if they have none.
    pub unit: String,
    /// What it shows: [`Kind::Evidence`] if the paper's value is given and nothing else was stated.
    pub kind: Kind,
    /// The paper's value, if it gives a number.
    pub paper: Option<f64>,
    /// What must hold of ours.
    pub claim: Claim,
    /// The smallest and the largest value of several runs.
    pub spread: Option<[f64; 2]>,
    /// Why ours differs, or what the reader should know.
    pub why: String,
}

impl Check {
    /// Starts a check: `Check::of("vPFS Fig. 5a", "ratio at 2:1").within(2.0, ours, 1.0)`.
    pub fn of(figure: impl Into<String>, what: impl Into<String>) -> Subject {
        Subject { figure: figure.into(), what: what.into() }
    }

    /// Sets the unit of all values.
    #[must_use]
    pub fn unit(self, unit: impl Into<String>) -> Self {
        Self { unit: unit.into(), ..self }
    }

    /// Sets the paper's value, which makes the row evidence; it is shown, but does not affect the verdict.
    #[must_use]
    pub fn paper(self, value: f64) -> Self {
        Self { paper: Some(value), kind: Kind::Evidence, ..self }
    }

    /// Says that the row is no evidence, and why.
    #[must_use]
    pub fn is(self, kind: Kind, why: impl Into<String>) -> Self {
        Self { kind, why: why.into(), ..self }
    }

    /// Sets the reason why ours differs, or what the reader should know.
    #[must_use]
    pub fn because(self, why: impl Into<String>) -> Self {
        Self { why: why.into(), ..self }
    }

    /// Whether the claim holds. O(1), or O(n) for an order of n values.
    pub fn verdict(&self) -> Verdict {
        if self.claim.holds() { Verdict::Passes } else { Verdict::Differs }
    }

    /// The row of the table, see [`HEADINGS`].
    pub(crate) fn cells(&self) -> [String; 8] {
        let paper = self.paper.map_or_else(|| "-".to_owned(), |value| with_unit(value, &self.unit));
        let runs = self.spread.map(|[least, largest]| format!(" ({} to {})", number(least), number(largest)));
        let ours = self.claim.ours(&self.unit) + &runs.unwrap_or_default();
        let (tolerance, verdict) = (self.claim.tolerance(&self.unit), self.verdict().to_string());
        [
            self.figure.clone(),
            self.what.clone(),
            self.kind.to_string(),
            paper,
            ours,
            tolerance,
            verdict,
            self.why.clone(),
        ]
    }
}

/// Headings of [`Check::cells`].
pub(crate) const HEADINGS: [&str; 8] = ["figure", "what", "kind", "paper", "ours", "tolerance", "verdict", "why"];

/// Numbers of rows. The sentence that it displays is the headline of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Rows of evidence that agree with the paper.
    pub agree: usize,
    /// All rows of evidence.
    pub evidence: usize,
    /// Other rows that hold.
    pub hold: usize,
    /// All other rows.
    pub others: usize,
}

impl Tally {
    /// Counts the verdicts of `checks`.
    pub fn of<'a>(checks: impl IntoIterator<Item = &'a Check>) -> Self {
        checks.into_iter().fold(Self::default(), |mut tally, check| {
            let passes = usize::from(check.verdict() == Verdict::Passes);
            let (passed, all) = match check.kind {
                Kind::Evidence => (&mut tally.agree, &mut tally.evidence),
                _ => (&mut tally.hold, &mut tally.others),
            };
            *passed += passes;
            *all += 1;
            tally
        })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agree, evidence, hold, others } = self;
        write!(
            f,
            "{agree} of {evidence} rows with a paper's value agree. {hold} of {others} others, which are no evidence, hold."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(check: &Check) -> bool {
        check.verdict() == Verdict::Passes
    }

    fn subject() -> Subject {
        Check::of("Fig. 1", "ratio")
    }

    #[test]
    fn within_is_a_part_of_the_papers_value() {
        for (ours, expected) in [(2.0, true), (2.02, true), (1.98, true), (2.03, false), (1.97, false)] {
            assert_eq!(passes(&subject().within(2.0, ours, 1.0)), expected, "{ours}");
        }
        assert!(passes(&subject().within(-50.0, -45.0, 10.0)), "a negative value has a tolerance too");
        assert!(!passes(&subject().within(0.0, 0.1, 50.0)), "no part of nothing");
    }

    #[test]
    fn limits_belong_to_what_they_allow() {
        let held = |check: Check| passes(&check);
        assert!(held(subject().at_most(4.0, 4.0)) && !held(subject().at_most(4.1, 4.0)));
        assert!(held(subject().at_least(0.95, 0.95)) && !held(subject().at_least(0.94, 0.95)));
        for (ours, expected) in [(7.9, false), (8.0, true), (46.0, true), (46.1, false)] {
            assert_eq!(held(subject().between(ours, 8.0, 46.0)), expected, "{ours}");
        }
    }

    #[test]
    fn an_order_allows_noise_only() {
        let falls = |values: &[f64], slack| passes(&subject().falling(values.iter().map(|&v| ("x", v)), slack));
        assert!(falls(&[3.0, 2.0, 2.0, 1.0], 0.0));
        assert!(!falls(&[3.0, 2.0, 2.1], 0.0));
        assert!(falls(&[3.0, 2.0, 2.1], 5.0));
        assert!(!falls(&[3.0], 0.0) && !falls(&[], 0.0), "one value has no order");
    }

    #[test]
    fn not_a_number_fulfils_nothing() {
        let nan = f64::NAN;
        let claims = [
            subject().within(1.0, nan, 100.0),
            subject().within(nan, 1.0, 100.0),
            subject().at_most(nan, 1.0),
            subject().at_least(nan, 1.0),
            subject().between(nan, 0.0, 1.0),
            subject().falling([("a", nan), ("b", 1.0)], 10.0),
        ];
        assert!(!claims.iter().any(passes));
    }

    #[test]
    fn a_row_says_all_of_it() {
        let check = subject().at_most(3.5, 4.0).unit("%").paper(3.2).because("shorter run");
        let row = ["Fig. 1", "ratio", "evidence", "3.2 %", "3.5 %", "at most 4 %", "passes", "shorter run"];
        assert_eq!(check.cells(), row);
        let order = subject().falling([("FIFO", 3.25), ("SFQ(D)", 2.5)], 0.0).unit("s");
        assert_eq!(order.cells()[2..7], ["ours only", "-", "FIFO 3.25, SFQ(D) 2.5 s", "in this order", "passes"]);
        let runs = subject().within(2.0, Measured::of([2.5, 2.0, 1.5, 9.0, 1.75]), 1.0);
        assert_eq!(runs.cells()[4], "2 (1.5 to 9)");
    }

    #[test]
    fn the_median_of_runs_is_judged() {
        for (runs, median) in [(vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 9.0], 3.0)] {
            assert!((Measured::of(runs).median() - median).abs() < 1e-9);
        }
        assert!(Measured::of([]).median().is_nan() && Measured::of([1.0, f64::NAN, 2.0]).median().is_nan());
    }

    #[test]
    fn only_evidence_is_counted_as_agreement() {
        let stated = |ours| subject().within(2.0, ours, 10.0);
        let checks = [
            stated(2.1),
            stated(3.0),
            stated(2.0).is(Kind::Calibrated, "the rate was chosen for it"),
            subject().at_most(3.0, 2.0),
        ];
        assert_eq!(Tally::of(&checks), Tally { agree: 1, evidence: 2, hold: 1, others: 2 });
    }
}

//! Comparison of a value of a paper with ours. Whether they agree is computed, never stated.

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
    pub fn within(self, paper: f64, ours: f64, percent: f64) -> Check {
        Check { paper: Some(paper), ..self.claim(Claim::Within { ours, paper, percent }) }
    }

    /// Our value is at most `limit`.
    pub fn at_most(self, ours: f64, limit: f64) -> Check {
        self.claim(Claim::AtMost { ours, limit })
    }

    /// Our value is at least `limit`.
    pub fn at_least(self, ours: f64, limit: f64) -> Check {
        self.claim(Claim::AtLeast { ours, limit })
    }

    /// Our value lies in `low..=high`.
    pub fn between(self, ours: f64, low: f64, high: f64) -> Check {
        self.claim(Claim::Between { ours, low, high })
    }

    /// Our values, at least two and with names, are in the paper's order: none exceeds the one before it by more than
    /// `slack_percent` %.
    pub fn falling<N: Into<String>>(self, ours: impl IntoIterator<Item = (N, f64)>, slack_percent: f64) -> Check {
        let ours = ours.into_iter().map(|(name, value)| (name.into(), value)).collect();
        self.claim(Claim::Falling { ours, slack_percent })
    }

    fn claim(self, claim: Claim) -> Check {
        let Self { figure, what } = self;
        Check { figure, what, unit: String::new(), paper: None, claim, why: String::new() }
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
    /// The paper's value, if it gives a number.
    pub paper: Option<f64>,
    /// What must hold of ours.
    pub claim: Claim,
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

    /// Sets the paper's value for a claim whose limit is a different number; it is shown, but does not affect the
    /// verdict.
    #[must_use]
    pub fn paper(self, value: f64) -> Self {
        Self { paper: Some(value), ..self }
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

    /// The row of the table: figure, what, paper, ours, tolerance, verdict, why.
    pub(crate) fn cells(&self) -> [String; 7] {
        let paper = self.paper.map_or_else(|| "-".to_owned(), |value| with_unit(value, &self.unit));
        let (ours, tolerance) = (self.claim.ours(&self.unit), self.claim.tolerance(&self.unit));
        let verdict = self.verdict().to_string();
        [self.figure.clone(), self.what.clone(), paper, ours, tolerance, verdict, self.why.clone()]
    }
}

/// Headings of [`Check::cells`].
pub(crate) const HEADINGS: [&str; 7] = ["figure", "what", "paper", "ours", "tolerance", "verdict", "why"];

/// Numbers of checks that pass and that differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Checks that pass.
    pub passes: usize,
    /// Checks that differ.
    pub differs: usize,
}

impl Tally {
    /// Counts the verdicts of `checks`.
    pub fn of<'a>(checks: impl IntoIterator<Item = &'a Check>) -> Self {
        checks.into_iter().fold(Self::default(), |tally, check| match check.verdict() {
            Verdict::Passes => Self { passes: tally.passes + 1, ..tally },
            Verdict::Differs => Self { differs: tally.differs + 1, ..tally },
        })
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
        assert_eq!(check.cells(), ["Fig. 1", "ratio", "3.2 %", "3.5 %", "at most 4 %", "passes", "shorter run"]);
        let order = subject().falling([("FIFO", 3.25), ("SFQ(D)", 2.5)], 0.0).unit("s");
        assert_eq!(order.cells()[2..6], ["-", "FIFO 3.25, SFQ(D) 2.5 s", "in this order", "passes"]);
    }

    #[test]
    fn a_tally_counts_each_check_once() {
        let checks = [subject().at_most(1.0, 2.0), subject().at_most(3.0, 2.0), subject().at_most(2.0, 2.0)];
        assert_eq!(Tally::of(&checks), Tally { passes: 2, differs: 1 });
    }
}

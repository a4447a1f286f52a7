//! What the papers conclude and which values they state, as data (`conclusions.toml`, `values.toml`), and whether ours
//! agree.
//!
//! A conclusion has relations of our values, such as `a.native > 2 * a.sfq > 5`: terms between `<` and `>`, each a
//! number, a name of a value, or a number times a name. Its limits stand with their reason.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use vpfs_sim::SimError;

use crate::{Check, Conclusion, Kind, Measured, Section};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conclusions {
    conclusion: Vec<Stated>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedValues {
    value: Vec<StatedValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated {
    /// The id of the [`Figure`](crate::figures::Figure) whose values it is about.
    of: String,
    figure: String,
    says: String,
    relations: Vec<String>,
    reason: String,
    /// Changes of the scenario, each of which must break it.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests need it"))]
    breaks: Vec<String>,
    /// Why it does not hold; empty if it does.
    #[serde(default)]
    cause: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedValue {
    of: String,
    figure: String,
    what: String,
    paper: f64,
    ours: String,
    #[serde(default)]
    unit: String,
    #[serde(default = "a_quarter")]
    percent: f64,
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    why: String,
}

const fn a_quarter() -> f64 {
    25.0
}

fn conclusions(of: &str) -> impl Iterator<Item = &'static Stated> {
    static ALL: OnceLock<Conclusions> = OnceLock::new();
    let all = ALL.get_or_init(|| toml::from_str(include_str!("conclusions.toml")).expect("a test reads it"));
    all.conclusion.iter().filter(move |stated| stated.of == of)
}

fn stated_values(of: &str) -> impl Iterator<Item = &'static StatedValue> {
    static ALL: OnceLock<StatedValues> = OnceLock::new();
    let all = ALL.get_or_init(|| toml::from_str(include_str!("values.toml")).expect("a test reads it"));
    all.value.iter().filter(move |value| value.of == of)
}

/// Our values by name, each with every seed, or once if it does not depend on one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values(BTreeMap<String, Vec<f64>>);

impl Values {
    pub(crate) fn set(&mut self, name: impl Into<String>, seeds: impl IntoIterator<Item = f64>) {
        self.0.insert(name.into(), seeds.into_iter().collect());
    }

    pub(crate) fn get(&self, name: &str) -> Result<&[f64], SimError> {
        let unknown = || SimError::Scenario(format!("conclusions.toml or values.toml: there is no value {name:?}"));
        self.0.get(name).map(Vec::as_slice).ok_or_else(unknown)
    }

    /// The median; not a number if there is no such value.
    pub(crate) fn median(&self, name: &str) -> Measured {
        Measured::of(self.0.get(name).into_iter().flatten().copied())
    }

    /// Of each seed the smallest of some values.
    pub(crate) fn least(&self, names: impl IntoIterator<Item = String>) -> Result<Vec<f64>, SimError> {
        let mut least: Vec<f64> = Vec::new();
        for name in names {
            let seeds = self.get(&name)?;
            least.resize(least.len().max(seeds.len()), f64::INFINITY);
            least.iter_mut().zip(seeds.iter().cycle()).for_each(|(least, &value)| *least = least.min(value));
        }
        Ok(least)
    }
}

/// Adds what a figure's paper concludes and states, and our values.
pub(crate) fn judged(figure: &str, section: Section, values: &Values) -> Result<Section, SimError> {
    let mut judged = conclusions(figure);
    let section: Result<_, SimError> =
        judged.try_fold(section, |section, row| Ok(section.conclusion(row.judged(values)?)));
    stated_values(figure).try_fold(section?, |section, value| {
        values.get(&value.ours)?;
        Ok(section.check(value.check(values.median(&value.ours))))
    })
}

impl Stated {
    fn judged(&self, values: &Values) -> Result<Conclusion, SimError> {
        let relations = self.relations.iter().map(|text| Relation::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let names = relations.iter().flat_map(|relation| &relation.terms).filter_map(|term| term.name.clone());
        let ours: BTreeMap<_, _> = names.map(|name| (name.clone(), values.median(&name))).collect();
        let lengths = ours.keys().map(|name| Ok(values.get(name)?.len())).collect::<Result<Vec<_>, SimError>>()?;
        let seeds = lengths.into_iter().max().unwrap_or(0);
        let all_hold = |values: &Values, seed: usize| -> Result<bool, SimError> {
            let holds = relations.iter().map(|relation| relation.holds(values, seed)).collect::<Result<Vec<_>, _>>()?;
            Ok(holds.into_iter().all(|holds| holds))
        };
        let mut medians = Values::default();
        ours.iter().for_each(|(name, value)| medians.set(name, [value.median()]));
        let holds = all_hold(&medians, 0)?;
        let mut held = 0;
        for seed in 0..seeds {
            held += usize::from(all_hold(values, seed)?);
        }
        let Self { figure, says, relations, reason, cause, .. } = self;
        let [figure, says, reason, cause] = [figure, says, reason, cause].map(String::clone);
        Ok(Conclusion { figure, says, relations: relations.clone(), reason, ours, holds, held, seeds, cause })
    }
}

impl StatedValue {
    fn check(&self, ours: Measured) -> Check {
        let Self { figure, what, unit, kind, paper, percent, why, .. } = self;
        let [figure, what, unit, why] = [figure, what, unit, why].map(String::clone);
        Check { figure, what, unit, kind: *kind, paper: *paper, ours, percent: *percent, why }
    }
}

#[derive(Debug, PartialEq)]
struct Term {
    factor: f64,
    name: Option<String>,
}

impl Term {
    fn value(&self, values: &Values, seed: usize) -> Result<f64, SimError> {
        let Some(name) = &self.name else { return Ok(self.factor) };
        let seeds = values.get(name)?;
        let value = if seeds.len() == 1 { seeds.first() } else { seeds.get(seed) };
        Ok(self.factor * value.copied().unwrap_or(f64::NAN))
    }
}

/// Terms, each of which is smaller (or larger) than the next one. It does not hold if one of them is not a number.
#[derive(Debug, PartialEq)]
struct Relation {
    terms: Vec<Term>,
    falls: bool,
}

impl Relation {
    fn parse(text: &str) -> Result<Self, SimError> {
        let wrong =
            || SimError::Scenario(format!("conclusions.toml: {text:?} is no relation, such as \"a > 2 * b > 5\""));
        let falls = text.contains('>');
        let term = |text: &str| {
            let (factor, name) = match text.split_once('*') {
                Some((factor, name)) => (factor.trim().parse().map_err(|_| wrong())?, Some(name.trim())),
                None => text.trim().parse().map_or((1.0, Some(text.trim())), |number| (number, None)),
            };
            let is_name = |name: &str| !name.is_empty() && !name.contains(['<', '>', '*']);
            match name.is_none_or(is_name) {
                true => Ok(Term { factor, name: name.map(str::to_owned) }),
                false => Err(wrong()),
            }
        };
        let terms = text.split(if falls { '>' } else { '<' }).map(term).collect::<Result<Vec<_>, _>>()?;
        if terms.len() < 2 { Err(wrong()) } else { Ok(Self { terms, falls }) }
    }

    fn holds(&self, values: &Values, seed: usize) -> Result<bool, SimError> {
        let terms = self.terms.iter().map(|term| term.value(values, seed)).collect::<Result<Vec<_>, _>>()?;
        Ok(terms.windows(2).all(|pair| if self.falls { pair[0] > pair[1] } else { pair[0] < pair[1] }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::figures::{harl, ioco, two_level, vpfs, vpfs_plus};

    /// Runs a figure's experiment with a change of its scenario, as short as it can be.
    type Changed = fn(&str) -> Result<Values, SimError>;

    /// Those that take less than a few seconds of a processor.
    const FAST: &[(&str, Changed)] = &[
        ("vpfs-5", vpfs::asymmetric::changed),
        ("vpfs-7", vpfs::btio_beside_ior::changed),
        ("vpfs-plus-2", vpfs_plus::profile::changed),
        ("vpfs-plus-7", vpfs_plus::wrf::changed),
        ("vpfs-plus-9", vpfs_plus::metadata::changed),
        ("two-level", two_level::changed),
        ("ioco-3", ioco::finish::changed),
        ("ioco-formulas", ioco::formulas::changed),
        ("harl-1a", harl::balance::changed),
    ];
    const SLOW: &[(&str, Changed)] = &[
        ("vpfs-6", vpfs::arrivals::changed),
        ("vpfs-table-2", vpfs::synchronisation::changed),
        ("vpfs-plus-5", vpfs_plus::isolation::changed),
        ("vpfs-plus-8", vpfs_plus::large_slots::changed),
        ("ioco-6", ioco::apps::changed),
        ("ioco-7", ioco::servers::changed),
        ("ioco-8", ioco::windows::changed),
        ("harl-7", |change| harl::ior::changed("7", change)),
        ("harl-8", |change| harl::ior::changed("8", change)),
        ("harl-9", |change| harl::ior::changed("9", change)),
        ("harl-10", |change| harl::ior::changed("10", change)),
        ("harl-11", harl::regions::changed),
        ("harl-12", harl::btio::changed),
    ];

    /// A statement that holds whatever is simulated states nothing: each change that a conclusion names must break it.
    fn must_break(figures: &[(&str, Changed)]) {
        for &(figure, changed) in figures {
            let own = || conclusions(figure).filter(|stated| stated.cause.is_empty());
            let changes: BTreeSet<&String> = own().flat_map(|stated| &stated.breaks).collect();
            for change in changes {
                let values = changed(change).unwrap();
                for stated in own().filter(|stated| stated.breaks.contains(change)) {
                    let judged = stated.judged(&values).unwrap();
                    assert_eq!(judged.held, 0, "{figure}, {change}: holds all the same: {judged:#?}");
                }
            }
        }
    }

    #[test]
    fn every_conclusion_needs_its_mechanism() {
        must_break(FAST);
    }

    #[test]
    #[ignore = "minutes of simulation; the full tier runs it"]
    fn every_conclusion_of_long_runs_needs_its_mechanism() {
        must_break(SLOW);
    }

    #[test]
    fn what_is_stated_can_be_read_and_broken() {
        let tested: BTreeSet<&str> = FAST.iter().chain(SLOW).map(|(figure, _)| *figure).collect();
        let mut count = [0, 0];
        for figure in crate::figures::all().map(|figure| figure.id) {
            for stated in conclusions(figure) {
                assert!(!stated.breaks.is_empty() && !stated.reason.is_empty(), "{stated:#?}");
                assert!(tested.contains(figure), "{figure}");
                stated.relations.iter().for_each(|text| assert!(Relation::parse(text).is_ok(), "{text}"));
                count[0] += 1;
            }
            count[1] += stated_values(figure).count();
        }
        let headings = |text: &str, heading: &str| text.lines().filter(|line| line.starts_with(heading)).count();
        let files = [(include_str!("conclusions.toml"), "[[conclusion]]"), (include_str!("values.toml"), "  { of")];
        assert_eq!(count, files.map(|(text, heading)| headings(text, heading)), "each is of a figure");
    }

    #[test]
    fn relations_compare_seed_by_seed() {
        let mut values = Values::default();
        values.set("a", [1.0, 2.0, 3.0]);
        values.set("b", [2.0]);
        values.set("none", [f64::NAN]);
        let held = |text: &str| {
            let relation = Relation::parse(text).unwrap();
            [0, 1, 2].map(|seed| relation.holds(&values, seed).unwrap())
        };
        assert_eq!(held("a < b"), [true, false, false]);
        assert_eq!(held("5 > 2 * a > 1.5 * b"), [false, true, false]);
        assert_eq!(held("none < 1"), [false; 3]);
        for text in ["a", "a < ", "x * y * z > 1", "a < b > c"] {
            assert!(Relation::parse(text).is_err(), "{text}");
        }
        assert!(Relation::parse("c > 1").unwrap().holds(&values, 0).is_err());
    }
}

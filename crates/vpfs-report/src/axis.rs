//! Axes: what they measure, the position of values on them, and numbers in human-readable form.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use serde::Serialize;

/// What an axis measures, in which unit, and how it is divided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// The quantity.
    pub title: String,
    /// Its unit; empty if it has none.
    pub unit: String,
    scale: Scale,
    include: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Scale {
    Linear,
    Log10,
    Log2,
}

/// Values beyond it, and below its reciprocal on a logarithmic axis, are treated as infinite: no axis can show them.
const LARGEST: f64 = 1e100;

impl Axis {
    /// Equal steps.
    pub fn linear(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { title: title.into(), unit: unit.into(), scale: Scale::Linear, include: Vec::new() }
    }

    /// Equal factors, marked at powers of ten. Values that are not positive are left out, with a note in the chart.
    pub fn log(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Log10, ..Self::linear(title, unit) }
    }

    /// Like [`Axis::log`], marked at powers of two: for sizes and counts.
    pub fn log2(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Log2, ..Self::linear(title, unit) }
    }

    /// Extends the axis to show this value too; by default it covers just the data.
    #[must_use]
    pub fn include(mut self, value: f64) -> Self {
        self.include.push(value);
        self
    }

    pub(crate) fn label(&self) -> String {
        if self.unit.is_empty() { self.title.clone() } else { format!("{} [{}]", self.title, self.unit) }
    }

    pub(crate) fn shows(&self, value: f64) -> bool {
        match self.scale {
            Scale::Linear => value.abs() <= LARGEST,
            Scale::Log10 | Scale::Log2 => (LARGEST.recip()..=LARGEST).contains(&value),
        }
    }

    /// The axis from the smallest to the largest value it can show.
    pub(crate) fn span(&self, values: impl Iterator<Item = f64>) -> Span {
        self.span_over(self.range(values))
    }

    /// Like [`Axis::span`], with room at the ends of a linear axis. It starts at zero, except for values that are all
    /// within a factor of two, whose differences would not be visible.
    pub(crate) fn span_with_room(&self, values: impl Iterator<Item = f64>) -> Span {
        let Range { start, end } = self.range(values);
        let room = if self.scale == Scale::Linear { (end - start) * 0.06 } else { 0.0 };
        match self.scale {
            Scale::Linear if start >= 0.0 && start <= end / 2.0 => self.span_over(0.0..end + room),
            _ => self.span_over(start - room..end + room),
        }
    }

    /// From the smallest to the largest value that can be shown; empty if there is none.
    fn range(&self, values: impl Iterator<Item = f64>) -> Range<f64> {
        let shown = values.chain(self.include.iter().copied()).filter(|&value| self.shows(value));
        shown.fold(f64::INFINITY..f64::NEG_INFINITY, |range, value| range.start.min(value)..range.end.max(value))
    }

    fn span_over(&self, range: Range<f64>) -> Span {
        let range = if range.start <= range.end { range } else { 1.0..2.0 };
        match self.scale {
            Scale::Linear => Span::linear(range),
            Scale::Log10 => Span::log(range, 10.0),
            Scale::Log2 => Span::log(range, 2.0),
        }
    }
}

/// An axis of a given length.
#[derive(Clone)]
pub(crate) enum Span {
    Linear(Range<f64>),
    /// The same with key points.
    Log(Range<f64>, Vec<f64>),
    Groups(Vec<String>),
}

impl Span {
    fn linear(range: Range<f64>) -> Self {
        let Range { start, end } = range;
        // A single value needs room around it, enough not to vanish in rounding.
        let least = start.abs().max(end.abs()) * 1e-6;
        let room = if end - start <= least { (start.abs() * 0.05).max(0.5) } else { 0.0 };
        Self::Linear(start - room..end + room)
    }

    /// Ends at key points, so that there are at least two.
    fn log(range: Range<f64>, base: f64) -> Self {
        let first = range.start.log(base).floor();
        let last = (range.end.log(base) - 1e-9).ceil().max(first + 1.0);
        let steps = if base > 2.0 && last - first <= 2.0 { &[1.0, 2.0, 5.0][..] } else { &[1.0] };
        let powers = std::iter::successors(Some(first), |power| Some(power + 1.0)).take_while(|&power| power <= last);
        let points: Vec<f64> = powers.flat_map(|power| steps.iter().map(move |step| step * base.powf(power))).collect();
        let low = points.iter().rposition(|&point| point <= range.start * (1.0 + 1e-9)).unwrap_or(0);
        let high = points.iter().position(|&point| point >= range.end * (1.0 - 1e-9)).unwrap_or(points.len() - 1);
        let high = high.max(low + 1).min(points.len() - 1);
        let points = points[low.min(high - 1)..=high].to_vec();
        Self::Log(points[0]..points[points.len() - 1], points)
    }

    /// Where bars start: at zero, or at the end of the axis nearest to it.
    pub(crate) fn floor(&self) -> f64 {
        let range = self.range();
        0.0_f64.clamp(range.start, range.end)
    }
}

impl Ranged for Span {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self {
            Self::Log(range, _) => RangedCoordf64::from(range.start.ln()..range.end.ln()).map(&value.ln(), limit),
            Self::Linear(_) | Self::Groups(_) => RangedCoordf64::from(self.range()).map(value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self {
            Self::Linear(range) => key_points(range, hint.max_num_points()),
            Self::Log(_, points) => {
                let every = points.len().div_ceil(hint.max_num_points().max(1));
                points.iter().copied().step_by(every).collect()
            }
            Self::Groups(names) => (0..names.len()).map(|group| group as f64).collect(),
        }
    }

    fn range(&self) -> Range<f64> {
        match self {
            Self::Linear(range) | Self::Log(range, _) => range.clone(),
            Self::Groups(names) => -0.5..names.len() as f64 - 0.5,
        }
    }
}

/// At most `most` multiples of 1, 2 or 5 times a power of ten.
///
/// The key points of `plotters` are not used: its search for a step does not terminate for ranges near the limits of
/// `f64`.
fn key_points(range: &Range<f64>, most: usize) -> Vec<f64> {
    let least = (range.end - range.start) / most.max(1) as f64;
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0].map(|step| step * power).into_iter().find(|&step| step >= least).unwrap_or(power * 10.0);
    let first = (range.start / step).ceil();
    (0..most).map(|count| (first + count as f64) * step).take_while(|&point| point <= range.end).collect()
}

impl ValueFormatter<f64> for Span {
    fn format_ext(&self, value: &f64) -> String {
        match self {
            Self::Linear(_) | Self::Log(..) => number(*value),
            Self::Groups(names) => {
                let name = names.iter().zip(0u32..).find(|&(_, group)| f64::from(group) == *value);
                name.map_or_else(String::new, |(name, _)| name.clone())
            }
        }
    }
}

/// Four significant digits, without trailing zeros: `0.3333`, `12.5`, `6817`, `1.2e9`.
///
/// Values from a million on, and below a ten-thousandth, are in scientific notation.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    // Rounded first, as 999,999 is a million in four digits.
    let scientific = format!("{value:.3e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation has an exponent");
    match exponent.parse::<i32>().expect("an exponent is a small integer") {
        power @ -4..=5 => {
            let decimals = usize::try_from(3 - power).unwrap_or(0);
            trimmed(&format!("{value:.decimals$}")).to_owned()
        }
        _ => format!("{}e{exponent}", trimmed(mantissa)),
    }
}

pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    let number = number(value);
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(axis: &Axis, values: &[f64]) -> Vec<f64> {
        axis.span(values.iter().copied()).key_points(10)
    }

    #[test]
    fn a_log_axis_ends_at_key_points_around_its_values() {
        let log = Axis::log("size", "KiB");
        assert_eq!(points(&log, &[3.0, 70.0]), [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(points(&log, &[1.0, 1000.0]), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(points(&log, &[10.0]), [10.0, 20.0]);
        assert_eq!(points(&Axis::log2("servers", ""), &[2.0, 64.0]), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        assert_eq!(points(&Axis::log2("servers", ""), &[3.0, 9.0]), [2.0, 4.0, 8.0, 16.0]);
    }

    #[test]
    fn every_log_axis_holds_its_values() {
        for low in 1..200 {
            for factor in [1.0, 1.5, 7.0, 99.0, 1e5] {
                let (low, high) = (f64::from(low) * 0.37, f64::from(low) * 0.37 * factor);
                for axis in [Axis::log("x", ""), Axis::log2("x", "")] {
                    let range = axis.span([low, high].into_iter()).range();
                    assert!(range.start <= low * 1.000_001 && range.end >= high * 0.999_999, "{low} {high} {range:?}");
                    assert!(range.start < range.end);
                }
            }
        }
    }

    #[test]
    fn a_linear_axis_is_marked_at_round_numbers() {
        let x = Axis::linear("x", "");
        assert_eq!(points(&x, &[0.0, 960.0]), [0.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0]);
        assert_eq!(points(&x, &[-3.0, 14.0]), [-2.0, 0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]);
        for range in [1e-90..2e-90, -1e100..1e100, 1e16..1e16 + 2.0, 0.9..1.1] {
            let points = points(&x, &[range.start, range.end]);
            assert!((2..=10).contains(&points.len()) && points.is_sorted(), "{range:?}: {points:?}");
            let about = range.start.abs().max(range.end.abs()) * 2.0;
            assert!(points.iter().all(|point| point.abs() <= about), "{range:?}: {points:?}");
        }
    }

    #[test]
    fn an_axis_without_values_still_has_a_length() {
        for axis in [Axis::linear("x", ""), Axis::log("x", ""), Axis::log2("x", "")] {
            let range = axis.span([f64::NAN].into_iter()).range();
            assert!(range.start < range.end, "{range:?}");
            let range = axis.span([7.0, 7.0].into_iter()).range();
            assert!(range.start <= 7.0 && 7.0 <= range.end && range.start < range.end, "{range:?}");
        }
    }

    #[test]
    fn an_axis_shows_what_it_was_told_to() {
        assert_eq!(Axis::linear("x", "").include(0.0).span([5.0, 9.0].into_iter()).range(), 0.0..9.0);
        assert_eq!(Axis::linear("x", "").span([5.0, 9.0].into_iter()).range(), 5.0..9.0);
        assert!(!Axis::log("x", "").shows(0.0) && Axis::linear("x", "").shows(0.0));
    }

    #[test]
    fn four_digits_are_enough() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0 / 3.0, "0.3333"),
            (12.5, "12.5"),
            (100.0, "100"),
            (6817.4, "6817"),
            (123_456.0, "123456"),
            (999_999.9, "1e6"),
            (1.2e9, "1.2e9"),
            (-0.000_012, "-1.2e-5"),
            (0.1 + 0.2, "0.3"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value:?}");
        }
    }
}

//! Grouped bar charts.

use plotters::prelude::{ChartBuilder, Color, PathElement};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Serialize;

use crate::Measured;
use crate::axis::{Axis, Span};
use crate::canvas::{self, Area, Drawn, Frame, GRID, INK, LETTER, Mark, Pen, Pixel};

/// The value of one series in one group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Ends of the error bar, in the value's unit.
    pub error: Option<(f64, f64)>,
}

impl Bar {
    /// A value without an error bar.
    pub fn new(value: f64) -> Self {
        Self { value, error: None }
    }
}

/// The median, with an error bar from the smallest to the largest value.
impl From<Measured> for Bar {
    fn from(measured: Measured) -> Self {
        let [least, largest] = measured.spread();
        Self { value: measured.median(), error: (least < largest).then_some((least, largest)) }
    }
}

/// Grouped bars, each with its value above it. Every series has one bar in each group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bars {
    pub(crate) title: String,
    pub(crate) y: Axis,
    pub(crate) groups: Vec<String>,
    pub(crate) series: Vec<(String, Vec<Bar>)>,
}

/// Least width of a bar, so that its value fits above it.
const BAR: u32 = 34;
/// Margin on both sides of all groups.
const SIDES: u32 = 110;
/// Largest width of a chart; beyond it bars and their values become narrower.
const MOST: u32 = 8000;

impl Bars {
    /// A chart with these groups and no bars.
    pub fn new<G: Into<String>>(title: impl Into<String>, y: Axis, groups: impl IntoIterator<Item = G>) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self { title: title.into(), y, groups, series: Vec::new() }
    }

    /// Adds a series, with its bars in the order of the groups. Missing bars leave their place empty; bars beyond the
    /// last group are not shown, with a note in the chart.
    #[must_use]
    pub fn series(mut self, name: impl Into<String>, bars: impl IntoIterator<Item = Bar>) -> Self {
        self.series.push((name.into(), bars.into_iter().collect()));
        self
    }

    /// The chart as SVG, as wide as its bars need. Equal charts give equal bytes.
    pub fn svg(&self) -> String {
        let legend = self.series.iter().enumerate();
        let legend = legend.map(|(number, (name, _))| (Pen::new(number, Mark::Bar), name.clone())).collect();
        Frame { title: &self.title, width: self.width(), legend, note: self.note() }
            .picture(|sheet, area| self.draw(sheet, area))
    }

    fn note(&self) -> String {
        let all: usize = self.series.iter().map(|(_, bars)| bars.len()).sum();
        match (all, all - self.visible().count()) {
            (0, _) => "no data: every series is empty".to_owned(),
            (_, 0) => String::new(),
            (_, hidden) => {
                format!("{hidden} bars not shown: no group, not a number, or not positive on a logarithmic axis")
            }
        }
    }

    /// The bars that can be shown: group, series, bar.
    fn visible(&self) -> impl Iterator<Item = (usize, usize, Bar)> {
        let of_series = |(number, (_, bars)): (usize, &'_ (String, Vec<Bar>))| {
            let bars: Vec<_> = bars.iter().take(self.groups.len()).copied().enumerate().collect();
            bars.into_iter().map(move |(group, bar)| (group, number, bar))
        };
        self.series.iter().enumerate().flat_map(of_series).filter(|(.., bar)| self.y.shows(bar.value))
    }

    fn width(&self) -> u32 {
        let name = self.groups.iter().map(|name| canvas::length(name)).max().unwrap_or(0);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let group = (name * LETTER).max((count(self.series.len()) + 1).saturating_mul(BAR));
        count(self.groups.len()).saturating_mul(group).saturating_add(SIDES).clamp(canvas::WIDTH, MOST)
    }

    fn draw(&self, sheet: &Area<'_>, area: &Area<'_>) -> Drawn {
        // A bar shows a value by its length, so it starts at zero if the axis has one.
        let y = self.y.clone().include(0.0).span_with_room(self.visible().flat_map(|(.., bar)| self.ends(bar)));
        let floor = y.floor();
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(70)
            .build_cartesian_2d(Span::Groups(self.groups.clone()), y)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_desc(self.y.label())
            .x_labels(self.groups.len().max(1))
            .max_light_lines(0)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(canvas::font(15, INK))
            .axis_desc_style(canvas::font(17, INK))
            .draw()?;
        let place = |x, y| chart.plotting_area().map_coordinate(&(x, y));
        self.visible().try_for_each(|visible| self.draw_bar(sheet, visible, floor, &place))
    }

    /// Draws a bar from the base line, its error bar, and its value above both.
    fn draw_bar(
        &self,
        sheet: &Area<'_>,
        (group, number, bar): (usize, usize, Bar),
        floor: f64,
        place: &dyn Fn(f64, f64) -> Pixel,
    ) -> Drawn {
        let width = 0.8 / self.series.len() as f64;
        let left = group as f64 - 0.4 + number as f64 * width;
        let corners = [place(left, bar.value.max(floor)), place(left + width, bar.value.min(floor))];
        Pen::new(number, Mark::Bar).bar(sheet, corners)?;
        let middle = left + width / 2.0;
        let ends = self.ends(bar);
        if let [low, high, _] = ends[..] {
            whisker(sheet, place(middle, low), place(middle, high))?;
        }
        let top = ends.into_iter().fold(floor, f64::max);
        let above = Pos::new(HPos::Center, VPos::Bottom);
        canvas::text(sheet, &crate::number(bar.value), 13, INK, place(middle, top), above)
    }

    /// The values that the axis must show for a bar: the bar's value and, if it has a valid error bar, its ends.
    fn ends(&self, bar: Bar) -> Vec<f64> {
        let error = bar.error.filter(|&(low, high)| self.y.shows(low) && self.y.shows(high));
        error.map_or_else(|| vec![bar.value], |(low, high)| vec![low, high, bar.value])
    }
}

/// Draws an error bar.
fn whisker(sheet: &Area<'_>, (x, low): Pixel, (_, high): Pixel) -> Drawn {
    let lines = [[(x, low), (x, high)], [(x - 4, low), (x + 4, low)], [(x - 4, high), (x + 4, high)]];
    lines.into_iter().try_for_each(|line| sheet.draw(&PathElement::new(line, INK.stroke_width(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(groups: &[&str], series: &[&[f64]]) -> Bars {
        let bars = Bars::new("Throughput", Axis::linear("throughput", "MB/s"), groups.iter().copied());
        let add = |bars: Bars, values: &&[f64]| bars.series("a & b", values.iter().copied().map(Bar::new));
        series.iter().fold(bars, add)
    }

    /// Heights of the filled rectangles, except for the page and those of the legend.
    fn heights(svg: &str, legend: usize) -> Vec<i32> {
        let document = roxmltree::Document::parse(svg).unwrap();
        let of = |node: roxmltree::Node<'_, '_>| node.attribute("height").unwrap().parse().unwrap();
        document.descendants().filter(|node| node.has_tag_name("rect")).skip(1 + legend).map(of).collect()
    }

    #[test]
    fn bars_are_as_high_as_their_values() {
        let heights = heights(&bars(&["x", "y"], &[&[10.0, 20.0], &[40.0]]).svg(), 2);
        assert_eq!(heights.len(), 3);
        assert!((heights[1] - 2 * heights[0]).abs() <= 2 && (heights[2] - 4 * heights[0]).abs() <= 4, "{heights:?}");
    }

    #[test]
    fn bars_below_zero_hang() {
        let heights = heights(&bars(&["x", "y"], &[&[-10.0, 10.0]]).svg(), 1);
        assert!(heights[0] > 0 && (heights[0] - heights[1]).abs() <= 1, "{heights:?}");
    }

    #[test]
    fn values_and_errors_are_shown() {
        let axis = Axis::linear("t", "s");
        let bar = Bar { value: 33.25, error: Some((30.0, 36.0)) };
        let with = Bars::new("t", axis.clone(), ["x"]).series("a", [bar]).svg();
        let without = Bars::new("t", axis, ["x"]).series("a", [Bar::new(33.25)]).svg();
        assert!(with.contains("33.25"));
        let lines = |svg: &str| svg.matches("<polyline").count();
        assert_eq!(lines(&with), lines(&without) + 3);
    }

    #[test]
    fn hidden_values_are_noted() {
        assert!(bars(&["x"], &[]).svg().contains("no data"));
        assert!(bars(&[], &[]).svg().contains("no data"));
        let svg = bars(&["x"], &[&[1.0, 2.0], &[f64::NAN]]).svg();
        assert!(svg.contains("2 bars not shown"));
        assert_eq!(heights(&svg, 2).len(), 1);
    }

    #[test]
    fn many_bars_make_a_wider_picture() {
        let groups = ["a"; 30];
        let narrow = bars(&groups[..2], &[&[1.0; 2]]);
        let wide = bars(&groups, &[&[1.0; 30], &[1.0; 30]]);
        assert!(narrow.width() == canvas::WIDTH && wide.width() > 30 * 2 * BAR);
        assert_eq!(wide.svg(), wide.svg());
    }
}

//! Charts as SVG and as data: line charts and scatter charts, and grouped bar charts.

use std::ops::Range;

use plotters::chart::DualCoordChartContext;
use plotters::prelude::{Cartesian2d, ChartBuilder, Color, PathElement, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Serialize;

use crate::Measured;
use crate::axis::{Axis, Span};
use crate::canvas::{self, Area, Drawn, Frame, GRID, INK, LETTER, LegendEntry, Mark, Pen, Pixel, REFERENCE};

/// A chart of either kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Chart {
    /// Lines and points.
    Plot(Plot),
    /// Grouped bars.
    Bars(Bars),
}

impl From<Plot> for Chart {
    fn from(plot: Plot) -> Self {
        Self::Plot(plot)
    }
}

impl From<Bars> for Chart {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
    }
}

impl Chart {
    /// The title.
    pub fn title(&self) -> &str {
        match self {
            Self::Plot(plot) => &plot.title,
            Self::Bars(bars) => &bars.title,
        }
    }

    /// The chart as SVG, for a page or a separate file. Equal charts give equal bytes.
    pub fn svg(&self) -> String {
        match self {
            Self::Plot(plot) => plot.svg(),
            Self::Bars(bars) => bars.svg(),
        }
    }

    /// The data as CSV: a line of names with units, then one line for each point or bar.
    ///
    /// Plots: series, x, y; those of the right axis follow after a separate line of names. Bars: group, series, value,
    /// low, high.
    pub fn csv(&self) -> String {
        let records = match self {
            Self::Plot(plot) => plot_records(plot),
            Self::Bars(bars) => bar_records(bars),
        };
        let mut writer = csv::Writer::from_writer(Vec::new());
        for record in records {
            writer.write_record(&record).expect("writing into memory does not fail");
        }
        let bytes = writer.into_inner().expect("writing into memory does not fail");
        String::from_utf8(bytes).expect("made of strings")
    }
}

fn plot_records(plot: &Plot) -> Vec<Vec<String>> {
    let right = plot.right.iter().flat_map(|(axis, series)| points(plot, axis, series));
    points(plot, &plot.y, &plot.series).chain(right).collect()
}

fn points<'a>(plot: &Plot, axis: &Axis, series: &'a [Series]) -> impl Iterator<Item = Vec<String>> + use<'a> {
    let of =
        |series: &'a Series| series.points.iter().map(|(x, y)| vec![series.name.clone(), x.to_string(), y.to_string()]);
    [vec!["series".to_owned(), plot.x.label(), axis.label()]].into_iter().chain(series.iter().flat_map(of))
}

fn bar_records(bars: &Bars) -> Vec<Vec<String>> {
    let header = ["group", "series"].map(str::to_owned).into_iter();
    let header = header.chain([bars.y.label()]).chain(["low", "high"].map(str::to_owned)).collect();
    let of = |(name, values): &(String, Vec<Bar>)| {
        let groups = bars.groups.iter().map(String::as_str).chain(std::iter::repeat(""));
        let record = |(group, bar): (&str, &Bar)| {
            let end = |end: fn((f64, f64)) -> f64| bar.error.map(end).map_or_else(String::new, |end| end.to_string());
            let (low, high) = (end(|(low, _)| low), end(|(_, high)| high));
            vec![group.to_owned(), name.clone(), bar.value.to_string(), low, high]
        };
        groups.zip(values).map(record).collect::<Vec<_>>()
    };
    [header].into_iter().chain(bars.series.iter().flat_map(of)).collect()
}

/// Named points, drawn in one colour.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// `(x, y)` in the order in which a line goes through them.
    pub points: Vec<(f64, f64)>,
    #[serde(skip)]
    mark: Mark,
}

impl Series {
    /// Points joined by a line.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), mark: Mark::Line }
    }

    /// Points without a line: a scatter chart.
    pub fn scatter(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { mark: Mark::Points, ..Self::line(name, points) }
    }

    /// A line with a marker at each point, for few points.
    #[must_use]
    pub fn with_markers(self) -> Self {
        Self { mark: Mark::Both, ..self }
    }
}

/// A grey mark beside the data: a target, an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Reference {
    Across(f64, String),
    Upright(f64, String),
}

impl Reference {
    fn across(&self) -> Option<f64> {
        if let Self::Across(y, _) = self { Some(*y) } else { None }
    }

    fn upright(&self) -> Option<f64> {
        if let Self::Upright(x, _) = self { Some(*x) } else { None }
    }

    fn has_place(&self, plot: &Plot) -> bool {
        self.across().is_none_or(|y| plot.y.shows(y)) && self.upright().is_none_or(|x| plot.x.shows(x))
    }

    fn draw(&self, sheet: &Area<'_>, (columns, rows): &Field, place: &dyn Fn((f64, f64)) -> Pixel) -> Drawn {
        // Any value of the other axis will do; this one can be shown on every scale.
        let row = |y| place((1.0, y)).1;
        let line = |ends: [Pixel; 2]| sheet.draw(&PathElement::new(ends, REFERENCE.stroke_width(1)));
        let (label, at, side) = match self {
            Self::Across(y, label) => {
                line([(columns.start, row(*y)), (columns.end, row(*y))])?;
                (label, (columns.end - 4, row(*y) - 2), HPos::Right)
            }
            Self::Upright(x, label) => {
                let column = place((*x, 1.0)).0;
                line([(column, rows.start), (column, rows.end)])?;
                (label, (column + 4, rows.start + 14), HPos::Left)
            }
        };
        canvas::text(sheet, label, 14, REFERENCE, at, Pos::new(side, VPos::Bottom))
    }
}

/// Columns and rows of pixels between the axes.
type Field = (Range<i32>, Range<i32>);
type Axes<'a, 'b> = DualCoordChartContext<'a, SVGBackend<'b>, Cartesian2d<Span, Span>, Cartesian2d<Span, Span>>;

/// Series over two or three axes. Memory and the size of the SVG are O(points).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    pub(crate) right: Option<(Axis, Vec<Series>)>,
    references: Vec<Reference>,
}

impl Plot {
    /// An empty chart.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), right: None, references: Vec::new() }
    }

    /// Adds a series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a second y axis on the right, with its series. Replaces an existing one.
    #[must_use]
    pub fn right(self, axis: Axis, series: impl IntoIterator<Item = Series>) -> Self {
        Self { right: Some((axis, series.into_iter().collect())), ..self }
    }

    /// Adds a horizontal line at this value of the left axis.
    #[must_use]
    pub fn reference_at(mut self, y: f64, label: impl Into<String>) -> Self {
        self.references.push(Reference::Across(y, label.into()));
        self
    }

    /// Adds a vertical line at this value of the x axis.
    #[must_use]
    pub fn reference_when(mut self, x: f64, label: impl Into<String>) -> Self {
        self.references.push(Reference::Upright(x, label.into()));
        self
    }

    /// The chart as SVG. Equal charts give equal bytes.
    pub fn svg(&self) -> String {
        let (shown, hidden) = self.counts();
        let note = match (shown, hidden) {
            (0, 0) => "no data: every series is empty".to_owned(),
            (_, 0) => String::new(),
            _ => format!("{hidden} points not shown: not a number, or not positive on a logarithmic axis"),
        };
        Frame { title: &self.title, width: canvas::WIDTH, legend: self.legend(), note }
            .picture(|sheet, area| self.draw(sheet, area))
    }

    /// The series of the left and of the right axis, each with its axis.
    fn all_series(&self) -> impl Iterator<Item = (&Axis, &Series)> {
        let right = self.right.iter().flat_map(|(axis, series)| series.iter().map(move |series| (axis, series)));
        self.series.iter().map(|series| (&self.y, series)).chain(right)
    }

    /// Points that can, and that cannot be shown.
    fn counts(&self) -> (usize, usize) {
        let of = |(axis, series): (&Axis, &Series)| (self.visible(axis, series).count(), series.points.len());
        let (shown, all) = self.all_series().map(of).fold((0, 0), |(a, b), (shown, all)| (a + shown, b + all));
        (shown, all - shown)
    }

    fn visible<'a>(&'a self, axis: &'a Axis, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
        series.points.iter().copied().filter(|&(x, y)| self.x.shows(x) && axis.shows(y))
    }

    fn pens(&self) -> impl Iterator<Item = Pen> {
        self.all_series().enumerate().map(|(number, (_, series))| Pen::new(number, series.mark))
    }

    fn legend(&self) -> Vec<LegendEntry> {
        let name = |(side, (_, series)): (bool, (&Axis, &Series))| {
            if side { format!("{} (right)", series.name) } else { series.name.clone() }
        };
        let sides = (0..).map(|number| number >= self.series.len());
        self.pens().zip(sides.zip(self.all_series()).map(name)).collect()
    }

    /// The ranges of the axes: x, left, right.
    fn spans(&self) -> [Span; 3] {
        let visible = |(axis, series)| self.visible(axis, series);
        let x = self.all_series().flat_map(visible).map(|(x, _)| x);
        let upright = self.references.iter().filter_map(Reference::upright);
        let y = self.series.iter().flat_map(|series| self.visible(&self.y, series)).map(|(_, y)| y);
        let across = self.references.iter().filter_map(Reference::across);
        let left = self.y.span_with_room(y.chain(across));
        let right = match &self.right {
            Some((axis, series)) => {
                axis.span_with_room(series.iter().flat_map(|series| self.visible(axis, series)).map(|(_, y)| y))
            }
            None => left.clone(),
        };
        [self.x.span(x.chain(upright)), left, right]
    }

    fn draw(&self, sheet: &Area<'_>, area: &Area<'_>) -> Drawn {
        let [x, left, right] = self.spans();
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .x_label_area_size(46)
            .y_label_area_size(70)
            .right_y_label_area_size(if self.right.is_some() { 70 } else { 20 })
            .build_cartesian_2d(x.clone(), left)?
            .set_secondary_coord(x, right);
        self.draw_axes(&mut chart)?;
        let field = chart.plotting_area().get_pixel_range();
        for reference in self.references.iter().filter(|reference| reference.has_place(self)) {
            reference.draw(sheet, &field, &|point| chart.plotting_area().map_coordinate(&point))?;
        }
        for (pen, (number, (axis, series))) in self.pens().zip(self.all_series().enumerate()) {
            let is_left = number < self.series.len();
            let place = |point| match is_left {
                true => chart.plotting_area().map_coordinate(&point),
                false => chart.secondary_plotting_area().map_coordinate(&point),
            };
            pen.trace(sheet, self.visible(axis, series).map(place).collect())?;
        }
        Ok(())
    }

    fn draw_axes(&self, chart: &mut Axes<'_, '_>) -> Drawn {
        chart
            .configure_mesh()
            .x_desc(self.x.label())
            .y_desc(self.y.label())
            .max_light_lines(0)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(canvas::font(15, INK))
            .axis_desc_style(canvas::font(17, INK))
            .draw()?;
        let Some((axis, _)) = &self.right else { return Ok(()) };
        chart
            .configure_secondary_axes()
            .y_desc(axis.label())
            .axis_style(INK)
            .label_style(canvas::font(15, INK))
            .axis_desc_style(canvas::font(17, INK))
            .draw()
    }
}

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

    /// What the axis must show of a bar: its value behind the ends of its error bar, if that is valid.
    fn ends(&self, bar: Bar) -> Vec<f64> {
        let error = bar.error.filter(|&(low, high)| self.y.shows(low) && self.y.shows(high));
        error.map_or_else(|| vec![bar.value], |(low, high)| vec![low, high, bar.value])
    }
}

fn whisker(sheet: &Area<'_>, (x, low): Pixel, (_, high): Pixel) -> Drawn {
    let lines = [[(x, low), (x, high)], [(x - 4, low), (x + 4, low)], [(x - 4, high), (x + 4, high)]];
    lines.into_iter().try_for_each(|line| sheet.draw(&PathElement::new(line, INK.stroke_width(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_every_point_and_quotes_names() {
        let plot = Plot::new("t", Axis::linear("time", "s"), Axis::linear("rate", "MB/s"))
            .series(Series::line("a, \"b\"", [(0.0, 1.5), (1.0, f64::NAN)]))
            .right(Axis::linear("depth", ""), [Series::line("c", [(0.1, 4.0)])]);
        let lines = "series,time [s],rate [MB/s]\n\"a, \"\"b\"\"\",0,1.5\n\"a, \"\"b\"\"\",1,NaN\nseries,time [s],depth\nc,0.1,4\n";
        assert_eq!(Chart::from(plot).csv(), lines);
    }

    #[test]
    fn csv_has_every_bar() {
        let bars = Bars::new("t", Axis::linear("time", "s"), ["x"])
            .series("a", [Bar { value: 1.0, error: Some((0.5, 2.0)) }, Bar::new(3.0)]);
        assert_eq!(Chart::from(bars).csv(), "group,series,time [s],low,high\nx,a,1,0.5,2\n,a,3,,\n");
    }

    #[test]
    fn json_has_the_data_and_null_for_what_is_no_number() {
        let plot = Plot::new("t", Axis::linear("x", ""), Axis::log("y", "s"))
            .series(Series::line("a", [(0.0, 1.5), (1.0, f64::NAN)]));
        let json = serde_json::to_value(Chart::from(plot)).unwrap();
        assert_eq!(json["kind"], "plot");
        assert_eq!(json["y"]["unit"], "s");
        assert_eq!(json["series"][0]["points"], serde_json::json!([[0.0, 1.5], [1.0, null]]));
    }

    fn plot(series: impl IntoIterator<Item = Series>) -> Plot {
        let plot = Plot::new("Latency <&> \"depth\"", Axis::log2("depth", ""), Axis::linear("latency", "ms"));
        series.into_iter().fold(plot, Plot::series)
    }

    /// Parses the SVG strictly and counts elements of a kind with this value of an attribute.
    fn count(svg: &str, tag: &str, attribute: &str, value: &str) -> usize {
        let document = roxmltree::Document::parse(svg).unwrap();
        let of_kind = document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", tag)));
        of_kind.filter(|node| node.attribute(attribute) == Some(value)).count()
    }

    #[test]
    fn every_kind_of_series_and_reference_is_drawn() {
        let points = [(1.0, 2.0), (4.0, 3.0), (64.0, 9.0)];
        let all =
            plot([Series::line("a", points), Series::scatter("b", points), Series::line("c", points).with_markers()])
                .right(Axis::linear("throughput", "MB/s"), [Series::line("d", points)])
                .reference_at(2.0, "target")
                .reference_when(8.0, "change")
                .svg();
        assert_eq!(count(&all, "polyline", "stroke-width", "2"), 3 * 2, "three lines, each also in the legend");
        assert_eq!(count(&all, "polyline", "stroke", "#808080"), 2, "reference lines");
        assert_eq!(count(&all, "polygon", "fill", "#D55E00"), 3 + 1, "triangles, and one in the legend");
        for text in ["target", "change", "throughput [MB/s]", "latency [ms]", "d (right)"] {
            assert!(all.contains(text), "{text}");
        }
    }

    #[test]
    fn names_are_escaped() {
        let svg = plot([Series::line("</text><script>\0&'\"", [(1.0, 1.0)])]).svg();
        let document = roxmltree::Document::parse(&svg).unwrap();
        assert!(!document.descendants().any(|node| node.has_tag_name("script")));
        let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).map(str::trim).collect();
        assert!(texts.contains(&"</text><script>\u{FFFD}&'\""), "{texts:?}");
        assert!(texts.contains(&"Latency <&> \"depth\""), "{texts:?}");
    }

    #[test]
    fn hidden_values_are_noted() {
        assert!(plot([]).svg().contains("no data: every series is empty"));
        assert!(plot([Series::line("a", [])]).svg().contains("no data"));
        let svg = plot([Series::scatter("a", [(0.0, 1.0), (1.0, f64::NAN), (2.0, 1.0)])]).svg();
        assert!(svg.contains("2 points not shown"), "zero has no logarithm, and NaN no place");
        assert_eq!(count(&svg, "circle", "r", "4"), 1 + 1);
        assert!(!plot([Series::line("a", [(1.0, 1.0)])]).svg().contains("not shown"));
    }

    #[test]
    fn extreme_values_do_not_break_the_picture() {
        for points in [vec![(1.0, f64::MAX), (2.0, f64::MIN)], vec![(f64::MAX, 0.0)], vec![(f64::MIN_POSITIVE, 1e-300)]]
        {
            for y in [Axis::linear("y", ""), Axis::log("y", "")] {
                let plot = Plot::new("t", Axis::log("x", ""), y).series(Series::line("a", points.clone()));
                roxmltree::Document::parse(&plot.svg()).unwrap();
            }
        }
    }

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
    fn hidden_bars_are_noted() {
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
    }
}

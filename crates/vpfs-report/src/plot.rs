//! Line charts and scatter charts.

use std::ops::Range;

use plotters::chart::DualCoordChartContext;
use plotters::prelude::{Cartesian2d, ChartBuilder, Color, PathElement, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Serialize;

use crate::axis::{Axis, Span};
use crate::canvas::{self, Area, Drawn, Frame, GRID, INK, LegendEntry, Mark, Pen, Pixel, REFERENCE};

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
    /// Value of the left axis.
    fn across(&self) -> Option<f64> {
        if let Self::Across(y, _) = self { Some(*y) } else { None }
    }

    /// Value of the x axis.
    fn upright(&self) -> Option<f64> {
        if let Self::Upright(x, _) = self { Some(*x) } else { None }
    }

    fn has_place(&self, plot: &Plot) -> bool {
        self.across().is_none_or(|y| plot.y.shows(y)) && self.upright().is_none_or(|x| plot.x.shows(x))
    }

    /// Draws the line and its label across the columns and rows of the plot.
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
/// The axes of a plot.
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
    pub(crate) fn all_series(&self) -> impl Iterator<Item = (&Axis, &Series)> {
        let right = self.right.iter().flat_map(|(axis, series)| series.iter().map(move |series| (axis, series)));
        self.series.iter().map(|series| (&self.y, series)).chain(right)
    }

    /// Numbers of points that can and that cannot be shown.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn equal_plots_give_equal_bytes() {
        let make = || plot([Series::line("a", (1..100).map(|x| (f64::from(x), f64::from(x).sqrt())))]).svg();
        assert_eq!(make(), make());
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
}

//! The canvas that charts are drawn on: colours, title, legend, and the SVG around them.

use maud::{PreEscaped, html};
use plotters::coord::Shift;
use plotters::prelude::{
    Circle, Color, Cross, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, IntoFont, PathElement, RGBColor,
    Rectangle, SVGBackend, Text, TextStyle, TriangleMarker,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Text and axes; the dark theme replaces it.
pub(crate) const INK: RGBColor = RGBColor(0x20, 0x20, 0x20);
/// Lines behind the data; the dark theme replaces it.
pub(crate) const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
/// Reference lines, visible in both themes.
pub(crate) const REFERENCE: RGBColor = RGBColor(0x80, 0x80, 0x80);
const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);

/// Colours that colour-blind readers can distinguish, by Okabe and Ito, without yellow and black, each of which
/// vanishes in one of the themes.
const PALETTE: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
];

/// Replaces the colours above if the reader prefers a dark page: style rules take precedence over SVG's colour
/// attributes.
const STYLE: &str = "svg.chart{max-width:100%;height:auto}\
@media (prefers-color-scheme:dark){\
svg.chart [fill='#202020']{fill:#e4e4e4}svg.chart [stroke='#202020']{stroke:#e4e4e4}\
svg.chart [stroke='#DDDDDD']{stroke:#3c3c3c}svg.chart [fill='#FFFFFF']{fill:#161616}}";

/// A point on the canvas.
pub(crate) type Pixel = (i32, i32);
/// An error while drawing, which a caller cannot cause, as charts are drawn into a string.
pub(crate) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

pub(crate) const WIDTH: u32 = 760;
/// Height of axes and data.
const BODY: u32 = 360;
const MARGIN: u32 = 12;
const TITLE: u32 = 30;
const ROW: u32 = 20;
/// Rough width of a letter of the legend and labels.
pub(crate) const LETTER: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mark {
    Line,
    Points,
    Both,
    Bar,
}

/// Colour and marker of the series with this number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pen {
    mark: Mark,
    number: usize,
}

impl Pen {
    pub(crate) fn new(number: usize, mark: Mark) -> Self {
        Self { mark, number }
    }

    fn color(self) -> RGBColor {
        PALETTE[self.number % PALETTE.len()]
    }

    /// The marker of a point. Markers change with each series, so that no two of the first thirty look alike.
    fn sign(self, sheet: &Area<'_>, at: Pixel) -> Drawn {
        let (color, (x, y)) = (self.color(), at);
        match self.number % 5 {
            0 => sheet.draw(&Circle::new(at, 4, color.filled())),
            1 => sheet.draw(&TriangleMarker::new(at, 5, color.filled())),
            2 => sheet.draw(&Rectangle::new([(x - 3, y - 3), (x + 4, y + 4)], color.filled())),
            3 => sheet.draw(&Cross::new(at, 4, color.stroke_width(2))),
            _ => sheet.draw(&Circle::new(at, 4, color.stroke_width(2))),
        }
    }

    pub(crate) fn trace(self, sheet: &Area<'_>, places: Vec<Pixel>) -> Drawn {
        if matches!(self.mark, Mark::Points | Mark::Both) {
            places.iter().try_for_each(|&at| self.sign(sheet, at))?;
        }
        if matches!(self.mark, Mark::Line | Mark::Both) {
            sheet.draw(&PathElement::new(places, self.color().stroke_width(2)))?;
        }
        Ok(())
    }

    pub(crate) fn bar(self, sheet: &Area<'_>, corners: [Pixel; 2]) -> Drawn {
        sheet.draw(&Rectangle::new(corners, self.color().filled()))
    }
}

pub(crate) fn text(sheet: &Area<'_>, text: &str, size: i32, color: RGBColor, at: Pixel, anchor: Pos) -> Drawn {
    sheet.draw(&Text::new(text, at, font(size, color).pos(anchor)))
}

pub(crate) fn font(size: i32, color: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&color)
}

pub(crate) type LegendEntry = (Pen, String);

/// Everything around the data of a chart.
pub(crate) struct Frame<'c> {
    pub(crate) title: &'c str,
    pub(crate) width: u32,
    pub(crate) legend: Vec<LegendEntry>,
    /// What the chart does not show, and why; empty if it shows all data.
    pub(crate) note: String,
}

impl Frame<'_> {
    /// The chart: title, legend, what `body` draws into the area left for it, and the note.
    ///
    /// `body` draws in pixels of the whole canvas, its first argument; the second is the area for its axes.
    pub(crate) fn picture(&self, body: impl FnOnce(&Area<'_>, &Area<'_>) -> Drawn) -> String {
        let (places, rows) = self.legend_places();
        let top = TITLE + rows * ROW;
        let bottom = if self.note.is_empty() { 0 } else { ROW };
        let size = (self.width, top + BODY + bottom);
        let mut svg = String::new();
        let sheet = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        self.draw(&sheet, &places, (top, top + BODY), body).expect("drawing into memory does not fail");
        drop(sheet);
        self.envelope(&svg, size)
    }

    fn draw(
        &self,
        sheet: &Area<'_>,
        places: &[Pixel],
        (top, end): (u32, u32),
        body: impl FnOnce(&Area<'_>, &Area<'_>) -> Drawn,
    ) -> Drawn {
        sheet.fill(&PAPER)?;
        let middle = Pos::new(HPos::Center, VPos::Center);
        let (across, down) = (i32::try_from(self.width), i32::try_from(end + ROW / 2));
        let (across, down) = (across.unwrap_or(i32::MAX), down.unwrap_or(i32::MAX));
        text(sheet, self.title, 20, INK, (across / 2, 18), middle)?;
        for ((pen, name), &at) in self.legend.iter().zip(places) {
            entry(sheet, *pen, name, at)?;
        }
        text(sheet, &self.note, 14, INK, (across / 2, down), middle)?;
        let (_, below) = sheet.split_vertically(top);
        let (area, _) = below.split_vertically(end - top);
        body(sheet, &area)?;
        sheet.present()
    }

    /// Where each entry of the legend starts, and the number of rows.
    fn legend_places(&self) -> (Vec<Pixel>, u32) {
        let (mut x, mut row) = (MARGIN, 0);
        let mut places = Vec::with_capacity(self.legend.len());
        for (_, name) in &self.legend {
            let width = 40 + LETTER * length(name);
            if x > MARGIN && x + width > self.width {
                (x, row) = (MARGIN, row + 1);
            }
            let y = TITLE + row * ROW + ROW / 2;
            places.push((i32::try_from(x).unwrap_or(i32::MAX), i32::try_from(y).unwrap_or(i32::MAX)));
            x += width;
        }
        let rows = if places.is_empty() { 0 } else { row + 1 };
        (places, rows)
    }

    /// The drawn elements in an SVG element of our own, with a title for screen readers, and both themes.
    fn envelope(&self, svg: &str, (width, height): (u32, u32)) -> String {
        let (_, rest) = svg.split_once('>').expect("a picture begins with a tag");
        let inside = rest.trim_end().strip_suffix("</svg>").expect("a picture ends with its tag");
        let view = format!("0 0 {width} {height}");
        let markup = html! {
            svg class="chart" xmlns="http://www.w3.org/2000/svg" role="img" width=(width) height=(height) viewBox=(view) {
                title { (self.title) }
                style { (PreEscaped(STYLE)) }
                (PreEscaped(inside))
            }
        };
        markup.into_string().replace(not_xml, "\u{FFFD}")
    }
}

fn entry(sheet: &Area<'_>, pen: Pen, name: &str, (x, y): Pixel) -> Drawn {
    match pen.mark {
        Mark::Bar => pen.bar(sheet, [(x, y - 6), (x + 24, y + 6)])?,
        Mark::Line => pen.trace(sheet, vec![(x, y), (x + 24, y)])?,
        Mark::Points => pen.trace(sheet, vec![(x + 12, y)])?,
        Mark::Both => {
            Pen { mark: Mark::Points, ..pen }.trace(sheet, vec![(x + 12, y)])?;
            Pen { mark: Mark::Line, ..pen }.trace(sheet, vec![(x, y), (x + 24, y)])?;
        }
    }
    text(sheet, name, 16, INK, (x + 30, y), Pos::new(HPos::Left, VPos::Center))
}

/// Characters that XML 1.0 cannot contain, not even escaped.
fn not_xml(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{FFFE}' | '\u{FFFF}')
}

pub(crate) fn length(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX / LETTER / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(names: &[&str]) -> Frame<'static> {
        let entry = |(number, name): (usize, &&str)| (Pen::new(number, Mark::Line), (*name).to_owned());
        let legend = names.iter().enumerate().map(entry).collect();
        Frame { title: "t", width: 400, legend, note: String::new() }
    }

    #[test]
    fn a_long_legend_takes_more_rows() {
        assert_eq!(frame(&[]).legend_places().1, 0);
        assert_eq!(frame(&["one", "two"]).legend_places().1, 1);
        let (places, rows) = frame(&["twenty letters or so"; 4]).legend_places();
        assert_eq!(rows, 4 / 2 + 2, "one in each row, as each takes half the width and more");
        assert!(places.is_sorted_by_key(|&(_, y)| y));
    }

    #[test]
    fn no_two_of_thirty_series_look_alike() {
        let looks = |n: usize| (Pen::new(n, Mark::Points).color(), n % 5);
        for a in 0..30 {
            assert!((0..a).all(|b| looks(a) != looks(b)), "{a}");
        }
    }
}

//! The parts of a report, and the report as a page and as text for a terminal.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table as Grid};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use serde_json::json;

use crate::check::{CONCLUSIONS, VALUES};
use crate::{Chart, Check, Conclusion, Tally, Verdict};

/// A table of text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    pub(crate) headings: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>) -> Self {
        Self { headings: headings.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. Short rows end in empty cells; cells beyond the last heading are shown too.
    #[must_use]
    pub fn row<C: Into<String>>(mut self, cells: impl IntoIterator<Item = C>) -> Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Item {
    Text(String),
    Figure { chart: Box<Chart>, caption: String },
    Table(Table),
}

/// A heading, conclusions, values, and below these the other items in the order in which they were added.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    pub(crate) heading: String,
    pub(crate) conclusions: Vec<Conclusion>,
    pub(crate) checks: Vec<Check>,
    pub(crate) items: Vec<Item>,
}

impl Section {
    /// An empty section.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), conclusions: Vec::new(), checks: Vec::new(), items: Vec::new() }
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn text(mut self, paragraph: impl Into<String>) -> Self {
        self.items.push(Item::Text(paragraph.into()));
        self
    }

    /// Adds a chart with a caption, which may be empty.
    #[must_use]
    pub fn figure(mut self, chart: impl Into<Chart>, caption: impl Into<String>) -> Self {
        self.items.push(Item::Figure { chart: Box::new(chart.into()), caption: caption.into() });
        self
    }

    /// Adds a table, unless it has no rows.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        if !table.rows.is_empty() {
            self.items.push(Item::Table(table));
        }
        self
    }

    /// Adds a conclusion. A report shows those of all its sections first.
    #[must_use]
    pub fn conclusion(mut self, conclusion: Conclusion) -> Self {
        self.conclusions.push(conclusion);
        self
    }

    /// Adds a value.
    #[must_use]
    pub fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Its heading, conclusions and values only.
    pub fn outline(&self) -> Self {
        Self { items: Vec::new(), ..self.clone() }
    }

    /// The section's charts, in order.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.items.iter().filter_map(|item| match item {
            Item::Figure { chart, .. } => Some(&**chart),
            Item::Text(_) | Item::Table(_) => None,
        })
    }

    /// The whole section as JSON, with the verdict of each conclusion and value; a value that is not a number becomes
    /// null. `made` says of what, when and where it was made.
    pub fn json(&self, made: &serde_json::Value) -> serde_json::Value {
        let conclusions = self.conclusions.iter().map(|row| json!({ "conclusion": row, "verdict": row.verdict() }));
        let checks = self.checks.iter().map(|row| json!({ "check": row, "verdict": row.verdict() }));
        let (conclusions, checks): (Vec<_>, Vec<_>) = (conclusions.collect(), checks.collect());
        json!({
            "heading": self.heading, "made": made, "conclusions": conclusions, "checks": checks, "items": self.items
        })
    }

    /// Its conclusions.
    pub fn conclusions(&self) -> &[Conclusion] {
        &self.conclusions
    }

    /// Its values.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }
}

/// What a headline means, for those who see colours; its text says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// All is well.
    Good,
    /// To be looked at.
    Fair,
    /// Something is wrong.
    Bad,
}

/// A title, an introduction and sections. See the crate's example.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub(crate) title: String,
    pub(crate) headline: Option<(Tone, String)>,
    pub(crate) introduction: Vec<String>,
    pub(crate) links: Vec<(String, String)>,
    pub(crate) sections: Vec<Section>,
}

impl Report {
    /// A report without sections.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), headline: None, introduction: Vec::new(), links: Vec::new(), sections: Vec::new() }
    }

    /// Sets what is said first of all.
    #[must_use]
    pub fn headline(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.headline = Some((tone, text.into()));
        self
    }

    /// Adds a paragraph before the first section.
    #[must_use]
    pub fn introduction(mut self, paragraph: impl Into<String>) -> Self {
        self.introduction.push(paragraph.into());
        self
    }

    /// Adds a link to another page, which is named relative to this one.
    #[must_use]
    pub fn link(mut self, title: impl Into<String>, page: impl Into<String>) -> Self {
        self.links.push((title.into(), page.into()));
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    pub(crate) fn conclusions(&self) -> impl Iterator<Item = &Conclusion> {
        self.sections.iter().flat_map(|section| &section.conclusions)
    }

    /// How many conclusions hold, and how many values agree with a paper.
    pub fn tally(&self) -> Tally {
        Tally::of(self.conclusions(), self.sections.iter().flat_map(|section| &section.checks))
    }
}

/// Verdicts are shown by a word too, never by colour alone. On a narrow screen each row of a table is a list of its
/// own, so that nothing is cut off.
const STYLE: &str = "\
:root{color-scheme:light dark;--line:#ccc;--soft:#f4f4f4;--good:#00654a;--fair:#7a5a00;--bad:#a64000}\
@media (prefers-color-scheme:dark){:root{--line:#444;--soft:#242424;--good:#3fcf9f;--fair:#e8c14a;--bad:#ff9a4d}}\
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:1rem;overflow-wrap:break-word}\
h1{font-size:1.5rem}h2{font-size:1.2rem}\
.headline{border-left:.4rem solid var(--line);padding:.5rem .8rem;background:var(--soft);font-size:1.1rem}\
.good{border-color:var(--good)}.fair{border-color:var(--fair)}.bad{border-color:var(--bad)}\
table{border-collapse:collapse;margin:1rem 0}\
th,td{border:1px solid var(--line);padding:.25rem .6rem;text-align:left;vertical-align:top}\
th{background:var(--soft)}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
figure{margin:1.5rem 0}figcaption{font-size:.9rem}\
.passes{color:var(--good);font-weight:600}.differs{color:var(--bad);font-weight:600}\
@media screen and (max-width:48rem){\
table,tbody,tr,td{display:block}thead{display:none}tr{border:1px solid var(--line);margin:.5rem 0;overflow-wrap:anywhere}\
td{border:0;text-align:right;padding:.1rem .6rem;display:flow-root}.n{white-space:normal}\
td::before{content:attr(data-label);float:left;margin-right:1rem;opacity:.75}\
td:empty{display:none}td:first-child{background:var(--soft);font-weight:600}}\
@media print{:root{color-scheme:light}body{font-size:11px}svg{max-width:13cm}nav{display:none}figure,tr{break-inside:avoid}h2{break-after:avoid}}";

impl Report {
    /// One self-contained HTML page without scripts. All text is escaped. Equal reports give equal bytes.
    pub fn html(&self) -> String {
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    h1 { (self.title) }
                    @if let Some((tone, text)) = &self.headline { p class={ "headline " (class(*tone)) } { (text) } }
                    @for paragraph in &self.introduction { p { (paragraph) } }
                    @if self.tally() != Tally::default() { p { strong { (self.tally()) } } }
                    (links(&self.links))
                    (rows(CONCLUSIONS, self.conclusions().map(|row| (row.verdict(), row.cells()))))
                    (contents(self))
                    @for (number, section) in self.sections.iter().enumerate() { (section_html(number, section)) }
                }
            }
        };
        markup.into_string()
    }
}

const fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Fair => "fair",
        Tone::Bad => "bad",
    }
}

fn links(links: &[(String, String)]) -> Markup {
    html! { @if !links.is_empty() { nav { ul { @for (title, page) in links { li { a href=(page) { (title) } } } } } } }
}

/// The table of contents, with the verdicts of each section if there are any.
fn contents(report: &Report) -> Markup {
    let sections = report.sections.iter().enumerate();
    if report.tally() == Tally::default() {
        return html! {
            nav { ul { @for (number, section) in sections { li { a href={ "#s" (number) } { (section.heading) } } } } }
        };
    }
    html! {
        nav {
            table {
                thead { tr { th { "section" } @for heading in COUNTS { th { (heading) } } } }
                tbody {
                    @for (number, section) in sections {
                        tr {
                            td data-label="section" { a href={ "#s" (number) } { (section.heading) } }
                            (counts(Tally::of(&section.conclusions, &section.checks)))
                        }
                    }
                }
            }
        }
    }
}

const COUNTS: [&str; 4] = ["conclusions", "hold", "values", "agree"];

fn counts(tally: Tally) -> Markup {
    let Tally { hold, conclusions, agree, evidence } = tally;
    let counts = [(conclusions, 0), (hold, conclusions), (evidence, 0), (agree, evidence)];
    html! {
        @for (heading, (count, all)) in COUNTS.into_iter().zip(counts) {
            td data-label=(heading) class=[(count < all).then_some("differs")] { (count) }
        }
    }
}

fn section_html(number: usize, section: &Section) -> Markup {
    html! {
        section id={ "s" (number) } {
            h2 { (section.heading) }
            (rows(VALUES, section.checks.iter().map(|row| (row.verdict(), row.cells()))))
            @for item in &section.items { (of_item(item)) }
        }
    }
}

/// Verdicts with their rows; nothing without any.
fn rows<const N: usize>(headings: [&str; N], rows: impl Iterator<Item = (Verdict, [String; N])>) -> Markup {
    let rows: Vec<_> = rows.collect();
    let class = |verdict: Verdict| if verdict == Verdict::Passes { "passes" } else { "differs" };
    html! {
        @if !rows.is_empty() {
            table {
                thead { tr { @for heading in headings { th { (heading) } } } }
                tbody {
                    @for (verdict, cells) in rows {
                        tr {
                            @for (heading, cell) in headings.into_iter().zip(cells) {
                                td data-label=(heading) class=[heading.starts_with("verdict").then(|| class(verdict))] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn of_item(item: &Item) -> Markup {
    match item {
        Item::Text(paragraph) => html! { p { (paragraph) } },
        Item::Figure { chart, caption } => html! {
            figure {
                (PreEscaped(chart.svg()))
                @if !caption.is_empty() { figcaption { (caption) } }
            }
        },
        Item::Table(table) => of_table(table),
    }
}

/// Columns of numbers are aligned as such.
fn of_table(Table { headings, rows }: &Table) -> Markup {
    let is_of_numbers = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column));
        cells.clone().any(|cell| !cell.is_empty()) && cells.all(|cell| cell.is_empty() || is_number(cell))
    };
    let class = |column: usize| is_of_numbers(column).then_some("n");
    html! {
        table {
            thead {
                tr { @for (column, heading) in headings.iter().enumerate() { th class=[class(column)] { (heading) } } }
            }
            tbody {
                @for row in rows {
                    tr {
                        @for (column, cell) in row.iter().enumerate() {
                            td data-label=[headings.get(column)] class=[class(column)] { (cell) }
                        }
                    }
                }
            }
        }
    }
}

/// With a unit, or the absence of a number, too.
fn is_number(cell: &str) -> bool {
    let number = cell.trim_end_matches(|char: char| char.is_alphabetic() || "% µ/".contains(char));
    cell == "-" || number.parse::<f64>().is_ok()
}

/// Largest width of a table.
const COLUMNS: u16 = 120;

impl Report {
    /// All conclusions without their reasons and how many of them hold, for a terminal of at least 120 columns.
    pub fn summary(&self) -> String {
        let rows = self.conclusions().map(|row| row.cells().into_iter().take(CONCLUSIONS.len() - 1));
        format!("{}\n{}", grid(&CONCLUSIONS[..CONCLUSIONS.len() - 1], rows), self.tally())
    }

    /// For a terminal of at least 120 columns: text, tables and verdicts; charts are represented by title and caption.
    pub fn text(&self) -> String {
        let mut page = format!("{}\n{}\n", self.title, "=".repeat(self.title.chars().count()));
        for paragraph in self.headline.iter().map(|(_, text)| text).chain(&self.introduction) {
            let _ = write!(page, "\n{paragraph}\n");
        }
        if self.tally() != Tally::default() {
            let _ = write!(page, "\n{}\n", self.tally());
        }
        if self.conclusions().next().is_some() {
            let _ = write!(page, "\n{}\n", grid(&CONCLUSIONS, self.conclusions().map(Conclusion::cells)));
        }
        self.sections.iter().for_each(|section| page.push_str(&section_text(section)));
        page
    }
}

fn section_text(section: &Section) -> String {
    let mut text = format!("\n{}\n{}\n", section.heading, "-".repeat(section.heading.chars().count()));
    if !section.checks.is_empty() {
        let rows = section.checks.iter().map(Check::cells);
        let _ = write!(text, "\n{}\n", grid(&VALUES, rows));
    }
    for item in &section.items {
        let _ = match item {
            Item::Text(paragraph) => write!(text, "\n{paragraph}\n"),
            Item::Figure { chart, caption } => write!(text, "\n[chart] {}. {caption}\n", chart.title()),
            Item::Table(Table { headings, rows }) => write!(text, "\n{}\n", grid(headings, rows.iter().cloned())),
        };
    }
    text
}

/// A table; cells are wrapped where it would be too wide.
fn grid<R: IntoIterator<Item = String>>(headings: &[impl AsRef<str>], rows: impl Iterator<Item = R>) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic).set_width(COLUMNS);
    grid.set_header(headings.iter().map(|heading| heading.as_ref().to_owned()));
    rows.for_each(|row| {
        grid.add_row(row);
    });
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_known_with_their_units() {
        for (cell, expected) in [
            ("12", true),
            ("-0.5", true),
            ("38%", true),
            ("25 %", true),
            ("0.11ms", true),
            ("12.3 MB/s", true),
            ("-", true),
            ("s1", false),
            ("2 of 3", false),
            ("", false),
            ("behind a 30%", false),
        ] {
            assert_eq!(is_number(cell), expected, "{cell}");
        }
    }
}

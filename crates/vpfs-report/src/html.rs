//! The report as a page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::check::{CONCLUSIONS, VALUES};
use crate::report::Item;
use crate::{Report, Section, Table, Tally, Tone, Verdict};

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
                    @for (number, section) in self.sections.iter().enumerate() { (of_section(number, section)) }
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

/// Headings of [`counts`].
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

fn of_section(number: usize, section: &Section) -> Markup {
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

/// A number, perhaps with a unit, or the absence of one.
fn is_number(cell: &str) -> bool {
    let number = cell.trim_end_matches(|char: char| char.is_alphabetic() || "% µ/".contains(char));
    cell == "-" || number.parse::<f64>().is_ok()
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

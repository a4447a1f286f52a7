//! The report as a page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::check::HEADINGS;
use crate::report::Item;
use crate::{Check, Report, Section, Table, Tally, Verdict};

/// Verdicts are shown by a word too, never by colour alone.
const STYLE: &str = "\
:root{color-scheme:light dark;--line:#ccc;--soft:#f4f4f4;--good:#00654a;--bad:#a64000}\
@media (prefers-color-scheme:dark){:root{--line:#444;--soft:#242424;--good:#3fcf9f;--bad:#ff9a4d}}\
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:1rem}\
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}\
th,td{border:1px solid var(--line);padding:.25rem .6rem;text-align:left;vertical-align:top}\
th{background:var(--soft)}figure{margin:1.5rem 0}figcaption{font-size:.9rem}\
.passes{color:var(--good);font-weight:600}.differs{color:var(--bad);font-weight:600}";

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
                    @for paragraph in &self.introduction { p { (paragraph) } }
                    (contents(self))
                    @for (number, section) in self.sections.iter().enumerate() { (of_section(number, section)) }
                }
            }
        };
        markup.into_string()
    }
}

/// The table of contents, with the verdicts of each section and of all if there are any.
fn contents(report: &Report) -> Markup {
    let sections = report.sections.iter().enumerate();
    if report.tally() == Tally::default() {
        return html! {
            nav { ul { @for (number, section) in sections { li { a href={ "#s" (number) } { (section.heading) } } } } }
        };
    }
    html! {
        p { strong { (report.tally()) } }
        nav {
            table {
                thead { tr { th { "section" } th { "evidence" } th { "agrees" } th { "other rows" } th { "hold" } } }
                tbody {
                    @for (number, section) in sections {
                        tr {
                            td { a href={ "#s" (number) } { (section.heading) } }
                            (counts(Tally::of(&section.checks)))
                        }
                    }
                    tr { th { "all" } (counts(report.tally())) }
                }
            }
        }
    }
}

fn counts(tally: Tally) -> Markup {
    html! {
        td { (tally.evidence) }
        td class=[(tally.agree < tally.evidence).then_some("differs")] { (tally.agree) }
        td { (tally.others) }
        td { (tally.hold) }
    }
}

fn of_section(number: usize, section: &Section) -> Markup {
    html! {
        section id={ "s" (number) } {
            h2 { (section.heading) }
            @if !section.checks.is_empty() { (verdicts(&section.checks)) }
            @for item in &section.items { (of_item(item)) }
        }
    }
}

fn verdicts(checks: &[Check]) -> Markup {
    let class = |check: &Check| if check.verdict() == Verdict::Passes { "passes" } else { "differs" };
    html! {
        table {
            thead { tr { @for heading in HEADINGS { th { (heading) } } } }
            tbody {
                @for check in checks {
                    tr {
                        @for (heading, cell) in HEADINGS.into_iter().zip(check.cells()) {
                            td class=[(heading == "verdict").then(|| class(check))] { (cell) }
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
        Item::Table(Table { headings, rows }) => html! {
            table {
                thead { tr { @for heading in headings { th { (heading) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
        },
    }
}

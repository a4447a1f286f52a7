//! The report as text for a terminal.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table as Grid};

use crate::check::{CONCLUSIONS, VALUES};
use crate::report::Item;
use crate::{Check, Conclusion, Report, Section, Table, Tally};

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
        self.sections.iter().for_each(|section| page.push_str(&of_section(section)));
        page
    }
}

fn of_section(section: &Section) -> String {
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

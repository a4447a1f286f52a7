//! The table of the isolation experiment, and its verdict.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::{Comparison, Relation, Row};

/// Bytes in a MB, the paper's unit.
const MB: f64 = 1_000_000.0;

const HEADINGS: [&str; 10] = [
    "",
    "small app\nrun time",
    "relative\nto alone",
    "in the\npaper",
    "I/O time\nto alone",
    "KB/s of\ndata calls",
    "p99\nlatency",
    "checkpoint\nMB/s",
    "relative\nto alone",
    "Jain\nindex",
];

/// Table, statements and verdict.
pub(crate) fn table(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(HEADINGS);
    table.add_row(alone(comparison));
    table.add_rows(comparison.rows.iter().map(row));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{table}\n\n");
    statements(&mut text, &comparison.relations);
    let verdict = if comparison.matches_paper { "yes" } else { "no" };
    let _ = write!(text, "matches the paper's ordering: {verdict}");
    if !comparison.promises.is_empty() {
        text.push_str("\n\n");
        statements(&mut text, &comparison.promises);
        let kept = comparison.promises.iter().all(|promise| promise.holds);
        let _ = write!(text, "isolation serves both: {}", if kept { "yes" } else { "no" });
    }
    text
}

fn statements(text: &mut String, relations: &[Relation]) {
    for relation in relations {
        let mark = if relation.holds { "yes" } else { "NO" };
        let _ = writeln!(text, "  {:<52} ratio {:>6.2}   {mark}", relation.statement, relation.ratio);
    }
}

fn alone(comparison: &Comparison) -> [String; 10] {
    [
        "each alone".to_owned(),
        format!("{:.2} s", comparison.small_alone_seconds),
        "1.00".to_owned(),
        "1.00".to_owned(),
        "1.00".to_owned(),
        format!("{:.1}", comparison.small_alone_bytes_per_second / 1e3),
        milliseconds(comparison.small_alone_p99_seconds),
        format!("{:.1}", comparison.writer_alone_bytes_per_second / MB),
        "1.00".to_owned(),
        "-".to_owned(),
    ]
}

fn row(row: &Row) -> [String; 10] {
    [
        row.management.title().to_owned(),
        format!("{:.2} s", row.small_seconds),
        format!("{:.2}", row.small_slowdown),
        row.small_slowdown_in_paper.map_or("-".to_owned(), |slowdown| format!("{slowdown:.2}")),
        format!("{:.2}", row.small_io_slowdown),
        format!("{:.1}", row.small_bytes_per_second / 1e3),
        milliseconds(row.small_p99_seconds),
        format!("{:.1}", row.writer_bytes_per_second / MB),
        format!("{:.2}", row.writer_relative),
        format!("{:.2}", row.jain_index),
    ]
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.0} ms", seconds * 1e3)
}

//! The table of the isolation experiment, and its verdict.

use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::{Comparison, Management, Relation, Row};
use crate::blocks::Blocks;

/// Bytes in a MB, the paper's unit.
const MB: f64 = 1_000_000.0;

const HEADINGS: [&str; 8] = [
    "",
    "small app\nrun time",
    "times\nalone",
    "in the\npaper",
    "I/O time,\n× alone",
    "p99\nlatency",
    "checkpoint\nMB/s",
    "of\nalone",
];

/// Table, statements, verdict, and the result as a picture and in a sentence.
pub(crate) fn table(comparison: &Comparison, blocks: Blocks) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(HEADINGS);
    table.add_row(alone(comparison));
    table.add_rows(comparison.rows.iter().map(row));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{}\n\n", table.trim_fmt());
    statements(&mut text, &comparison.relations);
    let verdict = if comparison.matches_paper { "yes" } else { "no" };
    let _ = write!(text, "matches the paper's ordering: {verdict}");
    if !comparison.promises.is_empty() {
        text.push_str("\n\n");
        statements(&mut text, &comparison.promises);
        let kept = comparison.promises.iter().all(|promise| promise.holds);
        let _ = write!(text, "isolation serves both: {}", if kept { "yes" } else { "no" });
    }
    text.push_str("\n\n");
    text + &picture(&comparison.rows, blocks) + &sentence(&comparison.rows).unwrap_or_default()
}

/// The run time of the small application, a bar for each way of sharing.
fn picture(rows: &[Row], blocks: Blocks) -> String {
    let most = rows.iter().map(|row| row.small_slowdown).fold(1.0, f64::max);
    let mut text = "How many times as long as alone the small job takes:\n".to_owned();
    for Row { management, small_slowdown, .. } in rows {
        let bar = blocks.bar(*small_slowdown, most, 48);
        let _ = writeln!(text, "  {:<19}  {bar} {small_slowdown:.2}", management.title());
    }
    text + "\n"
}

/// The result, for who reads nothing else.
fn sentence(rows: &[Row]) -> Option<String> {
    let of = |management| rows.iter().find(|row| row.management == management);
    let (without, with) = (of(Management::None)?.small_slowdown, of(Management::Isolation)?);
    let kept = with.writer_relative * 100.0;
    Some(format!(
        "Small job: {without:.1} times slower without vpfs, {:.2} times with it; the checkpoint keeps {kept:.0} %.",
        with.small_slowdown,
    ))
}

fn statements(text: &mut String, relations: &[Relation]) {
    for relation in relations {
        let mark = if relation.holds { "yes" } else { "NO" };
        let _ = writeln!(text, "  {:<52} ratio {:>6.2}   {mark}", relation.statement, relation.ratio);
    }
}

fn alone(comparison: &Comparison) -> [String; 8] {
    [
        "each alone".to_owned(),
        format!("{:.2} s", comparison.small_alone_seconds),
        "1.00".to_owned(),
        "1.00".to_owned(),
        "1.00".to_owned(),
        milliseconds(comparison.small_alone_p99_seconds),
        format!("{:.1}", comparison.writer_alone_bytes_per_second / MB),
        "100 %".to_owned(),
    ]
}

fn row(row: &Row) -> [String; 8] {
    [
        row.management.title().to_owned(),
        format!("{:.2} s", row.small_seconds),
        format!("{:.2}", row.small_slowdown),
        row.small_slowdown_in_paper.map_or("-".to_owned(), |slowdown| format!("{slowdown:.2}")),
        format!("{:.2}", row.small_io_slowdown),
        milliseconds(row.small_p99_seconds),
        format!("{:.1}", row.writer_bytes_per_second / MB),
        format!("{:.0} %", row.writer_relative * 100.0),
    ]
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.0} ms", seconds * 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::Trial;
    use super::super::comparison::tests::report;
    use super::*;

    #[test]
    fn the_result_is_a_sentence_and_fits_a_terminal() {
        let slow = [(5.2, 1.0), (2.3, 1.0), (1.16, 0.93), (1.04, 0.04), (1.09, 0.82)];
        let trials: Vec<_> = Management::ALL
            .into_iter()
            .zip(slow)
            .map(|(management, (slowdown, writer))| {
                (management, Trial { small: report(10.0 * slowdown, 1000.0), writer_bytes_per_second: writer * 210e6 })
            })
            .collect();
        let comparison = Comparison::new(&report(10.0, 1.0), 210e6, &trials);
        let text = table(&comparison, Blocks::Unicode);
        let sentence = "Small job: 5.2 times slower without vpfs, 1.09 times with it; the checkpoint keeps 82 %.";
        assert!(text.ends_with(sentence), "{text}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(90), "{text}");
        assert!(table(&comparison, Blocks::Ascii).contains(&"#".repeat(48)));
    }
}

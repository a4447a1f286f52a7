//! The table of results.

use comfy_table::{CellAlignment, Table, presets};

use super::Access;
use super::case::Outcome;

/// Markdown with a line for each case; `kept` is relative to the first case, the small application alone.
pub(super) fn markdown(large: Access, outcomes: &[Outcome]) -> String {
    let all = match large {
        Access::Write => "all writes MB/s",
        Access::Read => "all reads MB/s",
    };
    let alone = outcomes.first().map_or(f64::NAN, |alone| alone.small.calls_per_second);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["case", "small IOPS", "mean ms", "p99 ms", "kept", all]);
    for Outcome { case, small, all_mb_per_second } in outcomes {
        table.add_row([
            case.clone(),
            format!("{:.1}", small.calls_per_second),
            format!("{:.1}", small.mean_ms),
            format!("{:.1}", small.p99_ms),
            format!("{:.2}", small.calls_per_second / alone),
            all_mb_per_second.map_or("-".to_owned(), |rate| format!("{rate:.1}")),
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::Figures;
    use super::*;

    #[test]
    fn a_row_for_each_case() {
        let outcome = |case: &str, calls_per_second, all_mb_per_second| Outcome {
            case: case.to_owned(),
            small: Figures { calls_per_second, mean_ms: 1.25, p99_ms: 9.0 },
            all_mb_per_second,
        };
        let text = markdown(Access::Write, &[outcome("alone", 1000.0, None), outcome("fifo", 20.0, Some(60.04))]);
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let rows: Vec<_> = text.lines().map(cells).collect();
        assert_eq!(rows[0], ["", "case", "small IOPS", "mean ms", "p99 ms", "kept", "all writes MB/s", ""]);
        assert_eq!(rows[2], ["", "alone", "1000.0", "1.2", "9.0", "1.00", "-", ""]);
        assert_eq!(rows[3], ["", "fifo", "20.0", "1.2", "9.0", "0.02", "60.0", ""]);
    }
}

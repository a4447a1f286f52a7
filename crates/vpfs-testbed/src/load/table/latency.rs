//! Latency percentiles of each phase; the tables of the field have the rates.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use crate::load::measure::{Latency, Report};

const HEADINGS: [&str; 8] = ["phase", "calls", "mean(ms)", "p50(ms)", "p90(ms)", "p99(ms)", "p99.9(ms)", "max(ms)"];

/// The table of one run.
pub fn latency(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(HEADINGS);
    for phase in report.phases.iter().filter(|phase| phase.operations > 0) {
        let mut row = vec![phase.phase.to_string(), phase.operations.to_string()];
        row.extend(columns(&phase.latency).map(|seconds| format!("{:.2}", seconds * 1e3)));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// In seconds, in the order of the headings.
pub(super) fn columns(latency: &Latency) -> [f64; 6] {
    [
        latency.mean_seconds,
        latency.p50_seconds,
        latency.p90_seconds,
        latency.p99_seconds,
        latency.p999_seconds,
        latency.max_seconds,
    ]
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{phase, report};
    use super::*;
    use vpfs_model::plan::Phase;

    #[test]
    fn one_row_for_each_phase_that_did_something() {
        let report = report(vec![phase(Phase::Write, 2.0, 4, 8_000_000), phase(Phase::Remove, 1.0, 0, 0)]);
        let text = latency(&report);
        assert_eq!(text.lines().count(), 2, "{text}");
        let row: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["write", "4", "500.00", "10.00", "0.00", "1500.00", "0.00", "0.00"]);
    }
}

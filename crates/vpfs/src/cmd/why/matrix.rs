//! Who waited for whom, as a table.

use std::collections::BTreeMap;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use vpfs_admin::api::Span;

use super::breakdown::{Breakdown, OTHERS};
use crate::print::{percent, plain};

/// More columns do not fit a terminal; the others together have the last one.
const COLUMNS: usize = 6;

/// A row for each application: of the time of its requests, what was behind whom, for rules alone, in storage that was
/// slow itself, for processors of the proxy's host, and as at best.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Matrix {
    pub(in super::super) header: Vec<String>,
    pub(in super::super) rows: Vec<Vec<String>>,
}

impl Matrix {
    /// Of the first `most` applications by name.
    pub(in super::super) fn of(span: &Span, most: usize) -> Self {
        Self::new(&span.apps().into_iter().filter_map(|app| Breakdown::of(span, app)).take(most).collect::<Vec<_>>())
    }

    pub(super) fn new(all: &[Breakdown]) -> Self {
        let rows: Vec<(&Breakdown, BTreeMap<&str, f64>)> = all.iter().map(|app| (app, app.waited_for())).collect();
        let columns = columns(&rows);
        let names = columns.iter().map(|name| plain(name));
        let last = [OTHERS, "rules", "storage", "processor", "at best"].map(str::to_owned);
        let header = ["application".to_owned()].into_iter().chain(names).chain(last).collect();
        Self { header, rows: rows.iter().map(|(app, behind)| cells(app, behind, &columns)).collect() }
    }
}

fn cells(app: &Breakdown, behind: &BTreeMap<&str, f64>, columns: &[&str]) -> Vec<String> {
    let named = columns.iter().map(|name| behind.get(name).copied().unwrap_or(0.0));
    let others = behind.values().sum::<f64>() - named.clone().sum::<f64>();
    let held = app.vpfs_seconds() - app.behind.values().sum::<f64>();
    let last = [others, held.max(0.0), app.storage_itself_seconds, app.processor_seconds, app.quiet_seconds];
    let parts = named.chain(last).map(|seconds| percent(app.part(seconds)));
    [plain(&app.app)].into_iter().chain(parts).collect()
}

/// For a terminal.
pub(super) fn of(all: &[Breakdown], span: &Span) -> String {
    if all.is_empty() {
        return "No application had requests.".to_owned();
    }
    let Matrix { header, rows } = Matrix::new(all);
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{table}\nOf the time of a row's requests in {:.0} s: the part in which they waited in vpfs or in the storage \
         behind the\napplication of the column, were held by rules alone (a cap, a pace), were in storage slower than \
         at best, waited for\na processor of the proxy's host, and were in the storage as at best.",
        span.seconds
    )
}

/// Those for whom applications waited longest, as parts of their time; a job of few requests counts as much as others.
fn columns<'a>(rows: &[(&Breakdown, BTreeMap<&'a str, f64>)]) -> Vec<&'a str> {
    let mut sums = BTreeMap::<&str, f64>::new();
    for (app, behind) in rows {
        behind.iter().for_each(|(name, seconds)| *sums.entry(name).or_default() += app.part(*seconds));
    }
    let mut columns: Vec<(&str, f64)> = sums.into_iter().filter(|(name, _)| *name != OTHERS).collect();
    columns.sort_by(|one, other| other.1.total_cmp(&one.1));
    columns.into_iter().take(COLUMNS).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::breakdown::tests::{app, span};
    use super::*;

    #[test]
    fn rows_are_divided_among_columns() {
        let span = span(vec![app("small", [0.0, 20.0, 1.0], "large"), app("large", [1.0, 1.0, 1.0], "large")]);
        let all: Vec<_> = ["small", "large"].into_iter().filter_map(|app| Breakdown::of(&span, app)).collect();
        let text = of(&all, &span);
        let words: Vec<Vec<&str>> = text.lines().take(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0], ["application", "large", "(others)", "rules", "storage", "processor", "at", "best"]);
        assert_eq!(words[1], ["small", "95%", "0%", "0%", "0%", "0%", "5%"]);
        assert_eq!(words[2], ["large", "50%", "0%", "0%", "0%", "0%", "50%"]);
        assert_eq!(of(&[], &span), "No application had requests.");
    }
}

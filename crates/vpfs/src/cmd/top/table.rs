//! Columns that fit 80 characters, and the order of rows.

use crate::cmd::rows::{Row, time};

/// The width of the name; longer ones are cut.
const NAME: usize = 18;

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Order {
    /// Most bytes a second first.
    Bytes,
    /// Most requests a second first.
    Requests,
    /// Longest mean wait first.
    Wait,
    /// Largest part of the storage's time first.
    Got,
    /// By name.
    App,
}

/// Sorts rows, which are in the order of their names; that order stays among equals.
pub(super) fn sort(rows: &mut [Row], order: Order) {
    let key = |row: &Row| match order {
        Order::Bytes => row.bytes_per_second,
        Order::Requests => row.requests_per_second,
        Order::Wait => row.wait_seconds.unwrap_or(0.0),
        Order::Got => row.got,
        Order::App => 0.0,
    };
    rows.sort_by(|one, other| key(other).total_cmp(&key(one)));
}

/// The names of the columns.
pub(super) fn header() -> String {
    let columns = ["due", "got", "MB/s", "ops/s", "wait", "storage", "queued", "state"];
    let [due, got, mb, ops, wait, storage, queued, state] = columns;
    format!(
        "{:NAME$} {:>4} {due:>4} {got:>4} {mb:>7} {ops:>7} {wait:>7} {storage:>7} {queued:>6} {state}",
        "app", "part"
    )
}

/// The columns of a row.
pub(super) fn line(row: &Row) -> String {
    let name: String = row.app.chars().take(NAME).collect();
    let percent = |part: f64| format!("{:.0}%", part * 100.0);
    format!(
        "{name:NAME$} {:>4} {:>4} {:>4} {:>7.1} {:>7.0} {:>7} {:>7} {:>6} {}",
        percent(row.part),
        percent(row.due),
        percent(row.got),
        row.bytes_per_second / 1e6,
        row.requests_per_second,
        time(row.wait_seconds),
        time(row.storage_seconds),
        row.queued,
        row.state.name(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::rows::rows;
    use crate::cmd::rows::tests::status;

    #[test]
    fn a_row_fits_eighty_columns() {
        let mut rows = rows(&[status("s1", 10)], &[status("s1", 14)], None);
        assert_eq!(line(&rows[0]), "climate             25%  50%  50%     1.0       1   500ms   250ms      1 bulk");
        rows[0].app = "host:192.168.100.200.and.more".into();
        rows[0].wait_seconds = Some(123.4);
        assert!(header().len() <= 80 && line(&rows[0]).len() <= 80, "{}", line(&rows[0]));
        assert_eq!(header().find("state"), line(&rows[0]).find("bulk"));
    }

    #[test]
    fn rows_are_sorted_by_what_was_asked_for() {
        let sorted = |order| {
            let mut rows = rows(&[status("s1", 10)], &[status("s1", 14)], None);
            rows.reverse();
            sort(&mut rows, order);
            rows.remove(0).app
        };
        assert_eq!([Order::Bytes, Order::Wait, Order::App].map(sorted), ["climate", "climate", "idle"]);
    }
}

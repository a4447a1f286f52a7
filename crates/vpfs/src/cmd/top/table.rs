//! Columns that fit 80 characters, and the order of rows.

use crate::cmd::rows::{Glance, Row};
use crate::print::{mean_time, percent};

/// The width of the name; longer ones are cut.
const NAME: usize = 16;

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
    Used,
    /// By name.
    App,
}

/// Sorts rows, which are in the order of their names; that order stays among equals.
pub(super) fn sort(rows: &mut [Row], order: Order) {
    let key = |row: &Row| match order {
        Order::Bytes => row.bytes_per_second,
        Order::Requests => row.requests_per_second,
        Order::Wait => row.wait_seconds.unwrap_or(0.0),
        Order::Used => row.used,
        Order::App => 0.0,
    };
    rows.sort_by(|one, other| key(other).total_cmp(&key(one)));
}

/// The names of the columns.
pub(super) fn header() -> String {
    columns(' ', "application", &["MB/s", "ops/s", "used", "entitled", "wait", "storage"], "why")
}

/// The columns of a row.
pub(super) fn line(row: &Row) -> String {
    columns(row.sign(), &row.app, &numbers(row, row.entitled()), &row.why())
}

/// Those of the sum of all.
pub(super) fn total(Glance { total, span, .. }: &Glance) -> String {
    let servers = span.servers.len();
    let why = format!("{servers} server{}", if servers == 1 { "" } else { "s" });
    columns(' ', "total", &numbers(total, total.entitled()), &why)
}

fn numbers(row: &Row, entitled: String) -> [String; 6] {
    let (mb, ops) = (row.bytes_per_second / 1e6, row.requests_per_second);
    let [wait, storage] = [row.wait_seconds, row.storage_seconds].map(mean_time);
    [format!("{mb:.1}"), format!("{ops:.0}"), percent(row.used), entitled, wait, storage]
}

fn columns<N: AsRef<str>>(sign: char, name: &str, numbers: &[N; 6], why: &str) -> String {
    let name = match name.chars().count() > NAME {
        true => name.chars().take(NAME - 1).chain(['…']).collect(),
        false => name.to_owned(),
    };
    let [mb, ops, used, entitled, wait, storage] = numbers.each_ref().map(AsRef::as_ref);
    format!("{sign} {name:NAME$} {mb:>7} {ops:>7} {used:>4} {entitled:>8} {wait:>7} {storage:>7}  {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::rows::tests::status;

    fn glance() -> Glance {
        Glance::of(&[status("s1", 10)], &[status("s1", 14)], None)
    }

    #[test]
    fn columns_are_aligned_and_fit_eighty_characters() {
        let mut glance = glance();
        assert_eq!(line(&glance.apps[0]), "  climate              1.0       1  50%     100%   500ms   250ms  -");
        assert_eq!(line(&glance.apps[1]), "  idle                 0.0       0   0%        -       -       -  idle");
        assert_eq!(total(&glance), "  total                1.0       1  50%     100%   500ms   250ms  1 server");
        let row = &mut glance.apps[0];
        (row.app, row.wait_seconds, row.below_entitled) = ("host:192.168.100.200".into(), Some(123.4), true);
        assert!(line(row).starts_with("! host:192.168.10… "), "{}", line(row));
        assert_eq!(header().find("why"), line(&glance.apps[1]).rfind("idle"));
    }

    #[test]
    fn rows_are_sorted_by_what_was_asked_for() {
        let sorted = |order| {
            let mut rows = glance().apps;
            rows.reverse();
            sort(&mut rows, order);
            rows.remove(0).app
        };
        assert_eq!([Order::Bytes, Order::Wait, Order::App].map(sorted), ["climate", "climate", "idle"]);
    }
}

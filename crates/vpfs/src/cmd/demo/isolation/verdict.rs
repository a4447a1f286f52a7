//! Whether the runs are in the order of vPFS+ Fig. 5 and 6, and whether `isolation` keeps its promises.

use serde::Serialize;

use super::{Management, Row};

/// A statement about rows, and whether it holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Relation {
    /// In words.
    pub(crate) statement: String,
    /// Left side divided by right side, or the value that has a limit.
    pub(crate) ratio: f64,
    /// Whether the ratio satisfies the statement.
    pub(crate) holds: bool,
}

/// What "≫" means for run times. The paper's own ratio, 3.29 to 2.53, is 1.30.
const MUCH_SLOWER: f64 = 1.2;
/// What "≪" means for total throughput. The paper's own ratio is 1 to 13.81.
const MUCH_LESS: f64 = 0.25;
/// Runs that differ by less than this are equal, for "≥": the noise of short runs.
const EQUAL: f64 = 0.02;

/// The paper's statements: for the small application's run time, unmanaged ≫ SFQ(D) > SFQ(D)+ ≥ capped; for total
/// throughput, capped ≪ SFQ(D)+. There is no statement about missing rows.
pub(crate) fn verdict(rows: &[Row]) -> Vec<Relation> {
    use Management::{Capped, None, SfqD, SfqDPlus};
    let find = |management| rows.iter().find(|row| row.management == management);
    let relation =
        |left: Management, sign: &str, right: Management, what, of: fn(&Row) -> f64, holds: fn(f64) -> bool| {
            let ratio = of(find(left)?) / of(find(right)?);
            let statement = format!("{what}: {} {sign} {}", left.title(), right.title());
            Some(Relation { statement, ratio, holds: holds(ratio) })
        };
    let slowdown = |row: &Row| row.small_slowdown;
    let total = |row: &Row| row.total_bytes_per_second;
    let relations = [
        relation(None, "≫", SfqD, "run time", slowdown, |ratio| ratio >= MUCH_SLOWER),
        relation(SfqD, ">", SfqDPlus, "run time", slowdown, |ratio| ratio > 1.0),
        relation(SfqDPlus, "≥", Capped, "run time", slowdown, |ratio| ratio >= 1.0 - EQUAL),
        relation(Capped, "≪", SfqDPlus, "total throughput", total, |ratio| ratio <= MUCH_LESS),
    ];
    relations.into_iter().flatten().collect()
}

/// Limit on the small application's run time under `isolation`, relative to alone. The paper's SFQ(D)+: 1.20.
const SLOWDOWN_MAX: f64 = 1.10;
/// The writer gets at least this part of its throughput alone under `isolation`. The paper's SFQ(D)+: 0.44.
const WRITER_MIN: f64 = 0.60;

/// The promises of `isolation` to both applications. No statement if its row is missing.
pub(crate) fn promises(rows: &[Row]) -> Vec<Relation> {
    let Some(row) = rows.iter().find(|row| row.management == Management::Isolation) else { return Vec::new() };
    let (slowdown, writer) = (row.small_slowdown, row.writer_relative);
    let title = row.management.title();
    vec![
        Relation {
            statement: format!("run time: {title} ≤ {SLOWDOWN_MAX:.2} alone"),
            ratio: slowdown,
            holds: slowdown <= SLOWDOWN_MAX,
        },
        Relation {
            statement: format!("checkpoint: {title} ≥ {WRITER_MIN:.2} alone"),
            ratio: writer,
            holds: writer >= WRITER_MIN,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::report;
    use super::super::{Comparison, Trial};
    use super::*;

    fn trial(management: Management, slowdown: f64, writer: f64) -> (Management, Trial) {
        (management, Trial { small: report(10.0 * slowdown, 1.0), writer_bytes_per_second: writer })
    }

    /// Whether each statement holds for these slowdowns and writer throughputs, in the order of [`Management::ALL`].
    fn held(slowdowns: [f64; 4], writer: [f64; 4]) -> Vec<bool> {
        let trials: Vec<_> = [0, 1, 2, 3].map(|i| trial(Management::ALL[i], slowdowns[i], writer[i])).into();
        let comparison = Comparison::new(&report(10.0, 1.0), 600e6, &trials);
        assert!(comparison.promises.is_empty(), "there is no statement about a missing row");
        assert_eq!(comparison.matches_paper, comparison.relations.iter().all(|relation| relation.holds));
        comparison.relations.iter().map(|relation| relation.holds).collect()
    }

    #[test]
    fn the_papers_own_numbers_match() {
        let slowdown = |index: usize| Management::ALL[index].slowdown_in_paper().unwrap();
        assert_eq!(held([0, 1, 2, 3].map(slowdown), [597e6, 293e6, 262e6, 0.69e6]), [true; 4]);
    }

    #[test]
    fn each_statement_can_fail_alone() {
        let good = [500e6, 400e6, 300e6, 1e6];
        assert_eq!(held([2.6, 2.5, 1.2, 1.0], good), [false, true, true, true]);
        assert_eq!(held([3.0, 1.1, 1.2, 1.0], good), [true, false, true, true]);
        assert_eq!(held([3.0, 2.5, 1.2, 1.3], good), [true, true, false, true]);
        assert_eq!(held([3.0, 2.5, 1.2, 1.0], [500e6, 400e6, 300e6, 200e6]), [true, true, true, false]);
    }

    #[test]
    fn isolation_has_to_serve_both() {
        let kept = |slowdown, writer| {
            let trials = [trial(Management::Isolation, slowdown, writer)];
            let comparison = Comparison::new(&report(10.0, 1.0), 600e6, &trials);
            comparison.promises.iter().map(|promise| promise.holds).collect::<Vec<_>>()
        };
        assert_eq!(kept(1.05, 400e6), [true, true]);
        assert_eq!(kept(1.20, 400e6), [false, true]);
        assert_eq!(kept(1.05, 262e6), [true, false]);
    }
}

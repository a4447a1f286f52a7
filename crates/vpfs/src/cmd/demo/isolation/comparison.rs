//! The runs side by side, relative to what each application gets alone.

use serde::Serialize;
use vpfs_testbed::load::measure::Report;

use super::row::{Row, Small};
use super::verdict::{promises, verdict};
use super::{Management, Relation, Trial};

/// All runs of the experiment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison {
    /// The small application's run time alone.
    pub(crate) small_alone_seconds: f64,
    /// Its time in I/O calls alone, mean over its processes.
    pub(crate) small_alone_io_seconds: f64,
    /// Bytes that it moves per second of data calls, alone.
    pub(crate) small_alone_bytes_per_second: f64,
    /// The 99th percentile of the latency of its data calls, alone.
    pub(crate) small_alone_p99_seconds: f64,
    /// The writer's throughput alone.
    pub(crate) writer_alone_bytes_per_second: f64,
    /// One row for each way of sharing.
    pub(crate) rows: Vec<Row>,
    /// The paper's statements about the order of the rows, and whether they hold.
    pub(crate) relations: Vec<Relation>,
    /// Whether all of them hold.
    pub(crate) matches_paper: bool,
    /// The promises of `isolation`, and whether they hold.
    pub(crate) promises: Vec<Relation>,
}

impl Comparison {
    /// Relates every trial to the stand-alone runs.
    pub(crate) fn new(
        small_alone: &Report,
        writer_alone_bytes_per_second: f64,
        trials: &[(Management, Trial)],
    ) -> Self {
        let alone = Small::of(small_alone);
        let row = |(management, trial): &(Management, Trial)| {
            Row::new(*management, trial, &alone, writer_alone_bytes_per_second)
        };
        let rows: Vec<Row> = trials.iter().map(row).collect();
        let relations = verdict(&rows);
        Self {
            small_alone_seconds: alone.seconds,
            small_alone_io_seconds: alone.io_seconds,
            small_alone_bytes_per_second: alone.bytes_per_second,
            small_alone_p99_seconds: alone.p99_seconds,
            writer_alone_bytes_per_second,
            matches_paper: relations.iter().all(|relation| relation.holds),
            relations,
            promises: promises(&rows),
            rows,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use vpfs_model::plan::Phase;
    use vpfs_testbed::load::measure::{Latency, PhaseReport, Timeline, Verification};

    use super::*;

    pub(crate) fn report(run_seconds: f64, io_seconds: f64) -> Report {
        let phase = PhaseReport {
            phase: Phase::Write,
            seconds: run_seconds,
            io_seconds,
            operations: 10,
            bytes: 3200,
            bytes_per_second: 3200.0 / run_seconds,
            operations_per_second: 10.0 / run_seconds,
            latency: Latency { p99_seconds: io_seconds / 10.0, ..Latency::default() },
        };
        Report {
            processes: 1,
            nodes: 1,
            run_seconds,
            io_seconds,
            think_seconds: run_seconds - io_seconds,
            wait_seconds: 0.0,
            phases: vec![phase],
            timeline: Timeline::default(),
            verification: Verification::default(),
        }
    }

    #[test]
    fn rows_relate_to_the_stand_alone_runs() {
        let trial = |run, io, writer| Trial { small: report(run, io), writer_bytes_per_second: writer };
        let trials = [(Management::None, trial(30.0, 22.0, 100e6)), (Management::Capped, trial(10.0, 2.0, 0.0))];
        let comparison = Comparison::new(&report(10.0, 2.0), 100e6, &trials);
        let [none, capped] = &comparison.rows[..] else { panic!("two rows") };
        assert!((none.small_slowdown - 3.0).abs() < 1e-9 && (capped.small_slowdown - 1.0).abs() < 1e-9);
        assert!((none.small_io_slowdown - 11.0).abs() < 1e-9 && (capped.small_io_slowdown - 1.0).abs() < 1e-9);
        assert!((none.writer_relative - 1.0).abs() < 1e-9 && capped.writer_relative.abs() < 1e-9);
        assert!((none.small_bytes_per_second - 3200.0 / 22.0).abs() < 1e-9);
        assert!((none.total_bytes_per_second - (100e6 + 3200.0 / 30.0)).abs() < 1e-3);
        // One gets all that it wants, the other a fraction or nothing.
        assert!((capped.jain_index - 0.5).abs() < 1e-6);
        assert!(
            (none.jain_index - (1.0 + 2.0 / 22.0_f64).powi(2) / (2.0 * (1.0 + (2.0 / 22.0_f64).powi(2)))).abs() < 1e-5
        );
    }
}

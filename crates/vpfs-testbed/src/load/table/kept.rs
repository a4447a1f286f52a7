//! The part of its stand-alone throughput that each of two applications keeps while they run side by side.

use serde::Serialize;
use vpfs_model::plan::Phase;

use super::MB;
use crate::load::measure::{PhaseReport, Report};

/// One application, alone and beside the other.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The run alone.
    pub alone: &'a Report,
    /// The run beside the other one.
    pub beside: &'a Report,
}

/// The parts of their stand-alone throughput that both keep; `None` if one moved nothing alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Calls per second of the small application.
    pub small: Option<f64>,
    /// The same for the large one.
    pub large: Option<f64>,
}

/// The parts that both keep.
pub fn kept(small: Pair<'_>, large: Pair<'_>) -> Kept {
    let of = |pair: Pair<'_>| {
        let rate = |report| data(report).map(|phase| phase.operations_per_second);
        let (alone, beside) = (rate(pair.alone)?, rate(pair.beside)?);
        Some(beside / alone).filter(|kept| kept.is_finite())
    };
    Kept { small: of(small), large: of(large) }
}

/// One line for each application.
pub fn side_by_side(small: Pair<'_>, large: Pair<'_>) -> String {
    let kept = kept(small, large);
    let mut text = line(["application", "alone", "beside", "kept", "mean(ms)", "p99(ms)"].map(str::to_owned));
    text += &line(["-----------", "-----", "------", "----", "--------", "-------"].map(str::to_owned));
    let calls = |phase: &PhaseReport| format!("{:.1} calls/s", phase.operations_per_second);
    let bytes = |phase: &PhaseReport| format!("{:.1} MB/s", phase.bytes_per_second / MB);
    text + &row("small", small, kept.small, calls) + &row("large", large, kept.large, bytes)
}

fn row(name: &str, pair: Pair<'_>, kept: Option<f64>, rate: impl Fn(&PhaseReport) -> String) -> String {
    let [alone, beside] = [pair.alone, pair.beside].map(data);
    let rate = |phase: Option<&PhaseReport>| phase.map_or("-".to_owned(), &rate);
    let ms = |seconds: fn(&PhaseReport) -> f64| {
        let one =
            |phase: Option<&PhaseReport>| phase.map_or("-".to_owned(), |phase| format!("{:.1}", seconds(phase) * 1e3));
        format!("{} -> {}", one(alone), one(beside))
    };
    let kept = kept.map_or("-".to_owned(), |kept| format!("{kept:.2}"));
    let mean = ms(|phase| phase.latency.mean_seconds);
    line([name.to_owned(), rate(alone), rate(beside), kept, mean, ms(|phase| phase.latency.p99_seconds)])
}

fn data(report: &Report) -> Option<&PhaseReport> {
    [Phase::Write, Phase::Read].into_iter().find_map(|phase| report.phase(phase))
}

fn line([name, alone, beside, kept, mean, p99]: [String; 6]) -> String {
    format!("{name:<13}{alone:<17}{beside:<17}{kept:<6}{mean:<18}{p99}\n")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{phase, report};
    use super::*;

    #[test]
    fn both_are_compared_with_what_they_get_alone() {
        let small =
            |seconds| report(vec![phase(Phase::Setup, 1.0, 4, 4 << 20), phase(Phase::Read, seconds, 100, 400 << 10)]);
        let large = |seconds| report(vec![phase(Phase::Write, seconds, 10, 40_000_000)]);
        let (small_alone, small_beside, large_alone, large_beside) = (small(1.0), small(2.0), large(4.0), large(5.0));
        let small = Pair { alone: &small_alone, beside: &small_beside };
        let large = Pair { alone: &large_alone, beside: &large_beside };
        assert_eq!(kept(small, large), Kept { small: Some(0.5), large: Some(0.8) });
        let expected = "\
application  alone            beside           kept  mean(ms)          p99(ms)
-----------  -----            ------           ----  --------          -------
small        100.0 calls/s    50.0 calls/s     0.50  10.0 -> 20.0      1500.0 -> 1500.0
large        10.0 MB/s        8.0 MB/s         0.80  400.0 -> 500.0    1500.0 -> 1500.0
";
        assert_eq!(side_by_side(small, large), expected);
    }

    #[test]
    fn an_application_that_moved_nothing_keeps_no_part() {
        let (idle, busy) = (report(Vec::new()), report(vec![phase(Phase::Write, 1.0, 1, 1)]));
        let pair = Pair { alone: &idle, beside: &busy };
        assert_eq!(kept(pair, pair), Kept { small: None, large: None });
        assert!(side_by_side(pair, pair).contains("small        -                1.0 calls/s      -"));
    }
}

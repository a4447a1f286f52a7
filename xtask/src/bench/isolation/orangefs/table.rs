//! Results for people and for programs.

use std::fmt::Write as _;

use super::case::Outcome;
use super::options::Options;

/// A Markdown table; `kept` is IOPS divided by those of the first case, the small application alone.
pub(super) fn markdown(options: &Options, outcomes: &[Outcome]) -> String {
    let all = options.large.name();
    let mut text =
        format!("| case | small IOPS | mean ms | p99 ms | kept | all {all}s MB/s |\n|---|---|---|---|---|---|\n");
    for outcome in outcomes {
        let small = &outcome.small;
        let kept = kept(outcomes, outcome).map_or("-".to_owned(), |kept| format!("{kept:.2}"));
        let moved = outcome.all_mb_per_second.map_or("-".to_owned(), |rate| format!("{rate:.1}"));
        let case = &outcome.case;
        let _ = writeln!(
            text,
            "| {case} | {:.1} | {:.1} | {:.1} | {kept} | {moved} |",
            small.iops, small.mean_ms, small.p99_ms
        );
    }
    text
}

/// The same as JSON, with the parameters of the measurement.
pub(super) fn json(options: &Options, outcomes: &[Outcome]) -> String {
    let cases: Vec<serde_json::Value> = outcomes
        .iter()
        .map(|outcome| {
            serde_json::json!({
                "case": outcome.case,
                "small_iops": outcome.small.iops,
                "small_mean_ms": outcome.small.mean_ms,
                "small_p99_ms": outcome.small.p99_ms,
                "kept": kept(outcomes, outcome),
                "all_mb_per_second": outcome.all_mb_per_second,
            })
        })
        .collect();
    let all = serde_json::json!({
        "small": options.small.name(),
        "mounts": options.mounts,
        "large": options.large.name(),
        "call_bytes": options.call,
        "weights": options.weights,
        "seconds": options.seconds,
        "cases": cases,
    });
    format!("{all:#}\n")
}

fn kept(outcomes: &[Outcome], outcome: &Outcome) -> Option<f64> {
    let alone = outcomes.first()?.small.iops;
    (alone > 0.0).then(|| outcome.small.iops / alone)
}

#[cfg(test)]
mod tests {
    use super::super::fio::Figures;
    use super::*;

    fn outcomes() -> [Outcome; 2] {
        [("alone", 1000.0, None), ("fifo", 20.0, Some(60.04))].map(|(case, iops, moved)| Outcome {
            case: case.to_owned(),
            small: Figures { iops, mean_ms: 1.25, p99_ms: 9.0 },
            all_mb_per_second: moved,
        })
    }

    #[test]
    fn a_row_for_each_case() {
        let options = Options::parse(&[]).unwrap();
        let table = markdown(&options, &outcomes());
        assert!(table.starts_with("| case | small IOPS | mean ms | p99 ms | kept | all writes MB/s |"), "{table}");
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows, ["| alone | 1000.0 | 1.2 | 9.0 | 1.00 | - |", "| fifo | 20.0 | 1.2 | 9.0 | 0.02 | 60.0 |"]);
    }

    #[test]
    fn programs_get_the_same() {
        let options = Options::parse(&["--policy", "fifo"]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json(&options, &outcomes())).unwrap();
        assert_eq!(json["cases"][1]["kept"], 0.02);
        assert_eq!(json["call_bytes"], 4 << 20);
        assert!(json["cases"][0]["all_mb_per_second"].is_null());
    }
}

//! Results for people and for programs.

use serde_json::json;

use super::super::sheet::{Sheet, decimals};
use super::super::{Access, Options, Real};
use super::case::Outcome;
use vpfs_model::isolation::kept;

/// One line for each case; `kept` is relative to the first case, the small application alone.
pub(super) fn sheet(options: &Real, outcomes: &[Outcome]) -> Sheet {
    let all = match options.large {
        Access::Write => "all writes MB/s",
        Access::Read => "all reads MB/s",
    };
    Sheet::new(
        "A small application beside a large one",
        1,
        outcomes,
        &[
            ("case", &|outcome| outcome.case.clone()),
            ("small IOPS", &|outcome| decimals(outcome.small.calls_per_second, 1)),
            ("mean ms", &|outcome| decimals(outcome.small.mean_ms, 1)),
            ("p99 ms", &|outcome| decimals(outcome.small.p99_ms, 1)),
            ("kept", &|outcome| decimals(kept_of(outcomes, outcome), 2)),
            (all, &|outcome| decimals(outcome.all_mb_per_second.unwrap_or(f64::NAN), 1)),
        ],
    )
}

/// The same as JSON, with the parameters of the measurement.
pub(super) fn json(options: &Options, outcomes: &[Outcome]) -> String {
    let cases = outcomes.iter().map(|outcome| {
        json!({
            "case": outcome.case,
            "small_iops": outcome.small.calls_per_second,
            "small_mean_ms": outcome.small.mean_ms,
            "small_p99_ms": outcome.small.p99_ms,
            "kept": kept_of(outcomes, outcome),
            "all_mb_per_second": outcome.all_mb_per_second,
        })
    });
    let Real { small, mounts, large, call, weights: (of_small, of_large), .. } = &options.real;
    let all = json!({
        "small": small.name(),
        "mounts": mounts,
        "large": large.name(),
        "call_bytes": call.0,
        "weights": [of_small, of_large],
        "seconds": options.seconds,
        "cases": cases.collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

fn kept_of(outcomes: &[Outcome], outcome: &Outcome) -> f64 {
    outcomes.first().map_or(f64::NAN, |alone| kept(outcome.small.calls_per_second, alone.small.calls_per_second))
}

#[cfg(test)]
mod tests {
    use super::super::super::Figures;
    use super::super::super::tests::parsed;
    use super::*;

    fn outcomes() -> [Outcome; 2] {
        [("alone", 1000.0, None), ("fifo", 20.0, Some(60.04))].map(|(case, calls_per_second, moved)| Outcome {
            case: case.to_owned(),
            small: Figures { calls_per_second, bytes_per_second: 0.0, mean_ms: 1.25, p99_ms: 9.0 },
            all_mb_per_second: moved,
        })
    }

    #[test]
    fn a_row_for_each_case() {
        let options = parsed(&["--orangefs", "/c"]).unwrap();
        let sheet = sheet(&options.real, &outcomes());
        assert_eq!(sheet.headings, ["case", "small IOPS", "mean ms", "p99 ms", "kept", "all writes MB/s"]);
        assert_eq!(sheet.rows[0], ["alone", "1000.0", "1.2", "9.0", "1.00", "-"]);
        assert_eq!(sheet.rows[1], ["fifo", "20.0", "1.2", "9.0", "0.02", "60.0"]);
    }

    #[test]
    fn programs_get_the_same() {
        let options = parsed(&["--orangefs", "/c", "--policy", "fifo"]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json(&options, &outcomes())).unwrap();
        assert_eq!(json["cases"][1]["kept"], 0.02);
        assert_eq!((&json["call_bytes"], &json["weights"]), (&json!(4 << 20), &json!([1, 1])));
        assert!(json["cases"][0]["all_mb_per_second"].is_null());
    }
}

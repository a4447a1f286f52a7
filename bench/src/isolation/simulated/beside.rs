//! A small application beside a large one, under every policy.

use serde::Serialize;
use vpfs_report::{Axis, Bar, Bars};
use vpfs_sim::parallel;

use super::super::Figures;
use super::super::sheet::{Sheet, decimals};
use super::case::{self, Case};
use super::load::{Alone, Baselines, Seconds, run};
use super::policy::Candidate;
use vpfs_model::isolation::{delivered, kept, occupancy, share};

/// The results of both in one case under one policy, or of each alone; not a number where a value is meaningless.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) policy: &'static str,
    small_calls_per_second: f64,
    small_mean_ms: f64,
    small_p99_ms: f64,
    /// Calls per second, relative to alone.
    small_kept: f64,
    large_mb_per_second: f64,
    large_kept: f64,
    /// See [`vpfs_model::isolation::share`].
    pub(crate) small_delivered: f64,
    pub(crate) large_delivered: f64,
}

/// The throughput of each alone, and how much of the storage the small one then occupies.
#[derive(Clone, Copy)]
struct Apart {
    small: Figures,
    large: Figures,
    occupancy: f64,
}

/// Runs all cases under all candidates.
pub(crate) fn rows(cases: &[Case], candidates: &[Candidate], seconds: u64) -> Result<Vec<Row>, String> {
    let baselines = Baselines::measure(cases.iter().flat_map(|case| wanted(case, seconds)))?;
    let apart: Vec<Apart> = cases.iter().map(|case| apart(case, seconds, &baselines)).collect();
    let runs: Vec<(&Case, Apart, Candidate)> = cases
        .iter()
        .zip(apart)
        .flat_map(|(case, apart)| candidates.iter().map(move |candidate| (case, apart, *candidate)))
        .collect();
    let beside = parallel::map(&runs, |(case, apart, candidate)| beside(case, *apart, *candidate, seconds));
    let mut rows = Vec::new();
    for ((case, apart, candidate), row) in runs.iter().zip(beside) {
        if candidates.first() == Some(candidate) {
            rows.push(row_alone(case, *apart));
        }
        rows.push(row?);
    }
    Ok(rows)
}

/// The runs alone: small, as much of small as the storage serves, large.
fn wanted(case: &Case, seconds: u64) -> [Alone; 3] {
    let of_large = case::seconds(seconds, case.large_bytes);
    [(case.small(), Seconds(seconds)), (case.saturating(), Seconds(seconds)), (case.large(), of_large)]
        .map(|(load, seconds)| (case.site, load, seconds))
}

fn apart(case: &Case, seconds: u64, baselines: &Baselines) -> Apart {
    let [small, saturated, large] = wanted(case, seconds).map(|alone| baselines.of(alone));
    let occupancy = occupancy(case.is_serial(), small.calls_per_second, saturated.calls_per_second);
    Apart { small, large, occupancy }
}

fn beside(case: &Case, apart: Apart, candidate: Candidate, seconds: u64) -> Result<Row, String> {
    let small = candidate.small(case.small().weighted("small", case.weights.0));
    let large = case.large().weighted("large", case.weights.1);
    let large = candidate.large(large, apart.large.bytes_per_second / f64::from(case.site.servers));
    let seconds = case::seconds(seconds, case.large_bytes);
    let got = run(case.site, vec![small, large], &candidate.spec(), seconds)
        .map_err(|error| format!("{} under {}: {error}", case.name(), candidate.name))?;
    Ok(row(case, candidate.name, apart, got[0], got[1]))
}

fn row(case: &Case, policy: &'static str, apart: Apart, small: Figures, large: Figures) -> Row {
    let (of_small, of_large) = case.weights;
    Row {
        case: case.name(),
        policy,
        small_calls_per_second: small.calls_per_second,
        small_mean_ms: small.mean_ms,
        small_p99_ms: small.p99_ms,
        small_kept: kept(small.calls_per_second, apart.small.calls_per_second),
        large_mb_per_second: large.bytes_per_second / 1e6,
        large_kept: kept(large.bytes_per_second, apart.large.bytes_per_second),
        small_delivered: delivered(
            small.calls_per_second,
            apart.small.calls_per_second,
            share(of_small, of_large),
            apart.occupancy,
        ),
        large_delivered: delivered(
            large.bytes_per_second,
            apart.large.bytes_per_second,
            share(of_large, of_small),
            1.0,
        ),
    }
}

/// The row of each alone; shares are delivered only when both run.
fn row_alone(case: &Case, apart: Apart) -> Row {
    let row = row(case, "alone", apart, apart.small, apart.large);
    Row { small_delivered: f64::NAN, large_delivered: f64::NAN, ..row }
}

/// One line for each row.
pub(crate) fn sheet(rows: &[Row]) -> Sheet {
    Sheet::new(
        "A small application beside a large one",
        2,
        rows,
        &[
            ("case", &|row| row.case.clone()),
            ("policy", &|row| row.policy.to_owned()),
            ("small calls/s", &|row| decimals(row.small_calls_per_second, 1)),
            ("mean ms", &|row| decimals(row.small_mean_ms, 2)),
            ("p99 ms", &|row| decimals(row.small_p99_ms, 2)),
            ("kept", &|row| decimals(row.small_kept, 2)),
            ("large MB/s", &|row| decimals(row.large_mb_per_second, 1)),
            ("large kept", &|row| decimals(row.large_kept, 2)),
            ("small delivered", &|row| decimals(row.small_delivered, 2)),
            ("large delivered", &|row| decimals(row.large_delivered, 2)),
        ],
    )
}

/// For each policy the worst case of each application, and the median.
pub(crate) fn summary(rows: &[Row], candidates: &[Candidate]) -> Sheet {
    let line = |candidate: &Candidate| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.policy == candidate.name).collect();
        let sorted = |delivered: fn(&Row) -> f64| {
            let mut rows = rows.clone();
            rows.sort_by(|a, b| delivered(a).total_cmp(&delivered(b)));
            let (worst, middle) = (rows.first()?, rows.get(rows.len() / 2)?);
            Some([decimals(delivered(worst), 2), decimals(delivered(middle), 2), worst.case.clone()])
        };
        let [small, large] = [sorted(|row| row.small_delivered), sorted(|row| row.large_delivered)]
            .map(|sorted| sorted.unwrap_or_else(|| ["-"; 3].map(str::to_owned)));
        let ([worst, middle, case], [large_worst, large_middle, large_case]) = (small, large);
        vec![candidate.name.to_owned(), case, large_case, worst, middle, large_worst, large_middle]
    };
    Sheet {
        title: "The same, over all cases",
        texts: 3,
        headings: vec![
            "policy",
            "worst case for small",
            "worst case for large",
            "small delivered: worst",
            "median",
            "large delivered: worst",
            "median",
        ],
        rows: candidates.iter().map(line).collect(),
    }
}

/// The shares delivered in one case: both applications, policy by policy.
pub(crate) fn chart(case: &str, rows: &[&Row]) -> Bars {
    let rows: Vec<&&Row> = rows.iter().filter(|row| row.small_delivered.is_finite()).collect();
    let groups = rows.iter().map(|row| row.policy);
    Bars::new(case, Axis::linear("share delivered", ""), groups)
        .series("small", rows.iter().map(|row| bar(row.small_delivered)))
        .series("large", rows.iter().map(|row| bar(row.large_delivered)))
}

/// A value with as many digits as fit on a bar.
fn bar(value: f64) -> Bar {
    Bar::new((value * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_case_has_a_name() {
        let figures = Figures { calls_per_second: 100.0, bytes_per_second: 1e6, mean_ms: 1.0, p99_ms: 2.0 };
        let apart = Apart { small: figures, large: figures, occupancy: 0.1 };
        let got = |calls| Figures { calls_per_second: calls, ..figures };
        let cases = [Case::base("ssd"), Case::base("volume")];
        let rows = [
            row_alone(&cases[0], apart),
            row(&cases[0], "fifo", apart, got(40.0), figures),
            row(&cases[1], "fifo", apart, got(5.0), figures),
        ];
        let line = &summary(&rows, &[Candidate::FIFO]).rows[0];
        let [name, worst] = [&cases[0], &cases[1]].map(Case::name);
        assert_eq!(line[..], ["fifo", &worst, &name, "0.05", "0.40", "2.00", "2.00"].map(str::to_owned));
        assert_eq!(sheet(&rows).rows[0][7..], ["1.00", "-", "-"]);
    }
}

//! The cost of isolation without an application to protect: the large application alone.

use serde::Serialize;

use vpfs_sim::parallel;

use super::super::sheet::{Sheet, decimals};
use super::super::{Access, Figures};
use super::case::{self, LARGE_BYTES, MODELS};
use super::load::{Load, Seconds, Site, run};
use super::policy::Candidate;

/// The large application alone.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    case: String,
    fifo_mb_per_second: f64,
    isolation_mb_per_second: f64,
    /// Throughput under isolation relative to FIFO.
    pub(crate) isolation_of_fifo: f64,
}

/// Every model and call size, as writes, and also as reads if `all`; only cases whose name contains `text`.
pub(crate) fn rows(all: bool, text: &str, seconds: u64) -> Result<Vec<Row>, String> {
    let ops = if all { &Access::BOTH[..] } else { &[Access::Write] };
    let mut cases: Vec<(String, Site, Load, Seconds)> = Vec::new();
    for model in MODELS {
        for &op in ops {
            for bytes in LARGE_BYTES {
                let site = Site { model, servers: 4 };
                let name = format!("{model} x4, large {} {}", op.name(), case::size(bytes));
                cases.push((name, site, case::large(site, op, bytes), case::seconds(seconds, bytes)));
            }
        }
    }
    cases.retain(|(name, ..)| name.contains(text));
    parallel::map(&cases, |(name, site, load, seconds)| {
        let under = |candidate: Candidate| -> Result<Figures, String> {
            Ok(run(*site, vec![load.app("large")], &candidate.spec(), *seconds)?[0])
        };
        let [fifo, isolation] = [under(Candidate::FIFO)?, under(Candidate::ISOLATION)?].map(|got| got.bytes_per_second);
        Ok(Row {
            case: name.clone(),
            fifo_mb_per_second: fifo / 1e6,
            isolation_mb_per_second: isolation / 1e6,
            isolation_of_fifo: isolation / fifo,
        })
    })
    .into_iter()
    .collect()
}

/// One line for each row.
pub(crate) fn sheet(rows: &[Row]) -> Sheet {
    Sheet::new(
        "Without an interactive application",
        1,
        rows,
        &[
            ("case", &|row| row.case.clone()),
            ("fifo MB/s", &|row| decimals(row.fifo_mb_per_second, 1)),
            ("isolation MB/s", &|row| decimals(row.isolation_mb_per_second, 1)),
            ("isolation / fifo", &|row| decimals(row.isolation_of_fifo, 3)),
        ],
    )
}

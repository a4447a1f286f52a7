//! Two applications that both take as much as they can get, and the storage's time that each receives.
//!
//! The device time of an application is its completed calls times the time that such a call takes of storage that is
//! busy with such calls only: *calls ÷ (calls a second alone)*. Divided by the measured time, this is its throughput ÷
//! its throughput alone. Calls go to random offsets, so that their time does not depend on their neighbours.

use std::time::Duration;

use serde::Serialize;

use vpfs_sim::parallel;

use super::super::Access;
use super::super::sheet::{Sheet, decimals};
use super::case::{MODELS, size};
use super::load::{Alone, Baselines, Load, Offsets, Seconds, Site, run};
use super::policy::Candidate;

/// Bytes of a call on the one server.
const SIZES: [(u32, u32); 7] = [
    (4 << 10, 64 << 10),
    (4 << 10, 1 << 20),
    (4 << 10, 16 << 20),
    (64 << 10, 1 << 20),
    (64 << 10, 16 << 20),
    (1 << 20, 1 << 20),
    (1 << 20, 16 << 20),
];
const WEIGHTS: [(u32, u32); 3] = [(1, 1), (8, 1), (32, 1)];
const PROCESSES: (u32, u32) = (64, 12);
/// The least number of calls of the second application that are measured if it gets its share.
const LEAST_CALLS: f64 = 50.0;
/// Limit on the measurement, however slow it is.
const MOST_SECONDS: f64 = 2_000.0;

/// The results of both.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    case: String,
    policy: &'static str,
    first_mb_per_second: f64,
    second_mb_per_second: f64,
    /// Parts of the measured time.
    first_device_time: f64,
    second_device_time: f64,
    /// Ratio of device times, divided by that of the weights.
    pub(crate) of_weights: f64,
}

#[derive(Clone, Copy)]
struct Pair {
    site: Site,
    loads: [Load; 2],
    weights: (u32, u32),
}

impl Pair {
    fn name(&self) -> String {
        let [first, second] = self.loads.map(|load| size(load.bytes));
        let (of_first, of_second) = self.weights;
        format!("{}, {first} beside {second}, {of_first}:{of_second}", self.site.model)
    }

    fn alone(&self, seconds: u64) -> [Alone; 2] {
        // 12 calls of 16 MiB at 15 MB/s are 13 s.
        let seconds = |load: Load| Seconds(if load.bytes > 4 << 20 { seconds * 4 } else { seconds });
        self.loads.map(|load| (self.site, load, seconds(load)))
    }
}

/// All pairs on these models whose name contains `text`, under all candidates.
pub(crate) fn rows(models: &[&str], text: &str, candidates: &[Candidate], seconds: u64) -> Result<Vec<Row>, String> {
    let pairs: Vec<Pair> = pairs(models).into_iter().filter(|pair| pair.name().contains(text)).collect();
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let baselines = Baselines::measure(pairs.iter().flat_map(|pair| pair.alone(seconds)))?;
    let runs: Vec<(Pair, Candidate)> =
        pairs.iter().flat_map(|pair| candidates.iter().map(|candidate| (*pair, *candidate))).collect();
    parallel::map(&runs, |(pair, candidate)| row(pair, *candidate, seconds, &baselines)).into_iter().collect()
}

fn pairs(models: &[&str]) -> Vec<Pair> {
    let load = |bytes, processes| Load {
        pattern: Offsets::Random,
        op: Access::Write,
        bytes,
        processes,
        think: Duration::ZERO,
    };
    let of_model = |model| {
        SIZES.into_iter().flat_map(move |(first, second)| {
            let loads = [load(first, PROCESSES.0), load(second, PROCESSES.1)];
            WEIGHTS.map(|weights| Pair { site: Site { model, servers: 1 }, loads, weights })
        })
    };
    MODELS.into_iter().filter(|model| models.contains(model)).flat_map(of_model).collect()
}

fn row(pair: &Pair, candidate: Candidate, seconds: u64, baselines: &Baselines) -> Result<Row, String> {
    let alone = pair.alone(seconds).map(|alone| baselines.of(alone).bytes_per_second);
    let (first, second) = pair.weights;
    let due = alone[1] / f64::from(pair.loads[1].bytes) * f64::from(second) / f64::from(first + second);
    // At least as long as the fastest ones, so that learning policies have time to learn.
    let needed = (LEAST_CALLS / due).min(MOST_SECONDS * seconds as f64 / 20.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousand seconds at most")]
    let seconds = Seconds((needed as u64).max(seconds));
    let apps = vec![pair.loads[0].weighted("first", first), pair.loads[1].weighted("second", second)];
    let got = run(pair.site, apps, &candidate.spec(), seconds)
        .map_err(|error| format!("{} under {}: {error}", pair.name(), candidate.name))?;
    let times = [got[0].bytes_per_second / alone[0], got[1].bytes_per_second / alone[1]];
    Ok(Row {
        case: pair.name(),
        policy: candidate.name,
        first_mb_per_second: got[0].bytes_per_second / 1e6,
        second_mb_per_second: got[1].bytes_per_second / 1e6,
        first_device_time: times[0],
        second_device_time: times[1],
        of_weights: times[0] / times[1] * f64::from(second) / f64::from(first),
    })
}

/// One line per row.
pub(crate) fn sheet(rows: &[Row]) -> Sheet {
    Sheet::new(
        "Two backlogged applications on one server",
        2,
        rows,
        &[
            ("case", &|row| row.case.clone()),
            ("policy", &|row| row.policy.to_owned()),
            ("first MB/s", &|row| decimals(row.first_mb_per_second, 2)),
            ("second MB/s", &|row| decimals(row.second_mb_per_second, 2)),
            ("device time of first", &|row| decimals(row.first_device_time, 3)),
            ("of second", &|row| decimals(row.second_device_time, 3)),
            ("sum", &|row| decimals(row.first_device_time + row.second_device_time, 2)),
            ("ratio / weights", &|row| decimals(row.of_weights, 2)),
        ],
    )
}

//! The experiment of both plots of [Two-level]: two IOR instances on one server, one on and off, one with growing
//! demand.
//!
//! From the slides: one server with gigabit Ethernet, one client with 64 processes, storage of about 50 MB/s, (40 MB/s,
//! 100 ms) for the first application and (20 MB/s, 300 ms) for the second one. Chosen once for both plots, as the
//! slides give no numbers:
//! - Calls of 256 KiB, IOR's default transfer, to one shared file each. With both applications the disk then serves 60
//!   MB/s.
//! - First application: 35 MB/s for 20 s alternating with pauses, which is within its rate. Second application: 5 to 45
//!   MB/s in two minutes, from far below its rate to far above it, and more than the storage has when both are on, as
//!   in the slides.
//!
//! All of this is `scenarios/figures/two-level.toml`.

use vpfs_sim::{CallTrace, Results, Scenario, SimError, Simulation, Workload, parallel};

use crate::scenario::{self, SEEDS};

pub(super) const TEXT: &str = include_str!("../../../../scenarios/figures/two-level.toml");
pub(super) const SECONDS: u32 = 120;
/// Seconds for which the first application is on, and then off.
pub(super) const HALF_SECONDS: u32 = 20;
/// The applications' promises.
const DEADLINES_MS: [f64; 2] = [100.0, 300.0];

pub(super) fn scenario() -> Result<Scenario, SimError> {
    scenario::parse("two-level.toml", TEXT)
}

/// The demand of an application at `seconds` after the start, in bytes per second.
pub(super) fn asked(workload: &Workload, seconds: f64) -> f64 {
    match workload {
        Workload::Paced(paced) => paced.pace.at(seconds, paced.time),
        _ => 0.0,
    }
}

/// The runs.
pub(super) struct Runs {
    pub(super) fifo: Results,
    pub(super) two_level: Results,
    /// Deadlines as vpfs keeps them by default.
    paced: Results,
}

impl Runs {
    pub(super) fn of(scenario: &Scenario) -> Result<Self, SimError> {
        let mut runs = parallel::map(&scenario.policies, |policy| Simulation::new(scenario, policy)?.run()).into_iter();
        let mut next = || runs.next().expect("one for each policy");
        Ok(Self { fifo: next()?, two_level: next()?, paced: next()? })
    }

    pub(super) fn all_seeds() -> Result<Vec<Self>, SimError> {
        let base = scenario()?;
        SEEDS.into_iter().map(|seed| Self::of(&scenario::seeded(&base, seed))).collect()
    }

    pub(super) fn all(&self) -> [&Results; 3] {
        [&self.fifo, &self.two_level, &self.paced]
    }
}

pub(super) fn deadline_ms(app: usize) -> f64 {
    DEADLINES_MS[app]
}

/// The latency of a call in ms.
pub(super) fn latency_ms(call: &CallTrace) -> f64 {
    (call.finished - call.issued).as_secs_f64() * 1e3
}

/// The calls of an application.
pub(super) fn calls(results: &Results, app: usize) -> impl Iterator<Item = &CallTrace> {
    results.trace.iter().filter(move |call| call.app as usize == app)
}

/// Percentage of an application's calls that took longer than its deadline.
pub(super) fn missed_percent(results: &Results, app: usize) -> f64 {
    let missed = calls(results, app).filter(|call| latency_ms(call) > deadline_ms(app)).count();
    missed as f64 * 100.0 / calls(results, app).count().max(1) as f64
}

/// MB/s of both applications in the last period in which both are on and ask for more than the storage has.
pub(super) fn capacity(results: &Results) -> f64 {
    let range = (4 * HALF_SECONDS as usize)..(5 * HALF_SECONDS as usize);
    let bytes: u64 = results.apps.iter().flat_map(|app| app.bytes_series.get(range.clone())).flatten().sum();
    bytes as f64 / 1e6 / f64::from(HALF_SECONDS)
}

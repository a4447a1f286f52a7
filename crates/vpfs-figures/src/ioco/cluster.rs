//! The two environments of [IOCO §5.1], and the values measured on them.
//!
//! Deviations and guesses, for all figures of the paper:
//! - Only reads. The paper does not say which of its results are writes; in such small experiments, writes end in the
//!   page caches of servers with 8 GB.
//! - Clients' links are not a bottleneck: the paper does not say which nodes the clients run on, and most were servers
//!   as well.
//! - Depth 1 for disks: the server passes accesses to the disk one by one, so with more outstanding the proxy has
//!   nothing left to order. Depth 2 for flash: the next request arrives while the reply to the last one is still on the
//!   wire, which takes a sixteenth of the time of the access itself. (The paper's scheduler is inside the server, where
//!   a reply on the wire delays no other request.)
//! - Simultaneous requests reach servers up to 1 ms (Ethernet) or 0.1 ms (InfiniBand) apart.

use std::time::Duration;

use vpfs_core::Depth;
use vpfs_core::ioco::order_of;
use vpfs_sim::{Results, Scenario, ServerGroup, SimError};

use crate::{scenario, testbed};

/// An environment of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// Gigabit Ethernet and disks.
    Hdd,
    /// InfiniBand and flash.
    Ssd,
}

impl Medium {
    pub(super) const ALL: [Self; 2] = [Self::Hdd, Self::Ssd];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hdd => "HDD",
            Self::Ssd => "SSD",
        }
    }

    fn servers(self, count: u32) -> ServerGroup {
        match self {
            Self::Hdd => testbed::ioco_disks(count),
            Self::Ssd => testbed::ioco_flash(count),
        }
    }

    fn depth(self) -> Depth {
        Depth::new(if self == Self::Hdd { 1 } else { 2 }).expect("not zero")
    }

    /// A figure's scenario on `servers` servers of this environment.
    pub(super) fn on(self, base: &Scenario, servers: u32) -> Scenario {
        let mut scenario = base.clone();
        scenario.servers = vec![self.servers(servers)];
        scenario.jitter = if self == Self::Hdd { testbed::ETHERNET_JITTER } else { testbed::INFINIBAND_JITTER };
        self.set_depth(&mut scenario);
        scenario
    }

    pub(super) fn set_depth(self, scenario: &mut Scenario) {
        for policy in &mut scenario.policies {
            policy.settings.depth = self.depth();
        }
    }
}

/// Names of the policies in the scenario files.
pub(super) const POLICIES: [&str; 2] = ["original", "coordinated"];

/// The measurements of one or more runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Mean over all calls of the time from issue to the last server's reply, in seconds.
    pub(super) completion: f64,
    /// Sum of the throughput that each application sees over its own run time, in bytes per second, as reported by
    /// benchmarks.
    pub(super) reported: f64,
    /// All bytes divided by the time of the whole run, in bytes per second.
    pub(super) bandwidth: f64,
}

impl Outcome {
    fn of(results: &Results) -> Self {
        let calls = results.apps.iter().map(|app| app.read.count).sum::<u64>().max(1) as f64;
        let sum: f64 = results.apps.iter().map(|app| app.read.mean_seconds * app.read.count as f64).sum();
        let seconds = |app: &vpfs_sim::AppResults| app.run_time().unwrap_or(Duration::MAX).as_secs_f64();
        let reported = results.apps.iter().map(|app| app.bytes() as f64 / seconds(app)).sum();
        Self { completion: sum / calls, reported, bandwidth: results.throughput() }
    }

    fn mean(all: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| all.iter().map(value).sum::<f64>() / all.len() as f64;
        Self {
            completion: of(|one| one.completion),
            reported: of(|one| one.reported),
            bandwidth: of(|one| one.bandwidth),
        }
    }
}

/// The scenario with a different seed, which also determines the applications' order in windows, as in the paper, where
/// each run draws a new order.
pub(super) fn seeded(scenario: &Scenario, seed: u64) -> Scenario {
    let mut scenario = Scenario { seed, ..scenario.clone() };
    for app in &mut scenario.apps {
        app.order = Some(order_of(&format!("{} in run {seed}", app.name)));
    }
    scenario
}

/// Means over runs with `seeds` seeds under a policy.
pub(super) fn repeat(scenario: &Scenario, policy: &str, seeds: u64) -> Result<Outcome, SimError> {
    let run = |seed| Ok(Outcome::of(&scenario::run(&seeded(scenario, seed), policy)?));
    Ok(Outcome::mean(&(1..=seeds).map(run).collect::<Result<Vec<_>, SimError>>()?))
}

/// Both policies over the same runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) original: Outcome,
    pub(super) coordinated: Outcome,
}

impl Pair {
    pub(super) fn of(scenario: &Scenario, seeds: u64) -> Result<Self, SimError> {
        let [original, coordinated] = POLICIES.map(|policy| repeat(scenario, policy, seeds));
        Ok(Self { original: original?, coordinated: coordinated? })
    }

    /// By how many % coordination lowers the mean completion time.
    pub(super) fn reduction(&self) -> f64 {
        (1.0 - self.coordinated.completion / self.original.completion) * 100.0
    }
}

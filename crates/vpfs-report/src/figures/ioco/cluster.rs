//! The two environments of [IOCO §5.1], and the values measured on them. The scenario files state the assumptions.

use std::time::Duration;

use vpfs_core::Depth;
use vpfs_core::ioco::order_of;
use vpfs_sim::{Results, Scenario, ServerGroup, SimError};

use crate::Measured;
use crate::figures::scenario;
use crate::figures::testbed;

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

    /// In names of values.
    pub(super) fn short(self) -> &'static str {
        if self == Self::Hdd { "hdd" } else { "ssd" }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hdd => "HDD",
            Self::Ssd => "SSD",
        }
    }

    /// The paper's best window, in milliseconds.
    pub(super) fn best_window(self) -> u64 {
        if self == Self::Hdd { 1000 } else { 250 }
    }

    /// The most servers that have it.
    pub(super) fn most(self) -> u32 {
        if self == Self::Hdd { 64 } else { 16 }
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
        scenario.skew = scenario.jitter;
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
        let latencies = || results.apps.iter().flat_map(|app| [&app.read, &app.write]);
        let calls = latencies().map(|calls| calls.count).sum::<u64>().max(1) as f64;
        let sum: f64 = latencies().map(|calls| calls.mean_seconds * calls.count as f64).sum();
        let seconds = |app: &vpfs_sim::AppResults| app.run_time().unwrap_or(Duration::MAX).as_secs_f64();
        let reported = results.apps.iter().map(|app| app.bytes() as f64 / seconds(app)).sum();
        Self { completion: sum / calls, reported, bandwidth: results.throughput() }
    }

    fn midpoint(&self, other: &Self) -> Self {
        Self {
            completion: f64::midpoint(self.completion, other.completion),
            reported: f64::midpoint(self.reported, other.reported),
            bandwidth: f64::midpoint(self.bandwidth, other.bandwidth),
        }
    }
}

/// The scenario with a different seed, which also determines the applications' order in windows, as in the paper, where
/// each run draws a new order.
pub(super) fn seeded(scenario: &Scenario, seed: u64) -> Scenario {
    let mut scenario = scenario::seeded(scenario, seed);
    for app in &mut scenario.apps {
        app.order = Some(order_of(&format!("{} in run {seed}", app.name)));
    }
    scenario
}

/// The runs with these seeds under a policy.
pub(super) fn repeat(scenario: &Scenario, policy: &str, seeds: &[u64]) -> Result<Vec<Outcome>, SimError> {
    seeds.iter().map(|&seed| Ok(Outcome::of(&scenario::run(&seeded(scenario, seed), policy)?))).collect()
}

/// Both policies with the same seeds.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) original: Vec<Outcome>,
    pub(super) coordinated: Vec<Outcome>,
}

impl Pair {
    pub(super) fn of(scenario: &Scenario, seeds: &[u64]) -> Result<Self, SimError> {
        let [original, coordinated] = POLICIES.map(|policy| repeat(scenario, policy, seeds));
        Ok(Self { original: original?, coordinated: coordinated? })
    }

    /// The mean of two experiments with the same seeds.
    pub(super) fn midpoint(&self, other: &Self) -> Self {
        let of = |one: &[Outcome], other: &[Outcome]| {
            one.iter().zip(other).map(|(one, other)| one.midpoint(other)).collect()
        };
        Self { original: of(&self.original, &other.original), coordinated: of(&self.coordinated, &other.coordinated) }
    }

    /// By how many % coordination lowers the mean completion time, seed by seed.
    pub(super) fn reductions(&self) -> Vec<f64> {
        let of = |(original, coordinated): (&Outcome, &Outcome)| {
            (1.0 - coordinated.completion / original.completion) * 100.0
        };
        self.original.iter().zip(&self.coordinated).map(of).collect()
    }
}

/// The mean of some lists, place by place.
pub(super) fn means(lists: &[Vec<f64>]) -> Vec<f64> {
    let shortest = lists.iter().map(Vec::len).min().unwrap_or(0);
    (0..shortest).map(|at| lists.iter().map(|list| list[at]).sum::<f64>() / lists.len() as f64).collect()
}

/// The median of a value of all runs.
pub(super) fn median(runs: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    Measured::of(runs.iter().map(of)).median()
}

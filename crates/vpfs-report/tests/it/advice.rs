//! Layouts that are advised, in the simulator: random servers and workloads from seeds.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use vpfs_core::hash::mix;
use vpfs_core::testing::Random;
use vpfs_harl::{Access, Cluster, Model, Op, Question, RegionStripeTable, Request, Row, ServerClass, Trace, advise};
use vpfs_sim::model::device::{DeviceProfile, UniformAccess, UniformProfile};
use vpfs_sim::model::plan::{Call, Dir, Extent, FileId, Phase, Plan, Step, Steps};
use vpfs_sim::{
    App, Layout, LinkProfile, PolicySpec, Region, Results, Scenario, ServerGroup, Simulation, Workload, parallel,
};

const DEFAULT: u64 = 64 << 10;

/// What became of one experiment.
#[derive(Debug)]
struct Outcome {
    seed: u64,
    stripes: Vec<Vec<u64>>,
    /// As factors, over stripes of 64 KiB.
    predicted: f64,
    simulated: f64,
}

/// `None` if nothing is to be gained.
fn outcome(seed: u64) -> Option<Outcome> {
    let experiment = Experiment::random(seed);
    let classes = experiment.cluster.classes().len();
    let default = RegionStripeTable::new([Row { bytes: 0..1, stripes: vec![DEFAULT; classes] }]);
    let trace = experiment.trace(&default);
    let question = Question { now: DEFAULT, ..Question::new(Model::Concurrent, 2_000_000) };
    let advice = advise(&experiment.cluster, &[(trace, 1)], &question).unwrap();
    if !advice.is_worth_it() {
        return None;
    }
    assert!(advice.table.rows().iter().all(|row| row.stripes.len() == classes));
    let (before, after) = (experiment.run(&default), experiment.run(&advice.table));
    let (now, then) = advice.times();
    Some(Outcome {
        seed,
        stripes: advice.table.rows().iter().map(|row| row.stripes.clone()).collect(),
        predicted: now as f64 / then as f64,
        simulated: before.as_secs_f64() / after.as_secs_f64(),
    })
}

fn outcomes(seeds: std::ops::Range<u64>) -> Vec<Outcome> {
    parallel::map(&seeds.collect::<Vec<_>>(), |seed| outcome(*seed)).into_iter().flatten().collect()
}

/// `VPFS_SEED` repeats one experiment; `VPFS_SEEDS` is how many to try, 150 in the full tier.
#[test]
fn nothing_advised_is_slower_than_64_kib() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("VPFS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("VPFS_SEEDS").unwrap_or(40),
    };
    let least = (seeds.end - seeds.start) / 3;
    let outcomes = outcomes(seeds);
    for Outcome { seed, stripes, predicted, simulated } in &outcomes {
        println!("{seed:6} predicted {predicted:6.2} simulated {simulated:6.2} {stripes:?}");
    }
    let slower: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.simulated < 1.0).collect();
    assert!(slower.is_empty(), "{slower:#?}");
    assert!(outcomes.len() as u64 >= least, "nothing is advised");
}

/// Runs that count for a layout: devices take other times in each.
const RUNS: u64 = 4;

#[derive(Clone, Debug)]
struct Calls(Arc<Vec<Vec<(Op, Extent)>>>);

impl Plan for Calls {
    fn processes(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap()
    }

    fn phases(&self) -> Vec<Phase> {
        vec![Phase::Mixed]
    }

    fn steps(&self, _: Phase, process: u32) -> Steps {
        let calls = Arc::clone(&self.0);
        let call = |(op, extent)| match op {
            Op::Read => Call::Read(extent),
            Op::Write => Call::Write(extent),
        };
        let number = calls[process as usize].len();
        Box::new((0..number).map(move |index| Step::Call(call(calls[process as usize][index]))))
    }
}

/// A cluster and an application on it.
struct Experiment {
    cluster: Cluster,
    scenario: Scenario,
    calls: Calls,
}

impl Experiment {
    /// One to three classes of servers, and one to three regions with requests of their own sizes, in order or not.
    fn random(seed: u64) -> Self {
        let mut random = Random::new(mix(seed));
        let link = log_uniform(&mut random, 50_000_000, 1_500_000_000);
        let (mut classes, mut servers) = (Vec::new(), Vec::new());
        for number in 0..1 + random.below(3) {
            let (read, write) = (access(&mut random), access(&mut random));
            let count = 1 + random.below(6);
            let model = |access: UniformAccess| {
                Access::new(access.startup_min, access.startup_max, access.bytes_per_second).unwrap()
            };
            let (name, free) = (format!("class {number}"), None);
            classes.push(ServerClass { name, servers: count, read: model(read), write: model(write), free });
            let mut group = ServerGroup::new(count, DeviceProfile::Uniform(UniformProfile { read, write }));
            group.link = LinkProfile { bytes_per_second: link, ..LinkProfile::GIGABIT };
            servers.push(group);
        }
        let calls = Calls(Arc::new(calls(&mut random)));
        let app = App { phases: vec![Phase::Mixed], ..App::new("app", Workload::Plan(Arc::new(calls.clone()))) };
        let (policies, apps) = (vec![PolicySpec::fifo()], vec![app]);
        let scenario = Scenario { seed, trace: true, servers, policies, apps, ..Scenario::default() };
        Self { cluster: Cluster::new(classes, link).unwrap(), scenario, calls }
    }

    /// What a tracer sees of a run with this layout.
    fn trace(&self, layout: &RegionStripeTable) -> Trace {
        let results = self.simulate(layout, 0);
        let mut next = vec![0; self.calls.0.len()];
        let request = |call: &vpfs_sim::CallTrace| {
            let own = &mut next[call.process as usize];
            let (op, extent) = self.calls.0[call.process as usize][*own];
            *own += 1;
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
            let (start, end) = (nanos(call.issued), nanos(call.finished));
            Request { rank: call.process, op, offset: extent.offset, size: extent.bytes.into(), start, end }
        };
        let requests = results.trace.iter().map(request).collect();
        Trace::new(requests).unwrap()
    }

    fn run(&self, layout: &RegionStripeTable) -> Duration {
        (0..RUNS).map(|run| self.simulate(layout, run).elapsed).sum()
    }

    fn simulate(&self, layout: &RegionStripeTable, run: u64) -> Results {
        let mut scenario = Scenario { seed: mix(self.scenario.seed ^ run), ..self.scenario.clone() };
        scenario.apps[0].layout = Layout::by_region(layout.rows().iter().map(|row| self.region(row)));
        Simulation::new(&scenario, &scenario.policies[0]).unwrap().run().unwrap()
    }

    fn region(&self, row: &Row) -> Region {
        let mut first = 0;
        let of_class = |(class, &stripe): (&ServerClass, &u64)| {
            first += class.servers;
            (first - class.servers..first).map(move |server| (server, stripe))
        };
        let stripes = self.cluster.classes().iter().zip(&row.stripes).flat_map(of_class);
        Region { start: row.bytes.start, stripes: stripes.filter(|(_, stripe)| *stripe > 0).collect() }
    }
}

fn access(random: &mut Random) -> UniformAccess {
    let startup_min = log_uniform(random, 20, 5_000);
    UniformAccess {
        startup_min: Duration::from_micros(startup_min),
        startup_max: Duration::from_micros(startup_min * u64::from(1 + random.below(4))),
        bytes_per_second: log_uniform(random, 10_000_000, 2_000_000_000),
    }
}

/// Regions one after the other; in each, every process has its own part and a few hundred requests are made.
fn calls(random: &mut Random) -> Vec<Vec<(Op, Extent)>> {
    let processes = log_uniform(random, 1, 64);
    let mut calls = vec![Vec::new(); usize::try_from(processes).unwrap()];
    let mut start = 0;
    for _ in 0..1 + random.below(3) {
        let size = u32::try_from(log_uniform(random, 1, 1024) * 4096).unwrap();
        let each = 1024 / processes;
        let (in_order, reads) = (random.below(2) == 0, random.below(3));
        for (process, calls) in (0..).zip(&mut calls) {
            for index in 0..each {
                let place = if in_order { index } else { u64::from(random.below(u32::try_from(each).unwrap())) };
                let offset = start + (process * each + place) * u64::from(size);
                let op = if random.below(2) < reads { Op::Read } else { Op::Write };
                calls.push((op, Extent { file: FileId { dir: Dir::Base, number: 0 }, offset, bytes: size }));
            }
        }
        start += processes * each * u64::from(size);
    }
    calls
}

/// From `low` to `high`, each order of magnitude as often as any other.
fn log_uniform(random: &mut Random, low: u64, high: u64) -> u64 {
    #![expect(clippy::cast_possible_truncation, reason = "below `high`")]
    let part = random.below(1 << 20) as f64 / f64::from(1 << 20);
    (low as f64 * (high as f64 / low as f64).powf(part)) as u64
}

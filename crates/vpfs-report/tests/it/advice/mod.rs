//! Layouts that are advised, in the simulator: random servers and workloads from seeds.

mod workload;

use std::env;

use vpfs_harl::{Model, Question, RegionStripeTable, Row, advise};
use vpfs_sim::parallel;
use workload::Experiment;

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

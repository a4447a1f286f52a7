//! The law on curves that are known, without requests.

use alloc::vec::Vec;

use super::law::Law;
use crate::constants::Constants;
use crate::pace::{AppMeasure, Measure, Pace};
use crate::testing::Random;

const TICK: f64 = 0.05;

/// Storage that gives bulk at most `capacity`, and answers one of `clients` that think `think` seconds after
/// `quiet` / (1 - x / capacity) seconds.
struct Curve {
    capacity: f64,
    quiet: f64,
    think: f64,
    clients: f64,
    weights: [f64; 2],
    random: Random,
}

impl Curve {
    const NEW: Self =
        Self { capacity: 60e6, quiet: 0.004, think: 0.002, clients: 4.0, weights: [1.0, 1.0], random: Random::new(7) };

    fn wait(&self, rate: f64) -> f64 {
        self.quiet / (1.0 - rate.min(self.capacity * 0.99) / self.capacity)
    }

    fn tick(&mut self, pace: Pace) -> Measure<u64> {
        let rate = match pace {
            Pace::At(rate) => rate,
            Pace::Free | Pace::First => f64::INFINITY,
        };
        let served = rate.min(self.capacity);
        // A tenth up or down.
        let noise = 0.9 + self.random.below(1000) as f64 / 5000.0;
        let wait = self.wait(served) * noise;
        let calls = TICK * self.clients / (self.think + wait);
        let lost = if rate.is_finite() { (rate - served) * TICK } else { 0.0 };
        let small = AppMeasure {
            key: 0,
            weight: self.weights[0],
            footprint: 0.0,
            got: 0.0,
            done: calls,
            late: 0.0,
            waited: calls * wait,
            stored: calls * wait,
            pending: 1.0,
            age: wait / 2.0,
            longest: wait * 3.0,
            clients: self.clients,
        };
        Measure {
            seconds: TICK,
            served: served * TICK,
            lost,
            blocked: lost,
            apps: Vec::from([small]),
            ..Measure::default()
        }
    }

    fn utility(&self, rate: f64) -> f64 {
        self.weights[1] * libm::log(rate.min(self.capacity)) - self.weights[0] * libm::log(self.think + self.wait(rate))
    }

    fn best(&self) -> f64 {
        let rates = (1..1000).map(|part| self.capacity * f64::from(part) / 1000.0);
        rates.max_by(|a, b| self.utility(*a).total_cmp(&self.utility(*b))).unwrap()
    }

    /// What U lacks on average in the last half of so many seconds.
    fn run(&mut self, law: &mut Law, seconds: u32) -> f64 {
        let (ticks, mut lacks) = (seconds * 20, 0.0);
        let mut pace = Pace::Free;
        for tick in 0..ticks {
            pace = law.on_tick(&self.tick(pace), self.weights[1]);
            if tick >= ticks / 2 {
                let Pace::At(rate) = pace else { panic!("{pace:?} although both are there") };
                lacks += self.utility(self.best()) - self.utility(rate);
            }
        }
        lacks / f64::from(ticks / 2)
    }
}

/// As far as 5 percent of the product of both services.
#[test]
fn it_stands_where_the_rate_is_worth_most() {
    for weights in [[1.0, 1.0], [4.0, 1.0], [1.0, 4.0]] {
        for quiet in [0.0005, 0.004, 0.03] {
            let mut curve = Curve { weights, quiet, ..Curve::NEW };
            let lacks = curve.run(&mut Law::new(Constants::DEFAULT), 120) / (weights[0] + weights[1]) * 2.0;
            assert!(lacks < 0.05, "{weights:?}, {quiet} s: {lacks}");
        }
    }
}

#[test]
fn it_follows_storage_that_gets_slower_or_faster() {
    let (mut curve, mut law) = (Curve::NEW, Law::new(Constants::DEFAULT));
    for capacity in [60e6, 15e6, 120e6] {
        curve.capacity = capacity;
        let lacks = curve.run(&mut law, 60);
        assert!(lacks < 0.08, "{capacity} B/s: {lacks}");
    }
}

#[test]
fn it_comes_back_to_the_rate_that_it_knows() {
    let (mut curve, mut law) = (Curve::NEW, Law::new(Constants::DEFAULT));
    curve.run(&mut law, 60);
    let mut alone = curve.tick(Pace::Free);
    alone.apps.remove(0);
    for _ in 0..20 {
        assert_eq!(law.on_tick(&alone, 1.0), Pace::Free, "bulk is alone");
    }
    // Whatever bulk left in the storage is worked off first.
    let pace = (0..20).fold(Pace::Free, |pace, _| law.on_tick(&curve.tick(pace), 1.0));
    let (Pace::At(rate), best) = (pace, curve.best()) else { panic!("{pace:?}") };
    assert!((best / 1.5..best * 1.5).contains(&rate), "{rate} instead of {best}");
}

#[test]
fn same_ticks_same_paces() {
    let paces = || {
        let (mut curve, mut law, mut pace) = (Curve::NEW, Law::new(Constants::DEFAULT), Pace::Free);
        let all = (0..2000).map(|_| {
            pace = law.on_tick(&curve.tick(pace), 1.0);
            pace
        });
        all.collect::<Vec<Pace>>()
    };
    assert_eq!(paces(), paces());
}

//! [vPFS+ Fig. 8]: throughput of WRF and IOR under SFQ(D)+ against L, the slots of a large request. The scenario of
//! Fig. 7 with eight minutes of forecast, as only throughputs are compared.

use vpfs_core::slot_cost::{SMALL_THRESHOLD, SizeClass};
use vpfs_core::{Bytes, SlotCost, SlotCostTable};
use vpfs_sim::model::plan::Wrf;
use vpfs_sim::{Scenario, SimError, Workload};

use crate::{Axis, Plot, Section, Series};

use super::contention::{self, Outcome, Trial};
use super::wrf;
use crate::figures::papers::Values;
use crate::figures::scenario::SEEDS;

const SLOTS: [u32; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
/// The paper's L: 14 slots then hold two large requests at a time.
const CHOSEN: u32 = 5;
const POLICY: &str = "SFQ(D)+";

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let outcomes = outcomes(&wrf::base()?, 8, &SEEDS)?;
    let section = Section::new("vPFS+ Fig. 8: how many slots a large request should occupy")
        .text(
            "With one slot SFQ(D)+ is SFQ(D) and lets 14 large requests into a disk at once; with more slots for \
             each, small requests compete with fewer of them there. WRF gains most from the first steps and hardly \
             anything beyond L = 5, where two large requests are in the disk; IOR loses with each step.",
        )
        .figure(
            plot(&outcomes[0]),
            "Throughput of WRF, IOR and both; weights 1:1, D = 14, the first of five runs. The paper prints no values.",
        );
    Ok((section, values(&outcomes)))
}

/// For each seed, one outcome for each of [`SLOTS`].
fn outcomes(base: &Scenario, minutes: u32, seeds: &[u64]) -> Result<Vec<Vec<Outcome>>, SimError> {
    let trial = |slots| Ok(Trial { scenario: with_slots(base, minutes, slots)?, policy: POLICY });
    contention::outcomes(&SLOTS.map(trial).into_iter().collect::<Result<Vec<_>, SimError>>()?, seeds)
}

/// The same scenario with this L for all requests that are not small.
fn with_slots(base: &Scenario, minutes: u32, slots: u32) -> Result<Scenario, SimError> {
    let slot_cost = SlotCost::new(slots).unwrap_or(SlotCost::ONE);
    let large = vec![SizeClass { up_to: Bytes::mib(2), slot_cost }];
    let table = SlotCostTable::new(SMALL_THRESHOLD, large.clone(), large);
    let table = table.map_err(|error| SimError::Scenario(error.to_string()))?;
    let mut scenario = base.clone();
    scenario.apps[0].workload = Workload::Wrf(Wrf::PAPER.with_minutes(minutes));
    let policies = scenario.policies.iter_mut().filter(|policy| policy.name == POLICY);
    policies.for_each(|policy| policy.settings.slot_costs = table.clone());
    Ok(scenario)
}

fn plot(outcomes: &[Outcome]) -> Plot {
    let points = |of: fn(&Outcome) -> f64| SLOTS.into_iter().map(f64::from).zip(outcomes.iter().map(of));
    let line = |name: &str, of| Series::line(name, points(of)).with_markers();
    Plot::new("Throughput against L", Axis::linear("L", "slots"), Axis::linear("throughput", "MB/s"))
        .reference_when(f64::from(CHOSEN), "profiled")
        .series(line("IOR", |outcome| outcome.large))
        .series(line("both", Outcome::total))
        .right(Axis::linear("throughput of WRF", "MB/s").include(0.0), [line("WRF", |outcome| outcome.small)])
}

/// MB/s of each and of both with each L.
fn values(seeds: &[Vec<Outcome>]) -> Values {
    let mut values = Values::default();
    for (at, slots) in SLOTS.into_iter().enumerate() {
        values.set(format!("wrf L={slots}"), seeds.iter().map(|outcomes| outcomes[at].small));
        values.set(format!("ior L={slots}"), seeds.iter().map(|outcomes| outcomes[at].large));
        values.set(format!("both L={slots}"), seeds.iter().map(|outcomes| outcomes[at].total()));
    }
    let more = |outcomes: &Vec<Outcome>| (outcomes[4].total() / outcomes[0].total() - 1.0) * 100.0;
    values.set("more with L=5", seeds.iter().map(more));
    values
}

/// Two minutes with one seed. `equal`: every L is 1.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let base = crate::figures::scenario::changes::apply(&wrf::base()?, change);
    let trial = |slots| {
        Ok(Trial { scenario: with_slots(&base, 2, if change == "equal" { 1 } else { slots })?, policy: POLICY })
    };
    let trials = SLOTS.map(trial).into_iter().collect::<Result<Vec<_>, SimError>>()?;
    Ok(values(&contention::outcomes(&trials, &SEEDS[..1])?))
}

//! [vPFS+ Fig. 7]: run time of WRF beside IOR. The scenario file states the assumptions.

use vpfs_core::Weight;
use vpfs_sim::{Scenario, SimError};

use crate::{Axis, Section};

use super::contention::{self, Experiment, Trial};
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};

const BASE: &str = include_str!("../../../../../scenarios/figures/vpfs-plus-7.toml");

/// Ways of sharing with WRF's weight (IOR's is 1).
const WAYS: [(&str, u32); 3] = [("native", 1), ("SFQ(D)", 16), ("SFQ(D)+", 1)];
/// The paper's additional run time in the order of [`WAYS`], in %.
const RUN_TIMES: [f64; 3] = [582.0, 180.0, 79.0];

/// The scenario that [vPFS+ Fig. 8] uses as well.
pub(super) fn base() -> Result<Scenario, SimError> {
    scenario::parse("vpfs-plus-7.toml", BASE)
}

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let wrf = [experiment(&base()?, &SEEDS)?];
    let section = Section::new("vPFS+ Fig. 7: WRF beside IOR")
        .text(
            "A weather model that makes small requests and many attribute look-ups runs beside an application that \
             writes 8 MB at a time. SFQ(D) needs a ratio of 16:1 to help the model, and still lets 14 large requests \
             into each disk at once. SFQ(D)+ counts five slots for each of them, and does better with equal weights.",
        )
        .figure(
            contention::bars(
                "Additional run time of WRF",
                Axis::linear("of that alone", "%"),
                &wrf,
                &[&RUN_TIMES],
                Experiment::extra_run_time,
            ),
            "Fig. 7: medians, with the smallest and the largest of five runs.",
        )
        .table(contention::table(&wrf));
    Ok((scenario::assumptions(section, BASE), values(&wrf[0])))
}

fn experiment(base: &Scenario, seeds: &[u64]) -> Result<Experiment, SimError> {
    let ways = WAYS.map(|(policy, weight)| {
        let mut scenario = base.clone();
        scenario.apps[0].weight = Weight::new(weight).unwrap_or(Weight::ONE);
        let label = if policy == "native" { policy.to_owned() } else { format!("{policy} {weight}:1") };
        (label, Trial { scenario, policy })
    });
    Experiment::new("WRF", base, ways.into(), seeds)
}

/// Additional run time in %, and how often faster WRF is under SFQ(D)+.
fn values(wrf: &Experiment) -> Values {
    let mut values = Values::default();
    for (way, name) in ["native", "sfq", "plus"].into_iter().enumerate() {
        values.set(format!("{name}.time"), wrf.extra_run_time(way));
        values.set(format!("run {name}/plus"), wrf.measure(|_, ways| ways[way].run / ways[2].run));
    }
    values.set("metadata", wrf.measure(|alone, _| alone.metadata));
    values
}

/// Two minutes of the forecast with one seed.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let mut base = crate::figures::scenario::changes::apply(&base()?, change);
    base.apps[0].workload = vpfs_sim::Workload::Wrf(vpfs_sim::model::plan::Wrf::PAPER.with_minutes(2));
    Ok(values(&experiment(&base, &SEEDS[..1])?))
}

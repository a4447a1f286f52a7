//! [vPFS+ Fig. 7]: run time of WRF beside IOR. The scenario file states the assumptions.

use vpfs_core::Weight;
use vpfs_report::{Axis, Bar, Bars, Check, Section, Table, number};
use vpfs_sim::{Scenario, SimError};

use super::contention::{self, Outcome, Trial};
use crate::scenario;

const BASE: &str = include_str!("../../../../scenarios/figures/vpfs-plus-7.toml");

/// Ways of sharing with WRF's weight (IOR's is 1) and the paper's run time relative to alone.
const WAYS: [(&str, u32, f64); 3] = [("native", 1, 6.82), ("SFQ(D)", 16, 2.80), ("SFQ(D)+", 1, 1.79)];

/// The scenario that [vPFS+ Fig. 8] uses as well.
pub(super) fn base() -> Result<Scenario, SimError> {
    scenario::parse("vpfs-plus-7.toml", BASE)
}

pub(super) fn run() -> Result<Section, SimError> {
    let outcomes = outcomes(&base()?)?;
    let section = Section::new("vPFS+ Fig. 7: WRF beside IOR")
        .text(
            "A weather model that makes small requests and many attribute look-ups runs beside an application that \
             writes 8 MB at a time. SFQ(D) needs a ratio of 16:1 to help the model, and still lets 14 large requests \
             into each disk at once. SFQ(D)+ counts five slots for each of them, and does better with equal weights.",
        )
        .figure(times(&outcomes), "Fig. 7: run time relative to alone.")
        .table(table(&outcomes));
    Ok(checks(&outcomes).into_iter().fold(section, Section::check))
}

/// Alone, then [`WAYS`].
fn outcomes(base: &Scenario) -> Result<Vec<Outcome>, SimError> {
    let shared = WAYS.map(|(policy, weight, _)| {
        let mut scenario = base.clone();
        scenario.apps[0].weight = Weight::new(weight).unwrap_or(Weight::ONE);
        Trial { scenario, policy }
    });
    let trials: Vec<Trial> = [contention::small_alone(base)].into_iter().chain(shared).collect();
    contention::outcomes(&trials)
}

fn slowdowns(outcomes: &[Outcome]) -> [f64; 3] {
    [1, 2, 3].map(|way| outcomes[way].run / outcomes[0].run)
}

fn label((name, weight, _): (&str, u32, f64)) -> String {
    if name == "native" { name.to_owned() } else { format!("{name} {weight}:1") }
}

fn times(outcomes: &[Outcome]) -> Bars {
    let axis = Axis::linear("run time", "times alone");
    Bars::new("Run time of WRF", axis, WAYS.map(label))
        .series("paper", WAYS.map(|(_, _, paper)| Bar::new(paper)))
        .series("ours", slowdowns(outcomes).map(Bar::new))
}

fn table(outcomes: &[Outcome]) -> Table {
    let heading = Table::new(["way", "run time [s]", "computation [s]", "WRF [MB/s]", "IOR [MB/s]"]);
    let names = ["alone".to_owned()].into_iter().chain(WAYS.map(label));
    names.zip(outcomes).fold(heading, |table, (name, outcome)| {
        let numbers = [outcome.run, outcome.think, outcome.small, outcome.large].map(number);
        table.row([vec![name], numbers.to_vec()].concat())
    })
}

fn checks(outcomes: &[Outcome]) -> Vec<Check> {
    let slowdowns = slowdowns(outcomes);
    let named = || WAYS.map(label).into_iter().zip(slowdowns);
    let order = Check::of("Fig. 7", "run time relative to alone").falling(named(), 0.0);
    let each = named().zip(WAYS).map(|((name, ours), (_, _, paper))| {
        Check::of("Fig. 7", format!("run time relative to alone, {name}")).within(paper, ours, 50.0)
    });
    [order].into_iter().chain(each).collect()
}

#[cfg(test)]
mod tests {
    use vpfs_model::plan::Wrf;
    use vpfs_report::Verdict;
    use vpfs_sim::Workload;

    use super::*;

    /// Two minutes of the forecast: all checks as in the figure.
    #[test]
    fn wrf_is_isolated_as_in_the_paper() {
        let mut base = base().unwrap();
        base.apps[0].workload = Workload::Wrf(Wrf::PAPER.with_minutes(2));
        let checks = checks(&outcomes(&base).unwrap());
        assert!(checks.iter().all(|check| check.verdict() == Verdict::Passes), "{checks:#?}");
    }
}

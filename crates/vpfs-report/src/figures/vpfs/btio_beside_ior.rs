//! [vPFS Fig. 7]: BTIO beside IOR without management, under layout-driven DSFQ at 32:1, and with IOR capped.
//!
//! The experiment is that of vPFS+ Fig. 5 and 6, with other schedulers: the scenario file is the same and states the
//! assumptions. As in the paper: D = 8, shares of 32 to 1 for BTIO. Not work-conserving: the same scheduler with IOR
//! capped, equally at each server, at its share of the storage, which is a 33rd of what IOR gets alone.

use vpfs_core::{Bytes, Cap};
use vpfs_sim::{Scenario, SimError};

use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};
use crate::figures::vpfs_plus::contention::{self, Experiment, Trial};
use crate::figures::vpfs_plus::isolation::{self, Baselines};
use crate::{Axis, Section};

const WAYS: [&str; 3] = ["native", "Layout-DSFQ", "Layout-DSFQ, not work-conserving"];
/// Additional run time, and I/O throughput relative to alone, both in %, class by class, in the order of [`WAYS`].
const RUN_TIMES: [[f64; 3]; 2] = [[228.8, 153.3, 1.9], [76.0, 20.3, 1.1]];
const THROUGHPUTS: [[f64; 3]; 2] = [[7.5, 16.8, 93.2], [31.6, 72.1, 98.5]];

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let base = scenario::parse("vpfs-plus-5.toml", isolation::BASE)?;
    let classes = experiments(&base)?;
    let section = Section::new("vPFS Fig. 7: BTIO beside IOR")
        .text(
            "A simulation that computes and writes in turn runs beside an application that writes checkpoints all the \
             time. Shares of 32 to 1 help the simulation, but do not shield it: while it computes, the writer gets \
             everything, and each burst waits for the eight large requests outstanding at each server. A cap on the \
             writer shields it, but leaves the storage idle meanwhile.",
        )
        .figure(
            contention::bars(
                "Additional run time of BTIO",
                Axis::linear("of that alone", "%"),
                &classes,
                &[&RUN_TIMES[0], &RUN_TIMES[1]],
                Experiment::extra_run_time,
            ),
            "Medians, with the smallest and the largest of five runs.",
        )
        .figure(
            contention::bars(
                "I/O throughput of BTIO",
                Axis::linear("of that alone", "%"),
                &classes,
                &[&THROUGHPUTS[0], &THROUGHPUTS[1]],
                Experiment::throughput,
            ),
            "Throughput in I/O phases, relative to alone.",
        )
        .table(contention::table(&classes))
        .text(
            "The paper's two columns do not belong to one split of the run time: with its throughputs, I/O is 19 % of \
             class A's time alone by the native run and 31 % by the other one; 35 % and 52 % of class C's. So both \
             cannot agree at once.",
        );
    Ok((scenario::assumptions(section, isolation::BASE), values(&classes)))
}

/// Class A and class C.
fn experiments(base: &Scenario) -> Result<[Experiment; 2], SimError> {
    let Baselines { classes: [class_a, class_c], ior_alone } = isolation::baselines()?;
    let cap = share_of_ior(base, *ior_alone);
    let class = |name, base: &Scenario, baseline: &[_]| Experiment::beyond(name, baseline, ways(base, cap), &SEEDS);
    Ok([class("class A", base, class_a)?, class("class C", &isolation::of_class_c(base), class_c)?])
}

fn ways(base: &Scenario, cap: Option<Cap>) -> Vec<(&'static str, Trial)> {
    let mut capped = base.clone();
    capped.apps.iter_mut().skip(1).for_each(|ior| ior.cap = cap);
    let shared = [base.clone(), capped].map(|scenario| Trial { scenario, policy: WAYS[1] });
    WAYS[1..].iter().copied().zip(shared).collect()
}

/// IOR's cap at each server if it gets one part in 33 and unused shares are not given to others.
#[expect(clippy::cast_possible_truncation, reason = "a rate in whole bytes")]
fn share_of_ior(base: &Scenario, alone: f64) -> Option<Cap> {
    let servers: u32 = base.servers.iter().map(|group| group.count).sum();
    let parts: u32 = base.apps.iter().map(|app| app.weight.get()).sum();
    Cap::new((alone * 1e6 / f64::from(servers) / f64::from(parts)) as u64, Bytes::ZERO)
}

/// Additional run time, and throughput in I/O phases of that alone, in %: `a.dsfq.time` and `a.dsfq.io` for class A
/// under Layout-DSFQ.
fn values(classes: &[Experiment]) -> Values {
    let mut values = Values::default();
    for (class, name) in classes.iter().zip(["a", "c"]) {
        for (way, short) in ["native", "dsfq", "capped"].into_iter().enumerate() {
            values.set(format!("{name}.{short}.time"), class.extra_run_time(way));
            values.set(format!("{name}.{short}.io"), class.throughput(way));
        }
        values.set(format!("{name}.io of run time"), class.measure(|alone, _| alone.io() / alone.run * 100.0));
        values.set(
            format!("{name}.native.more io"),
            class.measure(|alone, ways| (ways[0].io() / alone.io() - 1.0) * 100.0),
        );
    }
    values
}

/// One seed and two iterations. `alone`: IOR is not there.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let base = isolation::short(change)?;
    let ior_alone = if change == "alone" { 400.0 } else { contention::large_alone(&base)? };
    let class = |name, base: &Scenario| {
        let baseline = contention::baseline(base, &SEEDS[..1])?;
        Experiment::beyond(name, &baseline, ways(base, share_of_ior(base, ior_alone)), &SEEDS[..1])
    };
    Ok(values(&[class("class A", &base)?, class("class C", &isolation::of_class_c(&base))?]))
}

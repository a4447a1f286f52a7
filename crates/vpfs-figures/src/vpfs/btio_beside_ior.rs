//! [vPFS Fig. 7]: BTIO beside IOR without management, under layout-driven DSFQ at 32:1, and with IOR capped.
//!
//! The experiment is that of vPFS+ Fig. 5 and 6, with other schedulers: the scenario file is the same and states the
//! assumptions. As in the paper: D = 8, shares of 32 to 1 for BTIO. Not work-conserving: the same scheduler with IOR
//! capped, equally at each server, at its share of the storage, which is a 33rd of what IOR gets alone.

use vpfs_core::{Bytes, Cap};
use vpfs_report::{Axis, Check, Kind, Section};
use vpfs_sim::{Scenario, SimError};

use crate::scenario::{self, SEEDS};
use crate::vpfs_plus::contention::{self, Experiment, Trial, Value};
use crate::vpfs_plus::isolation::{self, Baselines};

const WAYS: [&str; 3] = ["native", "Layout-DSFQ", "Layout-DSFQ, not work-conserving"];
/// The ways that are evidence; the last one does what its cap says.
const SHARED: usize = 2;
/// Additional run time, and I/O throughput relative to alone, both in %, class by class, in the order of [`WAYS`].
const RUN_TIMES: [[f64; 3]; 2] = [[228.8, 153.3, 1.9], [76.0, 20.3, 1.1]];
const THROUGHPUTS: [[f64; 3]; 2] = [[7.5, 16.8, 93.2], [31.6, 72.1, 98.5]];

pub(super) fn run() -> Result<Section, SimError> {
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
    Ok(rows(&classes).into_iter().fold(scenario::assumptions(section, isolation::BASE), Section::check))
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
    capped.apps[1].cap = cap;
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

fn rows(classes: &[Experiment; 2]) -> Vec<Check> {
    let ordered = classes.iter().map(|class| {
        let named = (0..).zip(WAYS).map(|(way, name)| (name, class.extra_run_time(way).median()));
        Check::of("Fig. 7", format!("additional run time, {}", class.name)).falling(named, 2.0).unit("%")
    });
    let io = Check::of("Fig. 8", "I/O of class C alone, part of its run time")
        .within(50.0, classes[1].io_alone(), 25.0)
        .unit("%")
        .is(Kind::Calibrated, "the clients' time in each burst is what the paper prints less that of our servers");
    let io_time = Check::of("§II", "additional I/O time, class C, native")
        .within(216.5, classes[1].measure(|alone, ways| (ways[0].io() / alone.io() - 1.0) * 100.0), 25.0)
        .unit("%")
        .is(Kind::Derived, "the inverse of its throughput");
    let run_times = compare("additional run time", classes, &RUN_TIMES, Experiment::extra_run_time);
    let throughputs = compare("I/O throughput of that alone", classes, &THROUGHPUTS, Experiment::throughput);
    run_times.chain(throughputs).chain([io_time, io]).chain(ordered).collect()
}

/// Named experiments of decision 0014.
fn why(class: &Experiment) -> &'static str {
    match class.name {
        "class A" => {
            "the paper's calls wait 1 to 4 ms, about what one buffer of 256 KiB takes; here 162 of them are one, which \
             waits for all that IOR has at a disk, or for one of eight slots (decision 0014, calls of 320 bytes)"
        }
        _ => {
            "a call waits for all buffers of all connections. Where links are the limit, connections take turns: a \
             call waits as long as the paper's, 1.2 s, and the rows of Layout-DSFQ agree (decision 0014, BTIO)"
        }
    }
}

/// One row for each class and way.
fn compare<'a>(
    what: &'a str,
    classes: &'a [Experiment; 2],
    paper: &'a [[f64; 3]; 2],
    ours: Value,
) -> impl Iterator<Item = Check> + 'a {
    let row = move |class: &Experiment, way: usize, paper: f64| {
        let what = format!("{what}, {}, {}", class.name, WAYS[way]);
        let row = Check::of("Fig. 7", what).within(paper, ours(class, way), 25.0).unit("%").because(why(class));
        if way < SHARED { row } else { row.is(Kind::Input, "the cap says what IOR gets") }
    };
    let of_class = move |(class, paper): (&'a Experiment, &'a [f64; 3])| {
        (0..).zip(paper).map(move |(way, &paper)| row(class, way, paper))
    };
    classes.iter().zip(paper).flat_map(of_class)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an administrator can rely on: a cap shields the small application, shares alone help it.
    #[test]
    fn shares_help_and_a_cap_shields() {
        let base = scenario::parse("vpfs-plus-5.toml", isolation::BASE).unwrap();
        let ior_alone = contention::large_alone(&base).unwrap();
        let baseline = contention::baseline(&base, &SEEDS[..1]).unwrap();
        let ways = ways(&base, share_of_ior(&base, ior_alone));
        let class_a = Experiment::beyond("class A", &baseline, ways, &SEEDS[..1]).unwrap();
        let [native, shares, capped] = [0, 1, 2].map(|way| class_a.extra_run_time(way).median());
        assert!(native > shares && shares > capped && capped < 5.0, "{native} {shares} {capped}");
    }
}

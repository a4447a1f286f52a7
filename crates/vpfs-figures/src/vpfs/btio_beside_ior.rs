//! [vPFS Fig. 7]: BTIO beside IOR without management, under layout-driven DSFQ at 32:1, and with IOR capped.
//!
//! The experiment is that of vPFS+ Fig. 5 and 6, with other schedulers: the scenario file is the same and states the
//! assumptions. As in the paper: D = 8, shares of 32 to 1 for BTIO. Not work-conserving: the same scheduler with IOR
//! capped, equally at each server, at its share of the storage, which is a 33rd of what IOR gets alone.

use vpfs_core::{Bytes, Cap};
use vpfs_report::{Axis, Bar, Bars, Check, Section, Table, Verdict, number};
use vpfs_sim::{Scenario, SimError};

use crate::scenario;
use crate::vpfs_plus::contention::{self, Outcome, Trial};
use crate::vpfs_plus::isolation;

const WAYS: [&str; 3] = ["native", "Layout-DSFQ", "Layout-DSFQ, not work-conserving"];
const CLASSES: [&str; 2] = ["class A", "class C"];
/// Run time and throughput relative to alone, in %, class by class, in the order of [`WAYS`].
const RUN_TIMES: [[f64; 3]; 2] = [[328.8, 253.3, 101.9], [176.0, 120.3, 101.1]];
const THROUGHPUTS: [[f64; 3]; 2] = [[7.5, 16.8, 93.2], [31.6, 72.1, 98.5]];

/// Outcomes of one class: alone, then each of [`WAYS`].
struct Class {
    alone: Outcome,
    ways: [Outcome; 3],
}

impl Class {
    /// In % of alone.
    fn run_times(&self) -> [f64; 3] {
        self.ways.map(|way| way.run / self.alone.run * 100.0)
    }

    /// In % of alone, during I/O.
    fn throughputs(&self) -> [f64; 3] {
        self.ways.map(|way| self.alone.io() / way.io() * 100.0)
    }
}

pub(super) fn run() -> Result<Section, SimError> {
    let base = scenario::parse("vpfs-plus-5.toml", isolation::BASE)?;
    let cap = share_of_ior(&base)?;
    let classes = [class(&base, cap)?, class(&isolation::class_c(&base), cap)?];
    let section = Section::new("vPFS Fig. 7: BTIO beside IOR")
        .text(
            "A simulation that computes and writes in turn runs beside an application that writes checkpoints all the \
             time. Shares of 32 to 1 help the simulation, but do not shield it: while it computes, the writer gets \
             everything, and each burst waits for the eight large requests outstanding at each server. A cap on the \
             writer shields it, but leaves the storage idle meanwhile.",
        )
        .figure(
            bars("Run time of BTIO", &classes, Class::run_times, &RUN_TIMES),
            "Relative to alone, the paper's beside ours.",
        )
        .figure(
            bars("I/O throughput of BTIO", &classes, Class::throughputs, &THROUGHPUTS),
            "Throughput in I/O phases, relative to alone.",
        )
        .table(table(&classes))
        .text(
            "Why our results differ: clients take no time in the model and there is no page cache here, so alone BTIO \
             spends less of its run in I/O than the paper's ratios imply, and the same seconds of waiting are a \
             larger part of it. A server's part of a call is served in one piece and in order of arrival. See vPFS+ \
             Fig. 5 and 6, the same experiment.",
        );
    Ok(checks(&classes).into_iter().fold(section, Section::check))
}

/// IOR's cap at each server if it gets one part in 33 and unused shares are not given to others.
#[expect(clippy::cast_possible_truncation, reason = "a rate in whole bytes")]
fn share_of_ior(base: &Scenario) -> Result<Option<Cap>, SimError> {
    let servers: u32 = base.servers.iter().map(|group| group.count).sum();
    let parts: u32 = base.apps.iter().map(|app| app.weight.get()).sum();
    let rate = contention::large_alone(base)? * 1e6 / f64::from(servers) / f64::from(parts);
    Ok(Cap::new(rate as u64, Bytes::ZERO))
}

fn class(base: &Scenario, cap: Option<Cap>) -> Result<Class, SimError> {
    let mut capped = base.clone();
    capped.apps[1].cap = cap;
    let shared = |policy| Trial { scenario: base.clone(), policy };
    let not_conserving = Trial { scenario: capped, policy: WAYS[1] };
    let outcomes =
        contention::outcomes(&[contention::small_alone(base), shared(WAYS[0]), shared(WAYS[1]), not_conserving])?;
    Ok(Class { alone: outcomes[0], ways: [outcomes[1], outcomes[2], outcomes[3]] })
}

fn bars(title: &str, classes: &[Class; 2], ours: fn(&Class) -> [f64; 3], paper: &[[f64; 3]; 2]) -> Bars {
    let bars = Bars::new(title, Axis::linear("relative to alone", "%"), WAYS);
    CLASSES.iter().zip(classes).zip(paper).fold(bars, |bars, ((name, class), paper)| {
        bars.series(format!("{name}, paper"), paper.map(Bar::new))
            .series(format!("{name}, ours"), ours(class).map(Bar::new))
    })
}

fn table(classes: &[Class; 2]) -> Table {
    let heading = Table::new(["class", "way", "run time [s]", "computation [s]", "BTIO [MB/s]", "IOR [MB/s]"]);
    let rows = CLASSES.iter().zip(classes).flat_map(|(letter, class)| {
        let names = ["alone"].into_iter().chain(WAYS);
        [class.alone].into_iter().chain(class.ways).zip(names).map(move |(outcome, name)| {
            let numbers = [outcome.run, outcome.think, outcome.small, outcome.large].map(number);
            [vec![(*letter).to_owned(), name.to_owned()], numbers.to_vec()].concat()
        })
    });
    rows.fold(heading, Table::row)
}

fn checks(classes: &[Class; 2]) -> Vec<Check> {
    let shielded = |(name, class): (&&str, &Class)| {
        let ordered = WAYS.into_iter().zip(class.run_times());
        let what = format!("run time relative to alone, {name}");
        [
            Check::of("Fig. 7", what.clone()).falling(ordered, 2.0).unit("%"),
            Check::of("Fig. 7", format!("{what}, capped: shielded")).at_most(class.run_times()[2], 105.0).unit("%"),
        ]
    };
    let run_times = compare("run time relative to alone", classes, Class::run_times, &RUN_TIMES);
    let throughputs = compare("I/O throughput relative to alone", classes, Class::throughputs, &THROUGHPUTS);
    CLASSES.iter().zip(classes).flat_map(shielded).chain(run_times).chain(throughputs).collect()
}

/// One check for each class and way.
fn compare(what: &str, classes: &[Class; 2], ours: fn(&Class) -> [f64; 3], paper: &[[f64; 3]; 2]) -> Vec<Check> {
    let of_class = |((name, class), paper): ((&&str, &Class), &[f64; 3])| {
        let each = WAYS.into_iter().zip(ours(class)).zip(*paper);
        let check = |((way, ours), paper): ((&str, f64), f64)| {
            let check = Check::of("Fig. 7", format!("{what}, {name}, {way}")).within(paper, ours, 50.0).unit("%");
            let differs = check.verdict() == Verdict::Differs;
            if differs { check.because("alone, ours takes hardly any time for I/O, see below") } else { check }
        };
        each.map(check).collect::<Vec<_>>()
    };
    CLASSES.iter().zip(classes).zip(paper).flat_map(of_class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an administrator can rely on: a cap shields the small application, shares alone help it.
    #[test]
    fn shares_help_and_a_cap_shields() {
        let base = scenario::parse("vpfs-plus-5.toml", isolation::BASE).unwrap();
        let [native, shares, capped] = class(&base, share_of_ior(&base).unwrap()).unwrap().run_times();
        assert!(native > shares && shares > capped && capped < 105.0, "{native} {shares} {capped}");
    }
}

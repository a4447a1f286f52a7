//! mdtest's table: operations per second of each phase over all repetitions.

use vpfs_model::plan::Phase;

use crate::load::measure::{Report, Spread};

/// The table of all repetitions of a run.
pub fn md(repetitions: &[Report]) -> String {
    let mut text = format!("SUMMARY rate (in ops/sec): (of {} iterations)\n", repetitions.len());
    text += &line("Operation", ["Max", "Min", "Mean", "Std Dev"].map(str::to_owned));
    text += &line("---------", ["---", "---", "----", "-------"].map(str::to_owned));
    for phase in phases(repetitions) {
        let rate = |report: &Report| report.phase(phase).map(|phase| phase.operations_per_second);
        let spread = Spread::of(&repetitions.iter().filter_map(rate).collect::<Vec<_>>());
        let name = name(phase).unwrap_or_default();
        text += &line(name, [spread.max, spread.min, spread.mean, spread.std_dev].map(|rate| format!("{rate:.3}")));
    }
    text
}

fn line(name: &str, [max, min, mean, std_dev]: [String; 4]) -> String {
    format!("   {name:<20}{max:>14} {min:>14} {mean:>14} {std_dev:>14}\n")
}

/// The phases that mdtest measures, in the order of the first repetition.
fn phases(repetitions: &[Report]) -> impl Iterator<Item = Phase> {
    let first = repetitions.first().map(|report| report.phases.as_slice()).unwrap_or_default();
    first.iter().map(|report| report.phase).filter(|&phase| name(phase).is_some())
}

fn name(phase: Phase) -> Option<&'static str> {
    match phase {
        Phase::MakeDir => Some("Directory creation"),
        Phase::Create => Some("File creation"),
        Phase::Stat => Some("File stat"),
        Phase::SetTimes => Some("File utime"),
        Phase::ListDir => Some("Directory listing"),
        Phase::Remove => Some("File removal"),
        Phase::RemoveDir => Some("Directory removal"),
        Phase::Setup | Phase::Open | Phase::Write | Phase::Sync | Phase::Read | Phase::Mixed | Phase::Cleanup => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{phase, report};
    use super::*;

    #[test]
    fn looks_like_mdtest() {
        let repetition = |seconds| {
            report(vec![
                phase(Phase::Setup, 1.0, 4, 0),
                phase(Phase::Create, seconds, 100, 0),
                phase(Phase::SetTimes, seconds, 200, 0),
            ])
        };
        let expected = "\
SUMMARY rate (in ops/sec): (of 2 iterations)
   Operation                      Max            Min           Mean        Std Dev
   ---------                      ---            ---           ----        -------
   File creation              100.000         50.000         75.000         25.000
   File utime                 200.000        100.000        150.000         50.000
";
        assert_eq!(md(&[repetition(1.0), repetition(2.0)]), expected);
    }
}

//! The rates and latencies that a waiting user notices: one line for each repetition.

use vpfs_model::plan::Phase;

use super::MB;
use super::latency::columns;
use crate::load::measure::Report;

const HEADINGS: [&str; 11] =
    ["access", "calls", "calls/s", "MB/s", "mean(ms)", "p50(ms)", "p90(ms)", "p99(ms)", "p99.9(ms)", "max(ms)", "iter"];

/// The table of all repetitions of a run, without creating and filling the files.
pub fn interactive(repetitions: &[Report]) -> String {
    let mut text = line(HEADINGS.map(str::to_owned)) + &line(HEADINGS.map(|name| "-".repeat(name.len())));
    for (iteration, report) in repetitions.iter().enumerate() {
        for phase in [Phase::Write, Phase::Read].into_iter().filter_map(|phase| report.phase(phase)) {
            let [mean, p50, p90, p99, p999, max] =
                columns(&phase.latency).map(|seconds| format!("{:.2}", seconds * 1e3));
            let calls_per_second = format!("{:.2}", phase.operations_per_second);
            let mb_per_second = format!("{:.2}", phase.bytes_per_second / MB);
            let (access, calls, iteration) =
                (phase.phase.to_string(), phase.operations.to_string(), iteration.to_string());
            text += &line([access, calls, calls_per_second, mb_per_second, mean, p50, p90, p99, p999, max, iteration]);
        }
    }
    text
}

fn line([access, columns @ .., iteration]: [String; 11]) -> String {
    format!("{access:<10}{}{iteration}\n", columns.map(|column| format!("{column:<11}")).join(""))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{phase, report};
    use super::*;

    #[test]
    fn one_line_for_each_repetition_without_the_filling_of_files() {
        let repetition = |seconds| {
            report(vec![
                phase(Phase::Setup, 1.0, 64, 64 << 20),
                phase(Phase::Read, seconds, 100, 400 << 10),
                phase(Phase::Remove, 0.5, 4, 0),
            ])
        };
        let expected = "\
access    calls      calls/s    MB/s       mean(ms)   p50(ms)    p90(ms)    p99(ms)    p99.9(ms)  max(ms)    iter
------    -----      -------    ----       --------   -------    -------    -------    ---------  -------    ----
read      100        50.00      0.20       20.00      10.00      0.00       1500.00    0.00       0.00       0
read      100        25.00      0.10       40.00      10.00      0.00       1500.00    0.00       0.00       1
";
        assert_eq!(interactive(&[repetition(2.0), repetition(4.0)]), expected);
    }
}

//! Measurements in the formats customary in the field.

use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use vpfs_sim::model::plan::{Ior, Phase};

use super::measure::{Latency, PhaseReport, Report, Spread, per_second};

/// Bytes in a MiB, IOR's unit.
const MIB: f64 = 1_048_576.0;

/// Bytes in a MB, the paper's unit.
const MB: f64 = 1_000_000.0;

/// One access of one repetition; times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Access {
    /// Bytes divided by `total_seconds`, as in IOR.
    mib_per_second: f64,
    /// Calls divided by `transfer_seconds`.
    operations_per_second: f64,
    latency_seconds: f64,
    open_seconds: f64,
    transfer_seconds: f64,
    close_seconds: f64,
    total_seconds: f64,
}

/// All repetitions of an access, with the names of IOR's JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "IOR's words; bandwidths in MiB/s, times in seconds")]
pub struct AccessSummary {
    pub operation: Phase,
    #[serde(rename = "bwMaxMIB")]
    pub bw_max_mib: f64,
    #[serde(rename = "bwMinMIB")]
    pub bw_min_mib: f64,
    #[serde(rename = "bwMeanMIB")]
    pub bw_mean_mib: f64,
    #[serde(rename = "bwStdMIB")]
    pub bw_std_mib: f64,
    #[serde(rename = "OPsMax")]
    pub ops_max: f64,
    #[serde(rename = "OPsMin")]
    pub ops_min: f64,
    #[serde(rename = "OPsMean")]
    pub ops_mean: f64,
    #[serde(rename = "OPsSD")]
    pub ops_sd: f64,
    #[serde(rename = "MeanTime")]
    pub mean_time: f64,
}

fn access(report: &Report, phase: Phase) -> Option<Access> {
    let seconds = |phase| report.phase(phase).map_or(0.0, |phase| phase.seconds);
    let transfer = report.phase(phase)?;
    // Files are opened once, before the first access.
    let is_first = phase == Phase::Write || report.phase(Phase::Write).is_none();
    let open_seconds = if is_first { seconds(Phase::Create) + seconds(Phase::Open) } else { 0.0 };
    let close_seconds = if phase == Phase::Write { seconds(Phase::Sync) } else { 0.0 };
    let total_seconds = open_seconds + transfer.seconds + close_seconds;
    Some(Access {
        mib_per_second: per_second(transfer.bytes, total_seconds) / MIB,
        operations_per_second: transfer.operations_per_second,
        latency_seconds: transfer.latency.mean_seconds,
        open_seconds,
        transfer_seconds: transfer.seconds,
        close_seconds,
        total_seconds,
    })
}

/// Summarises the repetitions of an access; `None` if there was none.
pub fn summarize(repetitions: &[Report], phase: Phase) -> Option<AccessSummary> {
    let accesses: Vec<Access> = repetitions.iter().filter_map(|report| access(report, phase)).collect();
    if accesses.is_empty() {
        return None;
    }
    let spread = |field: fn(&Access) -> f64| Spread::of(&accesses.iter().map(field).collect::<Vec<_>>());
    let bandwidth = spread(|access| access.mib_per_second);
    let operations = spread(|access| access.operations_per_second);
    Some(AccessSummary {
        operation: phase,
        bw_max_mib: bandwidth.max,
        bw_min_mib: bandwidth.min,
        bw_mean_mib: bandwidth.mean,
        bw_std_mib: bandwidth.std_dev,
        ops_max: operations.max,
        ops_min: operations.min,
        ops_mean: operations.mean,
        ops_sd: operations.std_dev,
        mean_time: spread(|access| access.total_seconds).mean,
    })
}

const KIB: f64 = 1024.0;

/// The table of all repetitions of a run.
pub fn ior(plan: &Ior, repetitions: &[Report]) -> String {
    let mut text = heading();
    for (iteration, report) in repetitions.iter().enumerate() {
        for phase in [Phase::Write, Phase::Read] {
            if let Some(access) = access(report, phase) {
                text += &line(plan, phase, &access, iteration);
            }
        }
        if let Some(remove) = report.phase(Phase::Remove) {
            let columns = ["-"; 7].map(|dash| format!("{dash:<11}")).join("");
            let _ = writeln!(text, "{:<10}{columns}{:<11.6}{iteration}", "remove", remove.seconds);
        }
    }
    text.push('\n');
    for (phase, name) in [(Phase::Write, "Write"), (Phase::Read, "Read")] {
        if let Some(summary) = summarize(repetitions, phase) {
            let mib = summary.bw_max_mib;
            let _ = writeln!(text, "{:<11}{mib:.2} MiB/sec ({:.2} MB/sec)", format!("Max {name}:"), mib * MIB / MB);
        }
    }
    text
}

fn heading() -> String {
    let names =
        ["bw(MiB/s)", "IOPS", "Latency(s)", "block(KiB)", "xfer(KiB)", "open(s)", "wr/rd(s)", "close(s)", "total(s)"];
    let line = |first: &str, columns: [String; 9], last: &str| {
        format!("{first:<10}{}{last}\n", columns.map(|column| format!("{column:<11}")).join(""))
    };
    line("access", names.map(str::to_owned), "iter") + &line("------", names.map(|name| "-".repeat(name.len())), "----")
}

fn line(plan: &Ior, phase: Phase, access: &Access, iteration: usize) -> String {
    let columns = [
        format!("{:.2}", access.mib_per_second),
        format!("{:.2}", access.operations_per_second),
        format!("{:.6}", access.latency_seconds),
        format!("{:.2}", plan.block_bytes as f64 / KIB),
        format!("{:.2}", f64::from(plan.transfer_bytes) / KIB),
        format!("{:.6}", access.open_seconds),
        format!("{:.6}", access.transfer_seconds),
        format!("{:.6}", access.close_seconds),
        format!("{:.6}", access.total_seconds),
    ];
    format!("{phase:<10}{}{iteration}\n", columns.map(|column| format!("{column:<11}")).join(""))
}

/// The table of all repetitions of a run.
pub fn md(repetitions: &[Report]) -> String {
    let mut text = format!("SUMMARY rate (in ops/sec): (of {} iterations)\n", repetitions.len());
    text += &line_md("Operation", ["Max", "Min", "Mean", "Std Dev"].map(str::to_owned));
    text += &line_md("---------", ["---", "---", "----", "-------"].map(str::to_owned));
    for phase in phases(repetitions) {
        let rate = |report: &Report| report.phase(phase).map(|phase| phase.operations_per_second);
        let spread = Spread::of(&repetitions.iter().filter_map(rate).collect::<Vec<_>>());
        let name = name(phase).unwrap_or_default();
        text += &line_md(name, [spread.max, spread.min, spread.mean, spread.std_dev].map(|rate| format!("{rate:.3}")));
    }
    text
}

fn line_md(name: &str, [max, min, mean, std_dev]: [String; 4]) -> String {
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

/// The statistics of each repetition. I/O is everything except computation, including waiting for processes that still
/// do I/O, as in a collective call.
pub fn btio(repetitions: &[Report]) -> String {
    let mut text = String::new();
    for report in repetitions {
        let data = [Phase::Write, Phase::Read].into_iter().filter_map(|phase| report.phase(phase));
        let bytes: u64 = data.map(|phase| phase.bytes).sum();
        let written = report.phase(Phase::Write).map_or(0, |phase| phase.bytes);
        let io = report.io_seconds + report.wait_seconds;
        let percent = if report.run_seconds > 0.0 { 100.0 * io / report.run_seconds } else { 0.0 };
        let _ = writeln!(text, " BTIO -- statistics:");
        let _ = writeln!(text, "   I/O timing in seconds   : {io:14.2}");
        let _ = writeln!(text, "   I/O timing percentage   : {percent:14.2}");
        let _ = writeln!(text, "   Total data written (MB) : {:14.2}", written as f64 / MB);
        let _ = writeln!(text, "   I/O data rate  (MB/sec) : {:14.2}", per_second(bytes, io) / MB);
        let _ = writeln!(
            text,
            "   Run time {:.2} s, mean over processes: I/O {:.2} s, think {:.2} s, wait for others {:.2} s",
            report.run_seconds, report.io_seconds, report.think_seconds, report.wait_seconds
        );
        for phase in [Phase::Write, Phase::Read].into_iter().filter_map(|phase| report.phase(phase)) {
            let &PhaseReport { phase, operations, seconds, io_seconds, bytes, .. } = phase;
            let rate = per_second(bytes, io_seconds) / MB;
            let _ = writeln!(text, "   {phase:<5} {operations} calls in {seconds:.2} s, {rate:.2} MB/s while in calls");
        }
    }
    text
}

const HEADINGS: [&str; 11] =
    ["access", "calls", "calls/s", "MB/s", "mean(ms)", "p50(ms)", "p90(ms)", "p99(ms)", "p99.9(ms)", "max(ms)", "iter"];

/// The table of all repetitions of a run, without creating and filling the files.
pub fn interactive(repetitions: &[Report]) -> String {
    let mut text =
        line_interactive(HEADINGS.map(str::to_owned)) + &line_interactive(HEADINGS.map(|name| "-".repeat(name.len())));
    for (iteration, report) in repetitions.iter().enumerate() {
        for phase in [Phase::Write, Phase::Read].into_iter().filter_map(|phase| report.phase(phase)) {
            let [mean, p50, p90, p99, p999, max] =
                columns(&phase.latency).map(|seconds| format!("{:.2}", seconds * 1e3));
            let calls_per_second = format!("{:.2}", phase.operations_per_second);
            let mb_per_second = format!("{:.2}", phase.bytes_per_second / MB);
            let (access, calls, iteration) =
                (phase.phase.to_string(), phase.operations.to_string(), iteration.to_string());
            text += &line_interactive([
                access,
                calls,
                calls_per_second,
                mb_per_second,
                mean,
                p50,
                p90,
                p99,
                p999,
                max,
                iteration,
            ]);
        }
    }
    text
}

fn line_interactive([access, columns @ .., iteration]: [String; 11]) -> String {
    format!("{access:<10}{}{iteration}\n", columns.map(|column| format!("{column:<11}")).join(""))
}

/// One application, alone and beside the other.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The run alone.
    pub alone: &'a Report,
    /// The run beside the other one.
    pub beside: &'a Report,
}

/// The parts of their stand-alone throughput that both keep; `None` if one moved nothing alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Calls per second of the small application.
    pub small: Option<f64>,
    /// The same for the large one.
    pub large: Option<f64>,
}

/// The parts that both keep.
pub fn kept(small: Pair<'_>, large: Pair<'_>) -> Kept {
    let of = |pair: Pair<'_>| {
        let rate = |report| data(report).map(|phase| phase.operations_per_second);
        let (alone, beside) = (rate(pair.alone)?, rate(pair.beside)?);
        Some(beside / alone).filter(|kept| kept.is_finite())
    };
    Kept { small: of(small), large: of(large) }
}

/// One line for each application.
pub fn side_by_side(small: Pair<'_>, large: Pair<'_>) -> String {
    let kept = kept(small, large);
    let mut text = line_kept(["application", "alone", "beside", "kept", "mean(ms)", "p99(ms)"].map(str::to_owned));
    text += &line_kept(["-----------", "-----", "------", "----", "--------", "-------"].map(str::to_owned));
    let calls = |phase: &PhaseReport| format!("{:.1} calls/s", phase.operations_per_second);
    let bytes = |phase: &PhaseReport| format!("{:.1} MB/s", phase.bytes_per_second / MB);
    text + &row("small", small, kept.small, calls) + &row("large", large, kept.large, bytes)
}

fn row(name: &str, pair: Pair<'_>, kept: Option<f64>, rate: impl Fn(&PhaseReport) -> String) -> String {
    let [alone, beside] = [pair.alone, pair.beside].map(data);
    let rate = |phase: Option<&PhaseReport>| phase.map_or("-".to_owned(), &rate);
    let ms = |seconds: fn(&PhaseReport) -> f64| {
        let one =
            |phase: Option<&PhaseReport>| phase.map_or("-".to_owned(), |phase| format!("{:.1}", seconds(phase) * 1e3));
        format!("{} -> {}", one(alone), one(beside))
    };
    let kept = kept.map_or("-".to_owned(), |kept| format!("{kept:.2}"));
    let mean = ms(|phase| phase.latency.mean_seconds);
    line_kept([name.to_owned(), rate(alone), rate(beside), kept, mean, ms(|phase| phase.latency.p99_seconds)])
}

fn data(report: &Report) -> Option<&PhaseReport> {
    [Phase::Write, Phase::Read].into_iter().find_map(|phase| report.phase(phase))
}

fn line_kept([name, alone, beside, kept, mean, p99]: [String; 6]) -> String {
    format!("{name:<13}{alone:<17}{beside:<17}{kept:<6}{mean:<18}{p99}\n")
}

const LATENCY_HEADINGS: [&str; 8] =
    ["phase", "calls", "mean(ms)", "p50(ms)", "p90(ms)", "p99(ms)", "p99.9(ms)", "max(ms)"];

/// The table of one run.
pub fn latency(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(LATENCY_HEADINGS);
    for phase in report.phases.iter().filter(|phase| phase.operations > 0) {
        let mut row = vec![phase.phase.to_string(), phase.operations.to_string()];
        row.extend(columns(&phase.latency).map(|seconds| format!("{:.2}", seconds * 1e3)));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn columns(latency: &Latency) -> [f64; 6] {
    [
        latency.mean_seconds,
        latency.p50_seconds,
        latency.p90_seconds,
        latency.p99_seconds,
        latency.p999_seconds,
        latency.max_seconds,
    ]
}

#[cfg(test)]
mod tests {
    use vpfs_sim::model::plan::{FileMode, Phase};

    use super::*;
    use crate::load::measure::{Timeline, Verification};

    fn phase(phase: Phase, seconds: f64, operations: u64, bytes: u64) -> PhaseReport {
        let latency = Latency { count: operations, p50_seconds: 0.01, p99_seconds: 1.5, ..Latency::default() };
        PhaseReport {
            phase,
            seconds,
            io_seconds: seconds,
            operations,
            bytes,
            bytes_per_second: bytes as f64 / seconds,
            operations_per_second: operations as f64 / seconds,
            latency: Latency { mean_seconds: seconds / operations as f64, ..latency },
        }
    }

    fn report(phases: Vec<PhaseReport>) -> Report {
        Report {
            processes: 4,
            nodes: 2,
            run_seconds: 10.0,
            io_seconds: 3.0,
            think_seconds: 6.0,
            wait_seconds: 1.0,
            phases,
            timeline: Timeline::default(),
            verification: Verification::default(),
        }
    }

    #[test]
    fn bandwidth_counts_opening_once_and_durability_to_the_write() {
        let report = report(vec![
            phase(Phase::Open, 1.0, 4, 0),
            phase(Phase::Write, 2.0, 100, 40 << 20),
            phase(Phase::Sync, 1.0, 4, 0),
            phase(Phase::Read, 2.0, 100, 40 << 20),
        ]);
        let of = |phase| access(&report, phase).unwrap().mib_per_second;
        assert!((of(Phase::Write) - 10.0).abs() < 1e-9);
        assert!((of(Phase::Read) - 20.0).abs() < 1e-9);
        assert_eq!(access(&report, Phase::Stat), None);
    }

    #[test]
    fn looks_like_ior() {
        let plan = Ior { file_mode: FileMode::Shared, ..Ior::writes(4, 1 << 20, 10 << 20) };
        let report = report(vec![phase(Phase::Write, 2.0, 40, 40 << 20), phase(Phase::Remove, 0.5, 1, 0)]);
        let expected = "\
access    bw(MiB/s)  IOPS       Latency(s) block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ---------- ---------- ---------  -------    --------   --------   --------   ----
write     20.00      20.00      0.050000   10240.00   1024.00    0.000000   2.000000   0.000000   2.000000   0
remove    -          -          -          -          -          -          -          0.500000   0

Max Write: 20.00 MiB/sec (20.97 MB/sec)
";
        assert_eq!(ior(&plan, &[report]), expected);
    }

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

    #[test]
    fn looks_like_btio() {
        let report = report(vec![phase(Phase::Write, 2.0, 4, 8_000_000), phase(Phase::Read, 0.5, 4, 8_000_000)]);
        let expected = " BTIO -- statistics:
   I/O timing in seconds   :           4.00
   I/O timing percentage   :          40.00
   Total data written (MB) :           8.00
   I/O data rate  (MB/sec) :           4.00
   Run time 10.00 s, mean over processes: I/O 3.00 s, think 6.00 s, wait for others 1.00 s
   write 4 calls in 2.00 s, 4.00 MB/s while in calls
   read  4 calls in 0.50 s, 16.00 MB/s while in calls
";
        assert_eq!(btio(&[report]), expected);
    }

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

    #[test]
    fn both_are_compared_with_what_they_get_alone() {
        let small =
            |seconds| report(vec![phase(Phase::Setup, 1.0, 4, 4 << 20), phase(Phase::Read, seconds, 100, 400 << 10)]);
        let large = |seconds| report(vec![phase(Phase::Write, seconds, 10, 40_000_000)]);
        let (small_alone, small_beside, large_alone, large_beside) = (small(1.0), small(2.0), large(4.0), large(5.0));
        let small = Pair { alone: &small_alone, beside: &small_beside };
        let large = Pair { alone: &large_alone, beside: &large_beside };
        assert_eq!(kept(small, large), Kept { small: Some(0.5), large: Some(0.8) });
        let expected = "\
application  alone            beside           kept  mean(ms)          p99(ms)
-----------  -----            ------           ----  --------          -------
small        100.0 calls/s    50.0 calls/s     0.50  10.0 -> 20.0      1500.0 -> 1500.0
large        10.0 MB/s        8.0 MB/s         0.80  400.0 -> 500.0    1500.0 -> 1500.0
";
        assert_eq!(side_by_side(small, large), expected);
    }

    #[test]
    fn an_application_that_moved_nothing_keeps_no_part() {
        let (idle, busy) = (report(Vec::new()), report(vec![phase(Phase::Write, 1.0, 1, 1)]));
        let pair = Pair { alone: &idle, beside: &busy };
        assert_eq!(kept(pair, pair), Kept { small: None, large: None });
        assert!(side_by_side(pair, pair).contains("small        -                1.0 calls/s      -"));
    }

    #[test]
    fn one_row_for_each_phase_that_did_something() {
        let report = report(vec![phase(Phase::Write, 2.0, 4, 8_000_000), phase(Phase::Remove, 1.0, 0, 0)]);
        let text = latency(&report);
        assert_eq!(text.lines().count(), 2, "{text}");
        let row: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["write", "4", "500.00", "10.00", "0.00", "1500.00", "0.00", "0.00"]);
    }
}

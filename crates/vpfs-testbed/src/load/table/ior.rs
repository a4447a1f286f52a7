//! IOR's table: one line for each access and repetition, then the largest bandwidths.

use std::fmt::Write;

use super::access::{Access, access, summarize};
use super::{MB, MIB};
use vpfs_model::plan::{Ior, Phase};

use crate::load::measure::Report;

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

#[cfg(test)]
mod tests {
    use super::super::fixture::{phase, report};
    use super::*;
    use vpfs_model::plan::FileMode;

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
}

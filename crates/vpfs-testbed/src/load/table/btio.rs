//! BTIO's statistics, and the breakdown of the run time as in vPFS+ Fig. 6.

use std::fmt::Write;

use super::MB;
use vpfs_model::plan::Phase;

use crate::load::measure::{PhaseReport, Report, per_second};

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

#[cfg(test)]
mod tests {
    use super::super::fixture::{phase, report};
    use super::*;

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
}

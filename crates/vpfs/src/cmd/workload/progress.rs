//! Progress of a run on standard error: a line that is redrawn on a terminal, plain lines every few seconds otherwise.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{MissedTickBehavior, interval};
use vpfs_model::plan::Amount;
use vpfs_testbed::load::measure::{Progress, per_second};
use vpfs_testbed::load::run::RunHandle;

use crate::print::roughly;

/// Shows one line of text after the other.
pub(crate) enum ProgressLine {
    /// Prints nothing.
    Quiet,
    /// Redraws one line.
    Terminal(ProgressBar),
    /// Prints a line from time to time; holds the time of the last one.
    Plain(Mutex<Option<Instant>>),
}

const REDRAW: Duration = Duration::from_millis(200);
const PLAIN_LINE: Duration = Duration::from_secs(5);

impl ProgressLine {
    pub(crate) fn start(quiet: bool) -> Self {
        if quiet {
            return Self::Quiet;
        }
        let bar = ProgressBar::new_spinner();
        if bar.is_hidden() {
            return Self::Plain(Mutex::new(Some(Instant::now())));
        }
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is constant and valid"));
        Self::Terminal(bar)
    }

    /// Shows a text until the next one; in plain mode prints it even if the last line was very recent.
    pub(crate) fn announce(&self, text: impl Into<String>) {
        if let Self::Plain(last) = self {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.show(|| text.into());
    }

    /// Shows progress; in plain mode at most every few seconds.
    pub(crate) fn show(&self, text: impl FnOnce() -> String) {
        match self {
            Self::Quiet => {}
            Self::Terminal(bar) => {
                bar.set_message(text());
                bar.tick();
            }
            Self::Plain(last) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if last.is_none_or(|last| last.elapsed() >= PLAIN_LINE) {
                    eprintln!("{}", text());
                    *last = Some(Instant::now());
                }
            }
        }
    }

    /// Prints a text that stays, whatever is shown next.
    pub(crate) fn tell(&self, text: &str) {
        match self {
            Self::Quiet => {}
            Self::Terminal(bar) => bar.println(text),
            Self::Plain(_) => eprintln!("{text}"),
        }
    }

    /// Removes the line from a terminal.
    pub(crate) fn clear(&self) {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }

    /// Waits for `work` and shows the text of `describe` meanwhile.
    pub(crate) async fn follow<T>(&self, work: impl Future<Output = T>, describe: impl Fn() -> String) -> T {
        let mut work = std::pin::pin!(work);
        let mut ticks = interval(REDRAW);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = ticks.tick() => self.show(&describe),
            }
        }
    }
}

/// One line about a run: its phase, how much of that is done, rates in it, and the time that it still takes.
pub(crate) fn describe(run: &RunHandle) -> String {
    let (plan, Some(progress)) = (run.plan(), run.progress()) else { return "connected".to_owned() };
    let phases = plan.phases();
    let number = phases.iter().position(|phase| *phase == progress.phase).map_or(0, |index| index + 1);
    let limit = plan.limit(progress.phase).map(|limit| limit.time);
    let text = of_phase(&progress, plan.amount(progress.phase), limit);
    format!("{} (phase {number} of {}): {text}", progress.phase, phases.len())
}

fn of_phase(progress: &Progress, amount: Option<Amount>, limit: Option<Duration>) -> String {
    let &Progress { operations, bytes, elapsed, .. } = progress;
    let (mut text, done) = match amount {
        Some(Amount::Bytes(all)) => (format!("{} of {}", decimal(bytes as f64), decimal(all as f64)), (bytes, all)),
        Some(Amount::Calls(all)) => (format!("{operations} of {all} calls"), (operations, all)),
        None => (format!("{operations} calls"), (0, 0)),
    };
    let seconds = elapsed.as_secs_f64();
    text += &format!(", {:.1} calls/s", per_second(operations, seconds));
    if bytes > 0 {
        text += &format!(", {}/s", decimal(per_second(bytes, seconds)));
    }
    // It may be done before the limit, and the limit may come before it is done.
    match limit.map(|limit| limit.saturating_sub(elapsed)).into_iter().chain(still_takes(elapsed, done)).min() {
        Some(Duration::ZERO) => text,
        Some(left) => text + &format!(", {} left", roughly(left)),
        None => text,
    }
}

/// Bytes in the largest unit that fits.
fn decimal(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        ..1e6 => format!("{:.1} KB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}

/// As much time for the rest as for what is done.
fn still_takes(elapsed: Duration, (done, all): (u64, u64)) -> Option<Duration> {
    let part = (done > 0).then(|| all.saturating_sub(done) as f64 / done as f64)?;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * part).ok()
}

#[cfg(test)]
mod tests {
    use vpfs_model::plan::Phase;

    use super::*;

    #[test]
    fn a_line_says_how_much_is_done_how_fast_and_how_long_the_rest_takes() {
        let elapsed = Duration::from_secs(10);
        let write = Progress { phase: Phase::Write, operations: 2000, bytes: 1_000_000, elapsed };
        let texts = [
            of_phase(&write, Some(Amount::Bytes(4_000_000)), None),
            of_phase(&write, None, Some(Duration::from_secs(600))),
            of_phase(&Progress { operations: 5, bytes: 0, ..write }, Some(Amount::Calls(20)), None),
            of_phase(&Progress { operations: 0, bytes: 0, ..write }, Some(Amount::Bytes(1 << 20)), None),
            of_phase(&Progress { bytes: 320, ..write }, Some(Amount::Bytes(10_240)), Some(Duration::from_secs(20))),
            of_phase(&write, Some(Amount::Bytes(4_000_000)), Some(Duration::from_secs(3600))),
        ];
        let expected = [
            "1.0 MB of 4.0 MB, 200.0 calls/s, 100.0 KB/s, 30 s left",
            "2000 calls, 200.0 calls/s, 100.0 KB/s, 10 min left",
            "5 of 20 calls, 0.5 calls/s, 30 s left",
            "0 B of 1.0 MB, 0.0 calls/s",
            "320 B of 10.2 KB, 200.0 calls/s, 32 B/s, 10 s left",
            "1.0 MB of 4.0 MB, 200.0 calls/s, 100.0 KB/s, 30 s left",
        ];
        assert_eq!(texts, expected);
    }
}

//! How far a run is, on standard error: a line that is redrawn on a terminal, plain lines every few seconds otherwise.

use std::future::Future;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{MissedTickBehavior, interval};
use vpfs_config::units::{Rate, Span};
use vpfs_workload::measure::Progress;

/// Follows one piece of work at a time.
pub(crate) enum ProgressLine {
    /// Says nothing.
    Quiet,
    /// Redraws one line.
    Terminal(ProgressBar),
    /// Prints a line now and then.
    Plain,
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
            return Self::Plain;
        }
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is constant and valid"));
        Self::Terminal(bar)
    }

    /// Waits for `work` and shows what `describe` says of it.
    pub(crate) async fn follow<T>(self, work: impl Future<Output = T>, describe: impl Fn() -> String) -> T {
        let mut work = std::pin::pin!(work);
        let mut ticks = interval(if matches!(self, Self::Terminal(_)) { REDRAW } else { PLAIN_LINE });
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks.tick().await;
        loop {
            tokio::select! {
                result = &mut work => return self.end(result),
                _ = ticks.tick() => self.show(describe()),
            }
        }
    }

    fn show(&self, text: String) {
        match self {
            Self::Quiet => {}
            Self::Terminal(bar) => {
                bar.set_message(text);
                bar.tick();
            }
            Self::Plain => eprintln!("{text}"),
        }
    }

    fn end<T>(&self, result: T) -> T {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
        result
    }
}

/// One line on a run: phase, calls, mean throughput.
pub(crate) fn describe(progress: &Progress) -> String {
    let phase = progress.phase.map_or_else(|| "begin".to_owned(), |phase| phase.to_string());
    let mut text = format!("{phase}, {} calls in {:.1}", progress.operations, Span(progress.elapsed));
    if progress.bytes > 0 && !progress.elapsed.is_zero() {
        let rate = u128::from(progress.bytes) * 1_000_000_000 / progress.elapsed.as_nanos();
        text += &format!(", {:.1}", Rate(u64::try_from(rate).unwrap_or(u64::MAX)));
    }
    text
}

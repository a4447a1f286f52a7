//! Progress of a run on standard error: a line that is redrawn on a terminal, plain lines every few seconds otherwise.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{MissedTickBehavior, interval};
use vpfs_config::units::{Rate, Span};
use vpfs_testbed::load::measure::Progress;

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

/// One line about a run: phase, calls, mean throughput.
pub(crate) fn describe(progress: &Progress) -> String {
    let phase = progress.phase.map_or_else(|| "start".to_owned(), |phase| phase.to_string());
    let mut text = format!("{phase}, {} calls in {:.1}", progress.operations, Span(progress.elapsed));
    if progress.bytes > 0 && !progress.elapsed.is_zero() {
        let rate = u128::from(progress.bytes) * 1_000_000_000 / progress.elapsed.as_nanos();
        text += &format!(", {:.1}", Rate(u64::try_from(rate).unwrap_or(u64::MAX)));
    }
    text
}

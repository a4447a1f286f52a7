//! Command-line options.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use super::super::target::Target;

/// Applications in the figure.
pub(super) const APPS: usize = 8;
/// Long windows before the first application leaves, as in the paper: one arrives in each of the first of them.
const BEFORE_DEPARTURES: usize = 16;
/// Long windows with one application less than before each; two remain in the last.
const DEPARTURES: usize = APPS - 2;
/// Short windows in a long one.
const SHORT_IN_LONG: usize = 12;

/// vPFS Fig. 6: fairness while applications arrive, a proxy process for each server
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds between two arrivals (60 in the paper), and the length of a long window, which has 12 short ones. The
    /// run takes 22 of them: 8 arrivals and 8 more, as in the paper, then 6 applications are killed, one after the
    /// other
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) interval: u64,
    /// Sharing of the proxies: layout, local or threshold
    #[arg(long, value_name = "NAME", default_value = "layout")]
    pub(super) sharing: String,
    /// Bytes of a call on each server, in KiB
    #[arg(long = "call", value_name = "KIB", default_value_t = 512, value_parser = call)]
    pub(super) call_kib: usize,
    /// Device model of the embedded servers, see `vpfs serve`
    #[arg(long, value_name = "NAME", default_value = "throttled-disk")]
    pub(super) device: String,
    #[command(flatten)]
    pub(super) target: Target,
    /// Also write all windows to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

fn call(text: &str) -> Result<usize, String> {
    let kib = text.parse().ok().filter(|kib: &usize| (64..=16_384).contains(kib) && kib.is_multiple_of(64));
    kib.ok_or_else(|| "expected a multiple of 64 from 64 to 16384".to_owned())
}

impl Options {
    /// The number of short windows in a long one, each of which begins with an arrival or a departure, or none.
    pub(super) fn short_in_long(&self) -> usize {
        SHORT_IN_LONG
    }

    /// The number of long windows.
    pub(super) fn long_windows(&self) -> usize {
        BEFORE_DEPARTURES + DEPARTURES
    }

    /// How long a number of short windows takes.
    pub(super) fn windows(&self, short: usize) -> Duration {
        Duration::from_millis(self.interval * 1000 * short as u64 / SHORT_IN_LONG as u64)
    }

    /// The long windows in which application `number`, from 1 on, is there.
    pub(super) fn stay(&self, number: usize) -> Range<usize> {
        let end = if number <= DEPARTURES { BEFORE_DEPARTURES + number - 1 } else { self.long_windows() };
        number - 1..end
    }

    /// The long windows in which all applications are there.
    pub(super) fn full_house(&self) -> Range<usize> {
        APPS - 1..BEFORE_DEPARTURES
    }

    /// What is measured, for the head of the output.
    pub(super) fn title(&self, servers: usize, load: &str) -> String {
        let storage =
            self.target.cluster.as_ref().map_or(format!("embedded, {}", self.device), |_| "OrangeFS".to_owned());
        format!(
            "{} s between arrivals, {servers} servers ({storage}), a proxy process for each, sharing = \"{}\", {APPS} applications, \
             calls of {} KiB on each server; load average {load}",
            self.interval, self.sharing, self.call_kib
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    /// Those of the paper.
    pub(crate) fn default() -> Options {
        Cli::parse_from(["fig6"]).options
    }

    #[test]
    fn the_papers_times_are_the_default() {
        let options = default();
        assert_eq!(options.windows(1), Duration::from_secs(5));
        assert_eq!(options.full_house(), 7..16);
    }

    #[test]
    fn applications_leave_in_the_order_of_their_arrival() {
        let options = default();
        let stays: Vec<_> = (1..=APPS).map(|number| options.stay(number)).collect();
        assert_eq!(stays, [0..16, 1..17, 2..18, 3..19, 4..20, 5..21, 6..22, 7..22]);
    }

    #[test]
    fn a_call_is_whole_strips() {
        assert!(call("100").unwrap_err().contains("multiple of 64"));
        assert_eq!(call("128"), Ok(128));
    }
}

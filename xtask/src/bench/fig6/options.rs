//! Command-line options.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use super::super::target::Target;

/// Usage message.
const USAGE: &str = "usage: cargo xtask bench fig6 [options]

  --interval N       seconds between two arrivals (default 60, as in the paper), and the length of a long window, which
                     has 12 short ones. The run takes 22 of them: 8 arrivals and 8 more, as in the paper, then 6
                     applications are killed, one after the other
  --sharing NAME     sharing of the proxies (default layout), or local or threshold
  --device NAME      device model of the embedded servers, see `vpfs serve` (default throttled-disk)
  --call KIB         bytes of a call on each server, in KiB (default 512)
  --orangefs DIR     a running cluster instead of embedded servers: its fs.conf and pvfs2tab are in DIR
  --json FILE        also write all windows to this file
  --vpfs PROGRAM     measure this vpfs; by default it is built from this source
";

/// Applications in the figure.
pub(super) const APPS: usize = 8;
/// Long windows before the first application leaves, as in the paper: one arrives in each of the first of them.
const BEFORE_DEPARTURES: usize = 16;
/// Long windows with one application less than before each; two remain in the last.
const DEPARTURES: usize = APPS - 2;
/// Short windows in a long one.
const SHORT_IN_LONG: usize = 12;

/// All options.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) interval: u64,
    pub(super) sharing: String,
    pub(super) call_kib: usize,
    pub(super) target: Target,
    pub(super) json: Option<PathBuf>,
}

impl Options {
    /// Parses pairs of a flag and its value.
    pub(super) fn parse(args: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            interval: 60,
            sharing: "layout".to_owned(),
            call_kib: 512,
            target: Target::new("throttled-disk"),
            json: None,
        };
        for pair in args.chunks(2) {
            let [flag, value] = pair else { return Err(format!("{} needs a value\n{USAGE}", pair[0])) };
            options.set(flag, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let wrong = |expected: &str| format!("{flag} {value}: expected {expected}");
        match flag {
            "--interval" => {
                let seconds = value.parse().ok().filter(|seconds| (1..=3_600).contains(seconds));
                self.interval = seconds.ok_or_else(|| wrong("a number of seconds from 1 to 3600"))?;
            }
            "--sharing" => self.sharing = value.to_owned(),
            "--call" => {
                let kib =
                    value.parse().ok().filter(|kib: &usize| (64..=16_384).contains(kib) && kib.is_multiple_of(64));
                self.call_kib = kib.ok_or_else(|| wrong("a multiple of 64 from 64 to 16384"))?;
            }
            "--json" => self.json = Some(value.into()),
            _ if self.target.try_set(flag, value)? => {}
            _ => return Err(format!("unknown option {flag}\n{USAGE}")),
        }
        Ok(())
    }

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
            self.target.cluster.as_ref().map_or(format!("embedded, {}", self.target.device), |_| "OrangeFS".to_owned());
        format!(
            "{} s between arrivals, {servers} servers ({storage}), a proxy process for each, sharing = \"{}\", {APPS} applications, \
             calls of {} KiB on each server; load average {load}",
            self.interval, self.sharing, self.call_kib
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_times_are_the_default() {
        let options = Options::parse(&[]).unwrap();
        assert_eq!(options.windows(1), Duration::from_secs(5));
        assert_eq!(options.full_house(), 7..16);
    }

    #[test]
    fn applications_leave_in_the_order_of_their_arrival() {
        let options = Options::parse(&[]).unwrap();
        let stays: Vec<_> = (1..=APPS).map(|number| options.stay(number)).collect();
        assert_eq!(stays, [0..16, 1..17, 2..18, 3..19, 4..20, 5..21, 6..22, 7..22]);
    }

    #[test]
    fn mistakes_are_named() {
        for (args, word) in [
            (&["--interval", "0"][..], "from 1"),
            (&["--call", "100"], "multiple of 64"),
            (&["--device"], "needs a value"),
            (&["--secs", "5"], "unknown option"),
        ] {
            let error = Options::parse(args).unwrap_err();
            assert!(error.contains(word), "{args:?}: {error}");
        }
    }
}

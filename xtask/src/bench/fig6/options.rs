//! Command-line options.

use std::path::PathBuf;
use std::time::Duration;

/// Usage message.
const USAGE: &str = "usage: cargo xtask bench fig6 [options]

  --seconds N        duration of the run (default 960, as in the paper). Everything else scales with it: an application
                     arrives after each 16th of it, a long window is as long, and has 12 short ones
  --sharing NAME     sharing of the proxies (default layout), or local or threshold
  --device NAME      device model of the embedded servers, see `vpfs serve` (default throttled-disk)
  --call KIB         bytes of a call on each server, in KiB (default 512)
  --orangefs DIR     a running cluster instead of embedded servers: its fs.conf and pvfs2tab are in DIR
  --json FILE        also write all windows to this file
  --vpfs PROGRAM     measure this vpfs; by default it is built from this source
";

/// Applications in the figure.
pub(super) const APPS: usize = 8;
/// Long windows of a run: an application arrives in each of the first ones.
const LONG_WINDOWS: u32 = 16;
/// Short windows in a long one.
const SHORT_IN_LONG: u32 = 12;

/// All options.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) seconds: u64,
    pub(super) sharing: String,
    pub(super) device: String,
    pub(super) call_kib: usize,
    pub(super) cluster: Option<PathBuf>,
    pub(super) json: Option<PathBuf>,
    pub(super) vpfs: Option<PathBuf>,
}

impl Options {
    /// Parses pairs of a flag and its value.
    pub(super) fn parse(args: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            seconds: 960,
            sharing: "layout".to_owned(),
            device: "throttled-disk".to_owned(),
            call_kib: 512,
            cluster: None,
            json: None,
            vpfs: None,
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
            "--seconds" => {
                let seconds = value.parse().ok().filter(|seconds| (16..=86_400).contains(seconds));
                self.seconds = seconds.ok_or_else(|| wrong("a number of seconds from 16 to 86400"))?;
            }
            "--sharing" => self.sharing = value.to_owned(),
            "--device" => self.device = value.to_owned(),
            "--call" => {
                let kib =
                    value.parse().ok().filter(|kib: &usize| (64..=16_384).contains(kib) && kib.is_multiple_of(64));
                self.call_kib = kib.ok_or_else(|| wrong("a multiple of 64 from 64 to 16384"))?;
            }
            // Servers and clients have other working directories, so they need absolute paths.
            "--orangefs" => {
                let dir = std::path::absolute(value).map_err(|error| format!("{flag} {value}: {error}"))?;
                self.cluster = Some(dir);
            }
            "--json" => self.json = Some(value.into()),
            "--vpfs" => self.vpfs = Some(value.into()),
            _ => return Err(format!("unknown option {flag}\n{USAGE}")),
        }
        Ok(())
    }

    /// The number of short windows.
    pub(super) fn windows(&self) -> u32 {
        LONG_WINDOWS * SHORT_IN_LONG
    }

    /// How many short windows pass between two arrivals; they make a long window.
    pub(super) fn windows_per_arrival(&self) -> u32 {
        SHORT_IN_LONG
    }

    /// The length of a short window.
    pub(super) fn window(&self) -> Duration {
        Duration::from_secs(self.seconds) / self.windows()
    }

    /// What is measured, for the head of the output.
    pub(super) fn title(&self, servers: usize, load: &str) -> String {
        let storage = self.cluster.as_ref().map_or(format!("embedded, {}", self.device), |_| "OrangeFS".to_owned());
        format!(
            "{} s, {servers} servers ({storage}), a proxy process for each, sharing = \"{}\", {APPS} applications, \
             calls of {} KiB on each server; load average {load}",
            self.seconds, self.sharing, self.call_kib
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_times_are_the_default() {
        let options = Options::parse(&[]).unwrap();
        assert_eq!(options.window(), Duration::from_secs(5));
        assert_eq!(options.window() * options.windows_per_arrival(), Duration::from_secs(60));
    }

    #[test]
    fn mistakes_are_named() {
        for (args, word) in [
            (&["--seconds", "3"][..], "from 16"),
            (&["--call", "100"], "multiple of 64"),
            (&["--device"], "needs a value"),
            (&["--secs", "5"], "unknown option"),
        ] {
            let error = Options::parse(args).unwrap_err();
            assert!(error.contains(word), "{args:?}: {error}");
        }
    }
}

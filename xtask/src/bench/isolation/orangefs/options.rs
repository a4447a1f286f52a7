//! Command-line options.

use std::path::PathBuf;

/// Usage message.
const USAGE: &str = "usage: cargo xtask bench isolation --orangefs DIR [options]

  --orangefs DIR     a running cluster: its fs.conf and pvfs2tab are in DIR
  --policy NAME      repeatable; every policy if not given. Text after a ';' is added to [scheduler]: 'sfq-d;depth = 4'
  --cap RATE         repeatable: sfq-d-plus with the large application capped on each server, for example 10MB/s
  --small KIND       I/O of the small application: write (default) or read
  --mounts N         mounts of the small application, each with one call in flight (default 4)
  --large KIND       I/O of the large application: write (default) or read
  --call SIZE        its transfer size: 256KiB to 16MiB (default 4MiB)
  --weights S:L      weights of the small application and the large one (default 1:1)
  --seconds N        duration of each measurement (default 20)
  --small-app LINE   repeatable: a line for the small application in vpfs.toml, for example 'latency = \"10ms\"'
  --json FILE        also write the results to this file
  --vpfs PROGRAM     measure this vpfs; by default it is built from this source
";

/// Whether an application reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    Read,
}

impl Access {
    /// Its name in fio.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// All options.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) cluster: PathBuf,
    pub(super) policies: Vec<String>,
    pub(super) caps: Vec<String>,
    pub(super) small: Access,
    pub(super) mounts: u32,
    pub(super) large: Access,
    /// Bytes.
    pub(super) call: u64,
    pub(super) weights: [u32; 2],
    pub(super) seconds: u32,
    pub(super) small_app: Vec<String>,
    pub(super) json: Option<PathBuf>,
    pub(super) vpfs: Option<PathBuf>,
}

impl Options {
    /// Parses pairs of a flag and its value.
    pub(super) fn parse(args: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            cluster: PathBuf::new(),
            policies: Vec::new(),
            caps: Vec::new(),
            small: Access::Write,
            mounts: 4,
            large: Access::Write,
            call: 4 << 20,
            weights: [1, 1],
            seconds: 20,
            small_app: Vec::new(),
            json: None,
            vpfs: None,
        };
        for pair in args.chunks(2) {
            let [flag, value] = pair else { return Err(format!("{} needs a value\n{USAGE}", pair[0])) };
            options.set(flag, value)?;
        }
        if options.policies.is_empty() && options.caps.is_empty() {
            options.policies = every_policy();
        }
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let wrong = |expected: &str| format!("{flag} {value}: expected {expected}");
        match flag {
            "--orangefs" => {
                // Servers and mounts have other working directories, so they need absolute paths.
                self.cluster = std::path::absolute(value).map_err(|error| format!("{flag} {value}: {error}"))?;
            }
            "--policy" => self.policies.push(value.to_owned()),
            "--cap" => self.caps.push(value.to_owned()),
            "--small" => self.small = access(value).ok_or_else(|| wrong("write or read"))?,
            "--large" => self.large = access(value).ok_or_else(|| wrong("write or read"))?,
            "--mounts" => {
                let mounts = value.parse().ok().filter(|mounts| (1..=64).contains(mounts));
                self.mounts = mounts.ok_or_else(|| wrong("a number from 1 to 64"))?;
            }
            "--call" => self.call = bytes(value).ok_or_else(|| wrong("a size such as 256KiB or 4MiB"))?,
            "--weights" => self.weights = weights(value).ok_or_else(|| wrong("two weights such as 1:4"))?,
            "--seconds" => {
                let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
                self.seconds = seconds.ok_or_else(|| wrong("a number of seconds, at least 1"))?;
            }
            "--small-app" => self.small_app.push(value.to_owned()),
            "--json" => self.json = Some(value.into()),
            "--vpfs" => self.vpfs = Some(value.into()),
            _ => return Err(format!("unknown option {flag}\n{USAGE}")),
        }
        Ok(())
    }
}

fn access(name: &str) -> Option<Access> {
    [Access::Write, Access::Read].into_iter().find(|access| access.name() == name)
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text
        .strip_suffix("KiB")
        .map(|number| (number, 1 << 10))
        .or_else(|| Some((text.strip_suffix("MiB")?, 1 << 20)))?;
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

fn weights(text: &str) -> Option<[u32; 2]> {
    let (small, large) = text.split_once(':')?;
    Some([small.parse().ok()?, large.parse().ok()?])
}

/// The policies as listed in the manual, which is generated from the table that vpfs itself uses, as nothing here
/// depends on the crates of vpfs.
fn every_policy() -> Vec<String> {
    let manual = include_str!("../../../../../docs/config.md");
    let row = manual.lines().find(|line| line.starts_with("| `policy` |")).unwrap_or_default();
    let values = row.split('|').nth(2).unwrap_or_default();
    values.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_can_be_chosen() {
        let text = "--orangefs /c --policy fifo --cap 10MB/s --small read --call 256KiB --weights 1:4 --seconds 5 --json o --large read --mounts 1";
        let options = Options::parse(&text.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!((options.small, options.call, options.weights, options.seconds), (Access::Read, 262_144, [1, 4], 5));
        assert_eq!((options.large, options.mounts), (Access::Read, 1));
        assert_eq!((options.policies, options.caps), (vec!["fifo".to_owned()], vec!["10MB/s".to_owned()]));
    }

    #[test]
    fn without_a_policy_all_of_the_manual_are_run() {
        let policies = Options::parse(&["--orangefs", "/c"]).unwrap().policies;
        assert!(policies.len() >= 5 && policies.iter().any(|policy| policy == "sfq-d-plus"), "{policies:?}");
    }

    #[test]
    fn mistakes_are_named() {
        for (args, word) in [
            (&["--call", "4MB"][..], "4MiB"),
            (&["--small", "both"], "write or read"),
            (&["--large", "both"], "write or read"),
            (&["--mounts", "0"], "from 1 to 64"),
            (&["--weights", "1"], "1:4"),
            (&["--seconds", "0"], "at least 1"),
            (&["--seconds"], "needs a value"),
            (&["--polices", "fifo"], "unknown option"),
        ] {
            let error = Options::parse(args).unwrap_err();
            assert!(error.contains(word), "{args:?}: {error}");
        }
    }
}

//! Command-line options.

use super::super::target::Target;

/// Usage message.
const USAGE: &str = "usage: cargo xtask bench faults [options]

  --seconds N        length of each fault (default 10; clients of a killed proxy must be willing to retry for so long)
  --orangefs DIR     a running cluster of four servers instead of embedded ones: its fs.conf and pvfs2tab are in DIR
  --device NAME      device model of the embedded servers, see `vpfs serve` (default throttled-disk)
  --vpfs PROGRAM     measure this vpfs; by default it is built from this source
";

/// All options.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) seconds: u64,
    pub(super) target: Target,
}

impl Options {
    /// Parses pairs of a flag and its value.
    pub(super) fn parse(args: &[&str]) -> Result<Self, String> {
        let mut options = Self { seconds: 10, target: Target::new("throttled-disk") };
        for pair in args.chunks(2) {
            let [flag, value] = pair else { return Err(format!("{} needs a value\n{USAGE}", pair[0])) };
            match *flag {
                "--seconds" => {
                    let seconds = value.parse().ok().filter(|seconds| (8..=600).contains(seconds));
                    options.seconds =
                        seconds.ok_or_else(|| format!("{flag} {value}: expected a number of seconds from 8 to 600"))?;
                }
                _ if options.target.try_set(flag, value)? => {}
                _ => return Err(format!("unknown option {flag}\n{USAGE}")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        for (args, word) in [
            (&["--seconds", "3"][..], "from 8"),
            (&["--device"], "needs a value"),
            (&["--secs", "5"], "unknown option"),
        ] {
            let error = Options::parse(args).unwrap_err();
            assert!(error.contains(word), "{args:?}: {error}");
        }
    }
}

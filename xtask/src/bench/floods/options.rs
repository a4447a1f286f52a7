//! Command-line options.

use super::super::target::Target;

/// Usage message.
const USAGE: &str = "usage: cargo xtask bench floods [options]

  --seconds N        length of each measurement (default 10)
  --rounds N         how often to repeat all of them, in turn (default 3)
  --orangefs DIR     a running cluster instead of an embedded server: its fs.conf and pvfs2tab are in DIR
  --device NAME      device model of the embedded server, see `vpfs serve` (default ssd)
  --vpfs PROGRAM     measure this vpfs; by default it is built from this source
";

/// All options.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) seconds: u64,
    pub(super) rounds: u64,
    pub(super) target: Target,
}

impl Options {
    /// Parses pairs of a flag and its value.
    pub(super) fn parse(args: &[&str]) -> Result<Self, String> {
        let mut options = Self { seconds: 10, rounds: 3, target: Target::new("ssd") };
        for pair in args.chunks(2) {
            let [flag, value] = pair else { return Err(format!("{} needs a value\n{USAGE}", pair[0])) };
            let count = || {
                let count = value.parse().ok().filter(|count| (1..=600).contains(count));
                count.ok_or_else(|| format!("{flag} {value}: expected a number from 1 to 600"))
            };
            match *flag {
                "--seconds" => options.seconds = count()?,
                "--rounds" => options.rounds = count()?,
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
            (&["--rounds", "0"][..], "from 1 to 600"),
            (&["--device"], "needs a value"),
            (&["--secs", "5"], "unknown option"),
        ] {
            let error = Options::parse(args).unwrap_err();
            assert!(error.contains(word), "{args:?}: {error}");
        }
    }
}

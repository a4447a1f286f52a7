//! `vpfs-bench isolation`: how much of its speed a small application keeps beside a large one.
//!
//! Both run alone, then beside each other under each policy: in simulation ([`simulated`]), or as stock programs in
//! front of real servers ([`orangefs`]). [`vpfs_model::isolation`] defines what is measured.

mod orangefs;
mod sheet;
mod simulated;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use vpfs_config::units::parse_size;
use vpfs_core::{Bytes, PolicyKind};

use simulated::MODELS;

/// A small application beside a large one, under every policy: on simulated storage, or in front of real servers
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only this policy; repeatable. In front of real servers, text after a ";" is added to the section scheduler:
    /// "sfq-d;depth = 4"
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<String>,
    /// Time that is measured for each case; in simulation, twice and four times that with large calls of 4 and 16 MiB
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Also write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    simulated: Simulated,
    #[command(flatten)]
    real: Real,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "In simulation")]
struct Simulated {
    /// Every combination of all factors; by default one factor at a time is varied
    #[arg(long)]
    all: bool,
    /// Only cases with this text in their name
    #[arg(long, value_name = "TEXT", default_value = "")]
    case: String,
    /// The storage model on which factors are varied, unless --all is given
    #[arg(long, value_parser = PossibleValuesParser::new(MODELS), default_value = "one-head")]
    model: String,
    /// Write a page with charts of the shares delivered to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "In front of real servers")]
struct Real {
    /// A running cluster: its fs.conf and pvfs2tab are in DIR
    #[arg(long, value_name = "DIR", conflicts_with_all = ["all", "case", "model", "html"])]
    orangefs: Option<PathBuf>,
    /// Also sfq-d-plus with the large application capped on each server, for example at 10MB/s; repeatable
    #[arg(long = "cap", value_name = "RATE", requires = "orangefs")]
    caps: Vec<String>,
    /// I/O of the small application
    #[arg(long, value_name = "KIND", default_value = "write", requires = "orangefs")]
    small: Access,
    /// Mounts of the small application, each with one call in flight
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64), requires = "orangefs")]
    mounts: u32,
    /// I/O of the large application
    #[arg(long, value_name = "KIND", default_value = "write", requires = "orangefs")]
    large: Access,
    /// Bytes of a call of the large application
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_size, requires = "orangefs")]
    call: Bytes,
    /// Weights of the small application and the large one
    #[arg(long, value_name = "S:L", default_value = "1:1", value_parser = weights, requires = "orangefs")]
    weights: (u32, u32),
    /// A line for the small application in vpfs.toml, for example 'latency = "10ms"'; repeatable
    #[arg(long, value_name = "LINE", requires = "orangefs")]
    small_app: Vec<String>,
    /// Measure this vpfs; by default it is built from this source
    #[arg(long, value_name = "PROGRAM", requires = "orangefs")]
    vpfs: Option<PathBuf>,
}

/// Whether an application reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Access {
    Write,
    Read,
}

impl Access {
    pub(crate) const BOTH: [Self; 2] = [Self::Write, Self::Read];

    /// Also its name in fio.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

fn weights(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once(':').and_then(|(small, large)| Some((small.parse().ok()?, large.parse().ok()?)));
    parsed.ok_or_else(|| "expected two weights such as 1:4".to_owned())
}

/// What an application gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) calls_per_second: f64,
    pub(crate) bytes_per_second: f64,
    /// Latencies of completed calls; not a number if there were none.
    pub(crate) mean_ms: f64,
    pub(crate) p99_ms: f64,
}

/// Measures, prints and writes the selected cases.
///
/// # Errors
/// A broken rule in a simulation, an unknown policy, a program that fails, or a file that cannot be written.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    match &options.real.orangefs {
        Some(cluster) => orangefs::run(cluster, options),
        None => simulated::run(options),
    }
}

/// The policies that were named, or all of vpfs.
fn policies(options: &Options) -> Vec<String> {
    match &options.policies[..] {
        [] if options.real.caps.is_empty() => PolicyKind::NAMES.map(str::to_owned).to_vec(),
        named => named.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    pub(super) fn parsed(arguments: &[&str]) -> Result<Options, clap::Error> {
        Cli::try_parse_from([&["isolation"], arguments].concat()).map(|cli| cli.options)
    }

    #[test]
    fn everything_can_be_chosen() {
        let text = "--orangefs /c --policy fifo --cap 10MB/s --small read --call 256KiB --weights 1:4 --seconds 5 --json o --large read --mounts 1";
        let options = parsed(&text.split(' ').collect::<Vec<_>>()).unwrap();
        let Real { small, large, call, weights, mounts, .. } = options.real;
        assert_eq!((small, large, call.0, weights, mounts), (Access::Read, Access::Read, 262_144, (1, 4), 1));
        assert_eq!(policies(&options), ["fifo"]);
        let all = policies(&parsed(&["--orangefs", "/c"]).unwrap());
        assert!(all.len() >= 5 && all.iter().any(|policy| policy == "sfq-d-plus"), "{all:?}");
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, word) in [
            (&["--orangefs", "/c", "--weights", "1"][..], "1:4"),
            (&["--orangefs", "/c", "--small", "both"], "write, read"),
            (&["--orangefs", "/c", "--html", "x"], "cannot be used with"),
            (&["--mounts", "2"], "--orangefs"),
            (&["--seconds", "0"], "0 is not in"),
        ] {
            let error = parsed(arguments).unwrap_err().to_string();
            assert!(error.contains(word), "{arguments:?}: {error}");
        }
    }
}

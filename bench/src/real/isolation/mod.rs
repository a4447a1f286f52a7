//! How much of its speed a small application keeps beside a large one in front of a running OrangeFS cluster: stock
//! clients, real servers, `vpfs proxy` between them. Alone, then beside each other without a proxy and under each
//! policy.

mod case;
mod config;
mod copies;
mod disks;
mod fio;
mod mounts;
mod table;

use std::path::PathBuf;

use vpfs_config::units::parse_size;
use vpfs_core::{Bytes, PolicyKind};

use super::cluster::Cluster;
use super::program;
use super::proxies::Place;
use super::scratch::Scratch;
use case::Bench;

/// A small application beside a large one, under every policy, in front of real servers
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A running cluster: its fs.conf is in DIR
    #[arg(long, value_name = "DIR")]
    orangefs: PathBuf,
    /// Only this policy; repeatable. Text after a ";" is added to the section scheduler: "sfq-d;depth = 4"
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<String>,
    /// Time that is measured for each case
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Also sfq-d-plus with the large application capped on each server, for example at 10MB/s; repeatable
    #[arg(long = "cap", value_name = "RATE")]
    caps: Vec<String>,
    /// I/O of the small application
    #[arg(long, value_name = "KIND", default_value = "write")]
    small: Access,
    /// Mounts of the small application, each with one call in flight
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    mounts: u32,
    /// I/O of the large application
    #[arg(long, value_name = "KIND", default_value = "write")]
    large: Access,
    /// Bytes of a call of the large application
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_size)]
    call: Bytes,
    /// Weights of the small application and the large one
    #[arg(long, value_name = "S:L", default_value = "1:1", value_parser = weights)]
    weights: (u32, u32),
    /// A line for the small application in vpfs.toml, for example 'latency = "10ms"'; repeatable
    #[arg(long, value_name = "LINE")]
    small_app: Vec<String>,
    /// Measure this vpfs; by default it is built from this source
    #[arg(long, value_name = "PROGRAM")]
    vpfs: Option<PathBuf>,
}

/// Whether an application reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Access {
    Write,
    Read,
}

impl Access {
    /// Its name in fio.
    fn name(self) -> &'static str {
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
struct Figures {
    calls_per_second: f64,
    /// Latencies of completed calls.
    mean_ms: f64,
    p99_ms: f64,
}

/// External programs that are needed.
const PROGRAMS: [&str; 4] = ["pvfs2fuse", "pvfs2-cp", "fio", "fusermount"];

/// Runs all cases that the options select and prints them as a table; if programs are missing, skips with a message.
///
/// # Errors
/// A policy that vpfs refuses, or a program that fails.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| on_path(program).is_none()).collect();
    if !missing.is_empty() {
        println!("SKIPPED: not on PATH: {}; install OrangeFS 2.10, fio and fuse to measure", missing.join(", "));
        return Ok(());
    }
    let cluster = Cluster::read(&options.orangefs)?;
    let program = program::build(options.vpfs.as_deref())?;
    let scratch = Scratch::new()?;
    let place = Place { scratch: &scratch, program: &program, cluster: &cluster };
    let bench = Bench { options, policies: &policies(options), place };
    println!("{}", table::markdown(options.large, &bench.run()?));
    Ok(())
}

/// The policies that were named, or all of vpfs.
fn policies(options: &Options) -> Vec<String> {
    match &options.policies[..] {
        [] if options.caps.is_empty() => PolicyKind::NAMES.map(str::to_owned).to_vec(),
        named => named.to_vec(),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
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
        Cli::try_parse_from([&["isolation", "--orangefs", "/c"], arguments].concat()).map(|cli| cli.options)
    }

    #[test]
    fn everything_can_be_chosen() {
        let text =
            "--policy fifo --cap 10MB/s --small read --call 256KiB --weights 1:4 --seconds 5 --large read --mounts 1";
        let options = parsed(&text.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!((options.small, options.large, options.call.0), (Access::Read, Access::Read, 262_144));
        assert_eq!((options.weights, options.mounts, policies(&options)), ((1, 4), 1, vec!["fifo".to_owned()]));
        let all = policies(&parsed(&[]).unwrap());
        assert!(all.len() >= 5 && all.iter().any(|policy| policy == "sfq-d-plus"), "{all:?}");
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, word) in
            [(["--weights", "1"], "1:4"), (["--small", "both"], "write, read"), (["--seconds", "0"], "0 is not in")]
        {
            let error = parsed(&arguments).unwrap_err().to_string();
            assert!(error.contains(word), "{arguments:?}: {error}");
        }
    }
}

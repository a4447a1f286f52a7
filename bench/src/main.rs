//! Benchmarks of vpfs: `cargo run --profile dist -p vpfs-bench`.
//!
//! A [`Benchmark`] makes measurements; to add one, add its module and a line in [`BENCHMARKS`]. Commands of their own
//! measure several processes: those in [`real`].

mod count;
mod gym;
mod real;
mod report;
mod scheduler;
mod snapshot;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use real::{isolation, papers};
use report::Measurement;

type Benchmark = fn(Effort) -> Vec<Measurement>;

/// All benchmarks, by the name that the command line takes.
const BENCHMARKS: &[(&str, Benchmark)] =
    &[("scheduler", scheduler::pairs), ("newcomer", scheduler::newcomers), ("snapshot", snapshot::times)];

/// Measure the speed of scheduling decisions, and what policies and proxies do for applications
///
/// Without a command: scheduler, newcomer and snapshot, or those that are named.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Names of the benchmarks to run; all by default.
    names: Vec<String>,
    /// Samples of each measurement; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Tiny inputs, to test that it works, not how fast.
    #[arg(long)]
    quick: bool,
}

/// Subcommands that are not benchmarks of speed.
#[derive(Debug, Subcommand)]
enum Command {
    Count(count::Options),
    Isolation(isolation::Options),
    Papers(papers::Options),
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Samples of each measurement.
    runs: u32,
    /// Tiny inputs.
    quick: bool,
}

fn main() -> ExitCode {
    let Arguments { command, names, runs, quick } = Arguments::parse();
    if let Some(command) = command {
        let done = match command {
            Command::Count(options) => count::run(&options),
            Command::Isolation(options) => isolation::run(&options),
            Command::Papers(options) => papers::run(&options),
        };
        return done.map_or_else(
            |error| {
                eprintln!("{error}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    if let Some(unknown) = names.iter().find(|name| BENCHMARKS.iter().all(|(known, _)| known != name)) {
        let known: Vec<_> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        eprintln!("There is no benchmark `{unknown}`, only {}.", known.join(", "));
        return ExitCode::from(2);
    }
    let chosen = BENCHMARKS.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|wanted| wanted == name));
    let measurements: Vec<_> = chosen.flat_map(|(_, benchmark)| benchmark(Effort { runs, quick })).collect();
    report::print(&measurements);
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A smoke test of all benchmarks.
    #[test]
    fn all_run() {
        for &(name, benchmark) in BENCHMARKS {
            let measurements = benchmark(Effort { runs: 1, quick: true });
            assert!(!measurements.is_empty(), "{name}");
            assert!(measurements.iter().all(|measurement| measurement.median() > 0.0), "{name}");
        }
    }
}

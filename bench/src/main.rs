//! Benchmarks of vpfs: `cargo run --profile dist -p vpfs-bench`.
//!
//! A [`Benchmark`] makes measurements; to add one, add its module and a line in [`BENCHMARKS`]. Commands of their own
//! measure several processes: [`isolation`] and [`papers`].

mod gym;
mod isolation;
mod papers;
mod scheduler;
mod servers;
mod snapshot;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use comfy_table::{CellAlignment, Table, presets};

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
    Count(scheduler::CountOptions),
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
            Command::Count(options) => scheduler::count(&options),
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
    print(&measurements);
    ExitCode::SUCCESS
}

/// A quantity that was measured several times.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// The operation, for example `pull and add`.
    pub(crate) benchmark: &'static str,
    /// The subject, for example a scheduler.
    pub(crate) subject: &'static str,
    /// The input.
    pub(crate) input: String,
    /// Unit of the samples.
    pub(crate) unit: &'static str,
    /// One number for each run.
    pub(crate) samples: Vec<f64>,
    /// The goal: an upper limit for the median.
    pub(crate) target: Option<f64>,
    /// Largest service per weight of a class of clients, divided by the smallest; 1 is fair.
    pub(crate) shares_max_min: Option<f64>,
}

impl Measurement {
    /// For a policy that does not serve in proportion to weights.
    pub(crate) fn without_shares(self) -> Self {
        Self { shares_max_min: None, ..self }
    }

    /// The median of the samples.
    pub(crate) fn median(&self) -> f64 {
        let sorted = self.sorted();
        sorted[sorted.len() / 2]
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// Prints a table.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
fn print(measurements: &[Measurement]) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["benchmark", "subject", "input", "min", "median", "max", "target", "unit", "shares max/min"]);
    for measurement in measurements {
        let sorted = measurement.sorted();
        let number = |value: f64| format!("{value:.1}");
        table.add_row([
            measurement.benchmark.to_owned(),
            measurement.subject.to_owned(),
            measurement.input.clone(),
            number(sorted[0]),
            number(measurement.median()),
            number(sorted[sorted.len() - 1]),
            measurement.target.map_or(String::new(), |target| format!("{target}")),
            measurement.unit.to_owned(),
            measurement.shares_max_min.map_or(String::new(), |shares| format!("{shares:.3}")),
        ]);
    }
    for numeric in [3, 4, 5, 6, 8] {
        if let Some(column) = table.column_mut(numeric) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
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

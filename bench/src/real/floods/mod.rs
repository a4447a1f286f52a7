//! An interactive application beside floods of requests that are not held: its speed, and the work of the proxy.

mod flood;

use std::fs;
use std::process::Command;
use std::time::Duration;

use flood::{Flood, Kind};

use super::process::Running;
use super::proxies::{Place, Proxies};
use super::scratch::{PREFIX, Scratch};
use super::target::Target;

/// A small application beside floods of requests that are not held
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Length of each measurement, in seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How often to repeat all of them, in turn
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    rounds: u64,
    /// Device model of the embedded server, see `vpfs serve`
    #[arg(long, value_name = "NAME", default_value = "ssd")]
    device: String,
    #[command(flatten)]
    target: Target,
}

/// Clients of a flood.
const CONNECTIONS: usize = 32;
/// The address of the application: the flood comes from 127.0.0.1.
const APPLICATION: &str = "127.0.0.2";

/// What the application got, and what the proxy took meanwhile.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    calls_per_second: f64,
    p99: Duration,
    /// Processors that the proxy kept busy.
    processors: f64,
    answers_per_second: f64,
}

/// Runs the application alone and beside each flood, in turn, and prints the medians of all rounds as a table.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let scratch = Scratch::new()?;
    let started = options.target.start(&scratch, 1, &options.device)?;
    let place = Place { scratch: &scratch, program: &started.program, cluster: &started.cluster };
    let plain = Proxies::start_in_one(&place, &[], "")?;
    let trusting = Proxies::start_in_one(&place, &[], "[trust]\nservers = [\"127.0.0.1\"]\n")?;
    let measure = |kind| {
        let proxies = if matches!(kind, Some(Kind::Trusted)) { &trusting } else { &plain };
        measure(&place, proxies, kind, options.seconds)
    };
    let kinds: Vec<_> = [(None, "none")].into_iter().chain(Kind::ALL.map(|(kind, name)| (Some(kind), name))).collect();
    let mut runs = vec![Vec::new(); kinds.len()];
    for _ in 0..options.rounds {
        for ((kind, _), runs) in kinds.iter().zip(&mut runs) {
            runs.push(measure(*kind)?);
        }
    }
    println!(
        "4 KiB reads with 10 ms of think time beside {CONNECTIONS} connections; medians of {} rounds of {} s\n\n\
         | flood | calls/s | kept | p99 ms | proxy's processors | answers/s |\n|{}",
        options.rounds,
        options.seconds,
        "---|".repeat(6)
    );
    let alone = median(&runs[0], |run| run.calls_per_second);
    for ((_, name), runs) in kinds.iter().zip(&runs) {
        let of = |value: fn(&Run) -> f64| median(runs, value);
        let calls = of(|run| run.calls_per_second);
        println!(
            "| {name} | {calls:.0} | {:.2} | {:.1} | {:.2} | {:.0} |",
            calls / alone,
            of(|run| run.p99.as_secs_f64() * 1e3),
            of(|run| run.processors),
            of(|run| run.answers_per_second),
        );
    }
    Ok(())
}

fn measure(place: &Place<'_>, proxies: &Proxies, kind: Option<Kind>, seconds: u64) -> Result<Run, String> {
    let Place { scratch, program, cluster } = *place;
    let address = proxies.address(0);
    let processor_time = || proxies.used().map(|(time, _)| time);
    let json = scratch.path("interactive.json");
    let mut command = Command::new(program);
    command.args(["workload", "interactive", "--quiet", "--read", "--file", "8MiB", "--bind", APPLICATION]);
    command.args(["--time", &format!("{seconds}s"), "--directory", &format!("/{PREFIX}floods")]);
    command.args(["--url", &cluster.spec(&address), "--json"]).arg(&json);
    let flood = kind.map(|kind| Flood::start(kind, address.trim_start_matches("tcp://"), CONNECTIONS));
    let (begin, before) = (std::time::Instant::now(), processor_time()?);
    Running::start(scratch, "interactive", &mut command)?.finish(|| false)?;
    let processors = (processor_time()? - before).as_secs_f64() / begin.elapsed().as_secs_f64();
    let answers_per_second = flood.map_or(Ok(0.0), Flood::finish)?;
    let text = fs::read_to_string(&json).map_err(|error| format!("{}: {error}", json.display()))?;
    let (calls_per_second, p99) = reads(&text).ok_or("vpfs workload interactive --json has no reads")?;
    Ok(Run { calls_per_second, p99, processors, answers_per_second })
}

/// Calls in each second, and their 99th percentile.
fn reads(json: &str) -> Option<(f64, Duration)> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let phase = value["repetitions"][0]["phases"].as_array()?.iter().find(|phase| phase["phase"] == "read")?;
    let p99 = phase["latency"]["p99_seconds"].as_f64()?;
    Some((phase["operations_per_second"].as_f64()?, Duration::from_secs_f64(p99)))
}

fn median(runs: &[Run], value: fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reads_of_a_result() {
        let json = r#"{"repetitions": [{"phases": [{"phase": "setup"}, {"phase": "read", "operations_per_second": 5.5,
            "latency": {"p99_seconds": 0.25}}]}]}"#;
        assert_eq!(reads(json), Some((5.5, Duration::from_millis(250))));
        assert_eq!(reads("{}"), None);
    }

    #[test]
    fn the_median_is_of_all_rounds() {
        let runs = [3.0, 1.0, 2.0].map(|calls_per_second| Run { calls_per_second, ..Run::default() });
        assert!((median(&runs, |run| run.calls_per_second) - 2.0).abs() < 1e-9);
    }
}

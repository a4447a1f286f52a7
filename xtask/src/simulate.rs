//! `cargo xtask simulate`: many schedules of the daemon's deterministic simulation.

use crate::command::{self, cargo};

const USAGE: &str = "usage: cargo xtask simulate [--schedules N] [--seed N]

  --schedules N   how many (default 10000)
  --seed N        the first seed (default 1); each schedule has the next one
";

/// Runs the schedules that the arguments select, in an optimised build.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let (mut schedules, mut seed) = (10_000, 1);
    let mut args = args.iter();
    while let Some(&option) = args.next() {
        let into = match option {
            "--schedules" => &mut schedules,
            "--seed" => &mut seed,
            _ => return Err(USAGE.to_owned()),
        };
        let text = args.next().ok_or_else(|| format!("{option} needs a number\n{USAGE}"))?;
        *into = text.parse::<u64>().map_err(|error| format!("{option} {text}: {error}\n{USAGE}"))?;
    }
    let mut command =
        cargo(&["test", "--quiet", "--release", "--package", "vpfs-proxy", "--lib", "simulation::schedules"]);
    command.env("SCHEDULES", schedules.to_string()).env("SEED", seed.to_string());
    let last = seed + schedules.saturating_sub(1);
    command::run(command).map_err(|error| format!("a schedule failed; its seed is above: {error}"))?;
    println!("{schedules} schedules of each protocol, seeds {seed} to {last}");
    Ok(())
}

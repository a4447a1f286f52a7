//! How much of its speed a small application keeps beside a large one.

mod orangefs;

use std::process::Command;

/// Measures in front of the real servers that `--orangefs` names, otherwise in simulation.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    if args.contains(&"--orangefs") { orangefs::run(args) } else { simulated(args) }
}

/// `vpfs-bench isolation`, which has the simulator: nothing here depends on the crates of vpfs.
fn simulated(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--release", "--package", "vpfs-bench", "--", "isolation"]).args(args);
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed with {status}")) }
}

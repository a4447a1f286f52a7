//! The project's own commands: `cargo xtask ci`, `tidy`, `audit`, `bench`, `instructions`, `package` and `simulate`.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod audit;
mod ci;
mod instructions;
mod tidy;

use std::process::{Command, ExitCode};

use crate::ci::Tier;

const USAGE: &str = "usage: cargo xtask <command>

  ci [--full]   everything CI runs, in the same order: format, tidy, licences, lints, docs, tests. With --full also what
             is slow or needs heavy tools, as before a release: instructions, the oldest compiler, advisories, long
             simulations, packages, all tests of Slurm and of kills; installs its tools
  tidy       rules that no compiler checks: crate arrows as in ARCHITECTURE.md, width of comments,
             unfinished code; length, links and language of documents
  audit      what we depend on: licences, the oldest compiler, advisories; says what to install if a tool is missing
  bench      measurements of speed, of policies and of real servers; `cargo xtask bench` lists them
  instructions   of one proxied operation of each kind and one decision of each policy, by valgrind; fails if there
             are more than expected
  package    deb or rpm: a package in target/debian or target/generate-rpm
  simulate   the daemon between model clients and servers, in virtual time, with faults drawn from seeds
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci::run(Tier::Fast),
        ["ci", "--full"] => ci::full(),
        ["tidy"] => tidy::run(),
        ["audit"] => audit::run(),
        ["instructions"] => step("build", ci::build()).and_then(|()| instructions::run()),
        ["package", kind, ref rest @ ..] => ci::run_package(kind, rest),
        ["bench", ref rest @ ..] => ci::run_bench(rest),
        ["simulate", ref rest @ ..] => ci::run_simulate(rest),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The cargo that runs this.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    // They describe this program. The build script of ring runs again if they are not as in a shell, which has none.
    for (name, _) in std::env::vars_os() {
        let is_ours = |prefix: &[u8]| name.as_encoded_bytes().starts_with(prefix);
        if is_ours(b"CARGO_PKG_") || is_ours(b"CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command under a heading; an error if it does not succeed.
pub(crate) fn step(name: &str, command: Command) -> Result<(), String> {
    println!("== {name}");
    run(command).map_err(|error| format!("{name}: {error}"))
}

/// Runs a command; an error if it does not succeed.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed with {status}")) }
}

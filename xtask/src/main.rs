//! The project's own commands: `cargo xtask ci`, `tidy`, `audit`, `bench`, `instructions`, `package` and `simulate`.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod audit;
mod ci;
mod command;
mod instructions;
mod tests;
mod tidy;

use std::process::ExitCode;

use tests::Tier;

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
        ["instructions"] => command::step("build", ci::build()).and_then(|()| instructions::run()),
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

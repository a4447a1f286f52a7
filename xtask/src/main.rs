//! The project's own commands: `cargo xtask ci`, `tidy`, `audit`, `bench`, `instructions`, `package` and `simulate`.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod audit;
mod bench;
mod ci;
mod command;
mod instructions;
mod package;
mod simulate;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

  ci         everything CI runs, in the same order: format, lints, tidy, licences, docs, tests
  tidy       rules that no compiler checks: crate arrows as in ARCHITECTURE.md, length of files, width of comments,
             unfinished code
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
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(),
        ["audit"] => audit::run(),
        ["instructions"] => ci::instructions(),
        ["package", kind, ref rest @ ..] => package::run(kind, rest),
        ["bench", ref rest @ ..] => bench::run(rest),
        ["simulate", ref rest @ ..] => simulate::run(rest),
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

//! Everything that CI runs: the fast tier, and with `--full` what a release needs as well. The tests come last, with
//! their sum in one line.

use std::process::Command;
use std::time::Instant;

use crate::command::{cargo, step};
use crate::tests::Tier;
use crate::{audit, command, instructions, tests, tidy};

/// Runs all steps of a tier; stops at the first one that fails, and prints how long each took.
pub(crate) fn run(tier: Tier) -> Result<(), String> {
    let mut times = Vec::new();
    let mut timed = |name, run: &mut dyn FnMut() -> Result<(), String>| {
        let (start, used) = (Instant::now(), processor_seconds());
        let done = run();
        times.push(format!("{:>6.0} s {:>6.0} s  {name}", start.elapsed().as_secs_f64(), processor_seconds() - used));
        done
    };
    timed("format", &mut || step("format", cargo(&["fmt", "--all", "--check"])))?;
    timed("tidy", &mut || {
        println!("== tidy, licences");
        tidy::run()?;
        audit::licences()
    })?;
    timed("lints", &mut || {
        step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--locked", "--", "-D", "warnings"]))
    })?;
    timed("docs", &mut || {
        // `--examples`, of which there are none, selects the features of tests: tokio is as the lints have checked it.
        let targets = ["--lib", "--bin", "vpfs", "--bin", "vpfs-bench", "--bin", "xtask", "--examples"];
        let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--quiet", "--locked"]);
        docs.args(targets);
        docs.env("RUSTDOCFLAGS", "-D warnings");
        step("docs", docs)
    })?;
    timed("build", &mut || step("build", build()))?;
    if tier == Tier::Full {
        timed("instructions", &mut || {
            println!("== instructions");
            instructions::run()
        })?;
        timed("oldest compiler", &mut || {
            let check = audit::oldest_compiler().map_err(|audit::Missing(what)| what)?;
            step("build with the oldest compiler", check)
        })?;
        timed("advisories", &mut || step("advisories", cargo(&["deny", "check", "advisories"])))?;
        timed("simulation", &mut || {
            println!("== simulation");
            run_simulate(&[])
        })?;
    }
    println!("== tests");
    let mut sums = tests::Sums::default();
    timed("tests", &mut || {
        sums = tests::run(tier, build())?;
        Ok(())
    })?;
    println!("\n   wall  processor\n{}", times.join("\n"));
    if tier == Tier::Fast {
        println!("\nLeft out, and run by `cargo xtask ci --full`, as before a release:");
        println!("  advisories, the oldest compiler, instruction counts, 10000 schedules of the simulated daemon");
        sums.left_out.iter().for_each(|test| println!("  {test}"));
    }
    println!("{}", sums.line());
    if sums.failed.is_empty() { Ok(()) } else { Err(format!("failed:\n  {}", sums.failed.join("\n  "))) }
}

/// Installs the tools that only the full tier needs, and runs it.
pub(crate) fn full() -> Result<(), String> {
    println!("== tools");
    for (tool, version) in [("cargo-deb", "3.8.0"), ("cargo-generate-rpm", "0.21.1"), ("cargo-deny", "0.20.2")] {
        if !is_on_path(tool) {
            step(tool, cargo(&["install", "--quiet", "--locked", tool, "--version", version]))?;
        }
    }
    if let Err(audit::Missing(_)) = audit::oldest_compiler() {
        let version = audit::minimum_rust()?;
        let mut install = Command::new("rustup");
        install.args(["toolchain", "install", &version, "--profile", "minimal"]);
        step("the oldest compiler", install)?;
    }
    let debian = [("systemctl", "systemd"), ("rpm", "rpm"), ("man", "man-db"), ("ps", "procps"), ("strip", "binutils")];
    let missing: Vec<&str> = debian.into_iter().filter(|(tool, _)| !is_on_path(tool)).map(|(_, name)| name).collect();
    if !missing.is_empty() {
        let mut install = Command::new("apt-get");
        install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&missing);
        step("Debian's packages", install)?;
    }
    run(Tier::Full)
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Builds tests, and the programs that they run, in one go. All steps select the whole workspace, so that every crate
/// has one set of features: without the fuzz targets, SQLite would be compiled once more.
pub(crate) fn build() -> Command {
    cargo(&["build", "--workspace", "--tests", "--quiet", "--locked"])
}

/// Seconds that the processors of this machine were busy for programs and the kernel; 0 where that cannot be read.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let busy = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(3);
    busy.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Passes the arguments on; without any, lists what can be measured.
pub(crate) fn run_bench(args: &[&str]) -> Result<(), String> {
    let args = if args.is_empty() { &["--help"] } else { args };
    command::run(command::cargo(
        &[&["run", "--quiet", "--profile", "dist", "--package", "vpfs-bench", "--"], args].concat(),
    ))
}

/// Builds the program and one package, with further arguments for the tool that makes it.
pub(crate) fn run_package(kind: &str, rest: &[&str]) -> Result<(), String> {
    let (tool, args) = match kind {
        "deb" => ("deb", &["--no-build", "--profile", "dist", "--package", "vpfs"][..]),
        "rpm" => ("generate-rpm", &["--profile", "dist", "--package", "crates/vpfs"][..]),
        _ => return Err("usage: cargo xtask package deb|rpm [ARGUMENT]...".to_owned()),
    };
    step("build", cargo(&["build", "--profile", "dist", "--locked", "--package", "vpfs"]))?;
    // target/debug/xtask -> target
    let this = std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    let target = this.ancestors().nth(2).ok_or("this program is not in a target directory")?;
    let dist = target.join("dist");
    let mut generate = Command::new(dist.join("vpfs"));
    generate.arg("generate").arg(dist.join("generated"));
    step("man pages and completions", generate)?;
    let mut package = cargo(&[tool]);
    package.args(args).args(rest);
    step("package", package).map_err(|error| format!("{error}; is it there? cargo install cargo-{tool}"))
}

const USAGE: &str = "usage: cargo xtask simulate [--schedules N] [--seed N]

  --schedules N   how many (default 10000)
  --seed N        the first seed (default 1); each schedule has the next one
";

/// Runs the schedules that the arguments select, in an optimised build.
pub(crate) fn run_simulate(args: &[&str]) -> Result<(), String> {
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

//! Everything that CI runs: the fast tier, and with `--full` what a release needs as well. The tests come last, with
//! their sum in one line.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::{audit, cargo, instructions, step, tidy};

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
    let mut sums = Sums::default();
    timed("tests", &mut || {
        sums = run_tests(tier, build())?;
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
    crate::run(cargo(&[&["run", "--quiet", "--profile", "dist", "--package", "vpfs-bench", "--"], args].concat()))
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
    crate::run(command).map_err(|error| format!("a schedule failed; its seed is above: {error}"))?;
    println!("{schedules} schedules of each protocol, seeds {seed} to {last}");
    Ok(())
}

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// What guards correctness: before each commit.
    Fast,
    /// And what is slow or needs heavy tools: before a release. Those tests are `#[ignore]`d, with a reason.
    Full,
}

#[derive(Debug, Default)]
struct Sums {
    passed: u64,
    skipped: u64,
    /// Names, with the program's.
    failed: Vec<String>,
    /// Names and reasons.
    left_out: Vec<String>,
}

impl Sums {
    /// As other test runners print them.
    fn line(&self) -> String {
        let skipped = self.skipped + u64::try_from(self.left_out.len()).unwrap_or(u64::MAX);
        // To the harness, a test that reports to be skipped has passed.
        let passed = self.passed.saturating_sub(self.skipped);
        format!("{passed} passed, {} failed, {skipped} skipped", self.failed.len())
    }

    fn add(&mut self, program: &str, output: &Output) {
        let before = self.failed.len();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Some((name, result)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) else {
                continue;
            };
            match result {
                "ok" => self.passed += 1,
                "FAILED" => self.failed.push(format!("{program} {name}")),
                _ if result.starts_with("ignored") => {
                    self.left_out.push(format!("{program} {name}: {}", result.trim_start_matches("ignored, ")));
                }
                _ => {}
            }
        }
        if !output.status.success() && self.failed.len() == before {
            self.failed.push(format!("{program}: {}", output.status));
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        self.skipped += errors.lines().map(|line| line.matches("SKIPPED: ").count() as u64).sum::<u64>();
    }
}

struct Program {
    name: String,
    path: PathBuf,
    /// Of its package: where `cargo test` runs it.
    dir: PathBuf,
}

/// Runs those tests of a tier that `build` builds, all test programs side by side: many wait for other processes most
/// of the time, and `cargo test` would run them one after the other. Prints the output of each program at its end.
fn run_tests(tier: Tier, build: Command) -> Result<Sums, String> {
    let mut programs = programs(build)?;
    // It takes longest, and mostly waits.
    let end_to_end = programs.iter().position(|program| program.name == "vpfs-e2e it").ok_or("no end-to-end tests")?;
    let end_to_end = programs.remove(end_to_end);
    let queue = Mutex::new(VecDeque::from(programs));
    let sums = Mutex::new(Sums::default());
    let execute = |program: &Program, threads: Option<&str>| {
        let start = Instant::now();
        let mut command = Command::new(&program.path);
        command.current_dir(&program.dir).env("CARGO_MANIFEST_DIR", &program.dir).stdin(Stdio::null());
        command.envs(threads.map(|threads| ("RUST_TEST_THREADS", threads)));
        if tier == Tier::Full {
            command.arg("--include-ignored").envs([("VPFS_KILLS", "1000"), ("VPFS_SEEDS", "150")]);
        }
        let output = command.output();
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        report(&mut sums, &program.name, start, output);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| execute(&end_to_end, Some("4")));
        scope.spawn(|| {
            let start = Instant::now();
            let output = examples().output();
            let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
            report(&mut sums, "examples in documentation", start, output);
        });
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(program) = next else { return };
                    execute(&program, None);
                }
            });
        }
    });
    Ok(sums.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn examples() -> Command {
    cargo(&["test", "--doc", "--workspace", "--quiet", "--locked"])
}

fn report(sums: &mut Sums, name: &str, start: Instant, output: std::io::Result<Output>) {
    println!("-- {name}, {:.1} s", start.elapsed().as_secs_f64());
    match output {
        Ok(output) => {
            print!("{}", String::from_utf8_lossy(&output.stdout));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            sums.add(name, &output);
        }
        Err(error) => sums.failed.push(format!("{name}: cannot be run: {error}")),
    }
}

/// Those that a `cargo build` builds.
fn programs(mut build: Command) -> Result<Vec<Program>, String> {
    let output = build.arg("--message-format=json").stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run {build:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{build:?} failed with {}", output.status));
    }
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("cargo build: {error}"))?;
        let text = |pointer: &str| message.pointer(pointer).and_then(serde_json::Value::as_str);
        let (Some(path), Some(manifest)) = (text("/executable"), text("/manifest_path")) else { continue };
        if message.pointer("/profile/test").and_then(serde_json::Value::as_bool) != Some(true) {
            continue;
        }
        let dir = Path::new(manifest).parent().ok_or_else(|| format!("{manifest} is in no directory"))?;
        let package = dir.file_name().unwrap_or_default().to_string_lossy();
        let package = if package == "e2e" { "vpfs-e2e".into() } else { package };
        let target = text("/target/name").unwrap_or_default();
        let name = if target == "it" { format!("{package} it") } else { package.into_owned() };
        programs.push(Program { name, path: path.into(), dir: dir.to_owned() });
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn results_are_added_up() {
        let mut sums = Sums::default();
        let output = |code, stdout: &str, stderr: &str| Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        let tests = "running 5 tests\ntest a::b ... ok\ntest c ... ignored, takes minutes\ntest d - should panic ... ok\n\
                     test e ... FAILED\n";
        sums.add("x it", &output(101, tests, "SKIPPED: not on PATH: z\ntest y ... SKIPPED: z\n"));
        sums.add("y", &output(101, "", "it crashed"));
        sums.add("z", &output(0, "test f ... ok\n", ""));
        assert_eq!(sums.line(), "1 passed, 2 failed, 3 skipped");
        assert_eq!(sums.left_out, ["x it c: takes minutes"]);
        assert_eq!(sums.failed, ["x it e".to_owned(), "y: exit status: 101".to_owned()]);
    }
}

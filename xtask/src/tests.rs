//! Runs all test programs side by side: many wait for other processes most of the time, and `cargo test` would run
//! them one after the other.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::command::cargo;

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// What guards correctness: before each commit.
    Fast,
    /// And what is slow or needs heavy tools: before a release. Those tests are `#[ignore]`d, with a reason.
    Full,
}

/// The results of all tests.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    passed: u64,
    skipped: u64,
    /// Names, with the program's.
    pub(crate) failed: Vec<String>,
    /// Names and reasons.
    pub(crate) left_out: Vec<String>,
}

impl Sums {
    /// As other test runners print them.
    pub(crate) fn line(&self) -> String {
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

/// A test program.
struct Program {
    name: String,
    path: PathBuf,
    /// Of its package: where `cargo test` runs it.
    dir: PathBuf,
}

/// Runs those tests of a tier that `build` builds, prints the output of each program at its end, returns the results.
pub(crate) fn run(tier: Tier, build: Command) -> Result<Sums, String> {
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

/// Runs the examples in documentation.
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
mod sums {
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

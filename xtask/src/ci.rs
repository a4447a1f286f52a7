//! Everything CI runs. The tests come last, and one line adds them up.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::tidy;

/// Runs all steps; the first failing one ends it.
pub(crate) fn run() -> Result<(), String> {
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    println!("== tidy");
    tidy::run()?;
    let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    step("docs", docs)?;
    // End-to-end tests run the built binary.
    step("build", cargo(&["build", "--quiet", "--package", "vpfs"]))?;
    println!("== tests");
    tests()
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

fn step(name: &str, mut command: Command) -> Result<(), String> {
    println!("== {name}");
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {command:?} failed with {status}")) }
}

/// Runs all tests, shows their output as it comes, and adds up the results of all test programs.
fn tests() -> Result<(), String> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot run cargo test: {error}"))?;
    let mut sums = [0_u64; 3];
    for line in BufReader::new(child.stdout.take().ok_or("no output of cargo test")?).lines() {
        let line = line.map_err(|error| format!("cannot read the output of cargo test: {error}"))?;
        println!("{line}");
        if let Some(counts) = line.strip_prefix("test result: ") {
            for (sum, word) in sums.iter_mut().zip([" passed", " failed", " ignored"]) {
                *sum += count_before(counts, word);
            }
        }
    }
    let status = child.wait().map_err(|error| format!("cargo test: {error}"))?;
    let [passed, failed, skipped] = sums;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if status.success() { Ok(()) } else { Err("tests failed".to_owned()) }
}

/// The number in front of `word`.
fn count_before(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::count_before;

    #[test]
    fn counts_of_a_result_line() {
        let line = "ok. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        assert_eq!([" passed", " failed", " ignored"].map(|word| count_before(line, word)), [12, 3, 1]);
    }
}

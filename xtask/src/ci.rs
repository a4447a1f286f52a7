//! Everything that CI runs. The tests come last, with their sum in one line.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::command::{cargo, step};
use crate::{audit, instructions, tidy};

/// Runs all steps; stops at the first one that fails.
pub(crate) fn run() -> Result<(), String> {
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    step("format of fuzz", cargo(&["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"]))?;
    step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    println!("== tidy");
    tidy::run()?;
    println!("== licences");
    audit::licences()?;
    match audit::oldest_compiler() {
        // A developer need not have it.
        Err(audit::Missing(what)) if std::env::var_os("CI").is_none() => println!("SKIPPED: {what}"),
        Err(audit::Missing(what)) => return Err(what),
        Ok(build) => step("build with the oldest compiler", build)?,
    }
    let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    step("docs", docs)?;
    // The tests run the code of the targets; this step makes sure that the targets themselves compile.
    step("fuzz targets", cargo(&["check", "--quiet", "--locked", "--manifest-path", "fuzz/Cargo.toml"]))?;
    instructions()?;
    println!("== tests");
    tests()
}

/// Builds the programs that the following steps run, and counts their instructions.
pub(crate) fn instructions() -> Result<(), String> {
    step("build", cargo(&["build", "--quiet", "--package", "vpfs", "--package", "vpfs-bench"]))?;
    println!("== instructions");
    instructions::run()
}

/// Runs all tests, shows their output as it arrives, and adds up the results of all test programs.
fn tests() -> Result<(), String> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot run cargo test: {error}"))?;
    let (out, err) = child.stdout.take().zip(child.stderr.take()).ok_or("no output of cargo test")?;
    let complaints = std::thread::spawn(move || count_skipped(err));
    let mut sums = [0_u64; 3];
    for line in BufReader::new(out).lines() {
        let line = line.map_err(|error| format!("cannot read the output of cargo test: {error}"))?;
        println!("{line}");
        if let Some(counts) = line.strip_prefix("test result: ") {
            for (sum, word) in sums.iter_mut().zip([" passed", " failed", " ignored"]) {
                *sum += count_before(counts, word);
            }
        }
    }
    let status = child.wait().map_err(|error| format!("cargo test: {error}"))?;
    let skipped = complaints.join().map_err(|_| "cannot read the errors of cargo test")?;
    let [passed, failed, ignored] = sums;
    println!("{} passed, {failed} failed, {} skipped", passed - skipped.min(passed), ignored + skipped);
    if status.success() { Ok(()) } else { Err("tests failed".to_owned()) }
}

/// Shows the errors of cargo and the tests, and counts the tests that reported to be skipped: to the harness they
/// passed.
fn count_skipped(errors: impl std::io::Read) -> u64 {
    let mut skipped = 0;
    for line in BufReader::new(errors).lines().map_while(Result::ok) {
        eprintln!("{line}");
        skipped += u64::from(line.contains("SKIPPED: "));
    }
    skipped
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
    fn tests_that_did_not_run_are_counted() {
        let errors = "   Compiling x\nSKIPPED: not on PATH: a\ntest y ... SKIPPED: z\n";
        assert_eq!(super::count_skipped(errors.as_bytes()), 2);
    }

    #[test]
    fn counts_of_a_result_line() {
        let line = "ok. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        assert_eq!([" passed", " failed", " ignored"].map(|word| count_before(line, word)), [12, 3, 1]);
    }
}

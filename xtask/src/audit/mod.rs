//! What we depend on: licences, advisories, and the oldest compiler that builds it.

use std::path::Path;

use crate::ci::{cargo, step};

mod licences;

/// Compares the licence of every package with the list in deny.toml. Needs no network and no other tool.
pub(crate) fn licences() -> Result<(), String> {
    licences::check(root()?)
}

/// All checks; those whose tools are missing are named in the error, with the command that installs them.
pub(crate) fn run() -> Result<(), String> {
    println!("== licences");
    licences()?;
    let mut missing = Vec::new();
    if succeeds(&["deny", "--version"]) {
        step("advisories, licences, sources", cargo(&["deny", "check"]))?;
    } else {
        missing.push("advisories: cargo install --locked cargo-deny".to_owned());
    }
    let version = minimum_rust()?;
    let toolchain = format!("+{version}");
    if std::process::Command::new("rustup").args(["run", &version, "cargo", "--version"]).output().is_ok_and(succeeded)
    {
        let mut build = std::process::Command::new("cargo");
        // A directory of its own: the other compiler's files would be built again after it.
        build.args([&toolchain, "check", "--workspace", "--all-targets", "--quiet", "--locked"]);
        build.args(["--target-dir", "target/minimum-rust"]).env_remove("RUSTUP_TOOLCHAIN").current_dir(root()?);
        step(&format!("build with Rust {version}"), build)?;
    } else {
        missing.push(format!("build with Rust {version}: rustup toolchain install {version} --profile minimal"));
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("not checked, install first:\n  {}", missing.join("\n  "))) }
}

fn succeeds(args: &[&str]) -> bool {
    cargo(args).output().is_ok_and(succeeded)
}

#[expect(clippy::needless_pass_by_value, reason = "for `is_ok_and`")]
fn succeeded(output: std::process::Output) -> bool {
    output.status.success()
}

fn root() -> Result<&'static Path, String> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or_else(|| "xtask has no parent directory".to_owned())
}

/// `rust-version` of the workspace.
fn minimum_rust() -> Result<String, String> {
    let file = root()?.join("Cargo.toml");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let version = text.lines().find_map(|line| line.strip_prefix("rust-version = "));
    version.map(|version| version.trim_matches('"').to_owned()).ok_or_else(|| "Cargo.toml: no rust-version".to_owned())
}

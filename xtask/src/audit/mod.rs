//! What we depend on: licences, advisories, and the oldest compiler that builds it.

use std::path::Path;
use std::process::Command;

use crate::command::{cargo, step};

mod licences;

/// Compares the licence of every package with the list in deny.toml. Needs no network and no other tool.
pub(crate) fn licences() -> Result<(), String> {
    licences::check(root()?)
}

/// A compiler that is not installed, and the command that installs it.
pub(crate) struct Missing(pub(crate) String);

/// The command that checks everything with the oldest compiler that may build it.
pub(crate) fn oldest_compiler() -> Result<Command, Missing> {
    let version = minimum_rust().map_err(Missing)?;
    if !Command::new("rustup").args(["run", &version, "cargo", "--version"]).output().is_ok_and(succeeded) {
        return Err(Missing(format!("Rust {version}: rustup toolchain install {version} --profile minimal")));
    }
    let mut build = Command::new("cargo");
    // A directory of its own: the other compiler's files would be built again after it.
    build.args([&format!("+{version}"), "check", "--workspace", "--all-targets", "--quiet", "--locked"]);
    build.args(["--target-dir", "target/minimum-rust"]).env_remove("RUSTUP_TOOLCHAIN");
    build.current_dir(root().map_err(Missing)?);
    Ok(build)
}

/// All checks, including that of advisories, which needs cargo-deny and its database on the network.
pub(crate) fn run() -> Result<(), String> {
    println!("== licences");
    licences()?;
    step(
        "build with the oldest compiler",
        oldest_compiler().map_err(|Missing(what)| format!("install first: {what}"))?,
    )?;
    if !succeeds(&["deny", "--version"]) {
        return Err("advisories are not checked, install first: cargo install --locked cargo-deny".to_owned());
    }
    step("advisories, licences, sources", cargo(&["deny", "check"]))
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
pub(crate) fn minimum_rust() -> Result<String, String> {
    let file = root()?.join("Cargo.toml");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let version = text.lines().find_map(|line| line.strip_prefix("rust-version = "));
    version.map(|version| version.trim_matches('"').to_owned()).ok_or_else(|| "Cargo.toml: no rust-version".to_owned())
}

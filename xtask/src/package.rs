//! Packages for Debian and for systems with RPM, by `cargo-deb` and `cargo-generate-rpm`.

use std::process::Command;

use crate::command::{cargo, step};

/// Builds the program and one package, with further arguments for the tool that makes it.
pub(crate) fn run(kind: &str, rest: &[&str]) -> Result<(), String> {
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

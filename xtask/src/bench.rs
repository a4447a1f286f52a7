//! `cargo xtask bench`: vpfs-bench in an optimised build. Nothing here depends on the crates of vpfs.

use crate::command;

/// Passes the arguments on; without any, lists what can be measured.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let args = if args.is_empty() { &["--help"] } else { args };
    command::run(command::cargo(
        &[&["run", "--quiet", "--profile", "dist", "--package", "vpfs-bench", "--"], args].concat(),
    ))
}

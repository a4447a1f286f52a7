//! Other programs, first of all cargo.

use std::process::Command;

/// The cargo that runs this.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    // They describe this program. The build script of ring runs again if they are not as in a shell, which has none.
    for (name, _) in std::env::vars_os() {
        let is_ours = |prefix: &[u8]| name.as_encoded_bytes().starts_with(prefix);
        if is_ours(b"CARGO_PKG_") || is_ours(b"CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command under a heading; an error if it does not succeed.
pub(crate) fn step(name: &str, command: Command) -> Result<(), String> {
    println!("== {name}");
    run(command).map_err(|error| format!("{name}: {error}"))
}

/// Runs a command; an error if it does not succeed.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed with {status}")) }
}

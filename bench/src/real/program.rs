//! Our own program, which is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

/// `given`, or the release build in the target directory of this program, built first so that it is up to date.
pub(crate) fn build(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(given) = given {
        let found = given.is_file().then(|| given.to_owned());
        return found.ok_or_else(|| format!("--vpfs {}: no such file; leave it out to build one", given.display()));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = Command::new(cargo).args(["build", "--quiet", "--release", "--package", "vpfs"]).status();
    if !build.map_err(|error| format!("cannot run cargo build: {error}"))?.success() {
        return Err("vpfs does not build; see above".to_owned());
    }
    let this = std::env::current_exe().map_err(|error| format!("cannot find the target directory: {error}"))?;
    // target/debug/xtask -> target/release/vpfs
    let target = this.ancestors().nth(2).ok_or("this program is in no target directory; give --vpfs PROGRAM")?;
    let vpfs = target.join("release/vpfs");
    if vpfs.is_file() { Ok(vpfs) } else { Err(format!("{} is missing; give --vpfs PROGRAM", vpfs.display())) }
}

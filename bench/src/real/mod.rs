//! Measurements of several processes: `vpfs proxy` between clients and embedded servers, or those of a running OrangeFS
//! cluster.

mod cluster;
pub(crate) mod isolation;
mod origin;
pub(crate) mod papers;
mod proxies;
mod target;

use std::path::Path;

/// Writes a file, or says which one cannot be written.
fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

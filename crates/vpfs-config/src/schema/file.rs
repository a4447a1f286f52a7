//! Reads files of bounded size.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use vpfs_core::Bytes;

use super::units::Size;

/// The largest file that is read: configurations, scenarios and profiles.
pub const FILE_LIMIT: usize = 1 << 20;

/// The text of a file.
///
/// # Errors
/// As [`read_bytes`], and if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_bytes(path)?;
    String::from_utf8(bytes).map_err(|error| io::Error::other(format!("it is not UTF-8 text: {}", error.utf8_error())))
}

/// The content of a file.
///
/// # Errors
/// If it cannot be read or is larger than [`FILE_LIMIT`]; at most one byte more than that is read.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_LIMIT {
        return Err(too_large(size.max(bytes.len() as u64)));
    }
    Ok(bytes)
}

/// The error for a file of at least `size` bytes.
fn too_large(size: u64) -> io::Error {
    let limit = Size(Bytes(FILE_LIMIT as u64));
    io::Error::other(format!("its {size} bytes are more than the limit of {limit}; is it the right file?"))
}

//! The files that are written: all of them, or none because one is there already.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::exit::Exit;

/// A file to write.
pub(super) struct NewFile {
    /// Relative to the output directory.
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) mode: u32,
}

impl NewFile {
    pub(super) fn new(path: impl Into<PathBuf>, text: impl Into<String>, mode: u32) -> Self {
        Self { path: path.into(), text: text.into(), mode }
    }
}

/// Writes all files to the directory `output`; what exists is kept.
pub(super) fn write(output: &Path, files: &[NewFile]) -> Result<(), Exit> {
    if output.exists() && !output.is_dir() {
        return Err(Exit::Usage(format!("{} is no directory; choose another --output", output.display())));
    }
    if let Some(there) = files.iter().map(|file| output.join(&file.path)).find(|path| path.symlink_metadata().is_ok()) {
        return Err(Exit::Failed(format!("{} exists and is kept; choose another --output", there.display())));
    }
    files.iter().try_for_each(|file| write_one(&output.join(&file.path), file))
}

fn write_one(path: &Path, file: &NewFile) -> Result<(), Exit> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder)
        .map_err(|error| Exit::Failed(format!("cannot create {}: {error}", folder.display())))?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(file.mode).open(path);
    opened
        .and_then(|mut opened| opened.write_all(file.text.as_bytes()))
        .map_err(|error| Exit::cannot_write(path, &error))
}

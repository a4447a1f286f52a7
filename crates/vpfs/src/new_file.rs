//! A result file that replaces no other one unasked.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::exit::Exit;

/// Refuses a file that exists already, before time is spent on its content.
pub(crate) fn check(path: &Path, overwrite: bool) -> Result<(), Exit> {
    match fs::symlink_metadata(path) {
        Ok(_) if !overwrite => Err(exists(path)),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Exit::cannot_write(path, &error)),
        _ => Ok(()),
    }
}

/// Writes the file.
pub(crate) fn write(path: &Path, text: &str, overwrite: bool) -> Result<(), Exit> {
    let mut open = OpenOptions::new();
    let mut file = match open.write(true).truncate(true).create_new(!overwrite).create(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(path)),
        opened => opened.map_err(|error| Exit::cannot_write(path, &error))?,
    };
    file.write_all(text.as_bytes()).map_err(|error| Exit::cannot_write(path, &error))
}

fn exists(path: &Path) -> Exit {
    Exit::Usage(format!("{} exists; choose another name, or use --overwrite", path.display()))
}

//! The directory for what a daemon keeps over restarts: small files that it can do without.
//!
//! A file is replaced by renaming a complete one, so a crash or a full disk leaves the older one. Nothing here is ever
//! an error for the daemon: it works without, and the log says so once.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by systemd for a service with `StateDirectory=`; several directories are separated by colons.
const VARIABLE: &str = "STATE_DIRECTORY";
/// Where the packaged service keeps its state.
const DEFAULT: &str = "/var/lib/vpfs";

/// The state directory of a daemon, or none. Processes of one host may share it, so file names begin with the name of
/// the first server that a process serves.
#[derive(Clone, Debug, Default)]
pub struct StateDir {
    path: Option<PathBuf>,
    /// Whether the log has said that files cannot be written.
    failing: Arc<AtomicBool>,
}

impl StateDir {
    /// The first directory of `$STATE_DIRECTORY`, or else `/var/lib/vpfs`; the latter only if it exists.
    pub fn of_service() -> Self {
        let default = || Path::new(DEFAULT).is_dir().then(|| PathBuf::from(DEFAULT));
        match std::env::var_os(VARIABLE).and_then(|list| std::env::split_paths(&list).next()) {
            Some(path) if path.is_absolute() => Self::at(path),
            _ => Self { path: default(), failing: Arc::default() },
        }
    }

    /// This directory.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), failing: Arc::default() }
    }

    /// Whether there is one, so that anything is kept.
    pub(crate) fn is_there(&self) -> bool {
        self.path.is_some()
    }

    /// Where a file of this name is or would be; `None` without a directory.
    pub fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.path.as_ref()?.join(name))
    }

    /// The content of a file; `None` if there is none, or if it cannot be read or is larger than `limit` bytes, which
    /// is logged. Blocks.
    pub fn read(&self, name: &str, limit: u64) -> Option<Vec<u8>> {
        let path = self.path.as_ref()?.join(name);
        match read(&path, limit) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "ignored: cannot read the state of an earlier process");
                None
            }
        }
    }

    /// Replaces a file. If that fails, the log says so, once until it succeeds again. Blocks.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let Some(directory) = &self.path else { return };
        match replace(&directory.join(name), bytes) {
            Ok(()) => self.failing.store(false, Ordering::Relaxed),
            Err(error) if !self.failing.swap(true, Ordering::Relaxed) => tracing::warn!(
                path = %directory.display(),
                %error,
                "cannot be written; what this process learns is lost when it ends"
            ),
            Err(_) => {}
        }
    }
}

fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// The file has its old content or all of the new one, whatever fails.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut unfinished = OsString::from(path);
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&unfinished, path)).inspect_err(|_| drop(fs::remove_file(&unfinished)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_read_up_to_a_limit() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::at(directory.path());
        assert_eq!(state.read("s1.costs", 9), None);
        for content in [&b"first"[..], b"second"] {
            state.write("s1.costs", content);
            assert_eq!(state.read("s1.costs", 9).as_deref(), Some(content));
        }
        assert_eq!(state.read("s1.costs", 6).as_deref(), Some(&b"second"[..]));
        assert_eq!(state.read("s1.costs", 5), None, "longer than the limit");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no unfinished file stays");
    }

    #[test]
    fn without_a_directory_nothing_is_kept() {
        let state = StateDir::default();
        state.write("names", b"lost");
        assert_eq!(state.read("names", 9), None);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "no directory").unwrap();
        let state = StateDir::at(&file);
        state.write("names", b"lost");
        assert_eq!(state.read("names", 9), None);
    }

    /// What cannot be written completely leaves the older file.
    #[test]
    fn a_failed_replacement_leaves_the_older_file() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::at(directory.path());
        state.write("names", b"older");
        // In the place of the unfinished file, so that it cannot be created.
        fs::create_dir(directory.path().join(format!("names.{}", std::process::id()))).unwrap();
        state.write("names", b"newer");
        assert_eq!(state.read("names", 9).as_deref(), Some(&b"older"[..]));
    }
}

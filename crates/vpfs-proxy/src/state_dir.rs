//! The directory for what a daemon keeps over restarts: small files that it can do without.
//!
//! A file is replaced by renaming a complete one, so a crash or a full disk leaves the older one. Nothing here is ever
//! an error for the daemon: it works without, and the log says so once.
//!
//! One of them is what the scheduler of a server has learned, which a successor is told as well (docs/isolation.md).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use vpfs_core::Learned;

/// Set by systemd for a service with `StateDirectory=`; several directories are separated by colons.
const VARIABLE: &str = "STATE_DIRECTORY";
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    /// The server's address: another one is another storage.
    pub(crate) server: String,
    best: u64,
    most: u64,
    usual: u64,
    alone_ns: u64,
}

impl Known {
    pub(crate) fn of(server: String, learned: &Learned) -> Self {
        let Learned { best, most, usual, alone_ns } = *learned;
        Self { server, best, most, usual, alone_ns }
    }

    pub(crate) fn learned(&self) -> Learned {
        let Self { best, most, usual, alone_ns, .. } = *self;
        Learned { best, most, usual, alone_ns }
    }

    pub(crate) fn read(state: &StateDir, name: &str) -> Option<Vec<u8>> {
        state.read(&file(name), LIMIT)
    }

    pub(crate) fn write(state: &StateDir, name: &str, content: &str) {
        state.write(&file(name), content.as_bytes());
    }

    pub(crate) fn content(self) -> String {
        serde_json::to_string(&Kept { format: FORMAT, learned: self }).expect("numbers, names and lists are JSON")
    }

    /// What was learned in front of the server of this name and address. Nothing if it is of another version or
    /// address, or damaged, which is logged.
    pub(crate) fn parse(content: &[u8], name: &str, address: &str) -> Option<Self> {
        let parsed = serde_json::from_slice::<Version>(content).and_then(|Version { format }| {
            (format == FORMAT).then(|| serde_json::from_slice::<Kept>(content)).transpose()
        });
        match parsed {
            Ok(Some(Kept { learned, .. })) if learned.server == address => return Some(learned),
            Ok(Some(Kept { learned, .. })) => {
                tracing::info!(
                    server = name,
                    address = learned.server,
                    "what was learned at another address is ignored"
                );
            }
            Ok(None) => tracing::info!(server = name, "what another version of vpfs learned is ignored"),
            Err(error) => tracing::warn!(
                server = name,
                %error,
                "what an earlier process learned is damaged; it is learned again"
            ),
        }
        None
    }
}

/// Changes when an older program could not read the file.
const FORMAT: u32 = 3;

/// Some times as much as the largest that is written.
const LIMIT: u64 = 256 << 10;

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u32,
    learned: Known,
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

fn file(name: &str) -> String {
    format!("{name}.learned.json")
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

    const ADDRESS: &str = "tcp://oss1:3334";

    #[test]
    fn what_is_kept_is_read_again_and_anything_else_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::at(directory.path());
        assert_eq!(Known::read(&state, "s1"), None);
        let learned = Learned { best: 1, most: 2, usual: 3, alone_ns: 4 };
        let known = Known::of(ADDRESS.to_owned(), &learned);
        assert_eq!(known.learned(), learned);
        Known::write(&state, "s1", &known.clone().content());
        assert_eq!(Known::read(&state, "s2"), None, "the file of another server");
        let kept = Known::read(&state, "s1").unwrap();
        assert_eq!(Known::parse(&kept, "s1", ADDRESS), Some(known));
        assert_eq!(Known::parse(&kept, "s1", "tcp://oss2:3334"), None, "another storage");
        for cut in 0..kept.len() {
            assert_eq!(Known::parse(&kept[..cut], "s1", ADDRESS), None, "cut at {cut}");
        }
        let text = String::from_utf8(kept).unwrap();
        for [from, to] in [["\"format\":3", "\"format\":4"], ["\"best\":", "\"beast\":"]] {
            assert!(text.contains(from));
            assert_eq!(Known::parse(text.replace(from, to).as_bytes(), "s1", ADDRESS), None, "{to}");
        }
    }
}

//! What the schedulers have learned, for the next process: told to a successor, and kept in a file for each server
//! (docs/isolation.md).

use serde::{Deserialize, Serialize};
use vpfs_core::Learned;

use crate::state_dir::StateDir;

/// What was learned in front of one server.
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
    /// What was learned in front of `server`.
    pub(crate) fn of(server: String, learned: &Learned) -> Self {
        let Learned { best, most, usual, alone_ns } = *learned;
        Self { server, best, most, usual, alone_ns }
    }

    /// For the node.
    pub(crate) fn learned(&self) -> Learned {
        let Self { best, most, usual, alone_ns, .. } = *self;
        Learned { best, most, usual, alone_ns }
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

/// Only the format, of any version.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// The file of the server of this name.
fn file(name: &str) -> String {
    format!("{name}.learned.json")
}

/// What the last process kept of the server of this name. Blocks.
pub(crate) fn read(state: &StateDir, name: &str) -> Option<Vec<u8>> {
    state.read(&file(name), LIMIT)
}

/// Replaces the file. Blocks.
pub(crate) fn write(state: &StateDir, name: &str, content: &str) {
    state.write(&file(name), content.as_bytes());
}

/// The content of the file, which a successor gets as well.
pub(crate) fn content(learned: Known) -> String {
    serde_json::to_string(&Kept { format: FORMAT, learned }).expect("numbers, names and lists are JSON")
}

/// What was learned in front of the server of this name and address. Nothing if it is of another version or address, or
/// damaged, which is logged.
pub(crate) fn parse(content: &[u8], name: &str, address: &str) -> Option<Known> {
    let parsed = serde_json::from_slice::<Version>(content)
        .and_then(|Version { format }| (format == FORMAT).then(|| serde_json::from_slice::<Kept>(content)).transpose());
    match parsed {
        Ok(Some(Kept { learned, .. })) if learned.server == address => return Some(learned),
        Ok(Some(Kept { learned, .. })) => {
            tracing::info!(server = name, address = learned.server, "what was learned at another address is ignored");
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

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "tcp://oss1:3334";

    #[test]
    fn what_is_kept_is_read_again_and_anything_else_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::at(directory.path());
        assert_eq!(read(&state, "s1"), None);
        let learned = Learned { best: 1, most: 2, usual: 3, alone_ns: 4 };
        let known = Known::of(ADDRESS.to_owned(), &learned);
        assert_eq!(known.learned(), learned);
        write(&state, "s1", &content(known.clone()));
        assert_eq!(read(&state, "s2"), None, "the file of another server");
        let kept = read(&state, "s1").unwrap();
        assert_eq!(parse(&kept, "s1", ADDRESS), Some(known));
        assert_eq!(parse(&kept, "s1", "tcp://oss2:3334"), None, "another storage");
        for cut in 0..kept.len() {
            assert_eq!(parse(&kept[..cut], "s1", ADDRESS), None, "cut at {cut}");
        }
        let text = String::from_utf8(kept).unwrap();
        for [from, to] in [["\"format\":3", "\"format\":4"], ["\"best\":", "\"beast\":"]] {
            assert!(text.contains(from));
            assert_eq!(parse(text.replace(from, to).as_bytes(), "s1", ADDRESS), None, "{to}");
        }
    }
}

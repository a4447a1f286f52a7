//! The file in which it outlives a process: one for each server.

use serde::{Deserialize, Serialize};

use super::Known;
use crate::state_dir::StateDir;

/// Changes when an older program could not read the file.
const FORMAT: u32 = 1;
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
            tracing::info!(server = name, address = learned.server, "costs learned at another address are ignored");
        }
        Ok(None) => tracing::info!(server = name, "costs saved by another version of vpfs are ignored"),
        Err(error) => tracing::warn!(
            server = name,
            %error,
            "the costs saved by an earlier process are damaged; they are learned again"
        ),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::examples;
    use super::*;

    const ADDRESS: &str = "tcp://oss1:3334";

    #[test]
    fn what_is_kept_is_read_again_and_anything_else_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::at(directory.path());
        assert_eq!(read(&state, "s1"), None);
        for (known, _) in examples(ADDRESS) {
            write(&state, "s1", &content(known.clone()));
            assert_eq!(read(&state, "s2"), None, "the file of another server");
            let kept = read(&state, "s1").unwrap();
            assert_eq!(parse(&kept, "s1", ADDRESS), Some(known));
            assert_eq!(parse(&kept, "s1", "tcp://oss2:3334"), None, "another storage");
            for cut in 0..kept.len() {
                assert_eq!(parse(&kept[..cut], "s1", ADDRESS), None, "cut at {cut}");
            }
            let text = String::from_utf8(kept).unwrap();
            for [from, to] in [["\"format\":1", "\"format\":2"], ["\"bulk\":[", "\"calm\":["]] {
                assert!(text.contains(from));
                assert_eq!(parse(text.replace(from, to).as_bytes(), "s1", ADDRESS), None, "{to}");
            }
        }
    }
}

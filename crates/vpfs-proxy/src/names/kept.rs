//! The file in which the last addresses of names outlive a process.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::table::Table;
use crate::state_dir::StateDir;

/// Changes when an older program could not read the file.
const FORMAT: u32 = 1;
/// More than the largest file that is written: 65,536 names that are as long as a name can be.
const LIMIT: u64 = 32 << 20;

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u32,
    names: BTreeMap<String, Vec<IpAddr>>,
}

/// The file of the process whose first server is `own`.
fn file(own: &str) -> String {
    format!("{own}.names.json")
}

/// What the last process kept; nothing if there is no such file, or if it is damaged, which is logged.
pub(super) fn read(state: &StateDir, own: &str) -> BTreeMap<String, Vec<IpAddr>> {
    let Some(bytes) = state.read(&file(own), LIMIT) else { return BTreeMap::new() };
    match serde_json::from_slice::<Kept>(&bytes) {
        Ok(Kept { format: FORMAT, names }) => names,
        Ok(Kept { format, .. }) => {
            tracing::info!(file = file(own), format, "addresses saved by another version of vpfs are ignored");
            BTreeMap::new()
        }
        Err(error) => {
            tracing::warn!(file = file(own), %error, "the addresses saved by an earlier process are damaged; ignored");
            BTreeMap::new()
        }
    }
}

/// The content of the file.
pub(super) fn content(table: &Table) -> Vec<u8> {
    let names = table.known().map(|(name, addresses)| (name.to_owned(), addresses.to_vec())).collect();
    serde_json::to_vec(&Kept { format: FORMAT, names }).expect("a map with text as keys is JSON")
}

/// Replaces the file. Blocks.
pub(crate) fn write(state: &StateDir, own: &str, content: &[u8]) {
    state.write(&file(own), content);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use vpfs_core::Time;

    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_damage_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::at(directory.path());
        let mut table = Table::new(BTreeMap::new());
        table.want(Time::ZERO, ["a", "b"].map(str::to_owned).into());
        while table.poll_lookup(Time::ZERO).is_some() {}
        let addresses = vec![IpAddr::from([10, 0, 0, 1]), "fd00::1".parse().unwrap()];
        table.answered(Time::ZERO, "a", Ok(addresses.clone()));
        table.answered(Time::ZERO, "b", Err("no such host".into()));
        let content = content(&table);
        write(&state, "s1", &content);
        assert_eq!(read(&state, "s1"), BTreeMap::from([("a".to_owned(), addresses)]));
        assert_eq!(read(&state, "s2"), BTreeMap::new(), "the file of another process");
        for cut in 0..content.len() {
            fs::write(directory.path().join(file("s1")), &content[..cut]).unwrap();
            assert_eq!(read(&state, "s1"), BTreeMap::new());
        }
        for other in ["{\"format\":2,\"names\":{}}", "{\"format\":1,\"names\":{\"a\":[\"10.0.0.256\"]}}", "\0\0\0"] {
            fs::write(directory.path().join(file("s1")), other).unwrap();
            assert_eq!(read(&state, "s1"), BTreeMap::new());
        }
    }
}

//! What the schedulers have learned, for the next process: told to a successor, and kept in a file for each server
//! (docs/isolation.md).

use serde::{Deserialize, Serialize};
use vpfs_core::slot_cost::SizeClass;
use vpfs_core::{Bytes, Depth, Learned, OpKind, SlotCost, SlotCostTable};

use crate::state_dir::StateDir;

/// What was learned in front of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    /// The server's address: another one is another storage.
    pub(crate) server: String,
    policy: Policy,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Policy {
    Pace { best: u64, most: u64, usual: u64, alone_ns: u64 },
    Slots { depth: u32, small: u64, reads: Vec<(u64, u32)>, writes: Vec<(u64, u32)> },
}

impl Known {
    /// What was learned in front of `server`.
    pub(crate) fn of(server: String, learned: &Learned) -> Self {
        let policy = match *learned {
            Learned::Pace { best, most, usual, alone_ns } => Policy::Pace { best, most, usual, alone_ns },
            Learned::Slots { depth, ref slot_costs } => slots(depth, slot_costs),
        };
        Self { server, policy }
    }

    /// For the node. `None` if it is not valid.
    pub(crate) fn learned(&self) -> Option<Learned> {
        Some(match &self.policy {
            &Policy::Pace { best, most, usual, alone_ns } => Learned::Pace { best, most, usual, alone_ns },
            Policy::Slots { depth, small, reads, writes } => Learned::Slots {
                depth: Depth::new(*depth)?,
                slot_costs: SlotCostTable::new(Bytes(*small), classes(reads)?, classes(writes)?).ok()?,
            },
        })
    }
}

fn slots(depth: Depth, table: &SlotCostTable) -> Policy {
    let rows = |op| table.rows(op).iter().map(|row| (row.up_to.0, row.slot_cost.get())).collect();
    let (reads, writes) = (rows(OpKind::Read), rows(OpKind::Write));
    Policy::Slots { depth: depth.get(), small: table.small_threshold().0, reads, writes }
}

fn classes(rows: &[(u64, u32)]) -> Option<Vec<SizeClass>> {
    let class = |&(up_to, slots)| Some(SizeClass { up_to: Bytes(up_to), slot_cost: SlotCost::new(slots)? });
    rows.iter().map(class).collect()
}

/// Changes when an older program could not read the file.
const FORMAT: u32 = 2;

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

    /// Something learned by each policy that learns, in front of a server.
    pub(crate) fn examples(server: &str) -> [(Known, Learned); 2] {
        let large = SizeClass { up_to: Bytes::mib(4), slot_cost: SlotCost::new(5).unwrap() };
        let slot_costs = SlotCostTable::new(Bytes::kib(128), vec![large], Vec::new()).unwrap();
        let pace = Learned::Pace { best: 1, most: 2, usual: 3, alone_ns: 4 };
        let all = [pace, Learned::Slots { depth: Depth::new(11).unwrap(), slot_costs }];
        all.map(|learned| (Known::of(server.to_owned(), &learned), learned))
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (known, learned) in examples("tcp://oss1:3334") {
            let read: Known = serde_json::from_slice(&serde_json::to_vec(&known).unwrap()).unwrap();
            assert_eq!(read, known);
            assert_eq!(read.learned(), Some(learned));
        }
    }

    #[test]
    fn an_impossible_table_is_ignored() {
        for (depth, reads) in [(0, vec![]), (7, vec![(1 << 20, 0)]), (7, vec![(1 << 20, 2), (1 << 20, 3)])] {
            let policy = Policy::Slots { depth, small: 4096, reads, writes: Vec::new() };
            let known = Known { server: String::new(), policy };
            assert_eq!(known.learned(), None, "{known:?}");
        }
    }

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
            for [from, to] in [["\"format\":2", "\"format\":3"], ["\"policy\":{", "\"police\":{"]] {
                assert!(text.contains(from));
                assert_eq!(parse(text.replace(from, to).as_bytes(), "s1", ADDRESS), None, "{to}");
            }
        }
    }
}

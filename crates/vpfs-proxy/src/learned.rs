//! What the schedulers have learned, for the next process: told to a successor, and kept in a file for each server
//! (docs/decisions/0003-isolation.md).

use serde::{Deserialize, Serialize};
use vpfs_core::slot_cost::SizeClass;
use vpfs_core::{AppId, Bytes, Depth, Learned, LearnedCost, LearnedCosts, OpKind, SlotCost, SlotCostTable, Time};

use crate::state_dir::StateDir;

/// Longer names of applications are not written: what they did is learned again.
const NAME_MAX: usize = 256;

/// What was learned in front of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    /// The server's address: another one is another storage.
    pub(crate) server: String,
    /// The names of the applications that were bulk.
    pub(crate) bulk: Vec<String>,
    policy: Policy,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Policy {
    Isolation {
        costs: Vec<Cost>,
        mix_ppm: u64,
        mix_windows: u32,
        bulk: Option<(Op, u64)>,
        /// Nanoseconds since 1970.
        confirmed_ns: Option<u64>,
        serial: bool,
        took_milli: Option<(u64, u64)>,
        interactive: bool,
    },
    Pace {
        best: u64,
        most: u64,
        usual: u64,
        alone_ns: u64,
    },
    Slots {
        depth: u32,
        small: u64,
        reads: Vec<(u64, u32)>,
        writes: Vec<(u64, u32)>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cost {
    op: Op,
    size: u64,
    cost_ns: u64,
    windows: u32,
    clean: u32,
    alone_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    Read,
    Write,
    Metadata,
}

impl Known {
    /// What was learned in front of `server`; `name` knows the applications.
    pub(crate) fn of(server: String, learned: &Learned, name: impl Fn(AppId) -> Option<String>) -> Self {
        let (bulk, policy) = match learned {
            Learned::Isolation(costs) => {
                let names = costs.bulk_flows.iter().filter_map(|app| name(*app));
                (names.filter(|name| name.len() <= NAME_MAX).collect(), isolation(costs))
            }
            &Learned::Pace { best, most, usual, alone_ns } => {
                (Vec::new(), Policy::Pace { best, most, usual, alone_ns })
            }
            Learned::Slots { depth, slot_costs } => (Vec::new(), slots(*depth, slot_costs)),
        };
        Self { server, bulk, policy }
    }

    /// For the node; the numbers of applications are others now. `None` if it is not valid.
    pub(crate) fn learned(&self) -> Option<Learned> {
        Some(match &self.policy {
            Policy::Isolation { costs, mix_ppm, mix_windows, bulk, confirmed_ns, serial, took_milli, interactive } => {
                Learned::Isolation(LearnedCosts {
                    costs: costs.iter().map(Cost::learned).collect(),
                    mix_ppm: *mix_ppm,
                    mix_windows: *mix_windows,
                    bulk: bulk.map(|(op, size)| (op.kind(), Bytes(size))),
                    confirmed: confirmed_ns.map(Time::from_nanos),
                    serial: *serial,
                    took_milli: *took_milli,
                    interactive: *interactive,
                    bulk_flows: Vec::new(),
                })
            }
            &Policy::Pace { best, most, usual, alone_ns } => Learned::Pace { best, most, usual, alone_ns },
            Policy::Slots { depth, small, reads, writes } => Learned::Slots {
                depth: Depth::new(*depth)?,
                slot_costs: SlotCostTable::new(Bytes(*small), classes(reads)?, classes(writes)?).ok()?,
            },
        })
    }
}

fn isolation(costs: &LearnedCosts) -> Policy {
    let cost = |cost: &LearnedCost| Cost {
        op: Op::of(cost.op),
        size: cost.size.0,
        cost_ns: cost.cost_ns,
        windows: cost.windows,
        clean: cost.clean,
        alone_ns: cost.alone_ns,
    };
    Policy::Isolation {
        costs: costs.costs.iter().map(cost).collect(),
        mix_ppm: costs.mix_ppm,
        mix_windows: costs.mix_windows,
        bulk: costs.bulk.map(|(op, Bytes(size))| (Op::of(op), size)),
        confirmed_ns: costs.confirmed.map(Time::as_nanos),
        serial: costs.serial,
        took_milli: costs.took_milli,
        interactive: costs.interactive,
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

impl Cost {
    fn learned(&self) -> LearnedCost {
        LearnedCost {
            op: self.op.kind(),
            size: Bytes(self.size),
            cost_ns: self.cost_ns,
            windows: self.windows,
            clean: self.clean,
            alone_ns: self.alone_ns,
        }
    }
}

impl Op {
    fn of(op: OpKind) -> Self {
        match op {
            OpKind::Read => Self::Read,
            OpKind::Write => Self::Write,
            OpKind::Metadata => Self::Metadata,
        }
    }

    fn kind(self) -> OpKind {
        match self {
            Self::Read => OpKind::Read,
            Self::Write => OpKind::Write,
            Self::Metadata => OpKind::Metadata,
        }
    }
}

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
    use super::*;

    /// Something learned by each policy that learns, in front of a server.
    pub(crate) fn examples(server: &str) -> [(Known, Learned); 3] {
        let cost = |op, size| LearnedCost { op, size, cost_ns: 23, windows: 3, clean: 2, alone_ns: 1 };
        let costs = LearnedCosts {
            costs: vec![cost(OpKind::Write, Bytes::mib(1)), cost(OpKind::Metadata, Bytes::ZERO)],
            mix_ppm: 900_000,
            mix_windows: 7,
            bulk: Some((OpKind::Read, Bytes::mib(4))),
            confirmed: Some(Time::from_millis(1_800_000_000_000)),
            serial: true,
            took_milli: Some((300, 1100)),
            interactive: true,
            bulk_flows: vec![AppId(7), AppId(8)],
        };
        let large = SizeClass { up_to: Bytes::mib(4), slot_cost: SlotCost::new(5).unwrap() };
        let slot_costs = SlotCostTable::new(Bytes::kib(128), vec![large], Vec::new()).unwrap();
        let pace = Learned::Pace { best: 1, most: 2, usual: 3, alone_ns: 4 };
        let all = [Learned::Isolation(costs), pace, Learned::Slots { depth: Depth::new(11).unwrap(), slot_costs }];
        all.map(|learned| {
            let name = |app: AppId| Some(if app == AppId(7) { "climate".to_owned() } else { "x".repeat(257) });
            (Known::of(server.to_owned(), &learned, name), learned)
        })
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (known, learned) in examples("tcp://oss1:3334") {
            let read: Known = serde_json::from_slice(&serde_json::to_vec(&known).unwrap()).unwrap();
            assert_eq!(read, known);
            let nameless = match learned {
                Learned::Isolation(costs) => {
                    assert_eq!(read.bulk, ["climate"], "the other name is too long");
                    Learned::Isolation(LearnedCosts { bulk_flows: Vec::new(), ..costs })
                }
                nameless => nameless,
            };
            assert_eq!(read.learned(), Some(nameless));
        }
    }

    #[test]
    fn an_impossible_table_is_ignored() {
        for (depth, reads) in [(0, vec![]), (7, vec![(1 << 20, 0)]), (7, vec![(1 << 20, 2), (1 << 20, 3)])] {
            let policy = Policy::Slots { depth, small: 4096, reads, writes: Vec::new() };
            let known = Known { server: String::new(), bulk: Vec::new(), policy };
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
            for [from, to] in [["\"format\":1", "\"format\":2"], ["\"bulk\":[", "\"calm\":["]] {
                assert!(text.contains(from));
                assert_eq!(parse(text.replace(from, to).as_bytes(), "s1", ADDRESS), None, "{to}");
            }
        }
    }
}

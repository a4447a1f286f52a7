//! What was learned, as it is written. Types of its own, so that it does not change by accident.

use serde::{Deserialize, Serialize};
use vpfs_core::slot_cost::SizeClass;
use vpfs_core::{AppId, Bytes, Depth, Learned, LearnedCost, LearnedCosts, OpKind, SlotCost, SlotCostTable, Time};

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

#[cfg(test)]
pub(super) mod tests {
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
}

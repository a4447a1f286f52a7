//! What a policy has learned at run time and can take back after a restart, as plain data: for a successor, or a file.
//!
//! Only what makes the first seconds bad without it is kept; the rest is learned again at once. It may come from
//! another version, or from a time when the storage was another one. So a policy takes any values, limits them to what
//! it could have learned itself, and continues to learn from there: what is wrong is corrected as after a change of the
//! storage.

use alloc::vec::Vec;

use crate::request::OpKind;
use crate::slot_cost::SlotCostTable;
use crate::units::{AppId, Bytes, Depth, Time};

/// By kind of policy; another policy ignores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// By [`Isolation`](crate::Isolation).
    Isolation(LearnedCosts),
    /// By [`Proportional`](crate::Proportional).
    Pace {
        /// The best rate of bulk, 0 if unknown, and the most that it was served, in cost per second.
        best: u64,
        /// See `best`.
        most: u64,
        /// The usual cost of a request of bulk.
        usual: u64,
        /// How long such a request takes alone, 0 if unknown.
        alone_ns: u64,
    },
    /// By [`Sfq`](crate::Sfq) with an adaptive depth.
    Slots {
        /// The depth found.
        depth: Depth,
        /// The slot costs found.
        slot_costs: SlotCostTable,
    },
}

/// What requests cost, and what is needed to go on without measuring that first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearnedCosts {
    /// By class of requests; at most [`LearnedCosts::MAX`].
    pub costs: Vec<LearnedCost>,
    /// How much longer a mix of them takes, in parts per million, and the windows that showed it.
    pub mix_ppm: u64,
    /// See `mix_ppm`.
    pub mix_windows: u32,
    /// The usual request of bulk; for metadata, with its number of objects instead of the size.
    pub bulk: Option<(OpKind, Bytes)>,
    /// When the storage last confirmed the costs.
    pub confirmed: Option<Time>,
    /// Costs were learned from storage that is known to serve one request after another.
    pub serial: bool,
    /// The smallest and the usual time of bulk in the storage, in thousandths of its device time, while costs were
    /// right. Where it changes, the storage has changed.
    pub took_milli: Option<(u64, u64)>,
    /// An interactive flow was active, and may be back at once.
    pub interactive: bool,
    /// The bulk flows of the moment, at most [`LearnedCosts::MAX`].
    pub bulk_flows: Vec<AppId>,
}

impl LearnedCosts {
    /// The most classes, and the most flows, that are kept.
    pub const MAX: usize = 64;
}

/// What requests of one class cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedCost {
    /// The operation.
    pub op: OpKind,
    /// The size of a usual request of the class; for metadata, its number of objects.
    pub size: Bytes,
    /// The device time of such a request, for metadata that of each object; 0 if unknown.
    pub cost_ns: u64,
    /// The windows that revealed it, ...
    pub windows: u32,
    /// ... and those of them in which hardly any interactive request was served.
    pub clean: u32,
    /// How long such a request takes alone; 0 if unknown.
    pub alone_ns: u64,
}

//! What a [`Policy`](crate::Policy) is made from.

use alloc::vec::Vec;
use core::time::Duration;

use crate::request::OpKind;
use crate::slot_cost::SlotCostTable;
use crate::units::{Bytes, Depth};

/// The policies to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// In order of arrival, without a limit: [`Fifo`](crate::Fifo).
    Fifo,
    /// Shares by weight, one slot for each request: [`Sfq`](crate::Sfq).
    SfqD,
    /// Shares by weight, more slots for large requests, with backfill: [`Sfq`](crate::Sfq).
    SfqDPlus,
    /// A rate and a deadline for each application: [`TwoLevel`](crate::TwoLevel).
    TwoLevel,
    /// Application by application in windows of time, in the same order at all servers: [`Ioco`](crate::Ioco).
    Ioco,
    /// Shares of device time, and no delays for those who ask for less: [`Isolation`](crate::Isolation).
    Isolation,
}

/// What a [`Policy`](crate::Policy) is made from. Each policy looks at what it needs and ignores the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which policy.
    pub kind: PolicyKind,
    /// Slots of the storage; FIFO has no limit.
    pub depth: Depth,
    /// Slots that requests occupy with SFQ(D)+; the others do not look at it.
    pub slot_costs: SlotCostTable,
    /// How far backfill of SFQ(D)+ goes.
    pub backfill: Backfill,
    /// Over which servers the shares of SFQ(D) and SFQ(D)+ hold.
    pub sharing: Sharing,
    /// Slots of a queue of its own for metadata; `None`: metadata and data share one queue [vPFS+ §IV].
    pub metadata_depth: Option<Depth>,
    /// For throughput and latency control.
    pub two_level: TwoLevelSettings,
    /// For coordination by windows.
    pub ioco: IocoSettings,
    /// SFQ(D) and SFQ(D)+ find depth and slot costs from completions; `depth` and `slot_costs` are where they begin.
    pub adaptive: bool,
    /// What isolation shares by weight.
    pub cost_unit: CostUnit,
    /// What requests take of the storage's time, if that was measured: where isolation begins to learn it.
    pub device_times: Vec<DeviceTime>,
}

impl Settings {
    /// A policy with the papers' parameters for everything but these.
    pub fn new(kind: PolicyKind, depth: Depth, slot_costs: SlotCostTable) -> Self {
        Self {
            kind,
            depth,
            slot_costs,
            backfill: Backfill::default(),
            sharing: Sharing::default(),
            metadata_depth: None,
            two_level: TwoLevelSettings::default(),
            ioco: IocoSettings::default(),
            adaptive: false,
            cost_unit: CostUnit::default(),
            device_times: Vec::new(),
        }
    }
}

/// What applications are charged, and get by weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CostUnit {
    /// The time that a request takes of the storage, learned online. Beyond the papers: who makes the storage seek pays
    /// for it.
    #[default]
    DeviceTime,
    /// Bytes, as in the papers.
    Bytes,
}

/// What one kind of request takes of the storage's time while that is saturated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTime {
    /// Reads or writes.
    pub op: OpKind,
    /// Bytes of each; sizes that are not measured are extrapolated from the nearest one.
    pub size: Bytes,
    /// How long the storage could have served nobody else.
    pub time: Duration,
}

/// Which requests may pass a blocked one, at most as many slots as that one needs [vPFS+ §III-C].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backfill {
    /// Those whose start tag is not above the blocked one's finish tag. Beyond the paper: weights hold then, also where
    /// the flow of large requests has the larger one.
    #[default]
    Bounded,
    /// All that fit, as in the paper. Two backlogged flows of 1 MiB and 128 KiB at 8:1 come out at about 5:1.
    Paper,
}

/// How servers know what an application got elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharingMode {
    /// They do not: shares hold at each server for itself.
    Local,
    /// They tell each other when they have served enough [vPFS §III-B1].
    Threshold,
    /// From the layout that a request reveals; for requests that reveal none, as [`SharingMode::Threshold`]
    /// [vPFS §III-B2].
    Layout,
}

/// Total-service fairness, DSFQ [vPFS §III-B].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// How servers know of each other.
    pub mode: SharingMode,
    /// T: a server tells all others when it has accepted so much since it last did.
    pub broadcast_threshold: Bytes,
    /// The same for metadata, in operations [vPFS+ §IV].
    pub metadata_threshold: u32,
    /// Starvation guard (hybrid DSFQ): an application's share of a server's service is never cut below this part of
    /// its local one because of what it gets elsewhere, in parts of a million. Zero: no guard.
    pub min_local_share_ppm: u32,
    /// Servers that an application may use, for which the guard makes room. Zero counts as one.
    pub servers: u32,
}

impl Default for Sharing {
    /// Shares by server; if that is changed, the threshold of the paper's evaluation [vPFS §IV-C1].
    fn default() -> Self {
        Self {
            mode: SharingMode::Local,
            broadcast_threshold: Bytes::mib(10),
            metadata_threshold: 1000,
            min_local_share_ppm: 10_000,
            servers: 1,
        }
    }
}

/// Parameters of throughput and latency control [Two-level].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoLevelSettings {
    /// P: credits are set anew after so long.
    pub replenish_period: Duration,
    /// W: the outstanding limit is computed anew after so long.
    pub control_window: Duration,
    /// The most requests that the storage may have at once; fewer if it completes fewer in half of the shortest
    /// deadline.
    pub outstanding_max: u32,
}

impl Default for TwoLevelSettings {
    fn default() -> Self {
        Self {
            replenish_period: Duration::from_millis(200),
            control_window: Duration::from_secs(1),
            outstanding_max: 100,
        }
    }
}

/// Parameters of coordination by windows of time [IOCO §3].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IocoSettings {
    /// W: requests of one window are served application by application. The papers' 1 s is for disks, 250 ms for flash.
    pub window: Duration,
    /// A client's clock may differ by so much from the server's; further differences are cut to it.
    pub max_clock_skew: Duration,
    /// Who goes first in a window.
    pub order: WindowOrder,
}

impl Default for IocoSettings {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { window: second, max_clock_skew: second, order: WindowOrder::default() }
    }
}

/// In which order the applications of a window are served, the same at every server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowOrder {
    /// Another one in each window, so that nobody is always first. Beyond the paper.
    #[default]
    Fair,
    /// By application number in every window, as in the paper [IOCO §3.1]. Who is first finishes early, which lowers
    /// the mean completion time of applications that take many windows, at the cost of the last ones.
    Paper,
}

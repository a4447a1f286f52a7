//! What a [`Policy`](crate::Policy) is made from.

use core::time::Duration;

use crate::constants::Constants;
use crate::slot_cost::SlotCostTable;
use crate::units::{Bytes, Depth};

/// The policies to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// In order of arrival, without a limit: [`Fifo`](crate::Fifo).
    Fifo,
    /// Shares by weight, one slot for each request: [`Sfq`](crate::Sfq).
    SfqD,
    /// Shares by weight, several slots for large requests, with backfill: [`Sfq`](crate::Sfq).
    SfqDPlus,
    /// A rate and a deadline for each application, see [`Deadlines`].
    TwoLevel,
    /// One application after another in windows of time, in the same order at all servers: [`Ioco`](crate::Ioco).
    Ioco,
    /// Bulk at the rate that is worth most to all: [`Isolation`](crate::Isolation).
    Isolation,
}

/// What a [`Policy`](crate::Policy) is made from. Each policy uses the settings that it needs and ignores the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which policy.
    pub kind: PolicyKind,
    /// Slots of the storage; FIFO has no limit.
    pub depth: Depth,
    /// Slots that requests occupy under SFQ(D)+; the other policies ignore it.
    pub slot_costs: SlotCostTable,
    /// Which requests SFQ(D)+ may backfill.
    pub backfill: Backfill,
    /// The scope of the shares of SFQ(D) and SFQ(D)+.
    pub sharing: Sharing,
    /// Slots of a separate queue for metadata; `None`: metadata and data share one queue [vPFS+ §IV].
    pub metadata_depth: Option<Depth>,
    /// For throughput and latency control.
    pub two_level: TwoLevelSettings,
    /// For coordination by windows.
    pub ioco: IocoSettings,
    /// What one percent of an interactive application is worth under isolation.
    pub protection: Protection,
    /// Of the law of isolation.
    pub constants: Constants,
}

impl Settings {
    /// A policy with these settings and the papers' values for all others.
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
            protection: Protection::default(),
            constants: Constants::DEFAULT,
        }
    }
}

/// How much bulk gives up for interactive applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// One percent of the one is worth one percent of the other, by weight.
    #[default]
    Balanced,
    /// One percent of an interactive application is worth two of bulk.
    Strong,
}

impl Protection {
    /// What interactive applications count more than their weight says.
    pub(crate) fn factor(self) -> f64 {
        match self {
            Self::Balanced => 1.0,
            Self::Strong => 2.0,
        }
    }
}

/// Which requests may be backfilled past a blocked one, in at most as many slots as that one needs [vPFS+ §III-C].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backfill {
    /// Requests whose start tag is not above the blocked one's finish tag. Beyond the paper: weights then hold even if
    /// the flow of large requests has the larger one.
    #[default]
    Bounded,
    /// All that fit, as in the paper. Two backlogged flows of 1 MiB and 128 KiB with weights 8:1 end up at about 5:1.
    Paper,
}

/// How servers learn how much service an application got elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharingMode {
    /// They do not: shares hold at each server separately.
    Local,
    /// They report to each other when they have accepted enough [vPFS §III-B1].
    Threshold,
    /// From the layout that a request reveals; for requests that reveal none, as [`SharingMode::Threshold`]
    /// [vPFS §III-B2].
    Layout,
}

/// Total-service fairness, DSFQ [vPFS §III-B].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// How servers learn of each other's service.
    pub mode: SharingMode,
    /// T: a server reports to all others when it has accepted this much since its last report.
    pub broadcast_threshold: Bytes,
    /// The same for metadata, in operations [vPFS+ §IV].
    pub metadata_threshold: u32,
    /// Starvation guard (hybrid DSFQ): because of service elsewhere, an application's share of a server's service is
    /// never cut below this fraction of its local one, in parts per million. Zero: no guard.
    pub min_local_share_ppm: u32,
    /// The number of servers that an application may use, for which the guard and what is pending have room. Zero
    /// counts as one.
    pub servers: u32,
}

impl Default for Sharing {
    /// Shares by server; the threshold is that of the paper's evaluation [vPFS §IV-C1].
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
    /// How deadlines are kept.
    pub deadlines: Deadlines,
    /// P: credits are replenished at this interval.
    pub replenish_period: Duration,
    /// W: the outstanding limit is recomputed at this interval.
    pub control_window: Duration,
    /// The most requests that may be outstanding in the storage at once; fewer if it completes fewer within half of the
    /// shortest deadline.
    pub outstanding_max: u32,
}

/// How throughput and latency control keeps deadlines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deadlines {
    /// The others are paced by the storage's time that their requests take, see [`crate::isolation`]. Beyond the
    /// slides: one large request may take longer than a deadline.
    #[default]
    Paced,
    /// By the number of requests outstanding, as on the slides: [`TwoLevel`](crate::TwoLevel).
    Paper,
}

impl Default for TwoLevelSettings {
    fn default() -> Self {
        Self {
            deadlines: Deadlines::default(),
            replenish_period: Duration::from_millis(200),
            control_window: Duration::from_secs(1),
            outstanding_max: 100,
        }
    }
}

/// Parameters of coordination by windows of time [IOCO §3].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IocoSettings {
    /// W: requests of one window are served application by application. The paper's 1 s is for disks; use 250 ms for
    /// flash.
    pub window: Duration,
    /// How far a client's clock may differ from the server's; larger differences are cut to this.
    pub max_clock_skew: Duration,
    /// The order of applications in a window.
    pub order: WindowOrder,
}

impl Default for IocoSettings {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { window: second, max_clock_skew: second, order: WindowOrder::default() }
    }
}

/// The order in which the applications of a window are served, the same at every server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowOrder {
    /// A different order in each window, so that no application is always first. Beyond the paper.
    #[default]
    Fair,
    /// By application number in every window, as in the paper [IOCO §3.1]. The first one finishes early, which lowers
    /// the mean completion time of applications that take many windows, at the expense of the last ones.
    Paper,
}

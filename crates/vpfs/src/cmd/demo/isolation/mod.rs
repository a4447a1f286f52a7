//! How well a small application is isolated from a checkpointing one: the experiment of vPFS+ §V-B, BTIO against IOR.
//!
//! [`Experiment`] runs the applications, [`Comparison`] compares the runs with the stand-alone ones, [`mod@verdict`]
//! checks the paper's order and whether the default policy serves both. Nothing here knows how the two are scheduled.

mod comparison;
mod experiment;
mod row;
mod table;
mod verdict;

use serde::Serialize;

pub(crate) use comparison::Comparison;
pub(crate) use experiment::{Experiment, Trial};
pub(crate) use row::Row;
pub(crate) use table::table;
pub(crate) use verdict::Relation;

/// How the storage was shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Management {
    /// In order of arrival, with unlimited outstanding requests.
    None,
    /// SFQ(D): one slot for each request.
    SfqD,
    /// SFQ(D)+: slots by size, with backfill.
    SfqDPlus,
    /// SFQ(D) with a cap on the checkpointing application: not work-conserving.
    Capped,
    /// The policy `isolation`: shares of device time, and protection of applications that ask for less than their
    /// share. No parameters are set.
    Isolation,
}

impl Management {
    /// In the order of the paper's figures, followed by those that are not in the paper.
    pub(crate) const ALL: [Self; 5] = [Self::None, Self::SfqD, Self::SfqDPlus, Self::Capped, Self::Isolation];

    /// For tables.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::None => "no management",
            Self::SfqD => "SFQ(D)",
            Self::SfqDPlus => "SFQ(D)+",
            Self::Capped => "SFQ(D), capped",
            Self::Isolation => "isolation (default)",
        }
    }

    /// Run time relative to stand-alone as measured in the paper with BTIO class A [vPFS+ §V-B, Fig. 6]. For the capped
    /// run the paper says only that SFQ(D)+ is 18 % worse; `isolation` is not in the paper.
    pub(crate) const fn slowdown_in_paper(self) -> Option<f64> {
        match self {
            Self::None => Some(3.288),
            Self::SfqD => Some(2.533),
            Self::SfqDPlus => Some(1.20),
            Self::Capped => Some(1.02),
            Self::Isolation => None,
        }
    }
}

//! How well a small application is isolated from a checkpointing one: the experiment of vPFS+ §V-B, BTIO against IOR.
//!
//! [`Experiment`] runs the applications, [`Comparison`] puts the runs beside the stand-alone ones, and [`verdict`] says
//! whether they come in the paper's order, [`promises`] whether the default policy serves both. Who schedules between the two is not known here.

mod comparison;
mod experiment;
mod verdict;

use serde::Serialize;

pub use comparison::{Comparison, Row};
pub use experiment::{Application, Experiment, Meter, Trial, Watch};
pub use verdict::{Relation, promises, verdict};

/// How the storage was shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Management {
    /// In order of arrival, without a bound on what is outstanding.
    None,
    /// SFQ(D): one slot for each request.
    SfqD,
    /// SFQ(D)+: slots by size, with backfill.
    SfqDPlus,
    /// SFQ(D) and a cap on the checkpointing application: not work-conserving.
    Capped,
    /// The policy `isolation`: shares of device time, and protection of who asks for less than its share. Nothing is set.
    Isolation,
}

impl Management {
    /// In the order of the paper's figures, then what is not in the paper.
    pub const ALL: [Self; 5] = [Self::None, Self::SfqD, Self::SfqDPlus, Self::Capped, Self::Isolation];

    /// For tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::None => "no management",
            Self::SfqD => "SFQ(D)",
            Self::SfqDPlus => "SFQ(D)+",
            Self::Capped => "SFQ(D), capped",
            Self::Isolation => "isolation (default)",
        }
    }

    /// Run time relative to stand-alone that the paper measured with BTIO class A [vPFS+ §V-B, Fig. 6]. That of the capped
    /// run is given only through SFQ(D)+, which is 18 % worse; `isolation` is not in the paper.
    pub const fn slowdown_in_paper(self) -> Option<f64> {
        match self {
            Self::None => Some(3.288),
            Self::SfqD => Some(2.533),
            Self::SfqDPlus => Some(1.20),
            Self::Capped => Some(1.02),
            Self::Isolation => None,
        }
    }
}

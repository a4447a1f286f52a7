//! Figures of [Two-level].

mod depth;
mod latency;
mod run;

use crate::Figure;

pub(crate) const FIGURES: &[Figure] = &[
    Figure::new("two-level-depth", "Two-level: issue rates and the outstanding limit", depth::run),
    Figure::new("two-level-latency", "Two-level: latency of two classes", latency::run),
];

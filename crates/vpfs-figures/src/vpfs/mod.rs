//! Figures of [vPFS].

mod arrivals;
mod asymmetric;

use crate::Figure;

pub(crate) const FIGURES: &[Figure] = &[
    Figure::new("vpfs-5", "vPFS Fig. 5: shares over servers that not all applications use", asymmetric::run),
    Figure::new("vpfs-6", "vPFS Fig. 6: fairness while applications arrive", arrivals::run),
];

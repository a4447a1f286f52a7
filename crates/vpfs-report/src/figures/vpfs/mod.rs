//! Figures of [vPFS].

pub(crate) mod arrivals;
pub(crate) mod asymmetric;
pub(crate) mod btio_beside_ior;
pub(crate) mod synchronisation;

use crate::figures::Figure;

pub(crate) const FIGURES: &[Figure] = &[
    Figure::new("vpfs-5", "vPFS Fig. 5: shares over servers that not all applications use", asymmetric::run),
    Figure::new("vpfs-6", "vPFS Fig. 6: fairness while applications arrive", arrivals::run),
    Figure::new("vpfs-7", "vPFS Fig. 7: BTIO beside IOR", btio_beside_ior::run),
    Figure::new("vpfs-table-2", "vPFS Table 2, Fig. 9 and 10: the cost of synchronisation", synchronisation::run),
];

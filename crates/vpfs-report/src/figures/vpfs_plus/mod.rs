//! Figures of [vPFS+].

pub(crate) mod contention;
pub(crate) mod isolation;
pub(crate) mod large_slots;
pub(crate) mod metadata;
pub(crate) mod profile;
pub(crate) mod wrf;

use crate::figures::Figure;

pub(crate) const FIGURES: &[Figure] = &[
    Figure::new("vpfs-plus-2", "vPFS+ Fig. 2 and 3: depth and slot costs of a data server", profile::run),
    Figure::new("vpfs-plus-5", "vPFS+ Fig. 5 and 6: BTIO beside IOR", isolation::run),
    Figure::new("vpfs-plus-7", "vPFS+ Fig. 7: WRF beside IOR", wrf::run),
    Figure::new("vpfs-plus-8", "vPFS+ Fig. 8: how many slots a large request should occupy", large_slots::run),
    Figure::new("vpfs-plus-9", "vPFS+ Fig. 9: metadata of two applications at 2:1", metadata::run),
];

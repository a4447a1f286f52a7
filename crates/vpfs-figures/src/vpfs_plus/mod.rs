//! Figures of [vPFS+].

mod profile;

use crate::Figure;

pub(crate) const FIGURES: &[Figure] =
    &[Figure::new("vpfs-plus-2", "vPFS+ Fig. 2 and 3: depth and slot costs of a data server", profile::run)];

//! Figures of [Two-level].

use crate::Figure;

pub(crate) const FIGURES: &[Figure] = &[];

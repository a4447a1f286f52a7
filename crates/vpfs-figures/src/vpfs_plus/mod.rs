//! Figures of [vPFS+].

use crate::Figure;

pub(crate) const FIGURES: &[Figure] = &[];

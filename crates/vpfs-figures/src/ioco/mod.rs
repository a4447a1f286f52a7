//! Figures of [IOCO].

use crate::Figure;

pub(crate) const FIGURES: &[Figure] = &[];

//! Consecutive bytes, cut into calls of random sizes.

use std::iter;
use std::ops::{Range, RangeInclusive};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{Extent, FileId};

/// Cuts `range` of a file into pieces of sizes chosen by `seed`; the last one takes the remaining bytes.
pub(crate) fn pieces(
    file: FileId,
    range: Range<u64>,
    sizes: RangeInclusive<u32>,
    seed: u64,
) -> impl Iterator<Item = Extent> + Send + use<> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let Range { start: mut offset, end } = range;
    iter::from_fn(move || {
        let left = u32::try_from(end - offset).unwrap_or(u32::MAX);
        let piece = (left > 0).then(|| random.random_range(sizes.clone()).min(left));
        let extent = piece.map(|bytes| Extent { file, offset, bytes });
        offset += u64::from(piece.unwrap_or(0));
        extent
    })
}

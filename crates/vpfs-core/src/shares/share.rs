//! The effective weight φ of a flow.

use crate::units::{VirtualTime, Weight};

/// A flow's φ, a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    numerator: u64,
    /// Never zero, as the numerator.
    denominator: u64,
}

impl Share {
    pub(crate) const ONE: Self = Self::whole(Weight::ONE);
    /// Numerators and denominators keep this many bits, so that tags do not overflow. A φ below 2⁻³⁴ is not exact to
    /// one percent; none is below 2⁻⁴⁰.
    const BITS: u32 = 40;

    pub(crate) const fn whole(weight: Weight) -> Self {
        Self { numerator: weight.get() as u64, denominator: 1 }
    }

    /// A share of `weight`, in which `weights` are present, has this flow or share in it.
    pub(crate) fn within(self, weight: Weight, weights: u64) -> Self {
        let numerator = self.numerator * u64::from(weight.get());
        let denominator = u128::from(self.denominator) * u128::from(weights);
        let bits = u128::BITS - (denominator | u128::from(numerator)).leading_zeros();
        let excess = bits.saturating_sub(Self::BITS);
        #[expect(clippy::cast_possible_truncation, reason = "limited to `BITS`")]
        let denominator = (denominator >> excess) as u64;
        Self { numerator: (numerator >> excess).max(1), denominator: denominator.max(1) }
    }

    /// φ with so many fraction bits.
    pub(crate) fn scaled(self, bits: u32) -> u64 {
        let scaled = (u128::from(self.numerator) << bits) / u128::from(self.denominator);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// The virtual time that `bytes` of service take, bytes/φ.
    pub(crate) fn time(self, bytes: u128) -> VirtualTime {
        VirtualTime::of_ratio(bytes * u128::from(self.denominator), self.numerator)
    }
}

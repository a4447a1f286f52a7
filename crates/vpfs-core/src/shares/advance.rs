//! The effective weight φ of a flow, and how its tags follow when that changes.

use crate::units::{Bytes, VirtualTime, Weight};

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

    /// The service in a virtual time, rounded down.
    pub(crate) fn service(self, time: VirtualTime) -> Bytes {
        time.service_of_ratio(self.numerator, self.denominator)
    }
}

/// How a flow advances from a moment on. As long as the version of the [`Shares`] is the same, it goes on like that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advance {
    pub(crate) version: u64,
    pub(crate) share: Share,
    pub(super) weight: Weight,
    pub(super) now: VirtualTime,
    /// The clock of the share that it is in.
    pub(super) clock: u128,
}

impl Advance {
    pub(crate) const NEW: Self =
        Self { version: 0, share: Share::ONE, weight: Weight::ONE, now: VirtualTime::ZERO, clock: 0 };
    /// Fraction bits of clocks beyond those of virtual time.
    pub(super) const BITS: u32 = 16;

    /// Where a tag is now that was at `tag` by what was known `before`: the service until then is the same, but for
    /// what was due in between. Not before now.
    pub(crate) fn moved(&self, tag: VirtualTime, before: &Self) -> VirtualTime {
        let ahead = tag.saturating_sub(before.now).raw() << Self::BITS;
        // By the clock of its share, what is left is the same whatever comes and goes.
        let left = before.by_clock(ahead).saturating_sub(self.clock - before.clock);
        self.now + VirtualTime::from_raw(self.by_virtual_time(left) >> Self::BITS)
    }

    fn by_clock(&self, time: u128) -> u128 {
        let Share { numerator, denominator } = self.share;
        mul_div(time, numerator.into(), u128::from(denominator) * u128::from(self.weight.get()))
    }

    fn by_virtual_time(&self, clock: u128) -> u128 {
        let Share { numerator, denominator } = self.share;
        mul_div(clock, u128::from(denominator) * u128::from(self.weight.get()), numerator.into())
    }
}

/// value · numerator / denominator to about 60 bits. The longest time that anything may take is 2¹¹⁰: then the result
/// is as good as never.
fn mul_div(value: u128, numerator: u128, denominator: u128) -> u128 {
    const NEVER: u128 = 1 << 110;
    let bits = |value: u128| u128::BITS - value.leading_zeros();
    let shift = (bits(value) + bits(numerator)).saturating_sub(u128::BITS - 1);
    let scaled = (value >> shift) * numerator / denominator;
    if scaled > NEVER >> shift { NEVER } else { scaled << shift }
}

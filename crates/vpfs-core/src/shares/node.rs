//! A share: its clock, who may start in it, and the effective weight φ of a flow.

use crate::app_policy::SharePolicy;
use crate::units::{Bytes, VirtualTime, Weight};

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) policy: SharePolicy,
    /// How much is present in it, applications and shares, and the sum of the weights: that of the last one if there is
    /// nothing. Never zero.
    pub(super) present: u32,
    pub(super) weights: u64,
    /// The clock of what it is in when the last one left.
    pub(super) left: Fine,
    /// Where first requests of those that became present would end if they were those of one flow with the whole
    /// weight, by the clock of what it is in, and the longest of them since this was last behind that clock.
    pub(super) entry: VirtualTime,
    pub(super) longest: VirtualTime,
    /// Its clock, and the one of what it is in when that was right.
    pub(super) clock: Fine,
    pub(super) seen: Fine,
}

/// A clock: a tag with [`FINE_BITS`] more fraction bits, for clocks that advance slowly.
pub(super) type Fine = u128;
const FINE_BITS: u32 = 16;

pub(super) fn fine(tag: VirtualTime) -> Fine {
    tag.raw() << FINE_BITS
}

pub(super) fn coarse(clock: Fine) -> VirtualTime {
    VirtualTime::from_raw(clock >> FINE_BITS)
}

impl Node {
    pub(super) const NEW: Self = Self {
        policy: SharePolicy::NEW,
        present: 0,
        weights: 1,
        left: 0,
        entry: VirtualTime::ZERO,
        longest: VirtualTime::ZERO,
        clock: 0,
        seen: 0,
    };

    fn weight(&self) -> u64 {
        self.policy.weight.get().into()
    }

    /// Its clock when that of what it is in is at `outer`.
    pub(super) fn clock_at(&self, outer: Fine) -> Fine {
        self.clock + mul_div(outer.saturating_sub(self.seen), self.weight(), self.weights)
    }

    /// Where a tag by its clock is by the clock of what it is in; a little later if that is not exact.
    #[inline]
    pub(super) fn outer(&self, tag: VirtualTime) -> VirtualTime {
        let (tag, by) = (fine(tag), |clock| mul_div(clock, self.weights, self.weight()));
        let outer = match tag.checked_sub(self.clock) {
            Some(ahead) => self.seen + by(ahead),
            None => self.seen.saturating_sub(by(self.clock - tag)),
        };
        coarse(outer + ((1 << FINE_BITS) - 1))
    }

    /// Something becomes present in it with a request of this cost when the clock of what it is in is at `now`; returns
    /// the tag from which that may start, by that clock.
    pub(super) fn enter(&mut self, now: VirtualTime, cost: Bytes) -> VirtualTime {
        if self.entry <= now {
            (self.entry, self.longest) = (now, VirtualTime::ZERO);
        }
        let (start, length) = (self.entry.saturating_sub(self.longest), VirtualTime::of(cost, self.policy.weight));
        self.entry = self.entry + length;
        self.longest = self.longest.max(length);
        start.max(now)
    }
}

/// value · numerator / denominator to about 60 bits. The longest time that anything may take is 2¹¹⁰: then the result
/// is as good as never.
#[inline]
fn mul_div(value: u128, numerator: u64, denominator: u64) -> u128 {
    if numerator == denominator {
        return value;
    }
    // Nearly every product fits, and divisions of 128 bits cost several times those of 64.
    let product = u64::try_from(value).ok().and_then(|value| value.checked_mul(numerator));
    product
        .map_or_else(|| mul_div_of_large(value, numerator.into(), denominator.into()), |it| (it / denominator).into())
}

#[cold]
#[inline(never)]
fn mul_div_of_large(value: u128, numerator: u128, denominator: u128) -> u128 {
    const NEVER: u128 = 1 << 110;
    let bits = |value: u128| u128::BITS - value.leading_zeros();
    let shift = (bits(value) + bits(numerator)).saturating_sub(u128::BITS - 1);
    let scaled = (value >> shift) * numerator / denominator;
    if scaled > NEVER >> shift { NEVER } else { scaled << shift }
}

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

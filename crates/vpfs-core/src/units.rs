//! Newtypes for every quantity in the core, so that a byte is never added to a nanosecond.
//!
//! Values are validated once, here: a [`Weight`] is always valid.

use core::fmt;
use core::num::NonZeroU32;
use core::ops::{Add, AddAssign};
use core::time::Duration;

/// A point in time, in nanoseconds since an origin that the driver chooses (process start, simulation start).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The driver's origin.
    pub const ZERO: Self = Self(0);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The point `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time that passed since `earlier`, zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The same in nanoseconds, without the division needed to build a [`Duration`].
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates at the end of representable time (584 years after the origin).
    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// An amount of service, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No service at all.
    pub const ZERO: Self = Self(0);

    /// `n` units of 1024 bytes.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` units of 1024² bytes.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// The difference, zero if `other` is more.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;
    /// Saturates at the largest number.
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The number of objects that a metadata request works on: files, directories, entries or names. At least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Objects(NonZeroU32);

impl Objects {
    /// One, as in the papers.
    pub const ONE: Self = Self(NonZeroU32::MIN);
    /// The largest number that counts: servers refuse larger batches (OrangeFS), or answer in parts (NFS), which costs
    /// them no more than that.
    pub const MAX: u32 = 8192;

    /// `count`, limited to 1 to [`Objects::MAX`].
    pub const fn new(count: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "just limited to fit")]
        let limited = if count > Self::MAX as u64 { Self::MAX } else { count as u32 };
        match NonZeroU32::new(limited) {
            Some(count) => Self(count),
            None => Self::ONE,
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// What all cost if one costs `one`.
    pub const fn cost(self, one: Bytes) -> Bytes {
        Bytes(one.0.saturating_mul(self.get() as u64))
    }

    /// The number for which a cost of `from` was estimated, if the cost is `to`.
    pub(crate) fn at_cost(self, from: Bytes, to: Bytes) -> Self {
        let scaled = u128::from(self.get()) * u128::from(to.0) / u128::from(from.0.max(1));
        Self::new(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

/// The weight of an application or a share among those beside it, φ in the papers. Only ratios matter; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The weight of an application without a configured one.
    pub const ONE: Self = Self(NonZeroU32::MIN);
    /// Largest weight accepted; keeps virtual time exact (see [`VirtualTime`]).
    pub const MAX: u32 = 1_000_000;

    /// `None` unless `1 <= weight <= Weight::MAX`.
    pub const fn new(weight: u32) -> Option<Self> {
        if weight > Self::MAX {
            return None;
        }
        match NonZeroU32::new(weight) {
            Some(weight) => Some(Self(weight)),
            None => None,
        }
    }

    /// The weight as a number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// A virtual time tag: service per weight, in 2⁻²⁰ bytes for an application of weight 1.
///
/// Integer, so that tags never lose their order. 128 bits hold 2¹⁰⁸ bytes of service, so tags never wrap
/// and need no rebase rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualTime(u128);

impl VirtualTime {
    /// The start of every scheduler.
    pub const ZERO: Self = Self(0);
    /// Fraction bits of a tag.
    pub const FRACTION_BITS: u32 = 20;

    /// The virtual time that `cost` of service takes an application of `weight`: cost/φ, rounded down.
    pub const fn of(cost: Bytes, weight: Weight) -> Self {
        Self::of_total(cost.0 as u128, weight)
    }

    /// [`VirtualTime::of`] for a sum of costs, below 2¹⁰⁸ bytes.
    pub const fn of_total(bytes: u128, weight: Weight) -> Self {
        Self::of_ratio(bytes, weight.get() as u64)
    }

    /// The virtual time of bytes/φ, for a φ that is a ratio: `bytes` are already multiplied by its denominator, and are
    /// below 2¹⁰⁸.
    pub(crate) const fn of_ratio(bytes: u128, numerator: u64) -> Self {
        // A 128-bit division costs several times a 64-bit one, and nearly every sum fits.
        if bytes >> (64 - Self::FRACTION_BITS) == 0 {
            #[expect(clippy::cast_possible_truncation, reason = "just checked to fit")]
            let scaled = (bytes as u64) << Self::FRACTION_BITS;
            Self((scaled / numerator) as u128)
        } else {
            Self((bytes << Self::FRACTION_BITS) / numerator as u128)
        }
    }

    /// The service, in bytes, that an application of `weight` gets in this virtual time, rounded down; at most
    /// [`u64::MAX`]. The inverse of [`VirtualTime::of`].
    pub const fn service(self, weight: Weight) -> Bytes {
        self.service_of_ratio(weight.get() as u64, 1)
    }

    /// The same for a φ that is a ratio.
    pub(crate) const fn service_of_ratio(self, numerator: u64, denominator: u64) -> Bytes {
        let bytes = (self.0.saturating_mul(numerator as u128) >> Self::FRACTION_BITS) / denominator as u128;
        #[expect(clippy::cast_possible_truncation, reason = "just limited to fit")]
        Bytes(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }

    /// The difference to an earlier tag, zero if that tag is later.
    pub const fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    pub(crate) const fn from_raw(raw: u128) -> Self {
        Self(raw)
    }

    pub(crate) const fn raw(self) -> u128 {
        self.0
    }
}

impl Add for VirtualTime {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

macro_rules! slots {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The least number.
            pub const ONE: Self = Self(NonZeroU32::MIN);

            /// `None` for zero.
            pub const fn new(slots: u32) -> Option<Self> {
                match NonZeroU32::new(slots) {
                    Some(slots) => Some(Self(slots)),
                    None => None,
                }
            }

            /// The number of slots.
            pub const fn get(self) -> u32 {
                self.0.get()
            }
        }
    };
}

slots! {
    /// Slots that the storage behind one scheduler handles at once, D in the papers. At least 1.
    Depth
}
slots! {
    /// Slots that one outstanding request occupies, L in the papers. At least 1, as a small request and a metadata
    /// request cost.
    SlotCost
}

impl SlotCost {
    /// The same cost, limited to `depth`: a request that needs more could never be dispatched.
    pub fn clamp_to(self, depth: Depth) -> Self {
        Self(self.0.min(depth.0))
    }
}

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The identifier as an index into a table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

dense_id! {
    /// An application: the unit that gets shares (a job, user, project or set of hosts).
    ///
    /// Dense: schedulers keep a table indexed by it, so number applications from 0.
    AppId
}
dense_id! {
    /// A storage server; dense, in configuration order.
    ServerId
}
dense_id! {
    /// A request between `enqueue` and `complete` or `cancel`, chosen by the caller.
    ///
    /// Dense: schedulers keep a table indexed by it, so reuse the numbers of finished requests.
    RequestId
}

impl From<AppId> for u64 {
    fn from(app: AppId) -> Self {
        app.0.into()
    }
}

/// A file's part on one server, as its protocol names it: equal keys mean the same file. If a protocol's names are
/// longer, the key is a hash of the name, so use it for estimates only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub u64);

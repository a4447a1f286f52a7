//! What limits the work in the storage at the moment, for people who look into a scheduler.

use core::time::Duration;

use crate::units::Depth;

/// The limits that a policy has found; `None` for those that it does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The bound on device time outstanding in the storage.
    pub window: Option<Duration>,
    /// Slots in the storage, or requests of `two-level` (its Lo).
    pub depth: Option<Depth>,
    /// The rate of bulk while it is paced, in parts per million of the storage's time.
    pub pace_ppm: Option<u64>,
}

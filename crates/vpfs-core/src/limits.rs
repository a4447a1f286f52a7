//! What limits the work in the storage at the moment, for people who look into a scheduler.

use crate::units::Depth;

/// The limits that a policy has found; `None` for those that it does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests in the storage, of `two-level` (its Lo).
    pub depth: Option<Depth>,
    /// The rate of bulk while it is paced, in bytes per second; each access counts 64 KiB more.
    pub pace: Option<u64>,
}

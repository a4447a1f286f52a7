//! The slots of the storage: Σ L of outstanding requests never exceeds D by a dispatch [vPFS+ §III-B].

use crate::units::{Depth, SlotCost};

#[derive(Debug)]
pub(super) struct Slots {
    depth: Depth,
    /// May exceed `depth` after the depth was lowered; then nothing goes until enough is complete.
    used: u64,
}

impl Slots {
    pub(super) fn new(depth: Depth) -> Self {
        Self { depth, used: 0 }
    }

    pub(super) fn depth(&self) -> Depth {
        self.depth
    }

    /// Is that a change?
    pub(super) fn set_depth(&mut self, depth: Depth) -> bool {
        core::mem::replace(&mut self.depth, depth) != depth
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Slots that nobody occupies.
    pub(super) fn free(&self) -> u32 {
        u32::try_from(self.used).map_or(0, |used| self.depth.get().saturating_sub(used))
    }

    /// What a request of `cost` occupies: no more than there are, or it could never go.
    pub(super) fn clamp(&self, cost: SlotCost) -> SlotCost {
        cost.clamp_to(self.depth)
    }

    pub(super) fn occupy(&mut self, cost: SlotCost) {
        self.used += u64::from(cost.get());
    }

    pub(super) fn release(&mut self, cost: SlotCost) {
        debug_assert!(self.used >= u64::from(cost.get()), "slots are released once");
        self.used -= u64::from(cost.get());
    }
}

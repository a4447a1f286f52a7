//! The slots of the storage: no dispatch raises Σ L of the outstanding requests above D [vPFS+ §III-B].

use crate::units::{Depth, SlotCost};

#[derive(Debug)]
pub(super) struct Slots {
    depth: Depth,
    /// May exceed `depth` after the depth was lowered; then nothing is dispatched until enough requests complete.
    used: u64,
}

impl Slots {
    pub(super) fn new(depth: Depth) -> Self {
        Self { depth, used: 0 }
    }

    pub(super) fn depth(&self) -> Depth {
        self.depth
    }

    /// Sets the depth; returns whether it changed.
    pub(super) fn set_depth(&mut self, depth: Depth) -> bool {
        core::mem::replace(&mut self.depth, depth) != depth
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Slots that are not occupied.
    pub(super) fn free(&self) -> u32 {
        u32::try_from(self.used).map_or(0, |used| self.depth.get().saturating_sub(used))
    }

    /// The slots that a request of `cost` occupies: at most the depth, otherwise it could never be dispatched.
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

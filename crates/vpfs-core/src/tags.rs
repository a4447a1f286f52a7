//! Start tags S, finish tags F and virtual time v [vPFS+ §III-A].

use crate::units::{AppId, Bytes, RequestId, VirtualTime, Weight};

/// The next request of a flow. Ordered by start tag, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Head {
    pub(crate) start: VirtualTime,
    pub(crate) arrival: u64,
    pub(crate) app: AppId,
    pub(crate) id: RequestId,
}

/// The virtual clock that all flows of a scheduler share.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    now: VirtualTime,
    latest_finish: VirtualTime,
}

impl Clock {
    /// Virtual time v.
    pub(crate) fn now(&self) -> VirtualTime {
        self.now
    }

    /// A request with start tag `start` is dispatched: v = max(v, S). S is below v if its flow started late among
    /// others of its share.
    pub(crate) fn advance(&mut self, start: VirtualTime) {
        self.now = self.now.max(start);
    }

    /// A flow has no more requests queued, and its last finish tag is `finish`.
    pub(crate) fn note_finish(&mut self, finish: VirtualTime) {
        self.latest_finish = self.latest_finish.max(finish);
    }

    /// Nothing is queued or outstanding: v = the largest finish tag.
    ///
    /// A flow's finish tag may have been corrected downwards since it was noted, which makes v larger than the paper's.
    /// All flows now start at v, wherever that is, so this makes a difference only if service elsewhere is pending:
    /// more of it is absorbed then, for all flows alike.
    pub(crate) fn end_busy_period(&mut self) {
        self.now = self.now.max(self.latest_finish);
    }
}

/// How a flow's position (the sum of its request costs so far, in bytes) becomes a tag: tag(position) = origin +
/// (position − base)/φ, by the clock of the share that the flow is in, which makes φ its own weight.
///
/// A request's position never changes, so all tags of a flow move in O(1).
#[derive(Clone, Debug)]
pub(crate) struct FlowTags {
    origin: VirtualTime,
    base: u128,
    /// The position at the end of the flow's latest request.
    end: u128,
    weight: Weight,
}

impl FlowTags {
    pub(crate) const NEW: Self = Self { origin: VirtualTime::ZERO, base: 0, end: 0, weight: Weight::ONE };

    /// The start tag of the request at `position`, which must not lie before the last anchor.
    pub(crate) fn tag(&self, position: u128) -> VirtualTime {
        self.origin + VirtualTime::of_total(position - self.base, self.weight)
    }

    /// The finish tag of the flow's latest request.
    pub(crate) fn finish(&self) -> VirtualTime {
        self.tag(self.end)
    }

    /// c/φ: the distance between the tags of consecutive requests if the first one costs `cost`.
    pub(super) fn span(&self, cost: Bytes) -> VirtualTime {
        VirtualTime::of(cost, self.weight)
    }

    /// Appends a request of `cost`; returns its position.
    pub(crate) fn append(&mut self, cost: Bytes) -> u128 {
        let position = self.end;
        self.end += u128::from(cost.0);
        position
    }

    /// Moves the tag of the next appended request by `delay` of service.
    pub(crate) fn delay(&mut self, delay: Bytes) {
        self.end += u128::from(delay.0);
    }

    /// The service that brings the flow from its finish tag to `now`; zero if it is not behind.
    pub(crate) fn lag(&self, now: VirtualTime) -> Bytes {
        now.saturating_sub(self.finish()).service(self.weight)
    }

    /// Makes `tag` the tag of `position`, the oldest in the queue, and moves the later ones with it.
    pub(crate) fn anchor(&mut self, position: u128, tag: VirtualTime) {
        self.origin = tag;
        self.base = position;
    }

    /// The position at the end of the flow's latest request.
    pub(crate) fn end(&self) -> u128 {
        self.end
    }

    /// `tag` moved by `delta` bytes of service, but never below `floor`.
    pub(crate) fn moved(&self, tag: VirtualTime, delta: i128, floor: VirtualTime) -> VirtualTime {
        let by = VirtualTime::of_total(delta.unsigned_abs(), self.weight);
        let moved = if delta < 0 { tag.saturating_sub(by) } else { tag + by };
        moved.max(floor)
    }

    /// Call only right after an anchor, otherwise tags move.
    pub(crate) fn set_weight(&mut self, weight: Weight) {
        self.weight = weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Weight;

    fn weight(weight: u32) -> Weight {
        Weight::new(weight).unwrap()
    }

    #[test]
    fn a_finish_tag_is_start_plus_cost_over_weight() {
        let mut tags = FlowTags::NEW;
        tags.set_weight(weight(4));
        let first = tags.append(Bytes(100));
        let second = tags.append(Bytes(60));
        assert_eq!(tags.tag(first), VirtualTime::ZERO);
        assert_eq!(tags.tag(second), VirtualTime::of(Bytes(25), Weight::ONE));
        assert_eq!(tags.finish(), VirtualTime::of(Bytes(40), Weight::ONE));
    }

    #[test]
    fn a_new_weight_keeps_the_anchored_tag() {
        let mut tags = FlowTags::NEW;
        tags.append(Bytes(100));
        let head = tags.append(Bytes(60));
        tags.anchor(head, tags.tag(head));
        tags.set_weight(weight(3));
        assert_eq!(tags.tag(head), VirtualTime::of(Bytes(100), Weight::ONE));
        assert_eq!(tags.finish(), VirtualTime::of(Bytes(120), Weight::ONE));
    }

    #[test]
    fn a_refund_stops_at_virtual_time() {
        let tag = VirtualTime::of(Bytes(100), Weight::ONE);
        let floor = VirtualTime::of(Bytes(80), Weight::ONE);
        assert_eq!(FlowTags::NEW.moved(tag, -10, floor), VirtualTime::of(Bytes(90), Weight::ONE));
        assert_eq!(FlowTags::NEW.moved(tag, -30, floor), floor);
        assert_eq!(FlowTags::NEW.moved(tag, 30, floor), VirtualTime::of(Bytes(130), Weight::ONE));
    }
}

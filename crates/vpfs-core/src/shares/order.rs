//! Which flow is next in a tree of shares.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::app_policy::ShareId;
use crate::heap::{self, Item};
use crate::member::Member;
use crate::units::{AppId, VirtualTime};

/// What is next of a flow, or of all that are in a share. Ordered by tag, then by arrival, which differs in each
/// order. Small and cheap to compare: a dispatch moves several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// By the clock of what the flow or the share is in; of what it becomes present in, for a first request.
    pub(crate) tag: VirtualTime,
    /// The number of the request; of the application, among departures.
    pub(crate) arrival: u64,
    pub(crate) app: AppId,
    /// Of which member it is.
    owner: u32,
}

impl Next {
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2³¹ applications and shares")]
    pub(crate) fn new(tag: VirtualTime, arrival: u64, app: AppId, of: Member) -> Self {
        Self { tag, arrival, app, owner: of.owner() as u32 }
    }

    /// The same request as what is next of `share`, with its tag by another clock.
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2³¹ applications and shares")]
    pub(crate) fn of_share(&self, share: ShareId, tag: VirtualTime) -> Self {
        Self { tag, owner: Member::Share(share).owner() as u32, ..*self }
    }

    /// The share of which it is, if it is that of a share.
    pub(crate) fn share(&self) -> Option<ShareId> {
        (self.owner & 1 == 1).then_some(ShareId(self.owner >> 1))
    }
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.tag, self.arrival).cmp(&(other.tag, other.arrival))
    }
}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    // Half of the work of a heap: one subtraction of all, for tags are below 2¹²⁷.
    #[expect(clippy::cast_possible_wrap, reason = "see above")]
    fn lt(&self, other: &Self) -> bool {
        let [a, b] = [self, other].map(|next| next.tag.raw() as i128);
        a - b - i128::from(self.arrival < other.arrival) < 0
    }
}

impl Item for Next {
    fn owner(&self) -> usize {
        self.owner as usize
    }
}

/// For each share a heap of what is in it, and one for the top. O(log n) changes.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// By share, the top first.
    heaps: Vec<Vec<Next>>,
    /// By owner: in which heap it is, if it is in one, and where.
    homes: Vec<u32>,
    positions: Vec<u32>,
}

impl Order {
    /// The first in `share`.
    pub(crate) fn first(&self, share: Option<ShareId>) -> Option<&Next> {
        self.heaps.get(heap_of(share))?.first()
    }

    /// The next of `app`.
    pub(crate) fn get(&self, app: AppId) -> Option<&Next> {
        self.at(Member::App(app).owner())
    }

    /// Whether there is anything of the same application or share.
    pub(crate) fn has(&self, next: &Next) -> bool {
        self.at(next.owner()).is_some()
    }

    fn at(&self, owner: usize) -> Option<&Next> {
        let position = *self.positions.get(owner)? as usize;
        self.heaps.get(*self.homes.get(owner)? as usize)?.get(position)
    }

    /// Sets what is next of something that is in `share`, or in none so far; returns whether the first there may have
    /// changed.
    #[inline]
    pub(crate) fn set(&mut self, share: Option<ShareId>, next: &Next) -> bool {
        match self.try_replace(share, next) {
            Some(has_changed) => has_changed,
            None => self.insert(share, next),
        }
    }

    /// The same for something that is in none.
    #[inline]
    pub(crate) fn insert(&mut self, share: Option<ShareId>, next: &Next) -> bool {
        let (owner, heap) = (next.owner(), heap_of(share));
        if owner >= self.homes.len() {
            self.homes.resize(owner + 1, 0);
        }
        if heap >= self.heaps.len() {
            self.heaps.resize_with(heap + 1, Vec::new);
        }
        self.homes[owner] = u32::try_from(heap).expect("as many as shares");
        heap::set(&mut self.heaps[heap], &mut self.positions, next)
    }

    /// The same for something that is in `share` already; `None` if it is not.
    #[inline(always)]
    pub(crate) fn try_replace(&mut self, share: Option<ShareId>, next: &Next) -> Option<bool> {
        let (owner, heap) = (next.owner(), heap_of(share));
        let position = *self.positions.get(owner)? as usize;
        let items = self.heaps.get_mut(heap).filter(|_| self.homes[owner] as usize == heap)?;
        (position < items.len()).then(|| heap::settle(items, &mut self.positions, position, next))
    }

    /// Nothing of `app` is next any more; returns the share in which the first changed by that, if it did.
    pub(crate) fn remove(&mut self, app: AppId) -> Option<ShareId> {
        self.remove_at(Member::App(app).owner())
    }

    /// The same for all in `share`.
    pub(crate) fn remove_share(&mut self, share: ShareId) -> Option<ShareId> {
        self.remove_at(Member::Share(share).owner())
    }

    #[inline(never)]
    fn remove_at(&mut self, owner: usize) -> Option<ShareId> {
        let heap = *self.homes.get(owner)?;
        let items = self.heaps.get_mut(heap as usize)?;
        let has_changed = heap::remove(items, &mut self.positions, owner);
        heap.checked_sub(1).filter(|_| has_changed).map(ShareId)
    }
}

fn heap_of(share: Option<ShareId>) -> usize {
    share.map_or(0, |share| share.index() + 1)
}

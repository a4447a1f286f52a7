//! Which flow is next in a tree of shares.

use alloc::vec::Vec;

use crate::app_policy::ShareId;
use crate::heap::{Indexed, Item};
use crate::units::{AppId, VirtualTime};

/// What is next of a flow, or of all that are in a share. Ordered by tag, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Next {
    /// By the clock of what the flow or the share is in; of what it becomes present in, for a first request.
    pub(crate) tag: VirtualTime,
    pub(crate) arrival: u64,
    pub(crate) app: AppId,
    pub(crate) share: Option<ShareId>,
}

impl Item for Next {
    fn owner(&self) -> usize {
        self.share.map_or(2 * self.app.index(), of_share)
    }
}

fn of_share(share: ShareId) -> usize {
    2 * share.index() + 1
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
        self.at(2 * app.index())
    }

    /// Where it is.
    pub(crate) fn home(&self, app: AppId) -> Option<Option<ShareId>> {
        let heap = *self.homes.get(2 * app.index())?;
        self.get(app).map(|_| heap.checked_sub(1).map(ShareId))
    }

    fn at(&self, owner: usize) -> Option<&Next> {
        let position = *self.positions.get(owner)? as usize;
        self.heaps.get(*self.homes.get(owner)? as usize)?.get(position)
    }

    /// Sets what is next of something that is in `share`, or in none so far; returns whether that changed.
    pub(crate) fn set(&mut self, share: Option<ShareId>, next: Next) -> bool {
        let (owner, heap) = (next.owner(), heap_of(share));
        if self.at(owner) == Some(&next) {
            return false;
        }
        if owner >= self.homes.len() {
            self.homes.resize(owner + 1, 0);
        }
        if heap >= self.heaps.len() {
            self.heaps.resize_with(heap + 1, Vec::new);
        }
        self.homes[owner] = u32::try_from(heap).expect("as many as shares");
        Indexed { items: &mut self.heaps[heap], positions: &mut self.positions }.set(next);
        true
    }

    /// Nothing of `app` is next any more; returns where it was, if something was.
    pub(crate) fn remove(&mut self, app: AppId) -> Option<Option<ShareId>> {
        self.remove_at(2 * app.index())
    }

    /// The same for all in `share`.
    pub(crate) fn remove_share(&mut self, share: ShareId) -> Option<Option<ShareId>> {
        self.remove_at(of_share(share))
    }

    fn remove_at(&mut self, owner: usize) -> Option<Option<ShareId>> {
        let heap = *self.homes.get(owner)?;
        let items = self.heaps.get_mut(heap as usize)?;
        let was_in = Indexed { items, positions: &mut self.positions }.remove(owner);
        was_in.then(|| heap.checked_sub(1).map(ShareId))
    }

    #[cfg(test)]
    pub(crate) fn capacities(&self) -> impl Iterator<Item = usize> {
        let own = [self.homes.capacity(), self.positions.capacity()];
        self.heaps.iter().map(Vec::capacity).chain(own)
    }
}

fn heap_of(share: Option<ShareId>) -> usize {
    share.map_or(0, |share| share.index() + 1)
}

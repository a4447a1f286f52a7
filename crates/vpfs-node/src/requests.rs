//! The requests that a node has, and who waits for each.

use slab::Slab;
use vpfs_core::{AppId, RequestId};

/// The identity of a request at its node; no later request has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// Used again after the end of the request.
    id: RequestId,
    serial: u32,
}

/// A request from its arrival to its end.
#[derive(Debug)]
pub(crate) struct Entry<W> {
    pub(crate) waiter: W,
    pub(crate) app: AppId,
    /// Its slots were freed before its end; the scheduler no longer knows it.
    is_released: bool,
    serial: u32,
}

/// Requests by id.
#[derive(Debug)]
pub(crate) struct Requests<W> {
    entries: Slab<Entry<W>>,
    released: usize,
    serial: u32,
}

impl<W> Requests<W> {
    pub(crate) fn new() -> Self {
        Self { entries: Slab::new(), released: 0, serial: 0 }
    }

    pub(crate) fn insert(&mut self, waiter: W, app: AppId) -> (RequestId, RequestKey) {
        self.serial = self.serial.wrapping_add(1);
        let entry = Entry { waiter, app, is_released: false, serial: self.serial };
        let id = u32::try_from(self.entries.insert(entry)).expect("the driver bounds the requests");
        (RequestId(id), RequestKey { id: RequestId(id), serial: self.serial })
    }

    /// The request that the scheduler dispatches.
    pub(crate) fn dispatched(&self, id: RequestId) -> (&W, RequestKey) {
        let Entry { waiter, serial, .. } = &self.entries[id.index()];
        (waiter, RequestKey { id, serial: *serial })
    }

    /// The number of a request for the scheduler, which does not know it if it is released.
    pub(crate) fn id(&self, key: RequestKey) -> RequestId {
        assert_eq!(self.entries[key.id.index()].serial, key.serial, "the request has not ended");
        key.id
    }

    /// From now on the scheduler does not know it.
    pub(crate) fn release(&mut self, key: RequestKey) -> (RequestId, AppId) {
        let id = self.id(key);
        let entry = &mut self.entries[id.index()];
        assert!(!entry.is_released, "a request is released only once");
        entry.is_released = true;
        self.released += 1;
        (id, entry.app)
    }

    /// A request ends; the scheduler's number of it, unless it is released.
    pub(crate) fn remove(&mut self, key: RequestKey) -> (Option<RequestId>, AppId) {
        let id = self.id(key);
        let Entry { app, is_released, .. } = self.entries.remove(id.index());
        self.released -= usize::from(is_released);
        ((!is_released).then_some(id), app)
    }

    /// Those that the scheduler knows.
    pub(crate) fn scheduled(&self) -> usize {
        self.entries.len() - self.released
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

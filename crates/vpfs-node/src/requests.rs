//! The requests that a node has, and who waits for each.

use slab::Slab;
use vpfs_core::{AppId, OpKind, RequestId, Time};

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
    pub(crate) op: OpKind,
    pub(crate) arrived: Time,
    /// It was held for its application's cap.
    pub(crate) capped: bool,
    pub(crate) state: State,
    serial: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Queued,
    Dispatched,
    /// Its slots were freed before its end; the scheduler no longer knows it.
    Released,
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

    pub(crate) fn insert(&mut self, now: Time, waiter: W, app: AppId, op: OpKind) -> RequestKey {
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let entry = Entry { waiter, app, op, arrived: now, capped: false, state: State::Queued, serial };
        let id = u32::try_from(self.entries.insert(entry)).expect("the driver bounds the requests");
        RequestKey { id: RequestId(id), serial }
    }

    /// The scheduler dispatches a request.
    pub(crate) fn dispatch(&mut self, id: RequestId) -> (RequestKey, &Entry<W>) {
        let entry = &mut self.entries[id.index()];
        entry.state = State::Dispatched;
        (RequestKey { id, serial: entry.serial }, entry)
    }

    /// The scheduler holds a request for its application's cap.
    pub(crate) fn hold(&mut self, id: RequestId) {
        if let Some(entry) = self.entries.get_mut(id.index()) {
            entry.capped = true;
        }
    }

    /// The number of a request for the scheduler, which does not know it if it is released.
    pub(crate) fn id(&self, key: RequestKey) -> RequestId {
        assert_eq!(self.entries[key.id.index()].serial, key.serial, "the request has not ended");
        key.id
    }

    /// From now on the scheduler does not know it.
    pub(crate) fn release(&mut self, key: RequestKey) -> (RequestId, AppId, OpKind) {
        let id = self.id(key);
        let entry = &mut self.entries[id.index()];
        assert!(entry.state == State::Dispatched, "a request is released once, after its dispatch");
        entry.state = State::Released;
        self.released += 1;
        (id, entry.app, entry.op)
    }

    /// A request ends.
    pub(crate) fn remove(&mut self, key: RequestKey) -> (RequestId, Entry<W>) {
        let id = self.id(key);
        let entry = self.entries.remove(id.index());
        self.released -= usize::from(entry.state == State::Released);
        (id, entry)
    }

    /// Those that the scheduler knows.
    pub(crate) fn scheduled(&self) -> usize {
        self.entries.len() - self.released
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

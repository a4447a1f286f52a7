//! The requests that a node has, and who waits for each.

use std::time::Duration;

use slab::Slab;
use vpfs_core::{AppId, Dispatch, OpKind, Pieces, RequestId, Rule, SlotCost, Time};

use crate::in_storage::{Entered, Leaving};

/// The identity of a request at its node; no later request has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey {
    /// Used again after the end of the request.
    id: RequestId,
    serial: u32,
}

impl RequestKey {
    /// Counts the requests of its node, modulo 2³².
    pub fn serial(self) -> u32 {
        self.serial
    }
}

/// A request from its arrival to its end.
#[derive(Debug)]
pub(crate) struct Entry<W> {
    pub(crate) waiter: W,
    pub(crate) app: AppId,
    pub(crate) op: OpKind,
    pub(crate) arrived: Time,
    /// When the scheduler took it: later than it arrived if it was held for its application's cap; never, until then.
    pub(crate) admitted: Time,
    pub(crate) dispatched: Time,
    pub(crate) entered: Entered,
    /// In which it is sent, if not whole.
    pub(crate) pieces: Option<Pieces>,
    pub(crate) state: State,
    serial: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Queued,
    Dispatched,
    /// Its slots were freed before its end; the scheduler no longer knows it.
    Released,
    /// Its application is exempt: the scheduler never knew it.
    Exempt,
}

const NEVER: Time = Time::from_nanos(u64::MAX);

#[derive(Debug)]
pub(crate) struct Requests<W> {
    entries: Slab<Entry<W>>,
    released: usize,
    exempt: usize,
    serial: u32,
}

impl<W> Entry<W> {
    /// It leaves the storage, `served` as a whole with so many bytes, or otherwise.
    pub(crate) fn leaving(&self, served: Option<u64>) -> Leaving {
        let Self { app, op, dispatched, entered, pieces, .. } = *self;
        let paused = Duration::from_nanos(pieces.map_or(0, Pieces::paused_ns));
        let pieces = pieces.map_or(1, |pieces| pieces.count);
        Leaving { app, op, dispatched, entered, paused, pieces, served }
    }
}

impl<W> Requests<W> {
    pub(crate) fn new() -> Self {
        Self { entries: Slab::new(), released: 0, exempt: 0, serial: 0 }
    }

    pub(crate) fn insert(&mut self, now: Time, waiter: W, app: AppId, op: OpKind) -> RequestKey {
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let entry = Entry {
            waiter,
            app,
            op,
            arrived: now,
            admitted: now,
            dispatched: now,
            entered: Entered::default(),
            pieces: None,
            state: State::Queued,
            serial,
        };
        let id = u32::try_from(self.entries.insert(entry)).expect("the driver bounds the requests");
        RequestKey { id: RequestId(id), serial }
    }

    /// The scheduler never learns of a request that was just inserted.
    pub(crate) fn exempt(&mut self, key: RequestKey) {
        self.entries[key.id.index()].state = State::Exempt;
        self.exempt += 1;
    }

    pub(crate) fn is_exempt(&self, key: RequestKey) -> bool {
        self.entries[self.id(key).index()].state == State::Exempt
    }

    /// The application of a request that the scheduler has queued; `None` if it was dispatched, or has ended.
    pub(crate) fn queued(&self, key: RequestKey) -> Option<(AppId, OpKind)> {
        let entry = self.entries.get(key.id.index()).filter(|entry| entry.serial == key.serial)?;
        (entry.state == State::Queued).then_some((entry.app, entry.op))
    }

    /// Those that the scheduler has queued, in order of arrival.
    pub(crate) fn all_queued(&self) -> Vec<(RequestKey, &Entry<W>)> {
        let queued = self.entries.iter().filter(|(_, entry)| entry.state == State::Queued);
        let mut queued: Vec<_> = queued.map(|(index, entry)| (self.key(index, entry), entry)).collect();
        queued.sort_by_key(|(key, entry)| (entry.arrived, key.serial));
        queued
    }

    fn key(&self, index: usize, entry: &Entry<W>) -> RequestKey {
        let id = u32::try_from(index).expect("the driver bounds the requests");
        RequestKey { id: RequestId(id), serial: entry.serial }
    }

    pub(crate) fn set_app(&mut self, key: RequestKey, app: AppId) {
        self.entries[key.id.index()].app = app;
    }

    pub(crate) fn pass(&mut self, now: Time, key: RequestKey) -> (&mut Entry<W>, Dispatch) {
        let id = self.id(key);
        let entry = &mut self.entries[id.index()];
        entry.dispatched = now;
        let dispatch = Dispatch {
            id,
            app: entry.app,
            enqueued_at: entry.arrived,
            slot_cost: SlotCost::ONE,
            backfilled: false,
            pieces: None,
            rule: Rule::default(),
        };
        (entry, dispatch)
    }

    pub(crate) fn dispatch(&mut self, now: Time, dispatch: &Dispatch) -> (RequestKey, &mut Entry<W>) {
        let id = dispatch.id;
        let entry = &mut self.entries[id.index()];
        (entry.state, entry.dispatched) = (State::Dispatched, now);
        entry.pieces = dispatch.pieces;
        (RequestKey { id, serial: entry.serial }, entry)
    }

    /// The scheduler holds a request for its application's cap.
    pub(crate) fn hold(&mut self, id: RequestId) {
        if let Some(entry) = self.entries.get_mut(id.index()) {
            entry.admitted = NEVER;
        }
    }

    /// The scheduler takes a request, which it may have held.
    pub(crate) fn admit(&mut self, id: RequestId, at: Time) {
        if let Some(entry) = self.entries.get_mut(id.index()).filter(|entry| entry.admitted == NEVER) {
            entry.admitted = at;
        }
    }

    /// The number of a request for the scheduler, which does not know it if it is released.
    pub(crate) fn id(&self, key: RequestKey) -> RequestId {
        assert_eq!(self.entries[key.id.index()].serial, key.serial, "the request has not ended");
        key.id
    }

    /// From now on the scheduler does not know it.
    pub(crate) fn release(&mut self, key: RequestKey) -> (RequestId, &Entry<W>) {
        let id = self.id(key);
        let entry = &mut self.entries[id.index()];
        assert!(
            matches!(entry.state, State::Dispatched | State::Exempt),
            "a request is released once, after its dispatch"
        );
        self.exempt -= usize::from(entry.state == State::Exempt);
        entry.state = State::Released;
        self.released += 1;
        (id, entry)
    }

    pub(crate) fn remove(&mut self, key: RequestKey) -> (RequestId, Entry<W>) {
        let id = self.id(key);
        let entry = self.entries.remove(id.index());
        self.released -= usize::from(entry.state == State::Released);
        self.exempt -= usize::from(entry.state == State::Exempt);
        (id, entry)
    }

    /// Those that the scheduler knows.
    pub(crate) fn scheduled(&self) -> usize {
        self.entries.len() - self.released - self.exempt
    }

    pub(crate) fn exempted(&self) -> usize {
        self.exempt
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

//! A separate queue for metadata [vPFS+ §IV]: two schedulers of the same kind, each with its own depth and virtual
//! time, one for data and one for metadata.
//!
//! For servers whose metadata and data are on different storage. Reports from other servers go to the scheduler of
//! their class. The second queue can be opened and closed at any time: requests stay where they are queued, new ones
//! follow the new rule.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::app_policy::{AppPolicy, GroupId};
use crate::engine::Engine;
use crate::event::Event;
use crate::request::{Dispatch, OpKind, Request, ServiceClass, ServiceReport};
use crate::scheduler::Scheduler;
use crate::total::{Reach, TotalKind};
use crate::total_id::TotalId;
use crate::units::{AppId, Bytes, RequestId, Time};

/// One scheduler for all requests, or one for data and one for metadata. Adds O(1) to their cost.
#[derive(Debug)]
pub(crate) struct Split {
    data: Box<dyn Engine>,
    metadata: Option<Box<dyn Engine>>,
    /// New metadata requests go to the metadata scheduler.
    open: bool,
    /// By id: where the request is.
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The id is not in use.
    Nowhere,
    /// In the scheduler of all requests or of data.
    Data,
    /// In that of metadata.
    Metadata,
}

impl Split {
    /// One queue, that of `data`.
    pub(crate) const fn new(data: Box<dyn Engine>) -> Self {
        Self { data, metadata: None, open: false, places: Vec::new() }
    }

    /// From now on metadata has its own queue, created by `new` unless there already is one.
    pub(crate) fn open(&mut self, new: impl FnOnce() -> Box<dyn Engine>) {
        self.metadata.get_or_insert_with(new);
        self.open = true;
    }

    /// From now on metadata goes to the queue of data.
    pub(crate) const fn close(&mut self) {
        self.open = false;
    }

    /// The scheduler of data, for reading.
    pub(crate) fn data(&self) -> &dyn Engine {
        self.data.as_ref()
    }

    /// The scheduler of data.
    pub(crate) const fn data_mut(&mut self) -> &mut Box<dyn Engine> {
        &mut self.data
    }

    /// The scheduler of metadata, also while it only drains its remaining requests.
    pub(crate) const fn metadata_mut(&mut self) -> Option<&mut Box<dyn Engine>> {
        self.metadata.as_mut()
    }

    fn each(&self) -> impl Iterator<Item = &(dyn Engine + 'static)> {
        [Some(&self.data), self.metadata.as_ref()].into_iter().flatten().map(|engine| engine.as_ref())
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut (dyn Engine + 'static)> {
        [Some(&mut self.data), self.metadata.as_mut()].into_iter().flatten().map(|engine| engine.as_mut())
    }

    /// The scheduler of metadata if `apart`, otherwise that of all requests.
    fn queue(&mut self, apart: bool) -> &mut dyn Engine {
        match &mut self.metadata {
            Some(metadata) if apart => metadata.as_mut(),
            _ => self.data.as_mut(),
        }
    }

    fn queue_of(&mut self, id: RequestId) -> &mut dyn Engine {
        let apart = self.places.get(id.index()) == Some(&Place::Metadata);
        self.queue(apart)
    }

    /// Records where a new request goes. Panics if `id` is in use in either queue.
    fn settle(&mut self, id: RequestId, place: Place) {
        if id.index() >= self.places.len() {
            self.places.resize(id.index() + 1, Place::Nowhere);
        }
        let before = core::mem::replace(&mut self.places[id.index()], place);
        assert!(before == Place::Nowhere, "request id {id} is in use");
    }

    /// The queue of a request, whose id is free afterwards; that queue panics if the id is not in use.
    fn leave(&mut self, id: RequestId) -> &mut dyn Engine {
        let place = self.places.get_mut(id.index()).map(|place| core::mem::replace(place, Place::Nowhere));
        self.queue(place == Some(Place::Metadata))
    }

    fn poll_metadata_event(&mut self) -> Option<(Time, Event)> {
        // The data scheduler reports changes of settings as well; report them once.
        let reported = |event: &Event| matches!(event, Event::WeightChanged { .. } | Event::DepthChanged { .. });
        let metadata = self.metadata.as_mut()?.as_mut();
        core::iter::from_fn(|| metadata.poll_event()).find(|(_, event)| !reported(event))
    }
}

impl Scheduler for Split {
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        let apart = self.open && request.op == OpKind::Metadata;
        self.settle(request.id, if apart { Place::Metadata } else { Place::Data });
        self.queue(apart).enqueue_held(now, arrived, request);
    }

    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        // Written out by hand because every request waits for it.
        let dispatch = self.data.as_mut().poll_dispatch(now);
        dispatch.or_else(|| self.metadata.as_mut()?.as_mut().poll_dispatch(now))
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        self.leave(id).complete(now, id);
    }

    fn release(&mut self, now: Time, id: RequestId) {
        self.leave(id).release(now, id);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        self.leave(id).cancel(now, id);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        self.queue_of(id).correct_cost(now, id, real);
    }

    fn set_app(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        self.each_mut().for_each(|scheduler| scheduler.set_app(now, app, policy));
    }

    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        let apart = self.open && report.class == ServiceClass::Metadata;
        self.queue(apart).handle_peer(now, report);
    }

    fn handle_strangers(&mut self, now: Time, group: GroupId, class: ServiceClass, bytes: i64) {
        let apart = self.open && class == ServiceClass::Metadata;
        self.queue(apart).handle_strangers(now, group, class, bytes);
    }

    fn poll_report(&mut self, now: Time) -> Option<ServiceReport> {
        self.each_mut().find_map(|scheduler| scheduler.poll_report(now))
    }

    fn report_all(&mut self) {
        self.each_mut().for_each(Scheduler::report_all);
    }

    fn set_reach(&mut self, now: Time, reach: Reach) {
        self.each_mut().for_each(|scheduler| scheduler.set_reach(now, reach));
    }

    fn handle_total(&mut self, now: Time, kind: TotalKind, report: ServiceReport) {
        let apart = self.open && report.class == ServiceClass::Metadata;
        self.queue(apart).handle_total(now, kind, report);
    }

    fn set_part(&mut self, now: Time, total: TotalId, part: Option<u64>) {
        self.queue(total.class == ServiceClass::Metadata).set_part(now, total, part);
    }

    fn waiting(&self, total: TotalId) -> Bytes {
        let metadata = self.metadata.as_ref().filter(|_| total.class == ServiceClass::Metadata);
        metadata.unwrap_or(&self.data).waiting(total)
    }

    /// Each queue has its own totals; the class says of which.
    fn poll_total(&mut self, now: Time) -> Option<(TotalKind, ServiceReport)> {
        self.data.poll_total(now).or_else(|| {
            let (kind, report) = self.metadata.as_mut()?.poll_total(now)?;
            Some((kind, ServiceReport { class: ServiceClass::Metadata, ..report }))
        })
    }

    fn queued(&self) -> usize {
        self.each().map(|scheduler| scheduler.queued()).sum()
    }

    fn outstanding(&self) -> usize {
        self.each().map(|scheduler| scheduler.outstanding()).sum()
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        loop {
            let event = self.data.as_mut().poll_event().or_else(|| self.poll_metadata_event())?;
            // One of the two may be idle while the other is not.
            if event.1 != Event::Idle || self.queued() + self.outstanding() == 0 {
                return Some(event);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.each().filter_map(|scheduler| scheduler.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.each_mut().for_each(|scheduler| scheduler.handle_timeout(now));
    }
}

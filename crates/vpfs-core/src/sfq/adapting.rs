//! Depth and slot costs that follow the storage; see [`crate::adapt`].

use alloc::boxed::Box;

use super::Sfq;
use super::entry::SfqEntry;
use crate::adapt::{Controller, Done, Load};
use crate::units::{Depth, Time};

impl Sfq {
    /// Finds depth and slot costs from completions from now on, starting with those in force; SFQ(D) finds only the
    /// depth.
    pub fn adapt(&mut self) {
        self.controller = Some(Box::new(Controller::new(self.slots.depth(), !self.table.is_uniform())));
    }

    /// Stops the search; depth and slot costs stay as they are.
    pub fn stop_adapting(&mut self) {
        self.controller = None;
    }

    /// The depth found from completions, without the comparisons with larger depths that
    /// [`Event::DepthChanged`](crate::Event::DepthChanged) also reports. `None` if the depth is configured.
    pub(super) fn depth_found(&self) -> Option<Depth> {
        Some(self.controller.as_ref()?.found())
    }

    pub(super) fn tell_drained(&mut self) {
        if let Some(controller) = &mut self.controller {
            let (outstanding, queued) = (self.outstanding, self.queue.len());
            controller.on_drained(Load { slots_used: self.slots.used(), outstanding, queued });
        }
    }

    pub(super) fn tell_cancelled(&mut self) {
        if let Some(controller) = &mut self.controller {
            controller.on_cancelled();
        }
    }

    pub(super) fn tell_released(&mut self) {
        if let Some(controller) = &mut self.controller {
            controller.on_released();
        }
    }

    /// Reports a completion to the controller and applies its decisions.
    pub(super) fn tell_complete(&mut self, now: Time, entry: &SfqEntry) {
        let Some(controller) = &mut self.controller else { return };
        let table = &self.table;
        let slot_cost = table.slot_cost(entry.op, entry.cost);
        controller.on_complete(now, Done { op: entry.op, size: entry.cost, slot_cost });
        let depth = controller.depth();
        let slot_costs = controller.poll_slot_costs(table);
        if let Some(slot_costs) = slot_costs {
            self.set_slot_costs(slot_costs);
        }
        self.set_depth(now, depth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{OpKind, Request};
    use crate::scheduler::Scheduler;
    use crate::slot_cost::SlotCostTable;
    use crate::units::{AppId, Bytes, RequestId};

    /// What is measured of a storage that is always busy and takes a millisecond for each request, if each tenth
    /// request ends as `end` says.
    fn measured(end: fn(&mut Sfq, Time, RequestId)) -> (u64, u32) {
        let mut sfq = Sfq::new(Depth::new(2).unwrap(), SlotCostTable::uniform(), 0);
        sfq.adapt();
        let enqueue = |sfq: &mut Sfq, now, id| {
            sfq.enqueue(now, Request::new(id, AppId(0), OpKind::Write, Bytes::kib(64)));
        };
        (0..4).for_each(|id| enqueue(&mut sfq, Time::ZERO, RequestId(id)));
        let mut dispatched = alloc::collections::VecDeque::new();
        for step in 0..40 {
            let now = Time::from_millis(step);
            while let Some(dispatch) = sfq.poll_dispatch(now) {
                dispatched.push_back(dispatch.id);
            }
            let id = dispatched.pop_front().unwrap();
            if step % 10 == 9 {
                end(&mut sfq, now, id)
            } else {
                sfq.complete(now, id)
            }
            enqueue(&mut sfq, now, id);
        }
        sfq.controller.as_ref().unwrap().measured()
    }

    /// Neither the request that waits for its client nor the time around it counts, in either way.
    #[test]
    fn released_requests_are_not_measured() {
        let (all, unlimited) = measured(Sfq::complete);
        assert_eq!(unlimited, 0);
        // Each release takes away itself and the completion after it, which the last one does not have.
        assert_eq!(measured(Sfq::release), (all - 4 - 3, 0));
    }
}

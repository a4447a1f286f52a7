//! The proxy in front of one server: its node, which the simulator drives as the daemon does.

use slab::Slab;
use vpfs_core::{Bytes, FileKey, FilePosition, OpKind, Time};
use vpfs_node::{Arrival, Node, Served};

use crate::calendar::{Calendar, Event};
use crate::policy::NodePlan;
use crate::server::{FLOW_BUFFER, Part, Stage};

pub(crate) struct Proxy {
    number: u32,
    /// How often it has started.
    incarnation: u64,
    /// The keys of parts wait for dispatches.
    pub(crate) node: Node<u32>,
    wake: Option<Time>,
}

impl Proxy {
    pub(crate) fn new(now: Time, number: u32, plan: &NodePlan) -> Self {
        Self { number, incarnation: 1, node: plan.build(now, number, 1), wake: None }
    }

    /// A request has arrived.
    pub(crate) fn arrive(&mut self, now: Time, key: u32, part: &mut Part, plan: &NodePlan) {
        part.arrived = now;
        let Part { app, op, bytes, object, offset, stage, .. } = *part;
        let Stage::Waiting { issued, elsewhere } = stage else { panic!("what was dispatched does not arrive again") };
        plan.introduce(now, &mut self.node, app);
        let position = (op != OpKind::Metadata).then_some(FilePosition { file: FileKey(object), start: offset });
        let (issued_at, piece) = (plan.known_issue(issued), Some(Bytes(FLOW_BUFFER)));
        let arrival = Arrival { position, elsewhere, issued_at, piece, ..Arrival::new(app, op, bytes) };
        part.request = Some(self.node.enqueue(now, key, &arrival));
    }

    /// It restarts: queued requests arrive again in their old order, and requests at the server are no longer counted.
    /// What was learned is kept.
    pub(crate) fn restart(&mut self, now: Time, parts: &mut Slab<Part>, plan: &NodePlan) {
        let learned = self.node.learned(now);
        self.incarnation += 1;
        self.node = plan.build(now, self.number, self.incarnation);
        if let Some(learned) = learned {
            self.node.remember(now, &learned);
        }
        self.wake = None;
        let here = parts.iter_mut().filter(|(_, part)| part.server == self.number);
        let here = here.filter_map(|(key, part)| part.request.take().map(|request| (request, key, &*part)));
        let waiting = here.filter(|(_, _, part)| part.is_waiting());
        let mut waiting: Vec<_> = waiting.map(|(request, key, part)| (part.arrived, request.serial(), key)).collect();
        waiting.sort_unstable();
        for (_, _, key) in waiting {
            self.arrive(now, u32::try_from(key).expect("a key of the table"), &mut parts[key], plan);
        }
    }

    /// An operation is complete on the wire.
    pub(crate) fn complete(&mut self, now: Time, part: &Part) {
        if let Some(request) = part.request {
            let served = Served { bytes: part.bytes, ..Served::new(part.op, part.arrived, part.work().since) };
            self.node.complete(now, request, &served);
        }
    }

    /// The node's timeout; `false` if the node has set another one since.
    pub(crate) fn wake(&mut self, now: Time) -> bool {
        let due = self.wake == Some(now);
        if due {
            self.wake = None;
            self.node.handle_timeout(now);
        }
        due
    }

    /// The node must be called at this time, if at any.
    pub(crate) fn sleep(&mut self, now: Time, until: Option<Time>, calendar: &mut Calendar) {
        if let Some(at) = until.map(|at| at.max(now))
            && self.wake != Some(at)
        {
            self.wake = Some(at);
            calendar.push(at, Event::NodeWake { server: self.number });
        }
    }
}

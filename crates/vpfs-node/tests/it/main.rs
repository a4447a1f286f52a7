//! The integration tests of vpfs-node, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

use vpfs_core::{Dispatch, ServerId, Time};
use vpfs_node::{Event, Node, Outputs, PeerMessage, RequestKey};

mod coordination;
mod exempt;
mod frames;
mod mesh;
mod node;
mod snapshot;
mod totals;

/// What a node put out.
struct Drained<W> {
    messages: Vec<(ServerId, PeerMessage)>,
    dispatched: Vec<(W, RequestKey)>,
    events: Vec<Event>,
}

impl<W> Default for Drained<W> {
    fn default() -> Self {
        Self { messages: Vec::new(), dispatched: Vec::new(), events: Vec::new() }
    }
}

impl<W: Copy> Outputs<W> for Drained<W> {
    fn transmit(&mut self, messages: impl Iterator<Item = (ServerId, PeerMessage)>) {
        self.messages.extend(messages);
    }

    fn dispatch(&mut self, waiter: &W, request: RequestKey, _: &Dispatch) {
        self.dispatched.push((*waiter, request));
    }

    fn event(&mut self, _: Time, event: Event) {
        self.events.push(event);
    }
}

fn drain<W: Copy>(node: &mut Node<W>, now: Time) -> Drained<W> {
    let mut drained = Drained::default();
    node.drain(now, &mut drained);
    drained
}

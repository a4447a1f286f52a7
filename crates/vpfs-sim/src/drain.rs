//! What the output of a proxy's node does to its surroundings.

use vpfs_core::{Dispatch, Event as SchedulerEvent, ServerId, Time};
use vpfs_node::PeerMessage;
use vpfs_node::{Event, Outputs, RequestKey};

use crate::measure::AppMeasures;
use crate::peer_network::Exchange;
use crate::peers::Peers;
use crate::proxy::Proxy;
use crate::server::{Check, Part, Server, Shared};

/// What a server's proxy acts on.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Time,
    pub(crate) server: &'a mut Server,
    pub(crate) shared: Shared<'a>,
    pub(crate) measures: &'a mut [AppMeasures],
    pub(crate) peers: Option<&'a mut Peers>,
    /// The first rule that a dispatch broke.
    pub(crate) checked: Result<(), Check>,
}

impl Surroundings<'_> {
    /// Passes the consequences of an input of the proxy's node on.
    pub(crate) fn drain(mut self, proxy: &mut Proxy) -> Result<(), Check> {
        let until = proxy.node.drain(self.now, &mut self);
        proxy.sleep(self.now, until, self.shared.calendar);
        self.checked?;
        self.server.check_slots()
    }
}

impl Outputs<u32> for Surroundings<'_> {
    fn transmit(&mut self, messages: impl Iterator<Item = (ServerId, PeerMessage)>) {
        if let Some(peers) = &mut self.peers {
            let cost = peers.transmit_all(self.now, self.server.number, messages, self.shared.calendar);
            if cost != Exchange::default() {
                self.server.on_messages_sent(self.now, cost);
            }
        }
    }

    fn dispatch(&mut self, &part: &u32, _: RequestKey, dispatch: &Dispatch) {
        let checked = self.server.begin(self.now, part, dispatch, &mut self.shared);
        self.checked = std::mem::replace(&mut self.checked, Ok(())).and(checked);
        let Part { app, arrived, .. } = self.shared.parts[part as usize];
        self.measures[app.index()].queue.record(self.now.since(arrived));
    }

    fn event(&mut self, _: Time, event: Event) {
        if let Event::Scheduler(SchedulerEvent::DepthChanged { depth }) = event {
            self.server.set_depth(depth);
        }
    }
}

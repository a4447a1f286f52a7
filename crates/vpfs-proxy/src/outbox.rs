//! How gates report their service to each other [vPFS §III-B]: within the daemon, and through [`crate::peers`].

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use vpfs_core::ServerId;
use vpfs_node::PeerMessage;

/// The maximum number of unread messages for one gate, and of those that leave the process; further ones are dropped,
/// which the protocol repairs.
const UNREAD_MAX: usize = 1024;

/// A message and its sender.
pub(crate) type Incoming = (ServerId, PeerMessage);

/// A message to a gate of another process, with its sender and receiver.
pub(crate) type Outgoing = (ServerId, ServerId, PeerMessage);

/// Sends messages to the other gates.
#[derive(Clone, Default)]
pub(crate) struct Outbox {
    local: BTreeMap<ServerId, mpsc::Sender<Incoming>>,
    /// The way to the gates of other processes.
    remote: Option<mpsc::Sender<Outgoing>>,
}

impl Outbox {
    /// Senders to the gates of all these servers, and a receiver for each gate.
    pub(crate) fn between(servers: &[ServerId]) -> (Self, Vec<mpsc::Receiver<Incoming>>) {
        let boxes = servers.iter().map(|&server| (server, mpsc::channel(UNREAD_MAX)));
        let (local, incoming) = boxes.map(|(server, (sender, incoming))| ((server, sender), incoming)).unzip();
        (Self { local, remote: None }, incoming)
    }

    /// Opens the way to the gates of other processes; what is sent to them is received here.
    pub(crate) fn open_remote(&mut self) -> mpsc::Receiver<Outgoing> {
        let (sender, outgoing) = mpsc::channel(UNREAD_MAX);
        self.remote = Some(sender);
        outgoing
    }

    pub(crate) fn send(&self, from: ServerId, messages: Vec<(ServerId, PeerMessage)>) {
        for (to, message) in messages {
            match &self.remote {
                // A full channel means a lost message: the next message repeats its content.
                Some(sender) if !self.local.contains_key(&to) => drop(sender.try_send((from, to, message))),
                _ => self.deliver(from, to, message),
            }
        }
    }

    /// Gives a message to a gate of this process.
    pub(crate) fn deliver(&self, from: ServerId, to: ServerId, message: PeerMessage) {
        if let Some(peer) = self.local.get(&to) {
            // As above.
            let _ = peer.try_send((from, message));
        }
    }
}

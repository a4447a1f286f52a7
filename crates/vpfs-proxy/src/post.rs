//! How gates report their service to each other [vPFS §III-B]: within the daemon, and through [`crate::peers`].

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use vpfs_core::ServerId;
use vpfs_node::coordination::Message;

/// The maximum number of unread messages for one gate, and of those that leave the process; further ones are dropped,
/// which the protocol repairs.
const LETTERS_MAX: usize = 1024;

/// A message and its sender.
pub(crate) type Letter = (ServerId, Message);

/// A message to a gate of another process, with its sender and receiver.
pub(crate) type Parcel = (ServerId, ServerId, Message);

/// Sends messages to the other gates.
#[derive(Clone, Default)]
pub(crate) struct Post {
    local: BTreeMap<ServerId, mpsc::Sender<Letter>>,
    /// The way to the gates of other processes.
    remote: Option<mpsc::Sender<Parcel>>,
}

impl Post {
    /// Senders to the gates of all these servers, and a receiver for each gate.
    pub(crate) fn between(servers: &[ServerId]) -> (Self, Vec<mpsc::Receiver<Letter>>) {
        let boxes = servers.iter().map(|&server| (server, mpsc::channel(LETTERS_MAX)));
        let (local, letters) = boxes.map(|(server, (sender, letters))| ((server, sender), letters)).unzip();
        (Self { local, remote: None }, letters)
    }

    /// Opens the way to the gates of other processes; what is sent to them is received here.
    pub(crate) fn open_remote(&mut self) -> mpsc::Receiver<Parcel> {
        let (sender, parcels) = mpsc::channel(LETTERS_MAX);
        self.remote = Some(sender);
        parcels
    }

    pub(crate) fn send(&self, from: ServerId, messages: Vec<(ServerId, Message)>) {
        for (to, message) in messages {
            match &self.remote {
                // A full channel means a lost message: the next message repeats its content.
                Some(sender) if !self.local.contains_key(&to) => drop(sender.try_send((from, to, message))),
                _ => self.deliver(from, to, message),
            }
        }
    }

    /// Gives a message to a gate of this process.
    pub(crate) fn deliver(&self, from: ServerId, to: ServerId, message: Message) {
        if let Some(peer) = self.local.get(&to) {
            // As above.
            let _ = peer.try_send((from, message));
        }
    }
}

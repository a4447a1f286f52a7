//! How the gates of one daemon report their service to each other [vPFS §III-B].

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use vpfs_core::ServerId;
use vpfs_node::coordination::Message;

/// The maximum number of unread messages for one gate; further ones are dropped, which the protocol repairs.
const LETTERS_MAX: usize = 1024;

/// A message and its sender.
pub(crate) type Letter = (ServerId, Message);

/// Sends messages to the other gates.
#[derive(Clone, Default)]
pub(crate) struct Post(BTreeMap<ServerId, mpsc::Sender<Letter>>);

impl Post {
    /// Senders to the gates of all these servers, and a receiver for each gate.
    pub(crate) fn between(servers: &[ServerId]) -> (Self, Vec<mpsc::Receiver<Letter>>) {
        let boxes = servers.iter().map(|&server| (server, mpsc::channel(LETTERS_MAX)));
        let (senders, letters) = boxes.map(|(server, (sender, letters))| ((server, sender), letters)).unzip();
        (Self(senders), letters)
    }

    pub(crate) fn send(&self, from: ServerId, messages: Vec<(ServerId, Message)>) {
        for (to, message) in messages {
            if let Some(peer) = self.0.get(&to) {
                // A full channel means a lost message: the next message repeats its content.
                let _ = peer.try_send((from, message));
            }
        }
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = ServerId> {
        self.0.keys().copied()
    }
}

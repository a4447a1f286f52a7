//! How the gates of one daemon tell each other what applications got at their servers [vPFS §III-B].

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use vpfs_core::ServerId;
use vpfs_node::coordination::Message;

/// Messages for one gate that it has not looked at yet; more are dropped, which the protocol mends.
const LETTERS_MAX: usize = 1024;

/// A message and who sent it.
pub(crate) type Letter = (ServerId, Message);

/// The way to the other gates.
#[derive(Clone, Default)]
pub(crate) struct Post(BTreeMap<ServerId, mpsc::Sender<Letter>>);

impl Post {
    /// The way to all gates of these servers, and for each what comes in.
    pub(crate) fn between(servers: &[ServerId]) -> (Self, Vec<mpsc::Receiver<Letter>>) {
        let boxes = servers.iter().map(|&server| (server, mpsc::channel(LETTERS_MAX)));
        let (senders, letters) = boxes.map(|(server, (sender, letters))| ((server, sender), letters)).unzip();
        (Self(senders), letters)
    }

    pub(crate) fn send(&self, from: ServerId, messages: Vec<(ServerId, Message)>) {
        for (to, message) in messages {
            if let Some(peer) = self.0.get(&to) {
                // A full box is a lost message: the next one tells the same and more.
                let _ = peer.try_send((from, message));
            }
        }
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = ServerId> {
        self.0.keys().copied()
    }
}

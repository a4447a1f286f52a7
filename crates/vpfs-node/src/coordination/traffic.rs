//! What coordination costs the network.

use super::message::Message;

/// Messages and their bytes, see [`Message::encoded_len`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many messages.
    pub messages: u64,
    /// Their bytes, without what carries them.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, message: &Message) {
        self.messages += 1;
        self.bytes += message.encoded_len() as u64;
    }
}

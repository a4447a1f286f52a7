//! The network traffic of coordination.

use super::message::Message;

/// The number of messages and their size, see [`Message::encoded_len`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of messages.
    pub messages: u64,
    /// Their bytes, without lower-level headers.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, message: &Message) {
        self.messages += 1;
        self.bytes += message.encoded_len() as u64;
    }
}

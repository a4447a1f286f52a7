//! Answers to requests that are not passed on.

use super::{Core, Protocol, violation};
use crate::{CloseReason, Side};

impl<P: Protocol> Core<P> {
    /// Sends this whole message to the client in place of the server.
    pub(crate) fn answer(&mut self, message: &[u8]) -> Result<(), CloseReason> {
        // Nothing else bounds them: other requests wait in the table of operations while replies are not taken.
        if self.to_client.len() + self.answers.len() >= self.limits.outbound_bytes {
            return Err(violation(Side::Client, "refused requests whose answers are not taken"));
        }
        self.answers.extend_from_slice(message);
        self.send_answers();
        Ok(())
    }

    /// Sends these answers, unless the server is in the middle of a message: messages never interleave.
    pub(super) fn send_answers(&mut self) {
        if !self.from_server.is_passing() {
            self.to_client.push(std::mem::take(&mut self.answers).freeze());
        }
    }
}

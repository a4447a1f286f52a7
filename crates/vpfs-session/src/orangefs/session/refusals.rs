//! Answers to requests that are refused here instead of being passed on.

use vpfs_wire::bmi::{Tag, reply_message};
use vpfs_wire::pvfs2::{Errno, Op, Reply, Status};

use super::{Inbound, OrangeFsSession, violation};
use crate::{CloseReason, Side};

impl OrangeFsSession {
    /// Answers a request as servers answer operations for which the sender has no permission.
    pub(super) fn refuse(&mut self, tag: Tag, op: Op) -> Result<(), CloseReason> {
        // Nothing else bounds them: other requests wait in the table of operations while replies are not taken.
        if self.to_client.len() + self.refusals.len() >= self.limits.outbound_bytes {
            return Err(violation(Side::Client, "refused requests whose answers are not taken"));
        }
        let payload = Reply::error(op, Status::error(Errno::EACCES)).encode();
        let Ok(answer) = reply_message(tag, &payload) else { unreachable!("an error has 16 bytes") };
        self.refusals.extend_from_slice(&answer);
        self.send_refusals();
        Ok(())
    }

    /// Sends these answers, unless the server is in the middle of a message: messages never interleave.
    pub(super) fn send_refusals(&mut self) {
        if matches!(self.from_server, Inbound::Header) {
            self.to_client.push(std::mem::take(&mut self.refusals).freeze());
        }
    }
}

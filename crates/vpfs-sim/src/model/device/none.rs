//! No model: every access is done when it is submitted.

use std::collections::VecDeque;

use vpfs_core::Time;

use super::{Completion, Device, Io, IoId};

/// A device as fast as memory.
#[derive(Debug, Default)]
pub struct NoDevice {
    submitted: u64,
    done: VecDeque<Completion>,
}

impl Device for NoDevice {
    fn submit(&mut self, now: Time, _io: Io) -> IoId {
        let id = IoId(self.submitted);
        self.submitted += 1;
        self.done.push_back(Completion { id, at: now });
        id
    }

    fn poll_completed(&mut self, _now: Time) -> Option<Completion> {
        self.done.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.done.front().map(|completion| completion.at)
    }

    fn outstanding(&self) -> usize {
        self.done.len()
    }
}

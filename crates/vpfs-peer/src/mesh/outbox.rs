//! Reports that wait to be sent to one server.

use std::collections::VecDeque;

use vpfs_core::ServerId;
use vpfs_node::PeerMessage;
use vpfs_node::coordination::Traffic;

/// The most bytes of reports that wait for one server.
const BYTES: usize = 128 << 10;

/// A bounded queue: a report makes older ones of the same server unnecessary if it says all that they do; if it is full
/// nevertheless, the oldest is dropped. The coordinator repeats what is lost.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    reports: VecDeque<(ServerId, PeerMessage)>,
    bytes: usize,
    pub(super) dropped: u64,
    pub(super) sent: Traffic,
}

impl Outbox {
    pub(super) fn push(&mut self, from: ServerId, message: PeerMessage) {
        let before = self.reports.len();
        self.reports.retain(|(sender, older)| *sender != from || !supersedes(&message, older));
        self.dropped += (before - self.reports.len()) as u64;
        self.reports.push_back((from, message));
        self.bytes = self.reports.iter().map(|(_, message)| message.encoded_len()).sum();
        while self.bytes > BYTES && self.reports.len() > 1 {
            self.pop();
            self.dropped += 1;
        }
    }

    /// The oldest one.
    pub(super) fn pop(&mut self) -> Option<(ServerId, PeerMessage)> {
        let (from, message) = self.reports.pop_front()?;
        self.bytes -= message.encoded_len();
        Some((from, message))
    }

    pub(super) fn count_sent(&mut self, message: &PeerMessage) {
        count(&mut self.sent, message);
    }
}

pub(super) fn count(traffic: &mut Traffic, message: &PeerMessage) {
    traffic.messages += 1;
    traffic.bytes += message.encoded_len() as u64;
}

/// Whether a receiver of `newer` lacks nothing that is in `older`, which the same server sent earlier.
fn supersedes(newer: &PeerMessage, older: &PeerMessage) -> bool {
    let (PeerMessage::Service(newer), PeerMessage::Service(older)) = (newer, older) else { return false };
    newer.incarnation > older.incarnation
        || (newer.base <= older.base && newer.at.version >= older.at.version)
        || older.base == older.at.version
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vpfs_core::ServiceClass;
    use vpfs_node::coordination::{FlowKey, FlowTotal, Message, Position, Standing};

    use super::*;

    fn message(base: u64, version: u64, entries: usize) -> PeerMessage {
        let entry = FlowTotal {
            key: FlowKey(1),
            counted: ServiceClass::Data.into(),
            born: 1,
            changed: 1,
            total: 1,
            left: false,
        };
        PeerMessage::Service(Message {
            incarnation: 1,
            age: Duration::ZERO,
            to: None,
            standing: Standing { members: 0, group: ServerId(0), side: ServerId(0), stream: 1, to_stream: 0, live: 1 },
            ack: Position::default(),
            base,
            at: Position { horizon: 0, version },
            more: false,
            entries: vec![entry; entries].into(),
        })
    }

    fn versions(message: &PeerMessage) -> (u64, u64) {
        match message {
            PeerMessage::Service(message) => (message.base, message.at.version),
            PeerMessage::Pace(_) => panic!("no message about the pace was pushed"),
        }
    }

    #[test]
    fn a_report_replaces_those_that_it_repeats() {
        let mut outbox = Outbox::default();
        for (from, base, version) in [(1, 0, 0), (1, 0, 5), (2, 0, 7), (1, 0, 9), (1, 9, 9)] {
            outbox.push(ServerId(from), message(base, version, 0));
        }
        let left: Vec<_> =
            std::iter::from_fn(|| outbox.pop()).map(|(from, message)| (from.0, versions(&message))).collect();
        // An acknowledgement does not replace changes.
        assert_eq!(left, [(2, (0, 7)), (1, (0, 9)), (1, (9, 9))]);
        assert_eq!((outbox.dropped, outbox.bytes), (2, 0));
    }

    #[test]
    fn a_full_queue_drops_the_oldest() {
        let mut outbox = Outbox::default();
        for round in 0..1000 {
            outbox.push(ServerId(1), message(round, round + 1, 100));
            assert!(outbox.bytes <= BYTES);
        }
        let first = outbox.pop().map(|(_, message)| versions(&message).0);
        assert!(first > Some(900) && outbox.dropped > 900, "{first:?}");
    }
}

//! What peers send each other, as plain data. Turning it into bytes is not done here, but its size is stated.

use std::time::Duration;

use thiserror::Error;
use vpfs_core::ServiceClass;
use vpfs_core::hash::stable_hash;

/// An application as all servers name it: the hash of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey(pub u64);

impl FlowKey {
    /// The key of the application called `name`: [`stable_hash`], the same at every server. O(length).
    pub fn of(name: &str) -> Self {
        Self(stable_hash(name))
    }
}

/// How far one server knows another's totals. Orders by age: of two from the same incarnation, the greater is newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Of flows that left up to this version, the owner kept nothing; who knew less than that must start over.
    pub horizon: u64,
    /// All changes up to this version are known.
    pub version: u64,
}

/// The running total of one flow and class at the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowTotal {
    /// The flow.
    pub key: FlowKey,
    /// The kind of service.
    pub class: ServiceClass,
    /// The sender's version when the flow arrived; tells a stay of the flow from an earlier one.
    pub born: u64,
    /// The sender's version since this entry has been so.
    pub changed: u64,
    /// Bytes of cost in this stay; negative if more was refunded than asked for.
    pub total: i64,
    /// The flow left; this is the last entry of this stay.
    pub left: bool,
}

/// What one server tells another: which of its totals changed, and how far it knows the other's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The sender's incarnation: greater after each restart.
    pub incarnation: u64,
    /// How long this incarnation has been running.
    pub age: Duration,
    /// The receiver's incarnation as far as the sender knows; `ack` belongs to it.
    pub to: Option<u64>,
    /// How far the sender knows the receiver's totals.
    pub ack: Position,
    /// The entries are the changes after this version ...
    pub base: u64,
    /// ... up to this one. Equal to `base`: nothing changed.
    pub at: Position,
    /// There are changes after `at` that this message had no place for.
    pub more: bool,
    /// In the order in which they changed.
    pub entries: Vec<FlowTotal>,
}

impl Message {
    /// Most entries of any message.
    pub const MAX_ENTRIES: usize = 1024;
    /// Bytes of a message without entries: eight numbers of 8 bytes, flags and the number of entries.
    pub const HEADER_LEN: usize = 8 * 8 + 1 + 2;
    /// Bytes of an entry: four numbers of 8 bytes, class and flag.
    pub const ENTRY_LEN: usize = 4 * 8 + 1;

    /// The bytes that this message takes on the wire, without what carries it.
    pub fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.entries.len() * Self::ENTRY_LEN
    }

    /// Whether the receiver must acknowledge it.
    pub(crate) fn is_data(&self) -> bool {
        self.at.version > self.base
    }

    /// Refuses what no correct peer sends. O(entries).
    pub(crate) fn check(&self) -> Result<(), MessageError> {
        let entries = self.entries.len();
        if entries > Self::MAX_ENTRIES {
            return Err(MessageError::TooManyEntries { entries });
        }
        let (base, version) = (self.base, self.at.version);
        if base > version {
            return Err(MessageError::VersionsBackwards { base, version });
        }
        let mut before = base;
        for entry in &self.entries {
            if entry.changed <= before || entry.changed > version || entry.born > entry.changed {
                return Err(MessageError::ImpossibleEntry { changed: entry.changed, born: entry.born, base, version });
            }
            before = entry.changed;
        }
        Ok(())
    }
}

/// Why a message was refused. Nothing of it was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Its sender is not among the peers.
    #[error("server {0} is not a peer: add it to the servers of this file system")]
    UnknownPeer(u32),
    /// It has more entries than any message may have.
    #[error("{entries} entries in one message, at most {} are allowed", Message::MAX_ENTRIES)]
    TooManyEntries {
        /// How many.
        entries: usize,
    },
    /// It ends at a version before the one it begins with.
    #[error("changes from version {base} up to {version}, which is before it")]
    VersionsBackwards {
        /// Where it begins.
        base: u64,
        /// Where it ends.
        version: u64,
    },
    /// An entry is outside the versions that the message covers, out of order, or older than its flow.
    #[error(
        "an entry of version {changed} for a flow of version {born}, in changes from version {base} up to {version}"
    )]
    ImpossibleEntry {
        /// Its version.
        changed: u64,
        /// When its flow arrived.
        born: u64,
        /// Where the message begins.
        base: u64,
        /// Where it ends.
        version: u64,
    },
    /// It acknowledges what was never sent.
    #[error("acknowledges version {version}, this server is at {own}: does a restart reuse an incarnation?")]
    AckAhead {
        /// The version acknowledged.
        version: u64,
        /// The version this server is at.
        own: u64,
    },
}

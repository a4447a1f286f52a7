//! Messages between peers, as plain data. They are encoded elsewhere, but their size is stated here.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use vpfs_core::hash::stable_hash;
use vpfs_core::{ServerId, ServiceClass, TotalKind};

/// An application as all servers identify it: the hash of its name, and of the path of its share if it is in one. Or a
/// share as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey(pub u64);

impl From<FlowKey> for u64 {
    fn from(key: FlowKey) -> Self {
        key.0
    }
}

impl FlowKey {
    /// The key of the application called `name`: [`stable_hash`], the same at every server. O(length).
    pub fn of(name: &str) -> Self {
        Self(stable_hash(name))
    }

    /// The key of the application called `name` in the share at this path: half of it tells the share, also to servers
    /// where the application has never been. If two members have the same other half (in one of
    /// 8,000 clusters with a thousand members), their service elsewhere is counted together. O(length).
    pub fn of_member(path: &str, name: &str) -> Self {
        Self(u64::from(Self::of(path).share_half()) << u32::BITS | stable_hash(name) & u64::from(u32::MAX))
    }

    /// The key of what is counted of the share at this path as a whole: that of a member without a name. O(length).
    pub fn of_share(path: &str) -> Self {
        Self::of_member(path, "")
    }

    /// The half of a member's key that is the same for all in its share.
    pub(crate) const fn share_half(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }
}

/// What servers count of an application or a share, each for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counted {
    /// The service of a class that it got, in bytes of cost.
    Service(ServiceClass),
    /// What was given of a total, in bytes, whatever unit its shares have.
    Given(TotalKind, ServiceClass),
    /// What is wanted of it where the server is: the sum over time, in bytes.
    Wanted(TotalKind, ServiceClass),
}

impl Counted {
    /// All of it.
    pub fn all() -> impl Iterator<Item = Self> {
        const CLASSES: [ServiceClass; 2] = [ServiceClass::Data, ServiceClass::Metadata];
        let of_total = |kind| {
            CLASSES
                .map(|class| Self::Given(kind, class))
                .into_iter()
                .chain(CLASSES.map(move |class| Self::Wanted(kind, class)))
        };
        CLASSES.map(Self::Service).into_iter().chain(TotalKind::ALL.into_iter().flat_map(of_total))
    }
}

impl From<ServiceClass> for Counted {
    fn from(class: ServiceClass) -> Self {
        Self::Service(class)
    }
}

/// How far one server knows another's totals. Ordered by age: of two positions in one incarnation, the greater is
/// newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The owner has forgotten flows that left up to this version; a peer that knew less must start over.
    pub horizon: u64,
    /// All changes up to this version are known.
    pub version: u64,
}

/// The running total of one flow at the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowTotal {
    /// The flow.
    pub key: FlowKey,
    /// What is counted.
    pub counted: Counted,
    /// The sender's version when the flow arrived; distinguishes this stay of the flow from an earlier one.
    pub born: u64,
    /// The sender's version of the latest change of this entry.
    pub changed: u64,
    /// Bytes in this stay; negative if refunds exceeded requests.
    pub total: i64,
    /// The flow left; this is the last entry of this stay.
    pub left: bool,
}

/// How the sender sees the groups of servers (docs/decisions/0008-peers.md). Totals are used only while sender and
/// receiver see the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// A number for the list of members and its division into groups.
    pub members: u64,
    /// The server that represents the group which sender and receiver are in together.
    pub group: ServerId,
    /// The server that represents the sender's side of that group. If it is another server than the sender, the sender
    /// is not in the group: write to that one.
    pub side: ServerId,
    /// The number of the totals that this message continues: greater after each time that the sender started again from
    /// zero. Zero: the sender does not count the receiver among its peers, and only answers.
    pub stream: u32,
    /// The number of the receiver's totals to which `ack` refers.
    pub to_stream: u32,
    /// How many servers the sender speaks for: itself, and all that it reaches on other levels than this one.
    pub live: u32,
}

/// What one server reports to another: its changed totals, and how far it knows the other's totals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The sender's incarnation: greater after each restart.
    pub incarnation: u64,
    /// How long ago the totals that it continues started from zero.
    pub age: Duration,
    /// The receiver's incarnation as far as the sender knows; `ack` refers to it.
    pub to: Option<u64>,
    /// How the sender sees the groups of servers.
    pub standing: Standing,
    /// How far the sender knows the receiver's totals.
    pub ack: Position,
    /// The entries are the changes after this version ...
    pub base: u64,
    /// ... up to this one. Equal to `base`: nothing changed.
    pub at: Position,
    /// There are changes after `at` that did not fit into this message.
    pub more: bool,
    /// In the order in which they changed; messages to several peers share them.
    pub entries: Arc<[FlowTotal]>,
}

impl Message {
    /// The maximum number of entries in a message.
    pub const MAX_ENTRIES: usize = 1024;
    /// Bytes of a message without entries: nine numbers of 8 bytes, five of 4 bytes, flags and the number of entries.
    pub const HEADER_LEN: usize = 9 * 8 + 5 * 4 + 1 + 2;
    /// Bytes of an entry: four numbers of 8 bytes, what is counted and a flag.
    pub const ENTRY_LEN: usize = 4 * 8 + 1;

    /// The size of this message on the wire, without lower-level headers.
    pub fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.entries.len() * Self::ENTRY_LEN
    }

    pub(crate) fn is_data(&self) -> bool {
        self.at.version > self.base
    }

    /// Refuses messages that no correct peer sends. O(entries).
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
        for entry in &*self.entries {
            if entry.changed <= before || entry.changed > version || entry.born > entry.changed {
                return Err(MessageError::ImpossibleEntry { changed: entry.changed, born: entry.born, base, version });
            }
            before = entry.changed;
        }
        Ok(())
    }
}

/// Why a message was refused. None of it was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum MessageError {
    /// Its sender is not among the peers.
    #[error("message from server {0}, which is not a peer: add it to the servers of this file system")]
    UnknownPeer(u32),
    /// It has more entries than any message may have.
    #[error("message with {entries} entries, the limit is {}", Message::MAX_ENTRIES)]
    TooManyEntries { entries: usize },
    /// It ends at an earlier version than it starts with.
    #[error("message with changes from version {base} up to the earlier version {version}")]
    VersionsBackwards { base: u64, version: u64 },
    /// An entry is outside the versions that the message covers, out of order, or older than its flow.
    #[error(
        "invalid entry of version {changed} for a flow of version {born}, in changes from version {base} up to {version}"
    )]
    ImpossibleEntry { changed: u64, born: u64, base: u64, version: u64 },
    /// It acknowledges a version that was never sent.
    #[error("message acknowledges version {version}, but this server is at {own}: did a restart reuse an incarnation?")]
    AckAhead { version: u64, own: u64 },
}

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

//! The connections of one process to all others as a state machine.
//!
//! # The drive contract
//!
//! 1. Give an input: [`Mesh::connected`], [`Mesh::dial_failed`], [`Mesh::closed`], [`Mesh::receive`], [`Mesh::send`] or
//!    [`Mesh::handle_timeout`]; and once after [`Mesh::new`], none.
//! 2. Drain [`Mesh::poll_action`] and [`Mesh::poll_event`] until `None`.
//! 3. For each link of [`Mesh::poll_ready`], or when it has sent what it had, take bytes by [`Mesh::poll_transmit`].
//! 4. Ask [`Mesh::poll_timeout`] when to call `handle_timeout` next, if nothing else happens before.
//!
//! The driver opens and accepts connections, authenticates the process at the other end, and exchanges the first frame,
//! [`crate::wire::Hello`]; only then a connection is a link of the mesh.

mod backoff;
mod clock_offset;
mod cluster_clock;
mod dial;
mod link;
mod outbox;
mod state;

use std::time::Duration;

use thiserror::Error;
use vpfs_core::ServerId;
use vpfs_node::PeerMessage;
use vpfs_node::coordination::Traffic;

use crate::wire::Frame;

pub use clock_offset::ClockOffset;
pub use state::Mesh;

/// A connection, numbered by the driver; a number is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Who opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This process, to reach the proxy of this server.
    Dialed(ServerId),
    /// The process at the other end.
    Accepted,
}

/// The process and its timers.
#[derive(Clone, Debug)]
pub struct MeshSettings {
    /// The cluster's name; processes of others are refused.
    pub cluster: String,
    /// Greater after each start of the process.
    pub incarnation: u64,
    /// The names of all servers of the cluster, by [`ServerId`].
    pub servers: Vec<String>,
    /// Those whose proxies this process runs.
    pub own: Vec<ServerId>,
    /// How often to ask for the other's time; this keeps links alive, too.
    pub ping: Duration,
    /// A link is closed, and an absent peer reported, after silence for this long. Several times `ping`.
    pub lost_after: Duration,
    /// The longest pause between attempts to connect.
    pub redial_max: Duration,
    /// A difference of clocks beyond this is reported.
    pub clock_limit: Duration,
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Action {
    /// Connect to the proxy of this server; answer with [`Mesh::connected`] or [`Mesh::dial_failed`].
    Dial(ServerId),
    /// Close this connection at once. No [`Mesh::closed`] is needed.
    Close(LinkId),
    /// Give this message of another server to the node of a server of this process.
    Deliver { from: ServerId, to: ServerId, message: PeerMessage },
    /// Tell all nodes of this process that the cluster's clock is this far ahead of the process's, or behind if
    /// negative, in nanoseconds; 0 until then.
    SetClock { ahead_ns: i64 },
}

/// Something to log. Each is reported when it changes, not while it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Event {
    /// The proxies of these servers can be reached, `again` if their absence had been reported.
    Up { servers: Vec<ServerId>, again: bool },
    /// The proxy of a server has not been there for [`MeshSettings::lost_after`].
    Absent { server: ServerId },
    /// The process that runs the proxies of these servers lacks a server of this one in its configuration, so that they
    /// do not talk to each other.
    Unlisted { servers: Vec<ServerId> },
    /// The clock of these servers' process, which is ahead by `offset`, differs by more than the limit, or does so no
    /// more.
    Clock { servers: Vec<ServerId>, offset: ClockOffset, exceeds: bool },
}

/// Why a process is not accepted, or its link is closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It belongs to another cluster.
    #[error("it belongs to the cluster {0:?}: processes of one cluster need the same peers.cluster")]
    Cluster(String),
    /// It claims a server that the configuration lacks.
    #[error("it serves {0:?}, which this configuration does not have: all processes need the same file")]
    UnknownServer(String),
    /// It claims a server of this process, or is this process.
    #[error("it serves {0:?}, as this process does: does another process serve it, or does an address lead back here?")]
    OwnServer(String),
    /// It is another process than the one that should be there.
    #[error("it does not serve {0:?}: is the address in [peers] right?")]
    WrongServer(String),
    /// A later start of the same process is connected.
    #[error("a newer instance of this process is connected")]
    Earlier,
    /// The other of two connections between the same processes stays.
    #[error("there is another connection to the same process")]
    Duplicate,
    /// A report for or from a server that is not in the first frames.
    #[error("it sent a report about a server that it or this process does not serve")]
    ForeignReport,
    /// A second first frame.
    #[error("it introduced itself twice")]
    SecondHello,
}

impl Refusal {
    /// What to send before the connection is closed: only this process can know that.
    pub fn farewell(&self) -> Option<Frame> {
        matches!(self, Self::UnknownServer(_)).then_some(Frame::Unlisted)
    }
}

/// One other server as its peer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The server.
    pub server: ServerId,
    /// The link to its proxy, if there is one.
    pub link: Option<LinkId>,
    /// How long it has been there, or absent.
    pub since: Duration,
    /// The time since its last report, in this link.
    pub news: Option<Duration>,
    /// Reports to it.
    pub sent: Traffic,
    /// Reports from it.
    pub received: Traffic,
    /// Reports to it that a newer one replaced, or that the full queue dropped.
    pub dropped: u64,
    /// How far its clock is ahead, if known.
    pub offset: Option<ClockOffset>,
}

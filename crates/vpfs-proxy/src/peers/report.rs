//! What `vpfs peers` shows.

use serde::{Deserialize, Serialize};
use vpfs_core::Time;

use super::PeerState;

/// A process, its peers, and what applications got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeersReport {
    /// The servers whose proxies it runs.
    pub servers: Vec<String>,
    /// How long it has run, in seconds.
    pub up_seconds: f64,
    /// Those of other processes.
    pub peers: Vec<PeerReport>,
    /// All applications that got any service.
    pub apps: Vec<AppReport>,
}

/// A server of another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerReport {
    /// Its name.
    pub server: String,
    /// Whether its proxy is connected.
    pub connected: bool,
    /// The address at the other end.
    pub address: Option<String>,
    /// How long that has been so, in seconds.
    pub since_seconds: f64,
    /// The age of its latest report in seconds; `None` if there was none.
    pub news_age_seconds: Option<f64>,
    /// Reports to it.
    pub sent: TrafficReport,
    /// Reports from it.
    pub received: TrafficReport,
    /// Reports to it that newer ones replaced, or that a full queue dropped.
    pub dropped: u64,
    /// How far its clock is ahead, in seconds.
    pub clock_ahead_seconds: Option<f64>,
    /// How wrong that may be.
    pub clock_error_seconds: Option<f64>,
}

/// Reports, without what is around them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficReport {
    /// Their number.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The service of an application since the process started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppReport {
    /// Its name.
    pub app: String,
    /// Data bytes that it moved at the servers of this process.
    pub here: u64,
    /// Its metadata requests there.
    pub metadata_here: u64,
    /// What it got elsewhere in bytes of cost, as far as that was reported: data, and `scheduler.metadata_cost` for
    /// each object of a metadata request. 0 if shares do not depend on it.
    pub elsewhere: u64,
}

impl PeerReport {
    pub(crate) fn new(server: String, state: PeerState) -> Self {
        let PeerState { status, address } = state;
        let traffic = |traffic: vpfs_node::coordination::Traffic| TrafficReport {
            messages: traffic.messages,
            bytes: traffic.bytes,
        };
        let ahead = status.offset.map(|offset| {
            let size = Time::from_nanos(offset.ahead_ns.unsigned_abs()).since(Time::ZERO).as_secs_f64();
            if offset.ahead_ns < 0 { -size } else { size }
        });
        Self {
            server,
            connected: status.link.is_some(),
            address,
            since_seconds: status.since.as_secs_f64(),
            news_age_seconds: status.news.map(|age| age.as_secs_f64()),
            sent: traffic(status.sent),
            received: traffic(status.received),
            dropped: status.dropped,
            clock_ahead_seconds: ahead,
            clock_error_seconds: status.offset.map(|offset| offset.error.as_secs_f64()),
        }
    }
}

impl PeerState {
    /// The server that it is about.
    pub(crate) fn server(&self) -> vpfs_core::ServerId {
        self.status.server
    }
}

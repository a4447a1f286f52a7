//! What the proxies said in the last hour.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use vpfs_admin::api::Status;
use vpfs_admin::events::{Event, EventsReport};
use vpfs_config::Config;
use vpfs_proxy::{PeerReport, PeersReport};

use crate::cmd::asking::Asking;
use crate::cmd::rows::{Row, rows};
use crate::exit::Exit;

/// What applications did in the time before a moment.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) rows: Vec<Row>,
}

/// At most an hour of samples, and what was said last.
#[derive(Clone, Default)]
pub(super) struct Samples {
    pub(super) list: VecDeque<Sample>,
    pub(super) statuses: Vec<Status>,
    pub(super) peers: Vec<PeerReport>,
    pub(super) events: Vec<Event>,
}

impl Samples {
    const KEPT_FOR: Duration = Duration::from_secs(3600);
    /// Of more applications, those that moved most.
    const APPS: usize = 32;
    const EVENTS: usize = 30;

    /// Asks the proxies.
    pub(super) async fn look(&mut self, asking: &Asking, config: &Config) -> Result<(), Exit> {
        let statuses = asking.answers::<Status>(config).await?.list;
        let peers = asking.answers::<PeersReport>(config).await?.list;
        let events = asking.answers::<EventsReport>(config).await?.list;
        self.add(Instant::now(), statuses);
        self.peers = peers.into_iter().flat_map(|report| report.peers).collect();
        self.peers.sort_by(|one, other| one.server.cmp(&other.server));
        self.peers.dedup_by(|one, other| one.server == other.server);
        self.events = events.into_iter().flat_map(|report| report.events).collect();
        self.events.sort_by(|one, other| other.time.cmp(&one.time));
        self.events.truncate(Self::EVENTS);
        Ok(())
    }

    pub(super) fn add(&mut self, at: Instant, statuses: Vec<Status>) {
        let mut rows = rows(&self.statuses, &statuses, None);
        let is_first = std::mem::replace(&mut self.statuses, statuses).is_empty();
        if is_first {
            return;
        }
        rows.sort_by(|one, other| other.bytes_per_second.total_cmp(&one.bytes_per_second));
        rows.truncate(Self::APPS);
        self.list.push_back(Sample { at, rows });
        while self.list.front().is_some_and(|oldest| at - oldest.at > Self::KEPT_FOR) {
            self.list.pop_front();
        }
    }
}

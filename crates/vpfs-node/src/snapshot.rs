//! A node at one moment, for people and programs that look into it.

use std::time::Duration;

use vpfs_core::pace::TriedRate;
use vpfs_core::{AppId, Limits, PolicyKind, Time};

use crate::accounts::{Activity, AppAccount};
use crate::peers::PeerService;
use crate::places::InShare;

/// What is known about a server and the applications that use it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When it is.
    pub at: Time,
    /// The policy in force.
    pub policy: PolicyKind,
    /// The applications that go at the pace of bulk, in order.
    pub bulk: Vec<AppId>,
    /// What limits the work in the storage now.
    pub limits: Limits,
    /// What rates of bulk were recently worth, in order; empty where that is decided elsewhere.
    pub tried_rates: Vec<TriedRate<AppId>>,
    /// Requests that wait.
    pub queued: usize,
    /// Requests in the storage, without those that wait for their clients.
    pub outstanding: usize,
    /// What all applications used of the storage's time: its rate is the utilisation.
    pub busy: Duration,
    /// All applications that were named or had requests, by id.
    pub apps: Vec<AppSnapshot>,
    /// The sum of those that [`AppSnapshot::is_other`], with what earlier ones got; its counts never fall. `None` if
    /// there never was one.
    pub others: Option<AppSnapshot>,
}

/// An application in a [`Snapshot`].
#[derive(Clone, Debug)]
pub struct AppSnapshot {
    /// Its id.
    pub app: AppId,
    /// It counts in [`Snapshot::others`], for readers that show few applications.
    pub is_other: bool,
    /// The shares that it is in, the one at the top first.
    pub shares: Vec<InShare>,
    /// What it has and got here.
    pub account: AppAccount,
    /// The storage's time to which its weight entitled it while it had requests, among those that had some. Of all
    /// applications, this is the time in which any had.
    pub entitled: Duration,
    /// The storage's time that it used, by when its requests left. Of all applications, this is [`Snapshot::busy`].
    pub used: Duration,
    /// What of it was reported to other servers, and heard from them.
    pub peers: PeerService,
}

impl AppSnapshot {
    /// Adds another application, for the sum of several; whom they waited for, and what peers know, is left out.
    pub fn add(&mut self, other: &Self) {
        self.account.add(&other.account);
        self.entitled += other.entitled;
        self.used += other.used;
    }

    /// Only what it did and got until now, without what it has now.
    #[must_use]
    pub(crate) fn ended(mut self) -> Self {
        for activity in [&mut self.account.read, &mut self.account.write, &mut self.account.metadata] {
            (activity.queued, activity.outstanding) = (0, 0);
        }
        self
    }
}

/// What an application got, over all kinds of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppTotals {
    /// Data requests that ended.
    pub data_requests: u64,
    /// Metadata requests that ended.
    pub metadata_requests: u64,
    /// Data bytes that passed.
    pub bytes: u64,
    /// Requests that ended in time-out or disconnection.
    pub failed: u64,
    /// Requests that took longer than the application is promised.
    pub late: u64,
    /// Sum of the times from arrival to dispatch.
    pub waited: Duration,
    /// Sum of the times from dispatch to the end.
    pub served: Duration,
}

impl AppTotals {
    /// Adds what it got at another server.
    pub fn add(&mut self, account: &AppAccount) {
        self.data_requests += account.read.requests + account.write.requests;
        self.metadata_requests += account.metadata.requests;
        for Activity { bytes, failed, late, waited, served, .. } in account.activities() {
            self.bytes += bytes;
            self.failed += failed;
            self.late += late;
            self.waited += waited.sum;
            self.served += served.sum;
        }
    }
}

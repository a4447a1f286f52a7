//! What a daemon tells administrators: HTTP and JSON on a Unix [socket](bind_socket) of its own, and [`metrics`] for
//! Prometheus, by TCP if the configuration says so (docs/decisions/0010-watching.md).
//!
//! It changes nothing in the daemon but pushed applications, for those who may
//! (docs/decisions/0013-jobs-and-rules.md), and writes one file: the history. It asks for a
//! [`Status`](crate::Status), whose snapshots lock each gate once, and makes text of it in threads of its own,
//! beside those that move data. How many ask at a time, how long they may take, and what they may send, is bounded
//! here; so no question can slow storage down.

pub mod api;
mod client;
pub mod events;
mod history;
pub mod metrics;
mod server;
mod sets;

pub use api::watch_storage;
pub use client::{Change, Failure, change, change_by, get, get_by};
pub use history::{HISTORY, keep as keep_history, kept as kept_history, route as route_of_history};
pub use server::{
    EVENTS, Kept, METRICS, MetricsAccess, PEERS, PageKey, SETS, STATUS, bind_socket, get_here, serve_askers,
    serve_metrics, serve_page, serve_socket, socket_path,
};
pub use sets::{PushedSet, PushedSets};

/// A status of two servers, and events, for tests.
#[cfg(test)]
mod testing {
    use std::time::Duration;

    use tracing_subscriber::prelude::*;
    use vpfs_core::pace::TriedRate;
    use vpfs_core::{AppId, Bytes, Limits, OpKind, PolicyKind, Time};
    use vpfs_node::{
        Activity, Alike, AppAccount, AppSnapshot, PeerService, Quiet, Situation, Snapshot, StorageTimes, WaitedFor,
    };

    use crate::admin::events::Events;
    use crate::{AppStatus, HolderReport, PeerReport, ServerStatus, Status, TrafficReport, Used};

    const SECOND: Duration = Duration::from_secs(1);

    /// `apps` by id at both servers, of which those whose names have a colon are automatic.
    pub(crate) fn status(apps: &[&str]) -> Status {
        let app = |name: &&str| AppStatus {
            name: (*name).to_owned(),
            is_automatic: name.contains(':'),
            ..AppStatus::default()
        };
        let server =
            |name: &str| ServerStatus { name: name.to_owned(), refused_connections: 3, snapshot: snapshot(apps) };
        Status {
            started: Time::from_millis(1_800_000_000_500),
            uptime: 60 * SECOND,
            memory: Used { now: 1 << 20, limit: 1 << 30 },
            connections: Used { now: 7, limit: 4096 },
            servers: ["s1", "s2"].map(server).into(),
            apps: apps.iter().map(app).collect(),
            peers: vec![peer()],
            holders: vec![HolderReport {
                port: "metrics",
                holder: "10.0.0.9".into(),
                connections: Used { now: 60, limit: 64 },
            }],
            fingerprint: 7,
            observed: None,
            unstored: 3 << 30,
        }
    }

    pub(crate) fn events() -> Events {
        let events = Events::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(events.layer()), || {
            tracing::info!(app = "climate", "new application");
            tracing::warn!(server = "s1", "no more");
        });
        events
    }

    fn snapshot(apps: &[&str]) -> Snapshot {
        let app = |(app, _): (AppId, _)| {
            let mut read = Activity { requests: 2, bytes: 3 << 20, queued: 1, outstanding: 1, ..Activity::default() };
            (read.waited.counts[10], read.waited.sum) = (2, 3 * SECOND);
            (read.served.counts[12], read.served.sum) = (2, 4 * SECOND);
            let behind = WaitedFor { apps: vec![(AppId(0), SECOND)], others: SECOND };
            let account = AppAccount {
                read,
                held: SECOND,
                released: 1,
                waits: [SECOND, Duration::ZERO, SECOND, SECOND],
                behind: behind.clone(),
                behind_in_storage: behind,
                in_storage: Alike::from_iter([times()]),
                ..AppAccount::default()
            };
            AppSnapshot {
                app,
                is_other: false,
                shares: Vec::new(),
                account,
                entitled: 30 * SECOND,
                used: 20 * SECOND,
                peers: PeerService::default(),
            }
        };
        Snapshot {
            at: Time::from_millis(60_000),
            policy: PolicyKind::Isolation,
            bulk: vec![AppId(0)],
            limits: Limits { pace: Some(250_000_000), ..Limits::default() },
            tried_rates: tried_rates(),
            queued: apps.len(),
            outstanding: apps.len(),
            busy: 40 * SECOND,
            apps: (0..).map(AppId).zip(apps).map(app).collect(),
            others: None,
        }
    }

    fn tried_rates() -> Vec<TriedRate<AppId>> {
        let tried = |rate, bulk, speed| TriedRate { rate, bulk, speeds: vec![(AppId(0), speed)] };
        vec![tried(250e6, 1.0, 1.0), tried(272e6, 1.09, 0.76)]
    }

    /// Reads that take twice as long as at best, and wait for half of that, since ten seconds.
    fn times() -> StorageTimes {
        let quiet = Some(Quiet { time: SECOND, own: SECOND, processor_wait: Duration::ZERO });
        let slower_since = Some(Time::from_millis(50_000));
        let (op, size) = (OpKind::Read, Bytes(1 << 20));
        StorageTimes {
            op,
            size,
            situation: Situation::Alone,
            requests: 2,
            time: 4 * SECOND,
            behind: 2 * SECOND,
            processor: SECOND / 2,
            slower: SECOND / 2,
            quiet,
            slower_since,
        }
    }

    fn peer() -> PeerReport {
        PeerReport {
            server: "s3".into(),
            connected: true,
            address: Some("10.0.0.3:7334".into()),
            since_seconds: 50.0,
            news_age_seconds: Some(0.5),
            sent: TrafficReport { messages: 1, bytes: 100 },
            received: TrafficReport { messages: 2, bytes: 200 },
            dropped: 0,
            clock_ahead_seconds: Some(0.001),
            clock_error_seconds: Some(0.0005),
        }
    }
}

//! Pushing the latest set to each proxy or mount, each in a task of its own: one that hangs delays no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use vpfs_admin::Change;
use vpfs_config::Config;
use vpfs_core::ServerId;

use crate::cmd::asking::changing::{NotChanged, change_one};

/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// What all tasks share.
struct Shared {
    config: Config,
    remote: bool,
    /// How often to push what has not changed.
    interval: Duration,
    /// The largest version that a proxy has of somebody else, or of an agent whose clock was ahead.
    newer: AtomicU64,
}

/// The tasks; dropping it ends them.
pub(super) struct Pushing {
    shared: Arc<Shared>,
    /// By server.
    latest: Vec<watch::Sender<Option<Change>>>,
    _tasks: JoinSet<()>,
}

impl Pushing {
    /// Pushes to the proxies of all servers, those of this host or with `remote` all.
    pub(super) fn start(config: Config, remote: bool, interval: Duration) -> Self {
        let servers: Vec<ServerId> = config.servers().map(|(id, _)| id).collect();
        let shared = Arc::new(Shared { config, remote, interval, newer: AtomicU64::new(0) });
        let (mut latest, mut tasks) = (Vec::new(), JoinSet::new());
        for server in servers {
            let (sender, receiver) = watch::channel(None);
            latest.push(sender);
            tasks.spawn(push(Arc::clone(&shared), server, receiver));
        }
        Self { shared, latest, _tasks: tasks }
    }

    /// This is to be pushed to the server from now on.
    pub(super) fn set(&self, server: ServerId, change: Change) {
        self.latest[server.index()].send_replace(Some(change));
    }

    /// A version that the next one has to exceed.
    pub(super) fn newer(&self) -> u64 {
        self.shared.newer.load(Ordering::Relaxed)
    }
}

/// Pushes to one server for ever.
async fn push(shared: Arc<Shared>, server: ServerId, mut latest: watch::Receiver<Option<Change>>) {
    let name = shared.config.servers[server.index()].name.as_str();
    let mut said = None;
    loop {
        let change = latest.borrow_and_update().clone();
        let mut pause = shared.interval;
        if let Some(change) = change {
            let result = change_one(&shared.config, shared.remote, server, &change).await;
            if result.is_err() {
                pause = RETRY.min(pause);
            }
            let reason = match result {
                // Another agent pushes as well: what it found is as good, until this one finds something else.
                Err(NotChanged { newer: Some(version), .. }) => {
                    shared.newer.fetch_max(version, Ordering::Relaxed);
                    said.clone()
                }
                other => other.err().map(|not_changed| not_changed.silence.to_string()),
            };
            if reason != said {
                match &reason {
                    Some(reason) => tracing::warn!("jobs are not pushed: the proxy of {name} {reason}"),
                    None if said.is_some() => tracing::info!(server = name, "jobs are pushed again"),
                    None => {}
                }
                said = reason;
            }
        }
        tokio::select! {
            changed = latest.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

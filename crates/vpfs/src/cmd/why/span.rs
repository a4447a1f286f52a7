//! What applications did over some time, at each server.

use std::collections::BTreeSet;

use vpfs_admin::api::{App, Status};

/// Some time at some servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    pub(super) seconds: f64,
    pub(super) servers: Vec<AtServer>,
}

/// What applications did at a server: counters count only that.
#[derive(Clone, Debug)]
pub(super) struct AtServer {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) seconds: f64,
    pub(super) apps: Vec<App>,
}

impl Span {
    /// Between two looks, over the servers that both saw. A server whose proxy started in between is left out, as its
    /// counters began anew.
    pub(super) fn between(before: &[Status], after: &[Status]) -> Self {
        let servers = after.iter().flat_map(|status| {
            status.servers.iter().filter_map(|now| {
                let (up, then) = before.iter().find_map(|status| {
                    let then = status.servers.iter().find(|then| then.server == now.server)?;
                    Some((status.up_seconds, then))
                })?;
                let seconds = Some(status.up_seconds - up).filter(|seconds| *seconds > 0.0)?;
                let since = |app: &App| app.since(then.apps.iter().find(|then| then.app == app.app));
                let apps = now.apps.iter().map(since).collect();
                Some(AtServer { name: now.server.clone(), policy: now.policy.clone(), seconds, apps })
            })
        });
        let servers: Vec<AtServer> = servers.collect();
        let seconds = servers.iter().map(|server| server.seconds).fold(0.0, f64::max);
        Self { seconds, servers }
    }

    /// The names of those that had requests.
    pub(super) fn apps(&self) -> BTreeSet<&str> {
        let all = self.servers.iter().flat_map(|server| &server.apps);
        all.filter(|app| is_active(app)).map(|app| app.app.as_str()).collect()
    }
}

/// Whether it had requests.
pub(super) fn is_active(app: &App) -> bool {
    app.works().into_iter().any(|work| work.requests + work.queued + work.outstanding > 0)
}

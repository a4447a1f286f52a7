//! What applications did over some time, at each server.

use std::collections::{BTreeSet, HashMap};

use super::{App, Status};

/// Some time at some servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// How long it is.
    pub seconds: f64,
    /// Those servers, at most one of each name.
    pub servers: Vec<AtServer>,
    /// Bytes of files that a host had in memory and on no disk at its end; of several hosts, the most.
    pub unstored_bytes: u64,
}

/// What applications did at a server: counters count only that.
#[derive(Clone, Debug, PartialEq)]
pub struct AtServer {
    /// Its name.
    pub name: String,
    /// Its policy at the end.
    pub policy: String,
    /// How long it was seen.
    pub seconds: f64,
    /// Applications, once each.
    pub apps: Vec<App>,
}

impl Span {
    /// Between two looks, over the servers that both saw. A server whose proxy started in between is left out, as its
    /// counters began anew.
    pub fn between(before: &[Status], after: &[Status]) -> Self {
        let mut span = Self::of_all(before, after);
        span.servers.iter_mut().for_each(|server| server.apps.retain(App::is_active));
        span
    }

    /// The same with applications that had no requests.
    pub fn of_all(before: &[Status], after: &[Status]) -> Self {
        let servers = after.iter().flat_map(|status| {
            status.servers.iter().filter_map(|now| {
                let (up, then) = before.iter().find_map(|status| {
                    let then = status.servers.iter().find(|then| then.server == now.server)?;
                    Some((status.up_seconds, then))
                })?;
                let seconds = Some(status.up_seconds - up).filter(|seconds| *seconds > 0.0)?;
                let before: HashMap<&str, &App> = then.apps.iter().map(|app| (app.app.as_str(), app)).collect();
                let since = now.apps.iter().map(|app| app.since(before.get(app.app.as_str()).copied()));
                let (name, policy) = (now.server.clone(), now.policy.clone());
                Some(AtServer { name, policy, seconds, apps: since.collect() })
            })
        });
        let servers: Vec<AtServer> = servers.collect();
        let seconds = servers.iter().map(|server| server.seconds).fold(0.0, f64::max);
        let unstored_bytes = after.iter().map(|status| status.unstored_bytes).max().unwrap_or(0);
        Self { seconds, servers, unstored_bytes }
    }

    /// The names of those that had requests.
    pub fn apps(&self) -> BTreeSet<&str> {
        let all = self.servers.iter().flat_map(|server| &server.apps);
        all.map(|app| app.app.as_str()).collect()
    }
}

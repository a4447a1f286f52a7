//! Which applications have requests at this server, and since when they have none.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use vpfs_coord::FlowKey;
use vpfs_core::{AppId, Time};

/// Applications by the key that all servers know them by, and their presence.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
    by_key: HashMap<FlowKey, AppId>,
    /// Those that have no requests, by the time when they count as gone.
    idle: BTreeSet<(Time, AppId)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    key: Option<FlowKey>,
    /// Requests queued or dispatched.
    pending: u32,
    /// When it counts as gone, while it has no requests.
    leaves: Option<Time>,
}

impl Flows {
    /// An application without requests for this long has left. Longer than the pauses between checkpoints of most
    /// applications: leaving and coming back costs a message to every peer.
    const IDLE: Duration = Duration::from_secs(600);

    pub(crate) fn name(&mut self, app: AppId, name: &str) {
        let key = FlowKey::of(name);
        self.flow(app).key = Some(key);
        self.by_key.insert(key, app);
    }

    pub(crate) fn key(&self, app: AppId) -> Option<FlowKey> {
        self.flows.get(app.index())?.key
    }

    pub(crate) fn app(&self, key: FlowKey) -> Option<AppId> {
        self.by_key.get(&key).copied()
    }

    /// A request arrived.
    pub(crate) fn add(&mut self, app: AppId) {
        let flow = self.flow(app);
        flow.pending += 1;
        if let Some(at) = flow.leaves.take() {
            self.idle.remove(&(at, app));
        }
    }

    /// A request is over.
    pub(crate) fn remove(&mut self, now: Time, app: AppId) {
        let flow = self.flow(app);
        flow.pending = flow.pending.checked_sub(1).expect("a request is over only once");
        if flow.pending == 0 {
            let at = now + Self::IDLE;
            flow.leaves = Some(at);
            self.idle.insert((at, app));
        }
    }

    /// The application is gone, whatever is known of its requests.
    pub(crate) fn forget_idle(&mut self, app: AppId) {
        if let Some(at) = self.flow(app).leaves.take() {
            self.idle.remove(&(at, app));
        }
    }

    /// The next one that has had no request for long.
    pub(crate) fn poll_left(&mut self, now: Time) -> Option<AppId> {
        let &(_, app) = self.idle.first().filter(|(at, _)| *at <= now)?;
        self.forget_idle(app);
        Some(app)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.idle.first().map(|&(at, _)| at)
    }

    fn flow(&mut self, app: AppId) -> &mut Flow {
        if app.index() >= self.flows.len() {
            self.flows.resize(app.index() + 1, Flow::default());
        }
        &mut self.flows[app.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: AppId = AppId(3);

    fn secs(secs: u64) -> Time {
        Time::from_millis(secs * 1000)
    }

    #[test]
    fn an_application_leaves_after_a_long_time_without_requests() {
        let mut flows = Flows::default();
        flows.add(APP);
        flows.add(APP);
        flows.remove(secs(10), APP);
        assert_eq!(flows.poll_timeout(), None, "one request is left");
        flows.remove(secs(20), APP);
        let at = secs(20) + Flows::IDLE;
        assert_eq!(flows.poll_timeout(), Some(at));
        assert_eq!(flows.poll_left(secs(500)), None);
        assert_eq!(flows.poll_left(at), Some(APP));
        assert_eq!((flows.poll_left(at), flows.poll_timeout()), (None, None));
    }

    #[test]
    fn a_new_request_keeps_it() {
        let mut flows = Flows::default();
        flows.add(APP);
        flows.remove(Time::ZERO, APP);
        flows.add(APP);
        assert_eq!((flows.poll_left(secs(5000)), flows.poll_timeout()), (None, None));
    }
}

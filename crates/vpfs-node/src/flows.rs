//! Which applications have requests at this server, and since when the others have none.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use vpfs_core::{AppId, Member, ShareId, Time};

use crate::coordination::FlowKey;
use crate::places::{NamedShare, Places};

/// What servers call an application in their reports to each other, the same at all of them, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppName<'a> {
    /// Its own name.
    pub name: &'a str,
    /// The share that it is in, with the weight that that has if the driver does not declare it.
    pub share: Option<NamedShare<'a>>,
}

impl<'a> From<&'a str> for AppName<'a> {
    /// At the top.
    fn from(name: &'a str) -> Self {
        Self { name, share: None }
    }
}

impl AppName<'_> {
    fn key(self) -> FlowKey {
        self.share.map_or_else(|| FlowKey::of(self.name), |share| FlowKey::of_member(share.path, self.name))
    }
}

/// Applications by the key that all servers use, and their presence.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
    by_key: HashMap<FlowKey, AppId>,
    pub(crate) places: Places,
    /// When to check whether an application has left; one entry for each that has had requests since it left. A request
    /// moves no entry: when an entry is due and the application was active in the meantime, the entry is put back.
    looks: BTreeSet<(Time, AppId)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    key: Option<FlowKey>,
    share: Option<ShareId>,
    /// Its requests go to the storage at once, whatever the policy says.
    exempt: bool,
    /// Requests queued or dispatched.
    pending: u32,
    /// When the latest request ended.
    idle_since: Time,
    /// When it will be checked.
    look: Option<Time>,
}

impl Flows {
    /// An application without requests for this long has left. Longer than the pauses between checkpoints of most
    /// applications: leaving and coming back costs a message to every peer.
    const IDLE: Duration = Duration::from_secs(600);

    /// Names an application; returns where it stands. The one before it may be gone then.
    pub(crate) fn name(&mut self, app: AppId, name: AppName<'_>) -> Option<ShareId> {
        let key = name.key();
        let share = name.share.and_then(|NamedShare { path, policy }| self.places.enter(path, policy.weight));
        let flow = self.flow(app);
        let (before, left) = (flow.key.replace(key), std::mem::replace(&mut flow.share, share));
        left.into_iter().for_each(|left| self.places.leave(left));
        if let Some(before) = before.filter(|before| *before != key && self.by_key.get(before) == Some(&app)) {
            self.by_key.remove(&before);
        }
        self.by_key.insert(key, app);
        share
    }

    pub(crate) fn set_exempt(&mut self, app: AppId, exempt: bool) {
        self.flow(app).exempt = exempt;
    }

    pub(crate) fn is_exempt(&self, app: AppId) -> bool {
        self.flows.get(app.index()).is_some_and(|flow| flow.exempt)
    }

    pub(crate) fn key(&self, app: AppId) -> Option<FlowKey> {
        self.flows.get(app.index())?.key
    }

    /// The key of a member's totals.
    pub(crate) fn key_of(&self, member: Member) -> Option<FlowKey> {
        match member {
            Member::App(app) => self.key(app),
            Member::Share(share) => self.places.key(share),
        }
    }

    /// Whose totals have this key.
    pub(crate) fn member(&self, key: FlowKey) -> Option<Member> {
        let share = || self.places.of_key(key).filter(|share| self.places.key(*share) == Some(key));
        self.app(key).map(Member::App).or_else(|| share().map(Member::Share))
    }

    /// An application and all that it is in.
    pub(crate) fn with_above(&self, app: AppId) -> impl Iterator<Item = Member> {
        let share = self.flows.get(app.index()).and_then(|flow| flow.share);
        [Member::App(app)].into_iter().chain(self.places.above(share).map(Member::Share))
    }

    /// The application with this key.
    pub(crate) fn app(&self, key: FlowKey) -> Option<AppId> {
        self.by_key.get(&key).copied()
    }

    /// A request arrived. O(1) except for the first one.
    pub(crate) fn add(&mut self, now: Time, app: AppId) {
        let flow = self.flow(app);
        flow.pending += 1;
        if flow.look.is_none() {
            self.look_at(app, now + Self::IDLE);
        }
    }

    /// A request ended. O(1).
    pub(crate) fn remove(&mut self, now: Time, app: AppId) {
        let flow = self.flow(app);
        flow.pending = flow.pending.checked_sub(1).expect("a request is over only once");
        flow.idle_since = now;
    }

    /// The application has left: it is not checked until it has a request again.
    pub(crate) fn forget(&mut self, app: AppId) {
        if let Some(at) = self.flow(app).look.take() {
            self.looks.remove(&(at, app));
        }
    }

    /// Whether it has no request queued or dispatched.
    pub(crate) fn is_idle(&self, app: AppId) -> bool {
        self.flows.get(app.index()).is_none_or(|flow| flow.pending == 0)
    }

    /// The next application that has had no request for a long time, if a check is due by `now`.
    pub(crate) fn poll_left(&mut self, now: Time) -> Option<AppId> {
        while let Some(&(at, app)) = self.looks.first().filter(|(at, _)| *at <= now) {
            self.looks.remove(&(at, app));
            let flow = self.flow(app);
            flow.look = None;
            let leaves = if flow.pending > 0 { now } else { flow.idle_since } + Self::IDLE;
            if leaves <= now {
                return Some(app);
            }
            self.look_at(app, leaves);
        }
        None
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.looks.first().map(|&(at, _)| at)
    }

    fn look_at(&mut self, app: AppId, at: Time) {
        let before = self.flow(app).look.replace(at);
        assert!(before.is_none(), "an application is looked at at one time");
        self.looks.insert((at, app));
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
        flows.add(secs(0), APP);
        flows.add(secs(0), APP);
        flows.remove(secs(10), APP);
        assert_eq!(flows.poll_left(secs(600)), None, "one request is left");
        flows.remove(secs(620), APP);
        assert_eq!(flows.poll_left(secs(1200)), None, "it had one until lately");
        assert_eq!(flows.poll_timeout(), Some(secs(1220)));
        assert_eq!(flows.poll_left(secs(1220)), Some(APP));
        assert_eq!((flows.poll_left(secs(1220)), flows.poll_timeout()), (None, None));
    }

    #[test]
    fn a_new_request_keeps_it() {
        let mut flows = Flows::default();
        flows.add(secs(0), APP);
        flows.remove(secs(0), APP);
        flows.add(secs(599), APP);
        assert_eq!(flows.poll_left(secs(5000)), None);
        flows.remove(secs(5001), APP);
        assert_eq!(flows.poll_left(secs(5600)), None);
        assert_eq!(flows.poll_timeout(), Some(secs(5601)));
    }

    #[test]
    fn an_application_that_returns_is_checked_again() {
        let mut flows = Flows::default();
        flows.add(secs(0), APP);
        flows.remove(secs(0), APP);
        flows.forget(APP);
        assert_eq!((flows.poll_left(secs(5000)), flows.poll_timeout()), (None, None));
        flows.add(secs(5000), APP);
        flows.remove(secs(5000), APP);
        assert_eq!(flows.poll_left(secs(5600)), Some(APP));
    }
}

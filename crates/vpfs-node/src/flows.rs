//! Which applications have requests at this server, and since when the others have none.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use vpfs_core::{AppId, Member, ShareId, SharePolicy, Time, Weight};

use crate::coordination::FlowKey;

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

    pub(crate) fn key_of(&self, member: Member) -> Option<FlowKey> {
        match member {
            Member::App(app) => self.key(app),
            Member::Share(share) => self.places.key(share),
        }
    }

    pub(crate) fn member(&self, key: FlowKey) -> Option<Member> {
        let share = || self.places.of_key(key).filter(|share| self.places.key(*share) == Some(key));
        self.app(key).map(Member::App).or_else(|| share().map(Member::Share))
    }

    /// An application and all that it is in.
    pub(crate) fn with_above(&self, app: AppId) -> impl Iterator<Item = Member> {
        let share = self.flows.get(app.index()).and_then(|flow| flow.share);
        [Member::App(app)].into_iter().chain(self.places.above(share).map(Member::Share))
    }

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

// Names of shares: paths such as `physics/alice`, and the numbers that schedulers know them by.
//
// A share exists while it is declared, or an application or another share is in it. Its number may be used again
// afterwards.

/// A share that the driver declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedShare<'a> {
    /// Its path: names separated by `/`, the one at the top first.
    pub path: &'a str,
    /// What is due to it. Where it stands follows from its path.
    pub policy: SharePolicy,
}

impl<'a> NamedShare<'a> {
    /// A share with this weight and nothing else.
    pub const fn new(path: &'a str, weight: Weight) -> Self {
        Self { path, policy: SharePolicy { weight, ..SharePolicy::NEW } }
    }
}

/// A share that an application is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InShare {
    /// Its path.
    pub path: Arc<str>,
    /// Its weight among those in the same share.
    pub weight: Weight,
}

/// The shares that exist.
#[derive(Debug, Default)]
pub(crate) struct Places {
    by_path: HashMap<Arc<str>, ShareId>,
    /// By the half of the keys of their members that is the same.
    by_half: HashMap<u32, ShareId>,
    /// By number.
    places: Vec<Option<Place>>,
    free: Vec<ShareId>,
    /// What the schedulers have not been told: shares that are new or different,
    changed: Vec<ShareId>,
    /// and those that are gone, with the keys of their totals.
    gone: Vec<(ShareId, FlowKey)>,
}

#[derive(Clone, Debug)]
struct Place {
    path: Arc<str>,
    policy: SharePolicy,
    is_declared: bool,
    /// The number of applications and shares in it.
    members: usize,
}

impl Places {
    /// At most so many shares exist; what would be in another one is in the one that that would be in.
    const MAX: usize = 4096;

    /// An application comes to `path`, which gets this weight if it is not declared. O(length).
    fn enter(&mut self, path: &str, weight: Weight) -> Option<ShareId> {
        let share = self.find_or_create(path)?;
        let place = self.place(share);
        place.members += 1;
        if *place.path == *path && !place.is_declared && place.policy.weight != weight {
            place.policy.weight = weight;
            self.changed.push(share);
        }
        Some(share)
    }

    fn leave(&mut self, share: ShareId) {
        self.place(share).members -= 1;
        self.free_unused(share);
    }

    /// Exactly these shares are declared from now on. O(shares).
    pub(crate) fn declare<'a>(&mut self, declared: impl Iterator<Item = NamedShare<'a>>) {
        let before: Vec<ShareId> = self.by_path.values().copied().collect();
        before.iter().for_each(|share| self.place(*share).is_declared = false);
        for NamedShare { path, policy } in declared {
            let Some(share) = self.find_or_create(path).filter(|share| *self.place(*share).path == *path) else {
                continue;
            };
            let place = self.place(share);
            place.is_declared = true;
            let policy = SharePolicy { parent: place.policy.parent, ..policy };
            if std::mem::replace(&mut place.policy, policy) != policy {
                self.changed.push(share);
            }
        }
        for share in before {
            self.lift_rates(share);
            self.free_unused(share);
        }
    }

    /// A share that is declared no longer has a weight only.
    fn lift_rates(&mut self, share: ShareId) {
        let place = self.place(share);
        let SharePolicy { weight, parent, .. } = place.policy;
        let policy = SharePolicy { weight, parent, ..SharePolicy::NEW };
        if !place.is_declared && std::mem::replace(&mut place.policy, policy) != policy {
            self.changed.push(share);
        }
    }

    /// The next share that is new or different. Call until `None` before an application is put into one.
    pub(crate) fn poll_changed(&mut self) -> Option<(ShareId, SharePolicy)> {
        let known = |share: ShareId| Some((share, self.places[share.index()].as_ref()?.policy));
        std::iter::from_fn(|| self.changed.pop()).find_map(known)
    }

    /// The next share that is gone. Call until `None` after an application was put into another one.
    pub(crate) fn poll_gone(&mut self) -> Option<(ShareId, FlowKey)> {
        let gone = self.gone.pop()?;
        self.free.push(gone.0);
        Some(gone)
    }

    fn above(&self, share: Option<ShareId>) -> impl Iterator<Item = ShareId> {
        std::iter::successors(share, |below| self.places.get(below.index())?.as_ref()?.policy.parent)
    }

    fn key(&self, share: ShareId) -> Option<FlowKey> {
        self.places.get(share.index())?.as_ref().map(|place| FlowKey::of_share(&place.path))
    }

    /// `share` and all that it is in, the one at the top first.
    pub(crate) fn way_to(&self, share: Option<ShareId>) -> Vec<InShare> {
        let place = |share: ShareId| self.places.get(share.index())?.as_ref();
        let up = std::iter::successors(share.and_then(place), |below| below.policy.parent.and_then(place));
        let mut way: Vec<_> =
            up.map(|place| InShare { path: Arc::clone(&place.path), weight: place.policy.weight }).collect();
        way.reverse();
        way
    }

    /// The share of which an application with this key is a member, also if it has never been here.
    pub(crate) fn of_key(&self, key: FlowKey) -> Option<ShareId> {
        self.by_half.get(&key.share_half()).copied()
    }

    /// The share at `path`, or the nearest above it if there are too many.
    fn find_or_create(&mut self, path: &str) -> Option<ShareId> {
        if let Some(&share) = self.by_path.get(path) {
            return Some(share);
        }
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        let mut parent = None;
        for end in ends.take(SharePolicy::DEPTH_MAX) {
            let path = &path[..end];
            let Some(share) = self.by_path.get(path).copied().or_else(|| self.create(path, parent)) else { break };
            parent = Some(share);
        }
        parent
    }

    fn create(&mut self, path: &str, parent: Option<ShareId>) -> Option<ShareId> {
        if self.by_path.len() >= Self::MAX {
            return None;
        }
        let share = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            ShareId(u32::try_from(self.places.len() - 1).expect("limited"))
        });
        let policy = SharePolicy { parent, ..SharePolicy::default() };
        let shared: Arc<str> = path.into();
        let place = Place { path: Arc::clone(&shared), policy, is_declared: false, members: 0 };
        self.places[share.index()] = Some(place);
        self.by_path.insert(shared, share);
        self.by_half.insert(FlowKey::of(path).share_half(), share);
        parent.into_iter().for_each(|parent| self.place(parent).members += 1);
        self.changed.push(share);
        Some(share)
    }

    /// Forgets `share` if nothing needs it any more, and so on to the top.
    fn free_unused(&mut self, share: ShareId) {
        let mut at = Some(share);
        while let Some(share) = at {
            let unused = self.places[share.index()].take_if(|place| place.members == 0 && !place.is_declared);
            let Some(Place { path, policy, .. }) = unused else { return };
            self.by_path.remove(&path);
            let half = FlowKey::of(&path).share_half();
            if self.by_half.get(&half) == Some(&share) {
                self.by_half.remove(&half);
            }
            self.gone.push((share, FlowKey::of_share(&path)));
            at = policy.parent;
            at.into_iter().for_each(|parent| self.place(parent).members -= 1);
        }
    }

    fn place(&mut self, share: ShareId) -> &mut Place {
        self.places[share.index()].as_mut().expect("it exists")
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

    fn weight(weight: u32) -> Weight {
        Weight::new(weight).unwrap()
    }

    /// What changed: numbers, weights and what they are in; and the numbers of those that are gone.
    type Drained = (Vec<(u32, u32, Option<u32>)>, Vec<u32>);

    fn drain(places: &mut Places) -> Drained {
        let of = |(share, policy): (ShareId, SharePolicy)| (share.0, policy.weight.get(), policy.parent.map(|up| up.0));
        let mut changed: Vec<_> = std::iter::from_fn(|| places.poll_changed().map(of)).collect();
        changed.sort_unstable();
        changed.dedup();
        (changed, std::iter::from_fn(|| places.poll_gone().map(|(share, _)| share.0)).collect())
    }

    #[test]
    fn a_share_exists_while_something_is_in_it_or_it_is_declared() {
        let mut places = Places::default();
        let declared = [NamedShare::new("physics", weight(3))];
        places.declare(declared.into_iter());
        assert_eq!(drain(&mut places), (vec![(0, 3, None)], vec![]));
        let alice = places.enter("physics/alice", Weight::ONE).unwrap();
        assert_eq!(drain(&mut places), (vec![(1, 1, Some(0))], vec![]));
        assert_eq!(places.enter("physics/alice", weight(2)), Some(alice));
        assert_eq!(places.enter("physics", weight(2)), Some(ShareId(0)), "declared: another weight does not count");
        assert_eq!(drain(&mut places), (vec![(1, 2, Some(0))], vec![]));
        places.leave(alice);
        places.declare(std::iter::empty());
        assert_eq!(drain(&mut places), (vec![], vec![]), "both are in use");
        places.leave(ShareId(0));
        places.leave(alice);
        assert_eq!(drain(&mut places), (vec![], vec![0, 1]));
        assert_eq!(places.enter("a/b/c", Weight::ONE), Some(ShareId(2)));
        assert_eq!(places.by_half.len(), 3);
    }

    #[test]
    fn depth_and_number_are_limited() {
        let mut places = Places::default();
        let deep = places.enter("1/2/3/4/5/6/7/8/9/10", weight(5)).unwrap();
        assert_eq!((deep, places.place(deep).path.to_string()), (ShareId(7), "1/2/3/4/5/6/7/8".to_owned()));
        (0..2 * Places::MAX).for_each(|user| _ = places.enter(&format!("1/user{user}"), Weight::ONE));
        assert_eq!(places.places.len(), Places::MAX);
        assert_eq!(places.enter("1/user", Weight::ONE), Some(ShareId(0)), "the one above");
        assert_eq!(places.enter("2", Weight::ONE), None, "the top");
        places.declare([NamedShare::new("2", weight(2))].into_iter());
    }
}

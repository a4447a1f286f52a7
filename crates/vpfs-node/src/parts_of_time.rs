//! Which part of the storage's time was due to each application, and which part it got.
//!
//! An application is *present* while any of its requests waits or is in the storage. At each moment it is *due* its
//! weight's part of the sum of the weights of those present, divided among present members where it shares the weight;
//! and it *gets* the part of the requests in the storage that are its own. Both are summed over time, so rates of these
//! sums are mean parts. What all got together is the time in which anything was in the storage.
//!
//! Nothing is done for each application when time passes: two clocks run at the rate of what one unit of weight is due,
//! and of what one request gets, and an application that changes notes by how much they advanced. O(1) for each input.

use std::time::Duration;

use vpfs_core::{AppId, AppPolicy, GroupId, Time};

/// Clocks count nanoseconds in parts of this many, so that nothing is lost by rounding.
const FRACTION: u32 = 16;

/// Time that passed at some rate, in parts of nanoseconds.
type Passed = u128;

/// The clocks, and what each application has of them.
#[derive(Debug, Default)]
pub(crate) struct PartsOfTime {
    clocks: Clocks,
    apps: Vec<App>,
    /// By group: the weight that its members share.
    groups: Vec<Weight>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    latest: Time,
    /// The sum of weights that anybody is present for.
    weights: u64,
    outstanding: u64,
    /// What a unit of weight was due.
    by_weight: Passed,
    /// What a request in the storage got.
    by_request: Passed,
    busy: Duration,
}

impl Clocks {
    fn at(mut self, now: Time) -> Self {
        let passed = now.since(self.latest);
        if !passed.is_zero() {
            let part = |of: u64| if of == 0 { 0 } else { (passed.as_nanos() << FRACTION) / u128::from(of) };
            self.by_weight += part(self.weights);
            self.by_request += part(self.outstanding);
            if self.outstanding > 0 {
                self.busy += passed;
            }
            self.latest = now;
        }
        self
    }
}

/// A weight that one application has, or the members of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    value: u32,
    /// Those present.
    members: u32,
    /// The clock when `by_member` was right.
    seen: Passed,
    /// What one of them was due.
    by_member: Passed,
}

impl Weight {
    fn at(mut self, clock: Passed) -> Self {
        if self.members > 0 {
            self.by_member += (clock - self.seen) * u128::from(self.value) / u128::from(self.members);
        }
        self.seen = clock;
        self
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct App {
    group: Option<GroupId>,
    /// Its own weight, if it has no group.
    weight: Weight,
    /// Requests that wait or are in the storage,
    present: u32,
    /// and those in the storage.
    outstanding: u32,
    /// What a member of its weight was due when it became present, ...
    since: Passed,
    /// ... and what a request got when `outstanding` changed.
    seen: Passed,
    due: Passed,
    got: Passed,
}

impl PartsOfTime {
    pub(crate) fn set_policy(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        let was_present = self.app(app).present > 0;
        if was_present {
            self.leave(now, app);
        }
        self.apps[app.index()].group = policy.group;
        if let Some(group) = policy.group
            && group.index() >= self.groups.len()
        {
            self.groups.resize(group.index() + 1, Weight::default());
        }
        let by_weight = self.clocks.at(now).by_weight;
        let weight = self.weight(app);
        // Other members may be present with the weight of before; it is the same for all from now on.
        let (before, members) = (weight.value, weight.members);
        *weight = Weight { value: policy.weight.get(), ..weight.at(by_weight) };
        if members > 0 {
            self.clocks = self.clocks.at(now);
            self.clocks.weights += u64::from(policy.weight.get());
            self.clocks.weights -= u64::from(before);
        }
        if was_present {
            self.join(now, app);
        }
    }

    /// What an application that is not present was due and got no longer counts.
    pub(crate) fn forget(&mut self, app: AppId) {
        let found = self.app(app);
        (found.due, found.got) = (0, 0);
    }

    pub(crate) fn on_enqueue(&mut self, now: Time, app: AppId) {
        let found = self.app(app);
        found.present += 1;
        if found.present == 1 {
            self.join(now, app);
        }
    }

    pub(crate) fn on_dispatch(&mut self, now: Time, app: AppId) {
        self.count(now, app);
        self.apps[app.index()].outstanding += 1;
        self.clocks.outstanding += 1;
    }

    /// A request no longer waits, or is no longer in the storage.
    pub(crate) fn on_gone(&mut self, now: Time, app: AppId, was_queued: bool) {
        if !was_queued {
            self.count(now, app);
            self.apps[app.index()].outstanding -= 1;
            self.clocks.outstanding -= 1;
        }
        let found = self.app(app);
        found.present -= 1;
        if found.present == 0 {
            self.leave(now, app);
        }
    }

    /// What was due to it, and what it got, until now.
    pub(crate) fn of(&self, now: Time, app: AppId) -> (Duration, Duration) {
        let Some(found) = self.apps.get(app.index()) else { return Default::default() };
        let clocks = self.clocks.at(now);
        let weight = found.group.map_or(found.weight, |group| self.groups[group.index()]).at(clocks.by_weight);
        let due = if found.present > 0 { weight.by_member - found.since } else { 0 };
        let got = (clocks.by_request - found.seen) * u128::from(found.outstanding);
        (duration(found.due + due), duration(found.got + got))
    }

    /// How long anything was in the storage, until now.
    pub(crate) fn busy(&self, now: Time) -> Duration {
        self.clocks.at(now).busy
    }

    fn join(&mut self, now: Time, app: AppId) {
        self.clocks = self.clocks.at(now);
        let clock = self.clocks.by_weight;
        let weight = self.weight(app);
        *weight = weight.at(clock);
        weight.members += 1;
        let (value, members, by_member) = (weight.value, weight.members, weight.by_member);
        if members == 1 {
            self.clocks.weights += u64::from(value);
        }
        self.apps[app.index()].since = by_member;
    }

    fn leave(&mut self, now: Time, app: AppId) {
        self.clocks = self.clocks.at(now);
        let clock = self.clocks.by_weight;
        let weight = self.weight(app);
        *weight = weight.at(clock);
        weight.members -= 1;
        let (value, members, by_member) = (weight.value, weight.members, weight.by_member);
        if members == 0 {
            self.clocks.weights -= u64::from(value);
        }
        let found = &mut self.apps[app.index()];
        found.due += by_member - found.since;
    }

    /// Adds what it got since its requests in the storage changed.
    fn count(&mut self, now: Time, app: AppId) {
        self.clocks = self.clocks.at(now);
        let clock = self.clocks.by_request;
        let found = self.app(app);
        found.got += (clock - found.seen) * u128::from(found.outstanding);
        found.seen = clock;
    }

    fn app(&mut self, app: AppId) -> &mut App {
        if app.index() >= self.apps.len() {
            let weight = Weight { value: AppPolicy::default().weight.get(), ..Weight::default() };
            self.apps.resize(app.index() + 1, App { weight, ..App::default() });
        }
        &mut self.apps[app.index()]
    }

    fn weight(&mut self, app: AppId) -> &mut Weight {
        let found = &mut self.apps[app.index()];
        match found.group {
            Some(group) => &mut self.groups[group.index()],
            None => &mut found.weight,
        }
    }
}

fn duration(passed: Passed) -> Duration {
    Duration::from_nanos(u64::try_from(passed >> FRACTION).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const A: AppId = AppId(0);
    const B: AppId = AppId(1);
    const C: AppId = AppId(2);

    fn weighted(weight: u32, group: Option<u32>) -> AppPolicy {
        let weight = vpfs_core::Weight::new(weight).expect("not zero");
        AppPolicy { group: group.map(GroupId), ..AppPolicy::weighted(weight) }
    }

    fn ms(parts: &PartsOfTime, now: u64, app: AppId) -> (u128, u128) {
        // Clocks round down.
        let round = |time: Duration| (time + MS / 2).as_millis();
        let (due, got) = parts.of(Time::from_millis(now), app);
        (round(due), round(got))
    }

    #[test]
    fn due_is_by_weight_of_those_present_and_got_by_requests_in_the_storage() {
        let (mut parts, at) = (PartsOfTime::default(), Time::from_millis);
        parts.set_policy(at(0), A, &weighted(3, None));
        parts.set_policy(at(0), B, &weighted(1, None));
        parts.on_enqueue(at(0), A);
        parts.on_dispatch(at(0), A);
        // Alone until 100 ms: all is due to it, and it gets all.
        parts.on_enqueue(at(100), B);
        assert_eq!((ms(&parts, 100, A), ms(&parts, 100, B)), ((100, 100), (0, 0)));
        // B waits until 200 ms; then each has one of two requests.
        parts.on_dispatch(at(200), B);
        assert_eq!((ms(&parts, 200, A), ms(&parts, 200, B)), ((175, 200), (25, 0)));
        parts.on_gone(at(300), A, false);
        assert_eq!((ms(&parts, 300, A), ms(&parts, 300, B)), ((250, 250), (50, 50)));
        parts.on_gone(at(400), B, false);
        assert_eq!((ms(&parts, 999, A), ms(&parts, 999, B)), ((250, 250), (150, 150)));
        assert_eq!(parts.busy(at(999)), 400 * MS);
    }

    #[test]
    fn members_of_a_group_divide_its_weight_and_a_changed_weight_counts_from_then_on() {
        let (mut parts, at) = (PartsOfTime::default(), Time::from_millis);
        parts.set_policy(at(0), A, &weighted(1, None));
        parts.set_policy(at(0), B, &weighted(1, Some(0)));
        parts.set_policy(at(0), C, &weighted(1, Some(0)));
        [A, B, C].into_iter().for_each(|app| parts.on_enqueue(at(0), app));
        assert_eq!([A, B, C].map(|app| ms(&parts, 400, app).0), [200, 100, 100]);
        parts.on_gone(at(400), C, true);
        assert_eq!([A, B, C].map(|app| ms(&parts, 800, app).0), [400, 300, 100]);
        for app in [B, C] {
            parts.set_policy(at(800), app, &weighted(3, Some(0)));
        }
        assert_eq!([A, B, C].map(|app| ms(&parts, 1200, app).0), [500, 600, 100]);
        assert_eq!(parts.busy(at(1200)), Duration::ZERO);
    }
}

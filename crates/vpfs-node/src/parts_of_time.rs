//! Which part of the storage's time was due to each application, and which part it got.
//!
//! An application is *present* while any of its requests waits or is in the storage, and a share while any application
//! in it is. At each moment an application is *due* its weight's part of the sum of the weights present beside it, of
//! what its share is due in the same way (nothing, if it is exempt: it does not take turns); and it *gets* the part of
//! the requests in the storage that are its own. Both are summed over time, so rates of these sums are mean parts. What
//! all got together is the time in which anything was in the storage.
//!
//! Nothing is done for each application when time passes: clocks run at the rate of what one request gets, and of what
//! one unit of weight is due, at the top and in each share, and an application that changes notes by how much they
//! advanced. O(depth) for an input with which an application comes or goes, O(1) for others.

use std::time::Duration;

use vpfs_core::{AppId, AppPolicy, ShareId, SharePolicy, Time};

/// Clocks count nanoseconds in parts of this many, so that nothing is lost by rounding.
const FRACTION: u32 = 16;

/// Time that passed at some rate, in parts of nanoseconds.
type Passed = u128;

/// The clocks, and what each application has of them.
#[derive(Debug, Default)]
pub(crate) struct PartsOfTime {
    clocks: Clocks,
    apps: Vec<App>,
    shares: Vec<Share>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    latest: Time,
    /// The sum of the weights present at the top.
    weights: u64,
    outstanding: u64,
    /// What a unit of weight was due there.
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

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    policy: SharePolicy,
    /// The sum of the weights present in it.
    weights: u64,
    /// The clock of what it is in when `by_weight` was right.
    seen: Passed,
    /// What a unit of weight in it was due.
    by_weight: Passed,
}

impl Share {
    /// When the clock of what it is in is at `outer`.
    fn at(mut self, outer: Passed) -> Self {
        if self.weights > 0 {
            self.by_weight += (outer - self.seen) * Passed::from(self.policy.weight.get()) / Passed::from(self.weights);
        }
        self.seen = outer;
        self
    }
}

#[derive(Clone, Copy, Debug)]
struct App {
    weight: u32,
    share: Option<ShareId>,
    /// Requests that wait or are in the storage,
    present: u32,
    /// and those in the storage.
    outstanding: u32,
    /// What a unit of its weight was due when it became present, ...
    since: Passed,
    /// ... and what a request got when `outstanding` changed.
    seen: Passed,
    due: Passed,
    got: Passed,
}

impl App {
    const NEW: Self = Self { weight: 1, share: None, present: 0, outstanding: 0, since: 0, seen: 0, due: 0, got: 0 };
}

impl PartsOfTime {
    pub(crate) fn set_policy(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        let was_present = self.app(app).present > 0;
        if was_present {
            self.leave(now, app);
        }
        let found = &mut self.apps[app.index()];
        let weight = if policy.exempt { 0 } else { policy.weight.get() };
        (found.weight, found.share) = (weight, policy.share);
        policy.share.into_iter().for_each(|share| _ = self.share(share));
        if was_present {
            self.join(now, app);
        }
    }

    pub(crate) fn set_share(&mut self, now: Time, share: ShareId, policy: SharePolicy) {
        policy.parent.into_iter().for_each(|parent| _ = self.share(parent));
        let Share { policy: before, weights, .. } = *self.share(share);
        self.advance(now, Some(share));
        if weights > 0 {
            self.exit(before.parent, before.weight.get());
        }
        self.shares[share.index()].policy = policy;
        self.shares[share.index()].seen = self.advance(now, policy.parent);
        if weights > 0 {
            self.enter(policy.parent, policy.weight.get());
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
        let due = if found.present > 0 { self.clock(&clocks, found.share) - found.since } else { 0 };
        let due = due * Passed::from(found.weight);
        let got = (clocks.by_request - found.seen) * u128::from(found.outstanding);
        (duration(found.due + due), duration(found.got + got))
    }

    /// The part of the storage's time that is due to it now, if it has requests; from 0 to 1. O(depth).
    pub(crate) fn part(&self, app: AppId) -> f64 {
        let App { mut weight, share: mut at, present, .. } = self.apps.get(app.index()).copied().unwrap_or(App::NEW);
        let (mut part, mut is_present) = (1.0, present > 0);
        loop {
            let of_share = at.and_then(|share| self.shares.get(share.index()));
            let beside = of_share.map_or(self.clocks.weights, |share| share.weights);
            let all = if is_present { beside } else { beside + u64::from(weight) };
            part *= f64::from(weight) / (all.max(1) as f64);
            let Some(share) = of_share else { return part };
            (weight, at, is_present) = (share.policy.weight.get(), share.policy.parent, share.weights > 0);
        }
    }

    /// How long anything was in the storage, until now.
    pub(crate) fn busy(&self, now: Time) -> Duration {
        self.clocks.at(now).busy
    }

    fn join(&mut self, now: Time, app: AppId) {
        let App { weight, share, .. } = self.apps[app.index()];
        self.apps[app.index()].since = self.advance(now, share);
        self.enter(share, weight);
    }

    fn leave(&mut self, now: Time, app: AppId) {
        let App { weight, share, .. } = self.apps[app.index()];
        let clock = self.advance(now, share);
        self.exit(share, weight);
        let found = &mut self.apps[app.index()];
        found.due += (clock - found.since) * Passed::from(weight);
    }

    /// What a unit of weight in `share`, or at the top, was due. O(depth).
    fn clock(&self, clocks: &Clocks, share: Option<ShareId>) -> Passed {
        let Some(share) = share else { return clocks.by_weight };
        let share = self.shares[share.index()];
        share.at(self.clock(clocks, share.policy.parent)).by_weight
    }

    /// The same, and sets all clocks on the way to the top: then the weights that are present may change.
    fn advance(&mut self, now: Time, share: Option<ShareId>) -> Passed {
        let Some(share) = share else {
            self.clocks = self.clocks.at(now);
            return self.clocks.by_weight;
        };
        let outer = self.advance(now, self.shares[share.index()].policy.parent);
        let share = &mut self.shares[share.index()];
        *share = share.at(outer);
        share.by_weight
    }

    /// Something of this weight is present in `share`, and with it `share` in what it is in, and so on.
    fn enter(&mut self, share: Option<ShareId>, weight: u32) {
        if weight == 0 {
            return;
        }
        let weights = self.weights(share);
        *weights += u64::from(weight);
        if let Some(share) = share.filter(|_| *weights == u64::from(weight)) {
            let SharePolicy { weight, parent, .. } = self.shares[share.index()].policy;
            self.enter(parent, weight.get());
        }
    }

    fn exit(&mut self, share: Option<ShareId>, weight: u32) {
        if weight == 0 {
            return;
        }
        let weights = self.weights(share);
        *weights -= u64::from(weight);
        if let Some(share) = share.filter(|_| *weights == 0) {
            let SharePolicy { weight, parent, .. } = self.shares[share.index()].policy;
            self.exit(parent, weight.get());
        }
    }

    fn weights(&mut self, share: Option<ShareId>) -> &mut u64 {
        share.map_or(&mut self.clocks.weights, |share| &mut self.shares[share.index()].weights)
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
            self.apps.resize(app.index() + 1, App::NEW);
        }
        &mut self.apps[app.index()]
    }

    fn share(&mut self, share: ShareId) -> &mut Share {
        if share.index() >= self.shares.len() {
            self.shares.resize(share.index() + 1, Share::default());
        }
        &mut self.shares[share.index()]
    }
}

fn duration(passed: Passed) -> Duration {
    Duration::from_nanos(u64::try_from(passed >> FRACTION).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use vpfs_core::Weight;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const A: AppId = AppId(0);
    const B: AppId = AppId(1);
    const C: AppId = AppId(2);

    fn weight(weight: u32) -> Weight {
        Weight::new(weight).expect("not zero")
    }

    fn weighted(value: u32, share: Option<u32>) -> AppPolicy {
        AppPolicy { share: share.map(ShareId), ..AppPolicy::weighted(weight(value)) }
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
    fn nothing_is_due_to_what_is_exempt() {
        let (mut parts, at) = (PartsOfTime::default(), Time::from_millis);
        parts.set_policy(at(0), A, &AppPolicy { exempt: true, ..weighted(9, Some(0)) });
        parts.set_policy(at(0), B, &weighted(1, None));
        [A, B].into_iter().for_each(|app| parts.on_enqueue(at(0), app));
        [A, B].into_iter().for_each(|app| parts.on_dispatch(at(0), app));
        assert_eq!([A, B].map(|app| ms(&parts, 400, app)), [(0, 200), (400, 200)]);
        assert_eq!([A, B].map(|app| parts.part(app)), [0.0, 1.0]);
        parts.on_gone(at(400), A, false);
        parts.set_policy(at(400), A, &weighted(1, None));
        assert_eq!(parts.part(A), 0.5);
    }

    #[test]
    fn those_in_a_share_divide_its_weight_and_a_changed_weight_counts_from_then_on() {
        let (mut parts, at) = (PartsOfTime::default(), Time::from_millis);
        parts.set_policy(at(0), A, &weighted(1, None));
        parts.set_policy(at(0), B, &weighted(1, Some(0)));
        parts.set_policy(at(0), C, &weighted(1, Some(0)));
        [A, B, C].into_iter().for_each(|app| parts.on_enqueue(at(0), app));
        assert_eq!([A, B, C].map(|app| ms(&parts, 400, app).0), [200, 100, 100]);
        parts.on_gone(at(400), C, true);
        assert_eq!([A, B, C].map(|app| ms(&parts, 800, app).0), [400, 300, 100]);
        parts.set_share(at(800), ShareId(0), SharePolicy { weight: weight(3), ..SharePolicy::default() });
        assert_eq!([A, B, C].map(|app| ms(&parts, 1200, app).0), [500, 600, 100]);
        assert_eq!(parts.busy(at(1200)), Duration::ZERO);
    }

    #[test]
    fn what_nobody_in_a_share_is_there_for_is_due_beside_it() {
        let (mut parts, at) = (PartsOfTime::default(), Time::from_millis);
        // A, beside a share of three times its weight with B in it, and a share with C in it.
        parts.set_policy(at(0), A, &weighted(1, None));
        parts.set_share(at(0), ShareId(0), SharePolicy { weight: weight(3), ..SharePolicy::default() });
        parts.set_share(at(0), ShareId(1), SharePolicy { parent: Some(ShareId(0)), ..SharePolicy::default() });
        parts.set_policy(at(0), B, &weighted(2, Some(0)));
        parts.set_policy(at(0), C, &weighted(9, Some(1)));
        assert_eq!([A, B, C].map(|app| parts.part(app)), [1.0; 3], "as if it alone had requests");
        [A, B, C].into_iter().for_each(|app| parts.on_enqueue(at(0), app));
        assert_eq!([A, B, C].map(|app| ms(&parts, 400, app).0), [100, 200, 100]);
        assert_eq!([A, B, C].map(|app| parts.part(app)), [0.25, 0.5, 0.25]);
        parts.on_gone(at(400), B, true);
        assert_eq!([A, B, C].map(|app| parts.part(app)), [0.25, 0.5, 0.75]);
        assert_eq!([A, B, C].map(|app| ms(&parts, 800, app).0), [200, 200, 400]);
        parts.on_gone(at(800), C, true);
        assert_eq!([A, B, C].map(|app| ms(&parts, 900, app).0), [300, 200, 400]);
    }
}

//! Nobody sees in which order storage serves what it has; what is seen is when each request leaves. So the time
//! between two departures is that of the request that leaves at its end, in equal parts with those that it overtakes:
//! the storage worked for them as well. Where requests are served one after another this is exact; where they are
//! served side by side, a long one has its part of the time in which shorter ones come and go. Each moment is used at
//! most once, so what all used is the storage's utilisation.
//!
//! A write that is sent in pieces is in the storage only while one of them is. How long one took is known of its last,
//! when the write leaves; until then, time that no other request used is set aside for it.
//!
//! A look divides what happened since the latest departure equally among those that are there, so that storage that
//! hangs is busy. O(log n) for each request where they leave nearly in order.

use std::collections::VecDeque;
use std::time::Duration;

use vpfs_core::{AppId, AppPolicy, ShareId, SharePolicy, Time};

use crate::in_storage::Leaving;

/// The requests in the storage, and what all used until the latest departure or look.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// Those that were sent whole, in the order of their dispatch.
    whole: VecDeque<(Time, AppId)>,
    in_pieces: usize,
    latest: Time,
    /// Time before `latest` that nothing but pieces can have used.
    set_aside: Duration,
    by_app: Vec<Duration>,
    all: Duration,
}

impl Used {
    /// The oldest of those that a request overtakes, who divide the time with it. More would only take time.
    const OVERTAKEN: u32 = 16;

    pub(crate) fn on_enter(&mut self, now: Time, app: AppId, in_pieces: bool) {
        if self.whole.is_empty() && self.in_pieces == 0 {
            (self.latest, self.set_aside) = (now, Duration::ZERO);
        }
        match in_pieces {
            true => self.in_pieces += 1,
            false => self.whole.push_back((now, app)),
        }
    }

    pub(crate) fn on_leave(&mut self, now: Time, leaving: &Leaving) {
        let Leaving { app, dispatched, pieces, .. } = *leaving;
        let since = std::mem::replace(&mut self.latest, now);
        if pieces > 1 {
            self.in_pieces -= 1;
            self.set_aside += now.since(since);
            let took = leaving.time(now).saturating_mul(pieces).min(self.set_aside);
            self.set_aside -= took;
            return self.add(app, took);
        }
        let from = self.whole.partition_point(|(at, _)| *at < dispatched);
        let found = self.whole.iter().skip(from).position(|(_, other)| *other == app);
        let index = from + found.expect("it is in the storage");
        self.whole.remove(index);
        let overtaken = Self::oldest_of(index);
        let entered = since.max(dispatched);
        self.divide(entered.since(since), overtaken);
        let part = now.since(entered) / (overtaken + 1);
        self.add(app, part);
        self.divide(part * overtaken, overtaken);
    }

    pub(crate) fn look(&mut self, now: Time) {
        if self.whole.is_empty() && self.in_pieces == 0 {
            return;
        }
        let since = std::mem::replace(&mut self.latest, now);
        self.divide(now.since(since), Self::oldest_of(self.whole.len()));
    }

    pub(crate) fn of(&self, app: AppId) -> Duration {
        self.by_app.get(app.index()).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Duration {
        self.all
    }

    pub(crate) fn forget(&mut self, app: AppId) {
        if let Some(used) = self.by_app.get_mut(app.index()) {
            *used = Duration::ZERO;
        }
    }

    fn oldest_of(count: usize) -> u32 {
        u32::try_from(count).map_or(Self::OVERTAKEN, |count| count.min(Self::OVERTAKEN))
    }

    /// Among so many of the oldest.
    fn divide(&mut self, time: Duration, oldest: u32) {
        if oldest == 0 {
            self.set_aside += time;
        }
        for index in 0..oldest as usize {
            self.add(self.whole[index].1, time / oldest);
        }
    }

    fn add(&mut self, app: AppId, time: Duration) {
        if app.index() >= self.by_app.len() {
            self.by_app.resize(app.index() + 1, Duration::ZERO);
        }
        self.by_app[app.index()] += time;
        self.all += time;
    }
}

// What its weight entitled each application to, of the storage's time.
//
// An application *asks* while any of its requests waits or is in the storage, and a share while any application in it
// does. At each moment an application is entitled to its weight's part of the sum of the weights of those that ask
// next to it, of what its share is entitled to in the same way (nothing, if it is exempt: it does not take turns). So
// all that is entitled adds up to the time in which anyone asked, and what one does not ask for is the others'.
//
// Nothing is done for each application when time passes: clocks run at the rate of what one unit of weight is entitled
// to, at the top and in each share, and an application that comes or goes notes by how much they advanced. O(depth)
// for an input with which an application comes or goes, O(1) for others.

/// Clocks count nanoseconds in parts of this many, so that nothing is lost by rounding.
const FRACTION: u32 = 16;

/// Time that passed at some rate, in parts of nanoseconds.
type Passed = u128;

#[derive(Debug, Default)]
pub(crate) struct Entitlements {
    clocks: Clocks,
    apps: Vec<App>,
    shares: Vec<Share>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    latest: Time,
    weights: u64,
    /// What a unit of weight was entitled to there.
    by_weight: Passed,
}

impl Clocks {
    fn at(mut self, now: Time) -> Self {
        if self.weights > 0 {
            self.by_weight += (now.since(self.latest).as_nanos() << FRACTION) / u128::from(self.weights);
        }
        self.latest = now;
        self
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    policy: SharePolicy,
    weights: u64,
    /// The clock of what it is in when `by_weight` was right.
    seen: Passed,
    /// What a unit of weight in it was entitled to.
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
    /// Requests that wait or are in the storage.
    present: u32,
    /// What a unit of its weight was entitled to when it began to ask.
    since: Passed,
    entitled: Passed,
}

impl App {
    const NEW: Self = Self { weight: 1, share: None, present: 0, since: 0, entitled: 0 };
}

impl Entitlements {
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

    pub(crate) fn forget(&mut self, app: AppId) {
        self.app(app).entitled = 0;
    }

    pub(crate) fn on_enqueue(&mut self, now: Time, app: AppId) {
        let found = self.app(app);
        found.present += 1;
        if found.present == 1 {
            self.join(now, app);
        }
    }

    pub(crate) fn on_gone(&mut self, now: Time, app: AppId) {
        let found = self.app(app);
        found.present -= 1;
        if found.present == 0 {
            self.leave(now, app);
        }
    }

    pub(crate) fn of(&self, now: Time, app: AppId) -> Duration {
        let Some(found) = self.apps.get(app.index()) else { return Duration::ZERO };
        let clocks = self.clocks.at(now);
        let passed = if found.present > 0 { self.clock(&clocks, found.share) - found.since } else { 0 };
        duration(found.entitled + passed * Passed::from(found.weight))
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
        found.entitled += (clock - found.since) * Passed::from(weight);
    }

    /// What a unit of weight in `share`, or at the top, was entitled to. O(depth).
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

    const A: AppId = AppId(0);
    const B: AppId = AppId(1);

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn leave(used: &mut Used, now: u64, app: AppId, dispatched: u64) {
        used.on_leave(at(now), &Leaving::whole(app, at(dispatched)));
    }

    fn ms(used: &Used) -> [u128; 3] {
        [used.of(A), used.of(B), used.all()].map(|time| time.as_millis())
    }

    #[test]
    fn where_one_is_served_after_another_each_has_used_what_it_took() {
        let mut used = Used::default();
        used.on_enter(at(0), A, false);
        used.on_enter(at(0), B, false);
        leave(&mut used, 40, A, 0);
        used.on_enter(at(40), A, false);
        leave(&mut used, 50, B, 0);
        assert_eq!(ms(&used), [40, 10, 50], "it waited for 40 of its 50 ms");
        leave(&mut used, 90, A, 40);
        used.on_enter(at(200), B, false);
        leave(&mut used, 210, B, 200);
        assert_eq!(ms(&used), [80, 20, 100], "and while there is nothing, nobody uses it");
    }

    #[test]
    fn what_is_overtaken_was_served_as_well() {
        let mut used = Used::default();
        used.on_enter(at(0), A, false);
        for round in 0..4 {
            used.on_enter(at(10 * round), B, false);
            leave(&mut used, 10 * (round + 1), B, 10 * round);
        }
        leave(&mut used, 40, A, 0);
        assert_eq!(ms(&used), [20, 20, 40]);
        used.on_enter(at(100), A, false);
        used.on_enter(at(130), B, false);
        leave(&mut used, 140, B, 130);
        assert_eq!(ms(&used), [55, 25, 80], "before the other came, it had all");
    }

    /// Bulk is held back by its pieces: four of 5 ms each, at a distance of 20 ms, and others in between.
    #[test]
    fn between_its_pieces_a_write_uses_nothing() {
        let mut used = Used::default();
        used.on_enter(at(0), A, true);
        for round in 0..3 {
            used.on_enter(at(20 * round + 8), B, false);
            leave(&mut used, 20 * round + 10, B, 20 * round + 8);
        }
        let paused = Duration::from_millis(60);
        used.on_leave(at(65), &Leaving { paused, pieces: 4, ..Leaving::whole(A, at(0)) });
        assert_eq!(ms(&used), [20, 6, 26]);
    }

    #[test]
    fn storage_that_hangs_is_busy() {
        let mut used = Used::default();
        used.on_enter(at(0), A, false);
        used.on_enter(at(0), B, false);
        used.look(at(1000));
        assert_eq!(ms(&used), [500, 500, 1000]);
        leave(&mut used, 1010, A, 0);
        used.look(at(1010));
        assert_eq!(ms(&used), [510, 500, 1010], "what was seen stays");
    }

    const MS: Duration = Duration::from_millis(1);
    const C: AppId = AppId(2);

    fn weight(weight: u32) -> Weight {
        Weight::new(weight).expect("not zero")
    }

    fn weighted(value: u32, share: Option<u32>) -> AppPolicy {
        AppPolicy { share: share.map(ShareId), ..AppPolicy::weighted(weight(value)) }
    }

    fn asking(apps: &[(AppId, AppPolicy)]) -> Entitlements {
        let mut entitled = Entitlements::default();
        apps.iter().for_each(|(app, policy)| entitled.set_policy(Time::ZERO, *app, policy));
        apps.iter().for_each(|(app, _)| entitled.on_enqueue(Time::ZERO, *app));
        entitled
    }

    fn entitled_ms<const N: usize>(entitled: &Entitlements, now: u64, apps: [AppId; N]) -> [u128; N] {
        // Clocks round down.
        apps.map(|app| (entitled.of(Time::from_millis(now), app) + MS / 2).as_millis())
    }

    #[test]
    fn those_that_ask_divide_the_time_by_weight() {
        let at = Time::from_millis;
        let mut entitled = asking(&[(A, weighted(3, None))]);
        entitled.set_policy(at(0), B, &weighted(1, None));
        // Alone until 100 ms, it is entitled to all.
        entitled.on_enqueue(at(100), B);
        assert_eq!(entitled_ms(&entitled, 100, [A, B]), [100, 0]);
        assert_eq!(entitled_ms(&entitled, 300, [A, B]), [250, 50]);
        entitled.on_gone(at(300), A);
        entitled.on_gone(at(400), B);
        assert_eq!(entitled_ms(&entitled, 999, [A, B]), [250, 150], "no more than the time in which anyone asked");
    }

    #[test]
    fn what_is_exempt_is_entitled_to_nothing() {
        let mut entitled = asking(&[(A, AppPolicy { exempt: true, ..weighted(9, Some(0)) }), (B, weighted(1, None))]);
        assert_eq!(entitled_ms(&entitled, 400, [A, B]), [0, 400]);
        entitled.set_policy(Time::from_millis(400), A, &weighted(1, None));
        assert_eq!(entitled_ms(&entitled, 600, [A, B]), [100, 500]);
    }

    #[test]
    fn those_in_a_share_divide_its_weight_and_a_changed_weight_counts_from_then_on() {
        let at = Time::from_millis;
        let mut entitled = asking(&[(A, weighted(1, None)), (B, weighted(1, Some(0))), (C, weighted(1, Some(0)))]);
        assert_eq!(entitled_ms(&entitled, 400, [A, B, C]), [200, 100, 100]);
        entitled.on_gone(at(400), C);
        assert_eq!(entitled_ms(&entitled, 800, [A, B, C]), [400, 300, 100]);
        entitled.set_share(at(800), ShareId(0), SharePolicy { weight: weight(3), ..SharePolicy::default() });
        assert_eq!(entitled_ms(&entitled, 1200, [A, B, C]), [500, 600, 100]);
    }

    #[test]
    fn what_nobody_in_a_share_asks_for_goes_to_those_next_to_it() {
        let (mut entitled, at) = (Entitlements::default(), Time::from_millis);
        // A, next to a share of three times its weight with B in it, and a share with C in that.
        entitled.set_policy(at(0), A, &weighted(1, None));
        entitled.set_share(at(0), ShareId(0), SharePolicy { weight: weight(3), ..SharePolicy::default() });
        entitled.set_share(at(0), ShareId(1), SharePolicy { parent: Some(ShareId(0)), ..SharePolicy::default() });
        entitled.set_policy(at(0), B, &weighted(2, Some(0)));
        entitled.set_policy(at(0), C, &weighted(9, Some(1)));
        [A, B, C].into_iter().for_each(|app| entitled.on_enqueue(at(0), app));
        assert_eq!(entitled_ms(&entitled, 400, [A, B, C]), [100, 200, 100]);
        entitled.on_gone(at(400), B);
        assert_eq!(entitled_ms(&entitled, 800, [A, B, C]), [200, 200, 400]);
        entitled.on_gone(at(800), C);
        assert_eq!(entitled_ms(&entitled, 900, [A, B, C]), [300, 200, 400]);
    }
}

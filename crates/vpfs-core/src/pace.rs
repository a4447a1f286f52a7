//! The pace of bulk: what servers measure for it, and what is decided for all of them; see [`crate::isolation`].

use alloc::vec::Vec;
use core::time::Duration;

use crate::units::{AppId, Time};

/// From one decision for several servers to the next. Twice as long as for one server, for the sake of traffic:
/// 725 B/s per application and server in the simulator, where at most 1 KB/s is wanted.
pub const SHARED_TICK: Duration = Duration::from_millis(100);

/// At what rate bulk goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// No limit: nobody is there to be protected, or no bulk.
    #[default]
    Free,
    /// Two requests in the storage, to see what bulk can get.
    First,
    /// Cost per second.
    At(f64),
}

/// What a server measured, by applications: `K` says which.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measure<K> {
    /// For how long.
    pub seconds: f64,
    /// Cost of bulk that was completed, in bytes.
    pub served: f64,
    /// Cost that the pace allowed and bulk did not use.
    pub lost: f64,
    /// How much of that although bulk had requests queued.
    pub blocked: f64,
    /// How much of it because bulk had nothing queued.
    pub unwanted: f64,
    /// For how many seconds bulk was held only because as much of it as may be was in the storage.
    pub full: f64,
    /// The usual cost of a request of bulk.
    pub usual: f64,
    /// For so many of the applications there is a minimum.
    pub minima: f64,
    /// The applications that are there.
    pub apps: Vec<AppMeasure<K>>,
}

/// What an application did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AppMeasure<K> {
    /// Which one.
    pub key: K,
    /// Its weight.
    pub weight: f64,
    /// Cost of its pending requests on average of late.
    pub footprint: f64,
    /// Cost that it is served in a tick, of late.
    pub got: f64,
    /// Requests completed.
    pub done: f64,
    /// Those of them that took longer than promised.
    pub late: f64,
    /// The integral of pending requests over time, in seconds.
    pub waited: f64,
    /// What it would be if each request took as long as the quickest one in the storage.
    pub stored: f64,
    /// Requests pending at the end, ...
    pub pending: f64,
    /// ... and how old they are on average, in seconds.
    pub age: f64,
    /// The longest wait that ended, in seconds.
    pub longest: f64,
    /// The most that were pending at a time, of late.
    pub clients: f64,
}

impl<K: Copy + Default + PartialEq> Measure<K> {
    /// The same over another name for each application; those that have none are left out.
    pub fn by<L>(&self, name: impl Fn(K) -> Option<L>) -> Measure<L> {
        let Self { seconds, served, lost, blocked, unwanted, full, usual, minima, .. } = *self;
        let app = |app: &AppMeasure<K>| {
            let AppMeasure {
                weight, footprint, got, done, late, waited, stored, pending, age, longest, clients, ..
            } = *app;
            let key = name(app.key)?;
            Some(AppMeasure { key, weight, footprint, got, done, late, waited, stored, pending, age, longest, clients })
        };
        Measure {
            seconds,
            served,
            lost,
            blocked,
            unwanted,
            full,
            usual,
            minima,
            apps: self.apps.iter().filter_map(app).collect(),
        }
    }

    /// The same server's next one. O(applications²).
    pub fn add(&mut self, next: Self) {
        self.seconds += next.seconds;
        self.served += next.served;
        self.lost += next.lost;
        self.blocked += next.blocked;
        self.unwanted += next.unwanted;
        self.full += next.full;
        (self.usual, self.minima) = (next.usual, next.minima);
        for mut app in next.apps {
            match self.apps.iter_mut().find(|of| of.key == app.key) {
                Some(of) => {
                    app.done += of.done;
                    app.late += of.late;
                    app.waited += of.waited;
                    app.stored += of.stored;
                    app.longest = app.longest.max(of.longest);
                    *of = app;
                }
                None => self.apps.push(app),
            }
        }
    }

    /// What all servers measured, as the mean of those with bulk, but the least that is unwanted and the longest that
    /// it is full; what applications did is a sum. O(applications²).
    pub fn of_all<'a>(all: impl Iterator<Item = &'a Self> + Clone) -> Self
    where
        K: 'a,
    {
        let mut sum = Self { unwanted: f64::INFINITY, ..Self::default() };
        let largest = |of: &Self| of.apps.iter().map(|app| app.footprint).fold(0.0, f64::max);
        let most = all.clone().map(largest).fold(0.0, f64::max);
        let (mut servers, mut with_bulk) = (0.0, 0.0);
        for of in all {
            servers += 1.0;
            sum.seconds += of.seconds;
            sum.minima = sum.minima.max(of.minima);
            // Where little is pending, bulk is not slowed down by its pace.
            if largest(of) >= most / 8.0 {
                with_bulk += 1.0;
                sum.served += of.served;
                sum.lost += of.lost;
                sum.blocked += of.blocked;
                sum.unwanted = sum.unwanted.min(of.unwanted);
                sum.full = sum.full.max(of.full);
                sum.usual = sum.usual.max(of.usual);
            }
            for app in &of.apps {
                match sum.apps.iter_mut().find(|sum| sum.key == app.key) {
                    Some(sum) => sum.join(app),
                    None => sum.apps.push(*app),
                }
            }
        }
        for app in &mut sum.apps {
            app.clients = app.clients.max(app.pending);
        }
        let (servers, with_bulk) = (f64::max(servers, 1.0), f64::max(with_bulk, 1.0));
        sum.seconds /= servers;
        sum.unwanted = if sum.unwanted.is_finite() { sum.unwanted } else { 0.0 };
        [&mut sum.served, &mut sum.lost, &mut sum.blocked].into_iter().for_each(|of| *of /= with_bulk);
        sum
    }
}

impl AppMeasure<u64> {
    /// Many as if they were one, at the same server.
    pub(crate) fn of_many(all: &[Self]) -> Self {
        let none = Self { key: u64::MAX, ..Self::default() };
        all.iter().fold(none, |mut sum, app| {
            let (weight, clients) = (sum.weight + app.weight, sum.clients + app.clients);
            sum.join(app);
            Self { weight, clients, ..sum }
        })
    }
}

impl<K> AppMeasure<K> {
    /// What the same application did elsewhere at the same time.
    fn join(&mut self, other: &Self) {
        let pending = self.pending + other.pending;
        if pending > 0.0 {
            self.age = (self.age * self.pending + other.age * other.pending) / pending;
        }
        self.pending = pending;
        self.footprint += other.footprint;
        self.got += other.got;
        self.done += other.done;
        self.late += other.late;
        self.waited += other.waited;
        self.stored += other.stored;
        self.weight = self.weight.max(other.weight);
        self.longest = self.longest.max(other.longest);
        self.clients = self.clients.max(other.clients);
    }
}

/// How bulk goes, and who that is.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<K> {
    /// At each server.
    pub pace: Pace,
    /// How many times the window is as large as usual.
    pub wide: f64,
    /// The most that bulk was served at a server of late, in cost per second.
    pub most: f64,
    /// The best rate known, 0 if none is.
    pub best: f64,
    /// The largest footprint, over all servers.
    pub largest: f64,
    /// Applications that are bulk, in order.
    pub bulk: Vec<K>,
    /// Those that are not, in order. Of any other one, nothing is decided yet.
    pub interactive: Vec<K>,
}

impl<K> Default for Decision<K> {
    fn default() -> Self {
        Self {
            pace: Pace::Free,
            wide: 1.0,
            most: 0.0,
            best: 0.0,
            largest: 0.0,
            bulk: Vec::new(),
            interactive: Vec::new(),
        }
    }
}

/// What a rate of bulk was recently worth, relative to the best one.
#[derive(Clone, Debug, PartialEq)]
pub struct TriedRate<K> {
    /// Cost per second at each server.
    pub rate: f64,
    /// What bulk was served.
    pub bulk: f64,
    /// How fast the others went, if they were seen there.
    pub speeds: Vec<(K, f64)>,
}

impl<K: Copy> TriedRate<K> {
    /// The same over another name for each application; those that have none are left out.
    pub fn by<L>(&self, name: impl Fn(K) -> Option<L>) -> TriedRate<L> {
        let speeds = self.speeds.iter().filter_map(|(key, speed)| Some((name(*key)?, *speed)));
        TriedRate { rate: self.rate, bulk: self.bulk, speeds: speeds.collect() }
    }
}

/// A pace of bulk that is decided for several servers together.
pub trait Pacing {
    /// Whether it is decided outside.
    fn set_shared(&mut self, now: Time, is_shared: bool);

    /// What is measured from now on is for another decision.
    fn end_tick(&mut self, now: Time);

    /// What was measured since the last time, if a tick has ended; only while it is decided outside.
    fn poll_measure(&mut self) -> Option<Measure<AppId>>;

    /// What holds from now on. O(applications).
    fn follow(&mut self, now: Time, decision: Decision<AppId>);
}

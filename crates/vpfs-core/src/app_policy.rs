//! The parameters of one application at one server.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::request::Target;
use crate::total::{Scope, TotalKind};
use crate::units::{Bytes, Weight};

/// An application's share, limit and promises at one server; the default is weight 1 and nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppPolicy {
    /// Its part, relative to the others in the same share.
    pub weight: Weight,
    /// Where it stands in the tree of shares; `None` at the top.
    pub share: Option<ShareId>,
    /// The upper limit on its rate.
    pub cap: Option<Cap>,
    /// What it is promised, by policies with deadlines; `None` for no promise.
    pub target: Option<Target>,
    /// The least that it gets, by policies that keep minima.
    pub minimum: Option<Minimum>,
    /// The latency that nine in ten of its requests should meet while it asks for less than its share, for policies
    /// that isolate; `None` for the lowest latency possible.
    pub latency: Option<Duration>,
    /// The number that determines its place in each window among the applications that are served one after another,
    /// the same at every server [IOCO §3]; see [`crate::ioco::place_in`]. `None` for that of its
    /// [`AppId`](crate::AppId).
    pub order: Option<u16>,
    /// Its requests never wait, and no policy sees them: what drives a policy passes them by it.
    pub exempt: bool,
}

impl Default for AppPolicy {
    fn default() -> Self {
        Self {
            weight: Weight::ONE,
            share: None,
            cap: None,
            target: None,
            minimum: None,
            latency: None,
            order: None,
            exempt: false,
        }
    }
}

impl AppPolicy {
    /// What of it is for the sum over all servers, in bytes per second.
    pub fn totals(&self) -> impl Iterator<Item = (TotalKind, u64)> {
        totals(self.cap, self.target, self.minimum)
    }

    /// The time that it is promised for its requests, its deadline or its latency.
    pub fn promised_time(&self) -> Option<Duration> {
        self.target.map(|target| target.deadline).or(self.latency)
    }

    /// This weight and nothing else.
    pub fn weighted(weight: Weight) -> Self {
        Self { weight, ..Self::default() }
    }
}

/// An inner node of the tree of shares: its weight is divided among the applications and shares in it. The driver
/// numbers shares from 0, and uses numbers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareId(pub u32);

impl ShareId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The parameters of a share; the default is weight 1 at the top, which a share has until it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharePolicy {
    /// Its part, relative to the others in the same share.
    pub weight: Weight,
    /// The share that it is in; `None` at the top. The driver sees to it that no share is in itself.
    pub parent: Option<ShareId>,
    /// The upper limit on the rate of all in it together.
    pub cap: Option<Cap>,
    /// The least that all in it get together, by policies that keep minima. What one gets for its own minimum counts.
    pub minimum: Option<Minimum>,
}

impl SharePolicy {
    /// At the top, and nothing else.
    pub const NEW: Self = Self { weight: Weight::ONE, parent: None, cap: None, minimum: None };

    /// An application is in at most this many shares, each in the next.
    pub const DEPTH_MAX: usize = 8;

    /// What of it is for the sum over all servers, in bytes per second.
    pub fn totals(&self) -> impl Iterator<Item = (TotalKind, u64)> {
        totals(self.cap, None, self.minimum)
    }
}

impl Default for SharePolicy {
    fn default() -> Self {
        Self::NEW
    }
}

fn totals(
    cap: Option<Cap>,
    target: Option<Target>,
    minimum: Option<Minimum>,
) -> impl Iterator<Item = (TotalKind, u64)> {
    let cap = cap.map(|cap| (cap.scope, cap.bytes_per_second()));
    let target = target.map(|target| (target.scope, target.rate.0));
    let minimum = minimum.map(|minimum| (minimum.scope, minimum.rate.0));
    let all = [(TotalKind::Cap, cap), (TotalKind::Target, target), (TotalKind::Minimum, minimum)];
    all.into_iter().filter_map(|(kind, rate)| match rate {
        Some((Scope::Total, rate)) => Some((kind, rate)),
        _ => None,
    })
}

/// An upper limit on a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    bytes_per_second: NonZeroU64,
    burst: Bytes,
    scope: Scope,
}

impl Cap {
    /// At each server, `bytes_per_second` in the long run, with up to `burst` at once after a pause. `None` if the rate
    /// is zero.
    pub const fn new(bytes_per_second: u64, burst: Bytes) -> Option<Self> {
        match NonZeroU64::new(bytes_per_second) {
            Some(bytes_per_second) => Some(Self { bytes_per_second, burst, scope: Scope::Server }),
            None => None,
        }
    }

    /// The same for the sum over all servers.
    #[must_use]
    pub const fn over_all_servers(self) -> Self {
        Self { scope: Scope::Total, ..self }
    }

    /// For what it is.
    pub const fn scope(self) -> Scope {
        self.scope
    }

    /// The rate in the long run.
    pub const fn bytes_per_second(self) -> u64 {
        self.bytes_per_second.get()
    }

    /// How much may be had at once after a pause.
    pub const fn burst(self) -> Bytes {
        self.burst
    }
}

/// A rate that somebody gets at least, as long as it is asked for, see [`crate::isolation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minimum {
    /// Bytes per second, at least 1.
    pub rate: Bytes,
    /// For what it is.
    pub scope: Scope,
}

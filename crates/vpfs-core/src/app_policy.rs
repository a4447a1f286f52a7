//! What a scheduler is told of one application.

use core::time::Duration;

use crate::cap::Cap;
use crate::request::Target;
use crate::units::Weight;

/// An application's share, limit and promises at one server; the default is weight 1 and nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppPolicy {
    /// Its share.
    pub weight: Weight,
    /// The most it gets.
    pub cap: Option<Cap>,
    /// What it is promised, by policies with deadlines.
    pub target: Option<Target>,
    /// What nine in ten of its requests are to keep, by policies that isolate.
    pub latency: Option<Duration>,
    /// Its place among those that are served one after another, the same at every server.
    pub order: u16,
}

impl Default for AppPolicy {
    fn default() -> Self {
        Self { weight: Weight::ONE, cap: None, target: None, latency: None, order: 0 }
    }
}

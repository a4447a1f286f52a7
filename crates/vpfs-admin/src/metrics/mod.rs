//! Metrics in the text formats of Prometheus. docs/guide/watching.md tells what to do with them.

mod apps;
mod family;
mod histogram;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text, text};
use prometheus_client::registry::{Registry, Unit};
use vpfs_core::Time;
use vpfs_proxy::Status;

use family::Family;

/// What the one who asks understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0, which Prometheus asks for.
    OpenMetrics,
    /// Prometheus 0.0.4, which everybody understands.
    Prometheus,
}

impl Format {
    /// The format for what a client accepts, by its header of that name.
    pub(crate) fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// All metrics of a daemon, with the names of pushed sets and how long each still holds. O(servers × applications), a
/// millisecond for some dozens.
pub fn text(status: Status, sets: Vec<(String, Duration)>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Start(status.started)));
    let registry_of_vpfs = registry.sub_registry_with_prefix("vpfs");
    registry_of_vpfs.register_collector(Box::new(Daemon(Arc::new(status))));
    registry_of_vpfs.register_collector(Box::new(PushedSets(sets)));
    let mut text = String::new();
    let encoded = match format {
        Format::OpenMetrics => text::encode(&mut text, &registry),
        Format::Prometheus => prometheus_text::encode(&mut text, &registry),
    };
    encoded.expect("a String takes everything");
    text
}

/// By the name that each exporter has for it, by which Prometheus and its users see that counters began anew, also
/// where they are higher already than before.
#[derive(Debug)]
struct Start(Time);

impl Collector for Start {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let family = Family::gauge("process_start_time", Some(Unit::Seconds), "Start, since 1970; counters begin then");
        let since_1970 = self.0.since(Time::ZERO).as_secs_f64();
        family.put(&mut family.open(&mut encoder)?, &[], since_1970)
    }
}

/// Falls below its usual values when an owner that pushes periodically, such as the agent of Slurm, is gone.
static SET_LEFT: Family = Family::gauge(
    "pushed_set_left",
    Some(Unit::Seconds),
    "Time for which the pushed set holds unless its owner pushes it again",
);

#[derive(Debug)]
struct PushedSets(Vec<(String, Duration)>);

impl Collector for PushedSets {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut metric = SET_LEFT.open(&mut encoder)?;
        self.0.iter().try_for_each(|(set, left)| SET_LEFT.put(&mut metric, &[("set", set)], left.as_secs_f64()))
    }
}

#[derive(Debug)]
struct Daemon(Arc<Status>);

impl Collector for Daemon {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        servers::encode(&self.0, &mut encoder)?;
        apps::encode(&self.0, &mut encoder)
    }
}

#[cfg(test)]
mod tests;

//! Metrics in the text formats of Prometheus. docs/guide/metrics.md tells what to do with them.

mod apps;
mod family;
mod histogram;
mod servers;

use std::sync::Arc;

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

/// All metrics of a daemon. O(servers × applications), a millisecond for some dozens.
pub fn text(status: Status, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Start(status.started)));
    registry.sub_registry_with_prefix("vpfs").register_collector(Box::new(Daemon(Arc::new(status))));
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

//! One metric and its series.

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// The labels of one series.
pub(super) type Labels<'a> = [(&'static str, &'a str)];

/// A metric, and its value for one `S`.
pub(super) type Measured<S, V = f64> = (Family, fn(&S) -> V);

/// A metric without its values. Its name gets the prefix `vpfs_` and its unit, and a counter `_total`.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) unit: Option<Unit>,
    pub(super) kind: MetricType,
    pub(super) help: &'static str,
}

impl Family {
    pub(super) const fn counter(name: &'static str, unit: Option<Unit>, help: &'static str) -> Self {
        Self { name, unit, kind: MetricType::Counter, help }
    }

    pub(super) const fn gauge(name: &'static str, unit: Option<Unit>, help: &'static str) -> Self {
        Self { name, unit, kind: MetricType::Gauge, help }
    }

    /// Head of the metric; its series follow at once.
    pub(super) fn open<'a>(
        &'a self,
        encoder: &'a mut DescriptorEncoder<'_>,
    ) -> Result<MetricEncoder<'a>, std::fmt::Error> {
        encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), self.kind)
    }

    /// One series.
    pub(super) fn put(&self, encoder: &mut MetricEncoder<'_>, labels: &Labels<'_>, value: f64) -> std::fmt::Result {
        let mut series = encoder.encode_family(&labels)?;
        match self.kind {
            MetricType::Counter => series.encode_counter::<NoLabelSet, f64, f64>(&value, None),
            _ => series.encode_gauge(&value),
        }
    }
}

/// The series of each metric of `table`, one for each of `all` that has a value, with its name as `label`.
pub(super) fn put_all<S>(
    table: &[Measured<S, Option<f64>>],
    encoder: &mut DescriptorEncoder<'_>,
    all: &[S],
    (label, name): (&'static str, fn(&S) -> &str),
) -> std::fmt::Result {
    for (family, value) in table {
        let mut metric = family.open(encoder)?;
        for one in all {
            if let Some(value) = value(one) {
                family.put(&mut metric, &[(label, name(one))], value)?;
            }
        }
    }
    Ok(())
}

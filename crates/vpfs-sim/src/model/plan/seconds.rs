//! Durations in JSON are seconds.

use std::time::Duration;

use serde::Serialize;

/// A duration as a number of seconds.
pub(crate) fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

/// As [`seconds`], or null.
pub(crate) fn optional_seconds<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

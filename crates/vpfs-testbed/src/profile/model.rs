//! A device model as storage to measure: known results, without waiting.

use std::time::Duration;

use vpfs_core::hash::mix;
use vpfs_core::{Bytes, OpKind, Time};
use vpfs_sim::model::device::{DeviceProfile, Io, IoKind};

use crate::profile::fit::Measurement;
use crate::profile::measure::measure;
use crate::profile::{Point, Probe, ProfileError, Series, Storage, TimedStorage};

/// A device model, newly created for each point and measured in its own time.
#[derive(Clone, Debug)]
pub struct ModelStorage(
    /// The model.
    pub DeviceProfile,
);

/// Accesses for each point: with fixed seeds, enough to locate the knee of the papers' disk.
const ACCESSES: u32 = 2_000;
/// Range of the accesses in bytes.
const SPAN: Bytes = Bytes::mib(64 << 10);

impl Storage for ModelStorage {
    fn is_writable(&self) -> bool {
        true
    }

    fn measure(&mut self, point: Point, _time: Duration) -> Result<Measurement, ProfileError> {
        let kind = if point.op == OpKind::Read { IoKind::Read } else { IoKind::Write };
        Ok(measure(&self.0, kind, point.size, point.outstanding, ACCESSES, SPAN))
    }
}

impl TimedStorage for ModelStorage {
    fn probes(&self) -> Vec<Probe> {
        vec![Probe::Read, Probe::Write]
    }

    fn times(&mut self, series: Series) -> Result<Vec<Duration>, ProfileError> {
        let kind = if series.probe == Probe::Write { IoKind::Write } else { IoKind::Read };
        let (mut device, mut now) = (self.0.build(), Time::ZERO);
        let places = SPAN.saturating_sub(series.size).0 / 4096 + 1;
        let object = u64::from(series.repetition) + 1;
        let mut times = Vec::new();
        // The first access finds the head elsewhere.
        for number in 0..=u64::from(series.most) {
            let offset = mix(mix(object) ^ number) % places * 4096;
            device.submit(now, Io { kind, object, offset, len: series.size.0 });
            let begin = now;
            while let Some(next) = device.poll_timeout() {
                now = next.max(now);
                if let Some(completion) = device.poll_completed(now) {
                    times.extend((number > 0).then(|| completion.at.since(begin)));
                    break;
                }
            }
        }
        Ok(times)
    }
}

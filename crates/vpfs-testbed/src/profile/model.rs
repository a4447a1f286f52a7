//! A device model as storage to measure: known results, without waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use vpfs_core::hash::mix;
use vpfs_core::{Bytes, OpKind, Time};
use vpfs_sim::model::device::{DeviceProfile, Io, IoKind};

use crate::profile::fit::Measurement;
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

/// Measures accesses of `size` bytes at random multiples of 4 KiB in a file of `span` bytes, `outstanding` at a time,
/// until `accesses` are done.
///
/// The device starts new and idle. Calls the model O(accesses) times.
///
/// # Panics
/// If `outstanding`, `accesses` or `size` is zero, as there would be nothing to measure.
pub fn measure(
    device: &DeviceProfile,
    kind: IoKind,
    size: Bytes,
    outstanding: u32,
    accesses: u32,
    span: Bytes,
) -> Measurement {
    assert!(outstanding > 0 && accesses > 0 && size > Bytes::ZERO, "there is nothing to measure");
    let (mut device, mut now) = (device.build(), Time::ZERO);
    let (mut begins, mut submitted, mut done, mut waited) = (BTreeMap::new(), 0, 0, Duration::ZERO);
    let places = span.saturating_sub(size).0 / 4096 + 1;
    while done < accesses {
        while begins.len() < outstanding as usize {
            let io = Io { kind, object: 1, offset: mix(submitted) % places * 4096, len: size.0 };
            begins.insert(device.submit(now, io), now);
            submitted += 1;
        }
        now = device.poll_timeout().map_or(now, |next| next.max(now));
        while let Some(completion) = device.poll_completed(now) {
            waited += begins.remove(&completion.id).map_or(Duration::ZERO, |begin| completion.at.since(begin));
            done += 1;
        }
    }
    let moved = u128::from(done) * u128::from(size.0) * 1_000_000_000;
    let throughput = moved.checked_div(u128::from(now.as_nanos())).unwrap_or(u128::MAX);
    Measurement {
        size,
        outstanding,
        throughput: Bytes(u64::try_from(throughput).unwrap_or(u64::MAX)),
        mean_latency: waited / done,
    }
}

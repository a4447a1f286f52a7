//! Measures a device model in its own time, as `vpfs profile` measures real storage.

use std::collections::BTreeMap;
use std::time::Duration;

use vpfs_core::hash::mix;
use vpfs_core::{Bytes, Time};
use vpfs_sim::model::device::{DeviceProfile, Io, IoKind};

use crate::profile::fit::Measurement;

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

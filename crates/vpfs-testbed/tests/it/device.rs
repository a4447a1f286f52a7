//! The driver of device models, in tokio's paused time and in real time.

use std::time::Duration;

use vpfs_model::device::{DeviceProfile, Io, IoKind};
use vpfs_testbed::device::{DeviceClock, DeviceHandle};

fn read(object: u64, offset: u64, len: u64) -> Io {
    Io { kind: IoKind::Read, object, offset, len }
}

#[tokio::test(start_paused = true)]
async fn the_driver_follows_paused_time() {
    let device = DeviceHandle::start(&DeviceProfile::hdd(), DeviceClock::Tokio);
    let begin = tokio::time::Instant::now();
    let first = device.submit(read(1, 0, 4096));
    let second = device.submit(read(2, 0, 4096));
    assert_eq!(device.outstanding(), 2);
    tokio::join!(first, second);
    let took = begin.elapsed();
    assert!((Duration::from_millis(10)..Duration::from_millis(45)).contains(&took), "{took:?}");
    assert_eq!(device.outstanding(), 0);
}

#[tokio::test]
async fn the_precise_driver_keeps_flash_latency() {
    let device = DeviceHandle::start(&DeviceProfile::ssd(), DeviceClock::Precise);
    let begin = std::time::Instant::now();
    for i in 0..100 {
        device.submit(read(1, i << 12, 4096)).await;
    }
    let mean = begin.elapsed() / 100;
    assert!(mean >= Duration::from_micros(95), "{mean:?}");
    // A loaded machine may be late, but not by the millisecond of tokio's timer each time.
    assert!(mean < Duration::from_millis(10), "{mean:?}");
}

//! The driver of device models, in tokio's paused time and in real time.

use std::time::Duration;

use proptest::prelude::*;
use vpfs_sim::model::device::{DeviceProfile, Io, IoKind};
use vpfs_testbed::storage::{DeviceClock, DeviceHandle, MemoryStore, OBJECT_BYTES_MAX, StoreError};

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

/// What is done to an object, at an offset and with a length that span several chunks.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Truncate,
    Read,
    Remove,
}

fn step() -> impl Strategy<Value = (Step, usize, u64, usize)> {
    let what =
        prop_oneof![4 => Just(Step::Write), 2 => Just(Step::Truncate), 4 => Just(Step::Read), 1 => Just(Step::Remove)];
    (what, 0..3_usize, 0..300_000_u64, 0..200_000_usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Compares with the slow, obvious store.
    #[test]
    fn memory_equals_the_oracle(steps in proptest::collection::vec(step(), 1..30)) {
        let (store, mut oracle) = (MemoryStore::new(u64::MAX), [const { Vec::new() }; 3]);
        for (number, (what, object, offset, len)) in steps.into_iter().enumerate() {
            let (bytes, id, at) = (&mut oracle[object], object as u64, offset as usize);
            match what {
                Step::Write => {
                    let data: Vec<u8> = (0..len).map(|i| (number * 7 + i) as u8).collect();
                    store.write(id, offset, &data).unwrap();
                    if len > 0 {
                        bytes.resize(bytes.len().max(at + len), 0);
                        bytes[at..at + len].copy_from_slice(&data);
                    }
                }
                Step::Truncate => {
                    store.truncate(id, offset).unwrap();
                    bytes.resize(at, 0);
                }
                Step::Read => {
                    let expected: Vec<u8> = bytes.iter().skip(at).take(len).copied().collect();
                    prop_assert!(store.read(id, offset, len) == expected);
                }
                Step::Remove => {
                    store.remove(id);
                    bytes.clear();
                }
            }
            prop_assert_eq!(store.size(id), bytes.len() as u64);
        }
        for (id, bytes) in (0..).zip(&oracle) {
            prop_assert!(store.read(id, 0, usize::MAX) == *bytes);
            store.remove(id);
        }
        prop_assert_eq!(store.usage().used, 0);
    }
}

#[test]
fn memory_is_bounded() {
    let store = MemoryStore::new(200_000);
    let data = vec![7; 100_000];
    store.write(1, 0, &data).unwrap();
    let full = store.write(2, 0, &vec![1; 1_000_000]);
    assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    assert_eq!(store.size(2), 0, "a refused write changes nothing");
    assert!(store.read(1, 0, 200_000) == data);
    store.remove(1);
    assert_eq!(store.usage().used, 0);
    store.write(2, 0, &data).unwrap();

    let too_large = store.write(3, OBJECT_BYTES_MAX, &[1]);
    assert!(matches!(too_large, Err(StoreError::TooLarge { .. })), "{too_large:?}");
    assert!(matches!(store.truncate(3, u64::MAX), Err(StoreError::TooLarge { .. })));
}

#[test]
fn holes_take_no_memory() {
    let store = MemoryStore::new(1 << 20);
    store.write(1, 1 << 40, b"end").unwrap();
    assert_eq!(store.size(1), (1 << 40) + 3);
    assert_eq!(store.usage().used, 64 << 10);
    assert_eq!(store.read(1, (1 << 40) - 2, 10), &b"\0\0end"[..]);
}

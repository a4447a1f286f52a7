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

const OBJECTS: u64 = 3;

/// Spans several chunks.
const BYTES_MAX: u64 = 300_000;

#[derive(Clone, Debug)]
enum Step {
    Write { object: u64, offset: u64, len: usize, fill: u8 },
    Truncate { object: u64, size: u64 },
    Read { object: u64, offset: u64, len: usize },
    Remove { object: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let object = 0..OBJECTS;
    prop_oneof![
        4 => (object.clone(), 0..BYTES_MAX, 0..100_000usize, any::<u8>())
            .prop_map(|(object, offset, len, fill)| Step::Write { object, offset, len, fill }),
        2 => (object.clone(), 0..BYTES_MAX).prop_map(|(object, size)| Step::Truncate { object, size }),
        4 => (object.clone(), 0..BYTES_MAX, 0..200_000usize)
            .prop_map(|(object, offset, len)| Step::Read { object, offset, len }),
        1 => object.prop_map(|object| Step::Remove { object }),
    ]
}

/// The slow, obvious store.
#[derive(Default)]
struct Oracle([Vec<u8>; OBJECTS as usize]);

impl Oracle {
    fn object(&mut self, object: u64) -> &mut Vec<u8> {
        &mut self.0[object as usize]
    }

    fn write(&mut self, object: u64, offset: u64, data: &[u8]) {
        let bytes = self.object(object);
        let end = offset as usize + data.len();
        if !data.is_empty() && bytes.len() < end {
            bytes.resize(end, 0);
        }
        if !data.is_empty() {
            bytes[offset as usize..end].copy_from_slice(data);
        }
    }

    fn read(&mut self, object: u64, offset: u64, len: usize) -> Vec<u8> {
        self.object(object).iter().skip(offset as usize).take(len).copied().collect()
    }
}

fn apply(store: &MemoryStore, oracle: &mut Oracle, step: &Step) {
    match *step {
        Step::Write { object, offset, len, fill } => {
            let data: Vec<u8> = (0..len).map(|i| fill.wrapping_add(i as u8)).collect();
            store.write(object, offset, &data).unwrap();
            oracle.write(object, offset, &data);
        }
        Step::Truncate { object, size } => {
            store.truncate(object, size).unwrap();
            oracle.object(object).resize(size as usize, 0);
        }
        Step::Read { object, offset, len } => {
            assert!(store.read(object, offset, len) == oracle.read(object, offset, len));
        }
        Step::Remove { object } => {
            store.remove(object);
            oracle.object(object).clear();
        }
    }
    for object in 0..OBJECTS {
        assert_eq!(store.size(object), oracle.object(object).len() as u64);
    }
}

fn check_all(store: &MemoryStore, oracle: &mut Oracle) {
    for object in 0..OBJECTS {
        assert!(store.read(object, 0, usize::MAX) == *oracle.object(object));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn memory_equals_the_oracle(steps in proptest::collection::vec(step(), 1..30)) {
        let store = MemoryStore::new(u64::MAX);
        let mut oracle = Oracle::default();
        for step in &steps {
            apply(&store, &mut oracle, step);
        }
        check_all(&store, &mut oracle);
        for object in 0..OBJECTS {
            store.remove(object);
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

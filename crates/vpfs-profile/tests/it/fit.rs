//! The fit of depth and slot costs on device models, where the right answer is known.

use vpfs_core::{Bytes, OpKind};
use vpfs_model::device::{DeviceProfile, IoKind};
use vpfs_profile::{Measurement, StorageFit, fit, measure};

const DEPTHS: [u32; 13] = [1, 2, 4, 6, 8, 10, 12, 14, 16, 24, 32, 48, 64];

/// 4 KiB to 4 MiB over 64 GiB.
fn sweep(device: &DeviceProfile, kind: IoKind) -> Vec<Measurement> {
    let sizes = (2..=12).map(|shift| Bytes::kib(1 << shift));
    let of_size = |size| DEPTHS.map(|depth| measure(device, kind, size, depth, 1_000, Bytes::mib(64 << 10)));
    sizes.flat_map(of_size).collect()
}

fn fit_of(name: &str) -> StorageFit {
    let device = DeviceProfile::by_name(name).expect("it is listed");
    fit(&sweep(&device, IoKind::Read), &sweep(&device, IoKind::Write)).expect("there is enough")
}

fn slots(fit: &StorageFit, op: OpKind, kib: u64) -> u32 {
    fit.slot_costs.slot_cost(op, Bytes::kib(kib)).get()
}

/// The paper sets D = 14, 128 KiB and L = 5 for 2 MiB [vPFS+ §III-B].
#[test]
fn the_disk_of_the_paper_has_the_profile_of_the_paper() {
    let fit = fit_of("hdd");
    assert!((10..=15).contains(&fit.depth.get()), "{fit:?}");
    assert_eq!(fit.slot_costs.small_threshold(), Bytes::kib(128), "{fit:?}");
    for op in [OpKind::Read, OpKind::Write] {
        assert_eq!(slots(&fit, op, 2048), 5, "{fit:?}");
    }
}

/// A channel reads 4 KiB in 96 µs and programs it in 277 µs, so such a write takes 3 slots; the gap stays with size.
#[test]
fn writes_to_flash_take_more_slots_than_reads() {
    let fit = fit_of("ssd");
    assert_eq!([OpKind::Read, OpKind::Write].map(|op| slots(&fit, op, 4)), [1, 3], "{fit:?}");
    for kib in [8, 16, 32, 64, 128, 256] {
        assert!(slots(&fit, OpKind::Write, kib) > slots(&fit, OpKind::Read, kib), "{kib} KiB: {fit:?}");
    }
    assert!(fit.depth.get() > 16, "{fit:?}");
}

/// A device as fast as memory has no latency to fit.
#[test]
fn a_device_as_fast_as_memory_has_no_profile() {
    let measured = sweep(&DeviceProfile::None, IoKind::Read);
    let error = fit(&measured, &[]).expect_err("there is no latency").to_string();
    assert!(error.contains("take no time"), "{error}");
}

//! Prints each device model's throughput against the number of outstanding random accesses.
//!
//! `cargo run -p vpfs-embedded --release --example device_curves`

#![allow(clippy::print_stdout, reason = "printing is what it does")]

use vpfs_core::Time;
use vpfs_device::{DeviceProfile, Io, IoKind};

const DEPTHS: [usize; 9] = [1, 2, 4, 8, 12, 14, 16, 24, 32];
const SIZES: [(&str, u64); 3] = [("4 KiB", 4 << 10), ("128 KiB", 128 << 10), ("2 MiB", 2 << 20)];
const ACCESSES: usize = 4_000;

fn main() {
    for (name, profile) in [("hdd", DeviceProfile::hdd()), ("ssd", DeviceProfile::ssd())] {
        for kind in [IoKind::Read, IoKind::Write] {
            println!("{name}, {kind:?}: MB/s (accesses/s) for random accesses over 1 GiB");
            for (label, len) in SIZES {
                let row: Vec<String> = DEPTHS.iter().map(|depth| cell(&profile, *depth, kind, len)).collect();
                println!("{label:>8} {}", row.join(" "));
            }
        }
    }
}

/// One number of the table, headed by its depth.
fn cell(profile: &DeviceProfile, depth: usize, kind: IoKind, len: u64) -> String {
    let seconds = run(profile, depth, kind, len);
    let rate = ACCESSES as f64 / seconds;
    format!("{depth}:{:.1}({rate:.0})", rate * len as f64 / 1e6)
}

/// Seconds of device time for all accesses, `depth` outstanding throughout.
fn run(profile: &DeviceProfile, depth: usize, kind: IoKind, len: u64) -> f64 {
    let mut device = profile.build();
    let mut state = 1_u64;
    let mut now = Time::ZERO;
    let mut done = 0;
    while done < ACCESSES {
        while device.outstanding() < depth {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let offset = (state >> 20) % (1 << 18) * 4096;
            device.submit(now, Io { kind, object: 1, offset, len });
        }
        now = device.poll_timeout().map_or(now, |next| next.max(now));
        while device.poll_completed(now).is_some() {
            done += 1;
        }
    }
    now.since(Time::ZERO).as_secs_f64()
}

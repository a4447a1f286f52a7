//! Random cases.

use std::time::Duration;

use vpfs_core::Weight;
use vpfs_core::hash::mix;
use vpfs_sim::model::device::{
    ChangeProfile, DeviceProfile, HddProfile, MetadataProfile, PageCacheProfile, SsdProfile, StallProfile,
    VolumeProfile,
};
use vpfs_sim::{App, Layout, LinkProfile, Scenario, ServerGroup};

use super::load::{Load, What, workload};

/// The kinds of storage.
pub(super) const STORAGE: [&str; 6] =
    ["throttled volumes", "one head", "flash", "write-back cache", "processors", "one device under all servers"];

/// Weights of the interactive applications and of bulk.
pub(super) const WEIGHTS: [(&str, u32, u32); 3] = [("weights 1:1", 1, 1), ("weights 4:1", 4, 1), ("weights 1:4", 1, 4)];

/// A case: storage, and interactive applications beside bulk.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) seed: u64,
    /// One of [`STORAGE`].
    pub(super) storage: &'static str,
    /// The name of one of [`WEIGHTS`].
    pub(super) weights: &'static str,
    /// In words.
    pub(super) text: String,
    /// With all applications; bulk is the last one.
    pub(super) scenario: Scenario,
    pub(super) bulk: Load,
}

impl Case {
    /// The case of this seed, which lasts for `time`.
    pub(super) fn draw(seed: u64, time: Duration) -> Self {
        let random = &mut Draw(mix(seed));
        let storage = *random.of(&STORAGE);
        let (weights, small_weight, bulk_weight) = *random.of(&WEIGHTS);
        let is_metadata = storage == "processors";
        let servers = match storage {
            "write-back cache" => *random.of(&[1, 1, 2, 4]),
            "one device under all servers" => *random.of(&[2, 4]),
            _ => *random.of(&[1, 2, 4, 8, 16]),
        };
        let (mut group, mut words) = group(random, storage, servers);
        changes(random, is_metadata, time, &mut group, &mut words);
        let bulk = bulk(random, is_metadata, servers);
        let mut apps = Vec::new();
        let number = *random.of(&[1, 1, 1, 2]);
        for index in 0..number {
            let load = small(random, storage, number);
            let (start, end) = times(random, time);
            let mut text = format!("small {}", load.text());
            if !start.is_zero() {
                text += &format!(" later ({:.0} s)", start.as_secs_f64());
            }
            if let Some(end) = end {
                text += &format!(" until {:.0} s", end.as_secs_f64());
            }
            words.push(text);
            let app = app(&format!("small{index}"), &load, small_weight);
            apps.push(App { start, end, ..app });
        }
        words.push(format!("bulk {}", bulk.text()));
        apps.push(app("bulk", &bulk, bulk_weight));
        let scenario = Scenario {
            name: "gym".to_owned(),
            seed,
            duration: Some(time),
            servers: vec![group],
            apps,
            ..Scenario::default()
        };
        Self { seed, storage, weights, text: format!("{weights}, {}", words.join(", ")), scenario, bulk }
    }
}

fn app(name: &str, load: &Load, weight: u32) -> App {
    let weight = Weight::new(weight).unwrap_or(Weight::ONE);
    let nodes = load.processes.min(4);
    App { weight, nodes, layout: Layout::striped(64 << 10), ..App::new(name, workload(load, load.processes)) }
}

/// Servers with this kind of storage, and what it is in words.
fn group(random: &mut Draw, storage: &'static str, servers: u32) -> (ServerGroup, Vec<String>) {
    let speed = random.between(0.4, 2.5);
    let volume = |random: &mut Draw, bytes: (f64, f64), ios: (f64, f64)| {
        let (bytes, ios) = (random.between(bytes.0, bytes.1), random.between(ios.0, ios.1));
        let text = format!("{:.0} MB/s and {ios:.0} I/Os per second", bytes / 1e6);
        (
            VolumeProfile {
                bytes_per_second: whole(bytes),
                ios_per_second: whole(ios),
                ..VolumeProfile::THROTTLED_DISK
            },
            text,
        )
    };
    let head = HddProfile {
        seek_min: Duration::from_millis(5).div_f64(speed),
        bytes_per_second: whole(60e6 * speed),
        ..HddProfile::ONE_HEAD
    };
    let mut metadata = MetadataProfile::PVFS2_BDB;
    let (device, text) = match storage {
        "throttled volumes" => {
            let (volume, text) = volume(random, (8e6, 150e6), (150.0, 3_000.0));
            (DeviceProfile::Volume(volume), text)
        }
        "one head" => (DeviceProfile::Hdd(head), format!("speed {speed:.2}")),
        "flash" => {
            let flash = SsdProfile::PCIE_X4;
            let rate = |rate: u64| whole(rate as f64 * speed / 2.0);
            let flash = SsdProfile {
                read_bytes_per_second: rate(flash.read_bytes_per_second),
                write_bytes_per_second: rate(flash.write_bytes_per_second),
                ..flash
            };
            (DeviceProfile::Ssd(flash), format!("speed {speed:.2}"))
        }
        "write-back cache" => {
            let (volume, text) = volume(random, (30e6, 200e6), (300.0, 3_000.0));
            // What vpfs leaves to a cache on the storage's host is an eighth of a second of the device.
            let limit = *random.of(&[volume.bytes_per_second / 8, volume.bytes_per_second / 8, 64 << 20]);
            let cache = PageCacheProfile {
                limit_bytes: limit,
                background_bytes: limit / 2,
                resume_bytes: limit - limit / 8,
                flush_depth: 64,
                read_ahead_bytes: 0,
                ..PageCacheProfile::LINUX_8_GB
            };
            (
                DeviceProfile::PageCache(cache, Box::new(DeviceProfile::Volume(volume))),
                format!("{} MiB, {text}", limit >> 20),
            )
        }
        "processors" => {
            let each = Duration::from_millis(2).div_f64(speed);
            metadata = MetadataProfile { parallel: *random.of(&[1, 2, 4]), look_up: each, get_attr: each, ..metadata };
            (DeviceProfile::None, format!("{} workers, {:.1} ms each", metadata.parallel, each.as_secs_f64() * 1e3))
        }
        _ => match *random.of(&[false, true]) {
            false => (DeviceProfile::Hdd(head), format!("a head, speed {speed:.2}")),
            true => {
                let (volume, text) = volume(random, (15e6, 200e6), (300.0, 3_000.0));
                (DeviceProfile::Volume(volume), text)
            }
        },
    };
    let link = LinkProfile { bytes_per_second: 1_250_000_000, latency: Duration::from_micros(20) };
    let shared_device = storage == "one device under all servers";
    let words = vec![format!("{storage} x {servers}: {text}")];
    (ServerGroup { link, metadata, shared_device, ..ServerGroup::new(servers, device) }, words)
}

/// Moments in which devices stand still, and a speed that changes.
fn changes(random: &mut Draw, is_metadata: bool, time: Duration, group: &mut ServerGroup, words: &mut Vec<String>) {
    if is_metadata {
        return;
    }
    let heavy = *random.of(&[false, false, true]);
    let every = Duration::from_secs_f64(random.between(0.5, 4.0));
    let length = Duration::from_secs_f64(random.between(0.003, 0.03));
    group.stalls = Some(StallProfile { every, length, heavy });
    if heavy {
        words.push(format!("heavy pauses of {:.0} ms each {:.1} s", length.as_secs_f64() * 1e3, every.as_secs_f64()));
    }
    if *random.of(&[false, false, false, false, true]) {
        let profile = ChangeProfile { at: time / 2, percent: *random.of(&[50, 200]) };
        group.device = DeviceProfile::Changing(profile, Box::new(group.device.clone()));
        words.push(format!("{} % of the speed from half the time on", profile.percent));
    }
}

/// Bulk for so many servers.
fn bulk(random: &mut Draw, is_metadata: bool, servers: u32) -> Load {
    let seed = random.next();
    if is_metadata {
        return Load {
            processes: random.whole(8.0, 48.0),
            what: What::Metadata,
            think: Duration::ZERO,
            bursts: None,
            seed,
        };
    }
    let bytes = servers * *random.of(&[256_u32 << 10, 512 << 10, 1 << 20, 2 << 20]);
    let read = *random.of(&[false, false, true]);
    let bursts =
        random.of(&[false, false, false, true]).then(|| (seconds(random, 2.0, 6.0), seconds(random, 2.0, 6.0)));
    Load {
        processes: random.whole(4.0, 24.0),
        what: What::Sequential { bytes, read },
        think: Duration::ZERO,
        bursts,
        seed,
    }
}

/// An interactive application, one of `number`, with at most 1,000 calls a second of all.
fn small(random: &mut Draw, storage: &'static str, number: u32) -> Load {
    let seed = random.next();
    let processes = random.whole(1.0, 12.0);
    let think = random.between(0.5, 20.0).max(f64::from(processes * number)) / 1e3;
    // A cache takes writes at once; who waits for a disk there is who reads.
    let read = storage == "write-back cache" || *random.of(&[false, true]);
    let what = match storage {
        "processors" => What::Metadata,
        _ => What::Random { bytes: *random.of(&[4 << 10, 8 << 10, 16 << 10, 64 << 10]), read },
    };
    let bursts =
        random.of(&[false, false, false, true]).then(|| (seconds(random, 1.0, 4.0), seconds(random, 0.5, 4.0)));
    Load { processes, what, think: Duration::from_secs_f64(think), bursts, seed }
}

/// When an application comes, and when it goes.
fn times(random: &mut Draw, time: Duration) -> (Duration, Option<Duration>) {
    match random.whole(0.0, 8.0) {
        0 | 1 => (time.mul_f64(random.between(0.15, 0.4)), None),
        2 => (Duration::ZERO, Some(time.mul_f64(random.between(0.5, 0.8)))),
        _ => (Duration::ZERO, None),
    }
}

fn seconds(random: &mut Draw, from: f64, to: f64) -> Duration {
    Duration::from_secs_f64(random.between(from, to))
}

#[expect(clippy::cast_possible_truncation, reason = "rates are far below")]
fn whole(value: f64) -> u64 {
    value as u64
}

/// A sequence of random numbers.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    /// From zero to one.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = self.next() % all.len() as u64;
        &all[usize::try_from(index).unwrap_or(0)]
    }

    /// Each factor is as likely anywhere, as far as `from` is positive.
    fn between(&mut self, from: f64, to: f64) -> f64 {
        from * (to / from).powf(self.part())
    }

    /// A whole number below `to`.
    #[expect(clippy::cast_possible_truncation, reason = "small numbers")]
    fn whole(&mut self, from: f64, to: f64) -> u32 {
        if from > 0.0 { self.between(from, to) as u32 } else { (self.part() * to) as u32 }
    }
}

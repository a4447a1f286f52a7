//! The volume with limits in its own time.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use vpfs_core::Time;
use vpfs_sim::model::device::{Completion, Device, DeviceProfile, Io, IoKind, Volume, VolumeProfile};

const DISK: VolumeProfile = VolumeProfile::THROTTLED_DISK;
const SMALL: u64 = 4096;
const LARGE: u64 = 256 << 10;

fn access(len: u64) -> Io {
    Io { kind: IoKind::Write, object: 1, offset: 0, len }
}

/// Time that an access of one I/O takes if it need not wait.
fn unlimited(len: u64) -> Duration {
    DISK.latency + Duration::from_nanos(len * 1_000_000_000 / DISK.backing_bytes_per_second)
}

/// Polls all outstanding accesses.
fn drain(device: &mut dyn Device) -> Vec<Completion> {
    let mut done = Vec::new();
    while let Some(next) = device.poll_timeout() {
        done.extend(std::iter::from_fn(|| device.poll_completed(next)));
    }
    assert_eq!(device.outstanding(), 0);
    done
}

/// Seconds for `count` accesses, 12 outstanding at a time.
fn seconds(profile: VolumeProfile, count: usize, len: impl Fn(usize) -> u64) -> f64 {
    let mut device = Volume::new(profile);
    let (mut now, mut submitted, mut done) = (Time::ZERO, 0, 0);
    while done < count {
        while device.outstanding() < 12 {
            device.submit(now, access(len(submitted)));
            submitted += 1;
        }
        now = device.poll_timeout().unwrap();
        done += std::iter::from_fn(|| device.poll_completed(now)).count();
    }
    now.since(Time::ZERO).as_secs_f64()
}

fn assert_near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 0.01, "{value} is not {expected}");
}

#[test]
fn below_the_limits_an_access_takes_its_latency() {
    let mut device = Volume::new(DISK);
    for i in 0..1_000 {
        let now = Time::from_millis(i * 5);
        let id = device.submit(now, access(SMALL));
        let at = now + unlimited(SMALL);
        assert_eq!(device.poll_timeout(), Some(at));
        assert_eq!(device.poll_completed(at), Some(Completion { id, at }));
    }
}

#[test]
fn rates_are_what_the_profile_says() {
    assert_near(6_000.0 / seconds(DISK, 6_000, |_| SMALL), 300.0);
    assert_near(300.0 * f64::from(1 << 20) / seconds(DISK, 300, |_| 1 << 20), 15e6);
    let cloud = VolumeProfile::CLOUD;
    assert_near(60_000.0 / seconds(cloud.clone(), 60_000, |_| SMALL), 3_000.0);
    assert_near(3_000.0 * f64::from(1 << 20) / seconds(cloud, 3_000, |_| 1 << 20), f64::from(125 << 20));
}

#[test]
fn a_large_access_is_several_ios() {
    let few_ios = VolumeProfile { ios_per_second: 40, bytes_per_second: 1_000_000_000, ..DISK };
    for (len, ios) in [(0, 1.0), (LARGE, 1.0), (LARGE + 1, 2.0), (4 * LARGE, 4.0)] {
        assert_near(400.0 / seconds(few_ios.clone(), 400, |_| len), 40.0 / ios);
    }
}

/// 250 small and 50 large ones fit into a second, though alone they need 0.83 s and 0.87 s.
#[test]
fn a_mix_gets_more_than_its_parts_would() {
    let mixed = seconds(DISK, 6_000, |i| if i % 6 == 5 { LARGE } else { SMALL });
    assert_near(6_000.0 / mixed, 300.0);
    let alone = seconds(DISK, 5_000, |_| SMALL) + seconds(DISK, 1_000, |_| LARGE);
    assert!(alone > 1.65 * mixed, "{alone} s alone, {mixed} s together");
}

/// I/O tokens are left for it, and byte tokens would be once a quarter of the large access had passed.
#[test]
fn a_small_access_waits_behind_a_large_one() {
    let mut device = Volume::new(DISK);
    let saved = 1_500_000;
    for _ in 0..6 {
        device.submit(Time::ZERO, access(LARGE));
    }
    let large = device.submit(Time::ZERO, access(4 * LARGE));
    let small = device.submit(Time::ZERO, access(SMALL));
    let done = drain(&mut device);
    let end = |id| done.iter().find(|completion| completion.id == id).unwrap().at;
    // Tokens arrive at 15 bytes per microsecond.
    let passed = |bytes: u64| Time::from_nanos(((bytes - saved) * 1_000).div_ceil(15));
    assert_eq!(end(large), passed(10 * LARGE) + unlimited(LARGE));
    assert_eq!(end(small), passed(10 * LARGE + SMALL) + unlimited(SMALL));
}

#[test]
fn an_idle_volume_saves_up_a_burst() {
    let mut device = Volume::new(DISK);
    // Tokens for 30 I/Os arrive in 100 ms; 50 ms restore half of them, and a minute no more than all.
    for (millis, saved) in [(0, 30), (1_000, 30), (61_000, 30)] {
        let now = Time::from_millis(millis);
        for _ in 0..=saved {
            device.submit(now, access(SMALL));
        }
        let done = drain(&mut device);
        let at_once = done.iter().filter(|completion| completion.at == now + unlimited(SMALL)).count();
        assert_eq!(at_once, saved);
        assert_eq!(done[saved].at, now + Duration::from_nanos(3_333_334) + unlimited(SMALL));
    }
    let mut device = Volume::new(DISK);
    let submit = |device: &mut Volume, millis, count| {
        for _ in 0..count {
            device.submit(Time::from_millis(millis), access(SMALL));
        }
        drain(device).last().unwrap().at
    };
    assert_eq!(submit(&mut device, 0, 30), Time::ZERO + unlimited(SMALL));
    assert_eq!(submit(&mut device, 50, 15), Time::from_millis(50) + unlimited(SMALL));
    assert!(submit(&mut device, 51, 1) > Time::from_millis(51) + unlimited(SMALL));
}

/// Submits the same accesses at the same times, and polls as `is_prompt` says.
fn hundred(is_prompt: bool) -> Vec<Completion> {
    let (mut device, mut done) = (Volume::new(DISK), Vec::new());
    for i in 0..100 {
        let now = Time::from_millis(i * 7);
        while let Some(next) = device.poll_timeout().filter(|next| is_prompt && *next <= now) {
            done.extend(device.poll_completed(next));
        }
        device.submit(now, access(i * 7_919 % 13 * 50_000));
    }
    if !is_prompt {
        done.extend(std::iter::from_fn(|| device.poll_completed(Time::from_millis(600_000))));
    }
    done.extend(drain(&mut device));
    done
}

#[test]
fn late_polls_do_not_slow_the_volume() {
    let prompt = hundred(true);
    assert_eq!(prompt.len(), 100);
    assert!(prompt.is_sorted_by_key(|completion| completion.at));
    assert_eq!(hundred(false), prompt);
    assert_eq!(hundred(true), prompt, "equal inputs give equal completions");
}

#[test]
fn extreme_parameters_neither_panic_nor_end_before_they_begin() {
    let nothing = VolumeProfile {
        bytes_per_second: 0,
        ios_per_second: 0,
        burst: Duration::ZERO,
        io_bytes: 0,
        latency: Duration::MAX,
        backing_bytes_per_second: 0,
    };
    let all = VolumeProfile {
        bytes_per_second: u64::MAX,
        ios_per_second: u64::MAX,
        burst: Duration::MAX,
        io_bytes: u64::MAX,
        latency: Duration::ZERO,
        backing_bytes_per_second: u64::MAX,
    };
    for (profile, len) in [(nothing, 3), (all, u64::MAX)] {
        let mut device = DeviceProfile::Volume(profile).build();
        let late = Time::from_nanos(u64::MAX);
        let submitted = [Time::ZERO, Time::from_millis(1), late, late];
        for now in submitted {
            device.submit(now, access(len));
        }
        let done: Vec<_> = std::iter::from_fn(|| device.poll_completed(late)).collect();
        assert_eq!(done.len(), submitted.len());
        assert!(done.iter().all(|completion| completion.at >= submitted[completion.id.0 as usize]));
    }
}

/// Limits with whole tokens per millisecond or whole milliseconds per token; nothing else takes time.
fn millis_profile(burst_millis: u64) -> VolumeProfile {
    VolumeProfile {
        bytes_per_second: 4_000,
        ios_per_second: 200,
        burst: Duration::from_millis(burst_millis),
        io_bytes: 40,
        latency: Duration::ZERO,
        backing_bytes_per_second: u64::MAX,
    }
}

/// A step-by-step oracle: when each access is done, given arrivals in order.
fn step_by_step(profile: &VolumeProfile, arrivals: &[(u64, u64)]) -> Vec<Time> {
    // In thousandths of a token: as many arrive per millisecond as tokens per second.
    let rates = [profile.bytes_per_second, profile.ios_per_second];
    let saved = rates.map(|rate| rate * profile.burst.as_millis() as u64);
    let (mut level, mut queue, mut done) = (saved, VecDeque::new(), vec![Time::ZERO; arrivals.len()]);
    let (mut arrived, mut now) = (0, 0);
    while arrived < arrivals.len() || !queue.is_empty() {
        while let Some((_, len)) = arrivals.get(arrived).filter(|(at, _)| *at == now) {
            let ios = len.div_ceil(profile.io_bytes).max(1);
            let part = |io: u64| (len - io * profile.io_bytes).min(profile.io_bytes);
            queue.extend((0..ios).map(|io| (arrived, [part(io) * 1_000, 1_000])));
            arrived += 1;
        }
        while let Some((access, need)) = queue.front().copied()
            && level[0] >= need[0]
            && level[1] >= need[1]
        {
            queue.pop_front();
            level = [level[0] - need[0], level[1] - need[1]];
            done[access] = Time::from_millis(now);
        }
        let need = queue.front().map_or([0, 0], |(_, need)| *need);
        level = [0, 1].map(|bucket| (level[bucket] + rates[bucket]).min(saved[bucket].max(need[bucket])));
        now += 1;
    }
    done
}

proptest! {
    /// Compares the times known at submission with buckets that fill millisecond by millisecond.
    #[test]
    fn agrees_with_buckets_step_by_step(
        steps in proptest::collection::vec((prop_oneof![Just(0), 0..100_u64], 0..50_u64), 1..60),
        burst_millis in 0..60_u64,
    ) {
        let profile = millis_profile(burst_millis);
        let mut device = Volume::new(profile.clone());
        let mut now = 0;
        let mut arrivals = Vec::new();
        for (pause, quads) in steps {
            now += pause;
            arrivals.push((now, quads * 4));
            device.submit(Time::from_millis(now), access(quads * 4));
        }
        let mut done = drain(&mut device);
        done.sort_by_key(|completion| completion.id);
        let done: Vec<Time> = done.into_iter().map(|completion| completion.at).collect();
        prop_assert_eq!(done, step_by_step(&profile, &arrivals));
    }
}

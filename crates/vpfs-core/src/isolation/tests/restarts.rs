//! What is kept over a restart, and that it does no harm where it is wrong.

use super::*;
use crate::learned::{LearnedCost, LearnedCosts};

/// What is learned of this disk in 30 seconds.
fn learned(large: Bytes) -> LearnedCosts {
    let mut disk = Disk::new(Isolation::new(64), large);
    disk.run(30);
    disk.scheduler.learned_costs(disk.now)
}

/// A new process that takes this over.
fn successor(learned: &LearnedCosts) -> Isolation {
    successor_at(Time::ZERO, learned)
}

fn successor_at(now: Time, learned: &LearnedCosts) -> Isolation {
    let mut scheduler = Isolation::new(64);
    scheduler.remember_costs(now, learned);
    scheduler
}

#[test]
fn what_is_taken_back_is_what_was_learned() {
    let before = learned(Bytes::mib(1));
    assert!(before.interactive && before.bulk == Some((OpKind::Write, Bytes::mib(1))), "{before:?}");
    assert!(before.confirmed.is_some() && before.took_milli.is_some(), "{before:?}");
    assert_eq!(before.bulk_flows, [LARGE]);
    let scheduler = successor(&before);
    assert_eq!(scheduler.kind(LARGE), super::super::meter::Kind::Bulk);
    let after = scheduler.learned_costs(Time::ZERO);
    assert_eq!(before.costs.len(), after.costs.len());
    for (before, after) in before.costs.iter().zip(&after.costs) {
        assert!(before.cost_ns.abs_diff(after.cost_ns) <= 1 + before.cost_ns / 1_000_000, "{before:?} {after:?}");
        assert_eq!((before.op, before.size, before.alone_ns), (after.op, after.size, after.alone_ns));
        assert!(after.windows <= before.windows, "no better known than before: {before:?} {after:?}");
    }
    // The clock of the test has gone back.
    let same = LearnedCosts { costs: before.costs.clone(), confirmed: before.confirmed, ..after.clone() };
    assert_eq!(before, same);
    assert_eq!(after.confirmed, Some(Time::ZERO), "nothing was confirmed in the future");
}

/// Symptom: in the second after an upgrade or a restart, small applications did a tenth of their calls or less. Cause:
/// bulk went without limit until its cost was known.
#[test]
fn bulk_is_limited_from_the_first_moment() {
    for mib in [1, 4] {
        let learned = learned(Bytes::mib(mib));
        let [forgot, remembered] = [Isolation::new(64), successor(&learned)].map(|scheduler| {
            let mut disk = Disk::new(scheduler, Bytes::mib(mib));
            disk.run(2)[SMALL.index()]
        });
        let mut disk = Disk::new(Isolation::new(64), Bytes::mib(mib));
        disk.run(30);
        let usual = disk.run(20)[SMALL.index()] / 10;
        assert!(remembered * 5 >= usual * 4, "{mib} MiB: {remembered} of {usual}, {forgot} with nothing known");
    }
}

/// Symptom: beside writes of 16 MiB over four servers, small applications did nothing in the first second. Cause:
/// clocks count from 1970, and so did the first window of control. All flows had as little work pending in it, so all
/// were bulk.
#[test]
fn the_first_window_begins_with_the_first_request() {
    let large = Bytes::mib(4);
    let learned = learned(large);
    for scheduler in
        [|now, learned: &LearnedCosts| successor_at(now, learned), |_, _: &LearnedCosts| Isolation::new(64)]
    {
        let calls = |now| Disk::at(now, scheduler(now, &learned), large).run(2)[SMALL.index()];
        let [usual, today] = [Time::ZERO, Time::from_millis(1_800_000_000_000)].map(calls);
        assert!(today * 5 >= usual * 4, "{today} of {usual}");
    }
}

/// Symptom: a writer whose calls were waiting for another server at the moment of an upgrade was not kept as bulk.
#[test]
fn bulk_that_pauses_is_kept_as_bulk() {
    let mut disk = Disk::new(Isolation::new(64), Bytes::mib(1));
    disk.run(10);
    disk.large_is_away = true;
    while disk.in_use(LARGE) > 0 {
        disk.run_for(Duration::from_millis(1));
    }
    disk.run_for(Duration::from_millis(200));
    assert_eq!(disk.scheduler.learned_costs(disk.now).bulk_flows, [LARGE]);
    disk.run(10);
    assert_eq!(disk.scheduler.learned_costs(disk.now).bulk_flows, [], "it is gone");
}

/// The storage was replaced while no process ran.
#[test]
fn another_storage_is_learned_as_soon_as_without_memory() {
    let learned = learned(Bytes::mib(1));
    for slowness in [10, 25, 400, 1000] {
        let found = [Isolation::new(64), successor(&learned)].map(|scheduler| {
            let mut disk = Disk::new(scheduler, Bytes::mib(1));
            disk.slowness = slowness;
            disk.run(15)
        });
        assert_near("another storage", found[1], found[0]);
    }
}

/// All costs that pass for learned ones, however wrong.
///
/// Symptom: with 15 to 55 ms for everything, where 22 and 5 are right, the small application got 0.2 to 0.6 of its
/// share for as long as the process ran. Cause: no window reveals the cost of requests that are never bulk, but what
/// was remembered of it passed for known, and only guesses are lowered if they are more than there was time for.
#[test]
fn wrong_costs_are_forgotten() {
    let some = [0, 100, 50_000].map(|cost_us| (cost_us, 80));
    // Where a guess is twice too high at most, nothing shows that.
    let others = [10, 1000, 10_000, 15_000, 30_000, 100_000, 200_000, 1_000_000].map(|cost_us| (cost_us, 70));
    for (cost_us, percent) in some.into_iter().chain(others) {
        let cost_ns = 1.max(cost_us * 1000);
        for (mix_ppm, windows) in [(62_500, 0), (1_000_000, u32::MAX)] {
            for took_milli in [None, Some((300, 900))] {
                let mut disk = Disk::new(successor(&wrong(cost_ns, mix_ppm, windows, took_milli)), Bytes::mib(1));
                disk.run(15);
                let found = disk.run(10);
                assert_shares(&alloc::format!("{cost_ns} ns, {windows} windows"), found, &disk, percent);
            }
        }
    }
}

/// Everything costs the same, and everybody is bulk.
fn wrong(cost_ns: u64, mix_ppm: u64, windows: u32, took_milli: Option<(u64, u64)>) -> LearnedCosts {
    let sizes = (12..25).flat_map(|log2| [OpKind::Read, OpKind::Write].map(|op| (op, Bytes(1 << log2))));
    let cost = |(op, size)| LearnedCost { op, size, cost_ns, windows, clean: windows, alone_ns: cost_ns };
    LearnedCosts {
        costs: sizes.map(cost).collect(),
        mix_ppm,
        mix_windows: windows,
        bulk: Some((OpKind::Write, Bytes::mib(1))),
        confirmed: Some(Time::from_nanos(u64::MAX)),
        serial: true,
        took_milli,
        interactive: true,
        bulk_flows: (0..64).map(AppId).collect(),
    }
}

#[test]
fn what_cannot_have_been_learned_is_ignored() {
    let credible = learned(Bytes::mib(1));
    let spoiled = |spoil: fn(&mut LearnedCosts)| {
        let mut learned = credible.clone();
        spoil(&mut learned);
        learned
    };
    let nothing = Isolation::new(64).learned_costs(Time::ZERO);
    for nonsense in [
        spoiled(|learned| learned.costs[0].cost_ns = u64::MAX),
        spoiled(|learned| learned.costs[0].alone_ns = 3_000_000_001),
        spoiled(|learned| learned.costs = learned.costs[..1].repeat(65)),
        spoiled(|learned| learned.mix_ppm = 0),
        spoiled(|learned| learned.mix_ppm = u64::MAX),
        spoiled(|learned| learned.took_milli = Some((2, 1))),
        spoiled(|learned| learned.took_milli = Some((0, 100_001))),
        spoiled(|learned| learned.bulk_flows = (0..65).map(AppId).collect()),
    ] {
        assert_eq!(successor(&nonsense).learned_costs(Time::ZERO), nothing, "{nonsense:?}");
    }
    assert_ne!(successor(&credible).learned_costs(Time::ZERO), nothing);
}

/// A profile is newer than what was learned before it was made, or nothing is lost with it.
#[test]
fn configured_costs_are_not_replaced() {
    let mut learned = learned(Bytes::mib(1));
    let of_write = learned.costs.iter().find(|cost| cost.op == OpKind::Write && cost.windows > 0).copied().unwrap();
    learned.costs.push(LearnedCost { op: OpKind::Read, ..of_write });
    let time = Duration::from_millis(7);
    let mut scheduler = Isolation::new(64);
    scheduler.set_device_times(&[DeviceTime { op: OpKind::Write, size: Bytes::mib(1), time }]);
    scheduler.remember_costs(Time::ZERO, &learned);
    let cost_us = |op| scheduler.times.cost_ns(op, Bytes::mib(1)) / 1000;
    assert!((6_999..=7_000).contains(&cost_us(OpKind::Write)), "{}", cost_us(OpKind::Write));
    assert!((22_000..=24_000).contains(&cost_us(OpKind::Read)), "{}: that was learned", cost_us(OpKind::Read));
}

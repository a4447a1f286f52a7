//! Depth and slot costs found from completions stay within their bounds. Their accuracy is tested on device models, in
//! `vpfs-model`.

use std::time::Duration;

use crate::common::{EVENTS, depth};
use proptest::prelude::*;
use vpfs_core::testing::{Client, Random, Storage, run};
use vpfs_core::{AppId, Bytes, Depth, Learned, OpKind, Policy, PolicyKind, Settings, SlotCostTable, Time};

/// The largest depth that is ever found.
const DEPTH_MAX: u32 = 1024;

fn settings(kind: PolicyKind, slots: u32, adaptive: bool) -> Settings {
    Settings { adaptive, ..Settings::new(kind, depth(slots), SlotCostTable::default()) }
}

fn adaptive(slots: u32) -> Policy {
    Policy::new(&settings(PolicyKind::SfqDPlus, slots, true), EVENTS)
}

/// Storage whose service times are unrelated to the requests, from nothing to an hour.
fn erratic_storage(seed: u64) -> Storage {
    let mut random = Random::new(seed);
    let exponents: Vec<u32> = (0..200).map(|_| random.below(42)).collect();
    Storage::new(exponents.into_iter().map(|exponent| Duration::from_nanos((1 << exponent) - 1)).collect())
}

fn clients() -> [Client; 3] {
    let client = |app, op, sizes: &[u64], concurrency| Client {
        app: AppId(app),
        op,
        sizes: sizes.iter().map(|&size| Bytes(size)).collect(),
        concurrency,
    };
    [
        client(0, OpKind::Write, &[0, 1, 4096, 1 << 21, u64::MAX], 40),
        client(1, OpKind::Read, &[65_536, 1 << 18, 1 << 22], 7),
        client(2, OpKind::Metadata, &[10_240], 2),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_found_stays_within_its_bounds(seed: u64, slots in 1..5000_u32) {
        let mut policy = adaptive(slots);
        prop_assert_eq!(policy.limits().depth, Depth::new(slots.min(DEPTH_MAX)));
        let completed = run(&mut policy, &mut erratic_storage(seed), &clients(), Time::from_millis(4 * 3600 * 1000));
        prop_assert!(completed.len() > 100, "{}", completed.len());
        let found = policy.limits().depth.expect("it is adaptive");
        prop_assert!((1..=DEPTH_MAX).contains(&found.get()));
        let Some(Learned::Slots { slot_costs: table, .. }) = policy.learned(Time::ZERO) else { panic!("they go with it") };
        for op in [OpKind::Read, OpKind::Write] {
            let costs = [1 << 12, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22].map(|size| table.slot_cost(op, Bytes(size)));
            prop_assert!(costs.is_sorted(), "{:?}", costs);
        }
    }
}

/// Other settings start a new search; equal or unrelated settings leave it alone.
#[test]
fn a_reload_keeps_the_depth_found() {
    let mut policy = adaptive(256);
    let mut storage = Storage::new(vec![Duration::from_millis(1)]);
    let small = Client { app: AppId(0), op: OpKind::Write, sizes: vec![Bytes::kib(4)], concurrency: 64 };
    run(&mut policy, &mut storage, &[small], Time::from_millis(20_000));
    let found = policy.limits().depth.expect("it is adaptive");
    assert!((40..=256).contains(&found.get()), "this storage serves any number at once: {found:?}");
    let now = Time::from_millis(20_000);
    let mut same = settings(PolicyKind::SfqDPlus, 256, true);
    same.sharing.broadcast_threshold = Bytes::mib(1);
    policy.reconfigure(now, &same);
    assert_eq!(policy.limits().depth, Some(found));
    policy.reconfigure(now, &settings(PolicyKind::SfqDPlus, 7, true));
    assert_eq!(policy.limits().depth, Depth::new(7));
    policy.reconfigure(now, &settings(PolicyKind::SfqDPlus, 9, false));
    assert_eq!(policy.limits().depth, None);
    policy.reconfigure(now, &settings(PolicyKind::Fifo, 9, true));
    assert_eq!(policy.limits().depth, None);
}

/// What is remembered is where the search starts, if there is a search: not a setting.
#[test]
fn a_restart_keeps_the_depth_found() {
    let mut before = adaptive(1000);
    run(&mut before, &mut erratic_storage(7), &clients(), Time::from_millis(3_600_000));
    let learned = before.learned(Time::ZERO).expect("it has found something");
    assert_ne!(before.limits().depth, Depth::new(1000));
    let mut after = adaptive(1000);
    after.remember(Time::ZERO, &learned);
    assert_eq!(after.learned(Time::ZERO), Some(learned.clone()));
    let mut uniform = Policy::new(&settings(PolicyKind::SfqD, 1000, true), EVENTS);
    uniform.remember(Time::ZERO, &learned);
    let depth = before.limits().depth.expect("it is adaptive");
    let expected = Learned::Slots { depth, slot_costs: SlotCostTable::uniform() };
    assert_eq!(uniform.learned(Time::ZERO), Some(expected), "it has no slot costs");
    for other in [(PolicyKind::SfqDPlus, false), (PolicyKind::Isolation, false), (PolicyKind::TwoLevel, false)] {
        let settings = settings(other.0, 1000, other.1);
        let (mut policy, fresh) = (Policy::new(&settings, EVENTS), Policy::new(&settings, EVENTS));
        policy.remember(Time::ZERO, &learned);
        assert_eq!(format!("{policy:?}"), format!("{fresh:?}"), "{other:?}: nothing of this is its own");
    }
}

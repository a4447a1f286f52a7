//! Whole sessions in random orders: nothing is lost or mixed up, and the way bytes are split into reads does not
//! matter.

mod common;

use common::world::{Chance, Input, Script, World, replay};
use proptest::prelude::*;
use vpfs_core::Time;
use vpfs_session::SessionLimits;

fn script() -> impl Strategy<Value = Script> {
    let len = prop_oneof![1usize..300, 1usize..70_000];
    let small = 1usize..6000;
    prop_oneof![
        3 => (len.clone(), 0usize..70_000).prop_map(|(len, size)| Script::Read(len, size)),
        3 => len.clone().prop_map(Script::Write),
        1 => (small.clone(), 0usize..6000).prop_map(|(len, size)| Script::SmallRead(len, size)),
        1 => small.prop_map(Script::SmallWrite),
        2 => prop_oneof![0u64..4, 400u64..600].prop_map(Script::List),
        1 => Just(Script::Configure),
        1 => Just(Script::Create),
        1 => len.clone().prop_map(Script::RefusedRead),
        1 => len.clone().prop_map(Script::RefusedWrite),
        1 => len.clone().prop_map(Script::FailedWrite),
        1 => len.clone().prop_map(Script::ServerRead),
        1 => len.prop_map(Script::ServerWrite),
    ]
}

fn limits() -> impl Strategy<Value = SessionLimits> {
    let request_bytes = prop_oneof![Just(1usize), Just(5_000), Just(4 << 20)];
    let outbound_bytes = prop_oneof![Just(1usize), Just(20_000), Just(1 << 20)];
    (1usize..9, request_bytes, outbound_bytes).prop_map(|(ops, request_bytes, outbound_bytes)| SessionLimits {
        ops,
        request_bytes,
        outbound_bytes,
        ..SessionLimits::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn everything_arrives_and_ends(
        scripts in proptest::collection::vec(script(), 1..25), seed: u64, limits in limits(), chunk in 200usize..40_000,
    ) {
        let mut world = World::new(scripts, seed, limits, chunk);
        world.run();
        world.check_end();
        // The same inputs split differently: into very small ones where that is not too slow, and joined.
        let most = if world.inputs.len() < 2000 { 3 } else { usize::MAX };
        let mut chance = Chance::new(seed ^ 0x5bd1_e995);
        let now = Time::from_millis(1000);
        let pieces = replay(&world.inputs, limits, now, |left| 1 + chance.below(left.min(most)));
        prop_assert!(pieces.0 == world.actions);
        prop_assert!(pieces.1 == world.heard());
        let joined = replay(&join(&world.inputs), limits, now, |left| left);
        prop_assert!(joined.0 == world.actions);
        prop_assert!(joined.1 == world.heard());
    }
}

/// Consecutive inputs from the same side, joined.
fn join(inputs: &[Input]) -> Vec<Input> {
    let mut joined: Vec<Input> = Vec::new();
    for input in inputs {
        match (joined.last_mut(), input) {
            (Some(Input::Client(bytes)), Input::Client(more)) | (Some(Input::Server(bytes)), Input::Server(more)) => {
                bytes.extend_from_slice(more);
            }
            _ => joined.push(input.clone()),
        }
    }
    joined
}

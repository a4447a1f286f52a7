//! Messages that no correct peer sends: refused with a reason, or harmless. Never a panic.

use std::time::Duration;

use vpfs_core::testing::Random;
use vpfs_core::{ServiceClass, Time};
use vpfs_node::coordination::{
    CoordinationSettings, Coordinator, Counted, Event, FlowKey, FlowTotal, Message, MessageError, Position, Standing,
};

use super::{add, id};

const DATA: Counted = Counted::Service(ServiceClass::Data);

fn coordinator(settings: CoordinationSettings) -> Coordinator {
    Coordinator::new(Time::ZERO, id(0), 7, [id(1), id(2)], settings)
}

/// A peer in its first second, with changes up to `version`.
fn message(version: u64, entries: &[FlowTotal]) -> Message {
    let at = Position { horizon: 0, version };
    let age = Duration::ZERO;
    Message {
        incarnation: 1,
        age,
        to: Some(7),
        standing: Standing { members: 0, group: id(1), side: id(1), stream: 1, to_stream: 1, live: 1 },
        ack: Position::default(),
        base: 0,
        at,
        more: false,
        entries: entries.into(),
    }
}

fn entry(key: u64, changed: u64, total: i64) -> FlowTotal {
    FlowTotal { key: FlowKey(key), counted: DATA, born: 1, changed, total, left: false }
}

fn refusal(message: &Message) -> MessageError {
    let mut coordinator = coordinator(CoordinationSettings::default());
    coordinator.report(Time::ZERO, FlowKey(1), DATA, 5).unwrap();
    let error = coordinator.handle_message(Time::ZERO, id(1), message).unwrap_err();
    assert_eq!(coordinator.poll_service(), None);
    assert_eq!(coordinator.poll_event(), None, "nothing of it was used, not even that the peer lives");
    error
}

#[test]
fn impossible_messages_are_refused_with_the_reason() {
    let unknown = coordinator(CoordinationSettings::default()).handle_message(Time::ZERO, id(9), &message(0, &[]));
    assert_eq!(unknown, Err(MessageError::UnknownPeer(9)));
    let backwards = refusal(&Message { base: 2, ..message(1, &[]) });
    assert_eq!(backwards, MessageError::VersionsBackwards { base: 2, version: 1 });
    let ahead = refusal(&Message { ack: Position { horizon: 0, version: 2 }, ..message(0, &[]) });
    assert_eq!(ahead, MessageError::AckAhead { version: 2, own: 1 });
    assert!(ahead.to_string().contains("incarnation"), "the usual cause is named");
    let many: Vec<FlowTotal> = (1..=1025).map(|version| entry(version, version, 1)).collect();
    assert_eq!(refusal(&message(2000, &many)), MessageError::TooManyEntries { entries: 1025 });
}

#[test]
fn impossible_entries_are_refused() {
    let later_than_the_message = [entry(1, 3, 1)];
    let out_of_order = [entry(1, 2, 1), entry(2, 1, 1)];
    let before_its_flow = [FlowTotal { born: 2, ..entry(1, 1, 1) }];
    for entries in [&later_than_the_message[..], &out_of_order, &before_its_flow] {
        assert!(matches!(refusal(&message(2, entries)), MessageError::ImpossibleEntry { .. }), "{entries:?}");
    }
}

/// A hundred bytes in the ten seconds for which messages may be late.
fn slow() -> CoordinationSettings {
    CoordinationSettings { max_service_rate: 10, ..CoordinationSettings::default() }
}

#[test]
fn an_implausible_step_is_reported_and_not_passed_on() {
    let mut coordinator = coordinator(slow());
    let totals = [(1, 60), (2, i64::MAX), (3, i64::MIN), (4, -50), (5, -10)];
    for (version, total) in totals {
        let message = Message { base: version - 1, ..message(version, &[entry(1, version, total)]) };
        coordinator.handle_message(Time::ZERO, id(1), &message).unwrap();
    }
    assert_eq!(coordinator.poll_service(), Some((FlowKey(1), DATA, 100)), "the first step and the last");
    let events = std::iter::from_fn(|| coordinator.poll_event());
    assert_eq!(events.filter(|(_, event)| matches!(event, Event::StepRefused { .. })).count(), 3);
    assert_eq!(coordinator.peer_service(id(1), FlowKey(1), DATA), Some(-10), "the view follows all the same");
}

/// What it reports in any time is at most what it can have given in it and in ten seconds.
#[test]
fn a_liar_that_is_always_there_is_bounded_by_time() {
    let mut coordinator = coordinator(slow());
    let mut heard = 0;
    for version in 1..=1000 {
        let at = Time::from_millis(version * 100);
        let total = i64::try_from(version * 100).unwrap();
        let entry = FlowTotal { born: 1, ..entry(1, version, total) };
        let message = Message { base: version - 1, ..message(version, &[entry]) };
        coordinator.handle_message(at, id(1), &message).unwrap();
        while let Some((_, _, bytes)) = coordinator.poll_service() {
            heard += bytes;
        }
    }
    assert!((900..=1100).contains(&heard), "{heard} of 1,000 in 100 s");
}

#[test]
fn service_of_an_hour_without_messages_counts() {
    // With keep-alives, the silent peer would be lost.
    let mut coordinator = coordinator(CoordinationSettings { keep_alive: None, ..slow() });
    coordinator.handle_message(Time::ZERO, id(1), &message(1, &[entry(1, 1, 50)])).unwrap();
    assert_eq!(coordinator.poll_service(), Some((FlowKey(1), DATA, 50)));
    let hour = Time::from_millis(3_600_000);
    // Of two messages, the first is only a part.
    let both = [entry(1, 2, 18_050), entry(2, 3, 17_000)].map(|entry| FlowTotal { born: entry.born.min(2), ..entry });
    let first = Message { base: 1, more: true, ..message(2, &both[..1]) };
    coordinator.handle_message(hour, id(1), &first).unwrap();
    assert_eq!(coordinator.poll_service(), Some((FlowKey(1), DATA, 18_000)));
    let second = Message { base: 2, ..message(3, &both[1..]) };
    coordinator.handle_message(hour, id(1), &second).unwrap();
    assert_eq!(coordinator.poll_service(), Some((FlowKey(2), DATA, 17_000)));
    let again = Message { base: 3, ..message(4, &[FlowTotal { born: 1, ..entry(1, 4, 30_000) }]) };
    coordinator.handle_message(hour, id(1), &again).unwrap();
    assert_eq!(coordinator.poll_service(), None, "the hour counts once");
}

#[test]
fn amounts_saturate() {
    let mut coordinator =
        coordinator(CoordinationSettings { max_service_rate: u64::MAX, ..CoordinationSettings::default() });
    for peer in [1, 2] {
        coordinator.handle_message(Time::ZERO, id(peer), &message(1, &[entry(1, 1, i64::MAX)])).unwrap();
    }
    coordinator.report(Time::ZERO, FlowKey(1), DATA, i64::MAX).unwrap();
    coordinator.report(Time::ZERO, FlowKey(1), DATA, i64::MAX).unwrap();
    assert_eq!(coordinator.poll_service(), Some((FlowKey(1), DATA, i64::MAX)));
    assert_eq!(coordinator.total_service(FlowKey(1), DATA), Some(i64::MAX));
}

/// It could make this server start from zero with every message, so that nobody hears of its service any more.
#[test]
fn a_peer_that_lies_about_incarnations_does_so_once() {
    let mut coordinator = coordinator(CoordinationSettings::default());
    let mut incarnation = |to: u64| {
        let message = Message { to: Some(to), ..message(1, &[entry(1, 1, 1)]) };
        coordinator.handle_message(Time::ZERO, id(1), &message).unwrap();
        coordinator.report(Time::ZERO, FlowKey(1), DATA, 5).unwrap();
        std::iter::from_fn(|| coordinator.poll_transmit(Time::ZERO)).last().map(|(_, message)| message.incarnation)
    };
    assert_eq!([u64::MAX, 6].map(&mut incarnation), [Some(7); 2]);
    let raised = incarnation(9);
    assert!(raised > Some(9));
    assert_eq!(incarnation(1 << 60), raised);
}

fn any_message(random: &mut Random) -> Message {
    let mut number = || [0, 1, 2, 3, 7, 50, u64::MAX - 1, u64::MAX][random.below(8) as usize];
    let mut message = message(number(), &[]);
    (message.incarnation, message.base, message.at.horizon) = (number(), number(), number());
    message.ack = Position { horizon: number(), version: number() };
    message.age = Duration::from_nanos(number());
    message.to = [None, Some(7), Some(number())][random.below(3) as usize];
    message.more = random.below(2) == 0;
    let mut changed = message.base;
    let mut entries = Vec::new();
    for _ in 0..random.below(4) {
        changed = changed.saturating_add(1 + u64::from(random.below(2)));
        let total = random.bits().cast_signed() >> random.below(64);
        let left = random.below(3) == 0;
        entries.push(FlowTotal { left, ..entry(u64::from(random.below(40)), changed, total) });
    }
    Message { entries: entries.into(), ..message }
}

#[test]
fn a_hostile_peer_affects_only_its_own_view() {
    println!("seeds 1 to 200");
    let mut accepted = 0;
    for seed in 1..=200 {
        let mut random = Random::new(seed);
        let mut coordinator = coordinator(CoordinationSettings { max_flows: 16, ..CoordinationSettings::default() });
        for step in 0..200 {
            let now = Time::from_millis(step * 50);
            accepted += u32::from(coordinator.handle_message(now, id(1), &any_message(&mut random)).is_ok());
            coordinator.handle_timeout(now);
            assert!(std::iter::from_fn(|| coordinator.poll_transmit(now)).count() <= 2, "one message for each peer");
            while coordinator.poll_service().is_some() {}
            let of_peer = (0..40).filter(|key| coordinator.peer_service(id(1), FlowKey(*key), DATA).is_some());
            assert!(of_peer.count() <= 16);
        }
        let honest = message(1, &[entry(99, 1, 123)]);
        coordinator.handle_message(Time::from_millis(10_000), id(2), &honest).unwrap();
        let mut given = crate::coordination::Sums::new();
        while let Some((key, class, bytes)) = coordinator.poll_service() {
            add(&mut given, (key, class), bytes);
        }
        assert_eq!(given, [((FlowKey(99), DATA), 123)].into());
    }
    assert!(accepted > 5_000, "{accepted} of 40000 messages got past the checks");
}

//! The format of frames: golden bytes, round trips, and bytes from anybody.

#[path = "../../../../fuzz/src/peer.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use proptest::collection::vec;
use proptest::prelude::*;
use vpfs_core::pace::{AppMeasure, Decision, Measure, Pace};
use vpfs_core::{ServerId, ServiceClass, Time, TotalKind};
use vpfs_node::coordination::{Counted, FlowKey, FlowTotal, Message, Position, Standing};
use vpfs_node::frames::{Frame, Hello, Report, SERVERS, WireError};
use vpfs_node::{PaceMessage, PeerMessage};

fn bytes(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

fn hello(servers: &[&str]) -> Result<Hello, WireError> {
    Hello::new("scratch".into(), 0x0102_0304, servers.iter().map(|&name| name.to_owned()).collect())
}

/// One frame of each kind. Every number differs, so that exchanged fields are noticed.
fn examples() -> Vec<(&'static str, Frame)> {
    let entry =
        |counted, total, left| FlowTotal { key: FlowKey::of("climate"), counted, born: 11, changed: 12, total, left };
    let message = Message {
        incarnation: 1,
        age: Duration::from_nanos(2),
        to: Some(3),
        standing: Standing {
            members: 14,
            group: ServerId(15),
            side: ServerId(16),
            stream: 17,
            to_stream: 18,
            live: 19,
        },
        ack: Position { horizon: 4, version: 5 },
        base: 6,
        at: Position { horizon: 7, version: 13 },
        more: true,
        entries: [
            entry(Counted::Service(ServiceClass::Data), 10 << 20, false),
            entry(Counted::Service(ServiceClass::Metadata), -1, true),
            entry(Counted::Given(TotalKind::Cap, ServiceClass::Data), 20, false),
            entry(Counted::Wanted(TotalKind::Target, ServiceClass::Metadata), 21, false),
            entry(Counted::Given(TotalKind::Minimum, ServiceClass::Data), 22, true),
        ]
        .into(),
    };
    let empty = Message { to: None, more: false, entries: [].into(), ..message.clone() };
    let [sent, received, answered] = [1, 2, 3].map(Time::from_millis);
    vec![
        ("hello", Frame::Hello(hello(&["s1", "s2"]).expect("names of servers"))),
        ("report", Frame::Report(Report { from: 8, to: 9, message: PeerMessage::Service(message) })),
        ("report_empty", Frame::Report(Report { from: 0, to: 1, message: PeerMessage::Service(empty) })),
        ("ping", Frame::Ping { sent }),
        ("pong", Frame::Pong { sent, received, answered }),
        ("unlisted", Frame::Unlisted),
        (
            "measured",
            pace(measured(
                [1.5, 2.0, 0.25, 3.0, 4.0, 5.0, 6.0, 0.5, 14.0, 16.0],
                &[(7, [1.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0])],
            )),
        ),
        ("decided", pace(decided(Pace::At(1e6), [4.0, 2.0, 3.0, 9.0], [&[7, 8], &[9]]))),
        ("decided_first", pace(decided(Pace::First, [1.0, 2.0, 3.0, 4.0], [&[], &[]]))),
    ]
}

fn pace(message: PaceMessage) -> Frame {
    Frame::Report(Report { from: 1, to: 2, message: PeerMessage::Pace(message) })
}

fn measured(
    [best, most, seconds, served, lost, blocked, unwanted, full, usual, minima]: [f64; 10],
    apps: &[(u64, [f64; 11])],
) -> PaceMessage {
    let app = |&(key, values): &(u64, [f64; 11])| {
        let [weight, footprint, got, done, late, waited, stored, pending, age, longest, clients] = values;
        let key = FlowKey(key);
        AppMeasure { key, weight, footprint, got, done, late, waited, stored, pending, age, longest, clients }
    };
    let measure =
        Measure { seconds, served, lost, blocked, unwanted, full, usual, minima, apps: apps.iter().map(app).collect() };
    PaceMessage::Measured { number: 1, best, most, measure }
}

fn decided(pace: Pace, [wide, most, best, largest]: [f64; 4], apps: [&[u64]; 2]) -> PaceMessage {
    let [bulk, interactive] = apps.map(|keys| keys.iter().copied().map(FlowKey).collect());
    PaceMessage::Decided { number: 2, decision: Decision { pace, wide, most, best, largest, bulk, interactive } }
}

/// The message about service of an example.
fn service(examples: usize) -> (Report, Message) {
    match examples_of(examples) {
        Frame::Report(report @ Report { message: PeerMessage::Service(_), .. }) => {
            let PeerMessage::Service(message) = report.message.clone() else { unreachable!("matched") };
            (report, message)
        }
        other => panic!("{other:?} is no report"),
    }
}

fn examples_of(index: usize) -> Frame {
    examples().swap_remove(index).1
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The bytes of a version never change. The files are the corpus of the fuzz target, too; UPDATE=1 writes them.
#[test]
fn golden_frames() {
    for (name, frame) in examples() {
        let path = folder("../../fuzz/corpus/peer_frame").join(name);
        if env::var_os("UPDATE").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes(&frame)).unwrap();
        }
        let golden = fs::read(path).unwrap();
        assert!(golden == bytes(&frame), "{name}");
        assert_eq!(Frame::decode(&golden), Ok(Some((frame, golden.len()))));
    }
}

#[test]
fn fuzz_corpus() {
    let corpus = fs::read_dir(folder("../../fuzz/corpus/peer_frame")).unwrap();
    let count = corpus.map(|entry| fuzz::peer_frame(&fs::read(entry.unwrap().path()).unwrap())).count();
    assert!(count >= examples().len());
}

#[test]
fn a_report_has_the_size_that_its_coordinator_counts() {
    for (_, frame) in examples() {
        if let Frame::Report(report) = &frame {
            assert_eq!(bytes(&frame).len(), vpfs_node::frames::HEADER_LEN + 4 + report.message.encoded_len());
        }
    }
}

#[test]
fn the_largest_frames_fit() {
    let names: Vec<String> = (0..SERVERS).map(|number| format!("{number:064}")).collect();
    let hello = Frame::Hello(Hello::new("c".repeat(64), 1, names).unwrap());
    assert_eq!(Frame::decode(&bytes(&hello)), Ok(Some((hello.clone(), bytes(&hello).len()))));
    let entry =
        FlowTotal { key: FlowKey(1), counted: ServiceClass::Data.into(), born: 1, changed: 1, total: 1, left: false };
    let (report, message) = service(1);
    let message = PeerMessage::Service(Message { entries: vec![entry; Message::MAX_ENTRIES].into(), ..message });
    let report = Frame::Report(Report { message, ..report });
    let full = [(1, [1.0; 11]); PaceMessage::APPS];
    for frame in
        [report, pace(measured([1.0; 10], &full)), pace(decided(Pace::Free, [1.0; 4], [&[1; PaceMessage::APPS]; 2]))]
    {
        assert_eq!(Frame::decode(&bytes(&frame)), Ok(Some((frame.clone(), bytes(&frame).len()))));
    }
}

#[test]
fn others_are_told_apart() {
    let mut foreign = bytes(&examples()[0].1);
    foreign[5] = b'V';
    assert_eq!(Frame::decode(&foreign), Err(WireError::Magic));
    let mut newer = bytes(&examples()[0].1);
    newer[10] = 9;
    assert_eq!(Frame::decode(&newer), Err(WireError::Version(9)));
    // The length of a client's first bytes, of TLS, and of HTTP.
    for other in [&[0xff; 64][..], b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n"] {
        assert!(matches!(Frame::decode(other), Err(WireError::Length(_))), "{other:?}");
    }
    assert!(hello(&["s1", "s2", "s1"]).is_err() && hello(&[]).is_err() && hello(&[""]).is_err());
}

/// Only the length of a frame that announces 4 GB or 1,024 entries has to arrive before it is refused.
#[test]
fn lengths_are_checked_before_anything_is_allocated() {
    assert_eq!(Frame::decode(&[0xff; 4]), Err(WireError::Length(u32::MAX)));
    let mut report = bytes(&examples()[2].1);
    let count = report.len() - 2;
    report[count..].copy_from_slice(&1024_u16.to_be_bytes());
    assert_eq!(Frame::decode(&report), Err(WireError::BodyLength));
}

/// Of two bits for the kind of a total, 0 is none: then nothing of it can be wanted.
#[test]
fn what_is_counted_has_one_encoding() {
    let (report, message) = service(1);
    let first = bytes(&Frame::Report(report.clone())).len() - message.entries.len() * Message::ENTRY_LEN;
    let decoded = |flags| {
        let mut frame = bytes(&Frame::Report(report.clone()));
        frame[first] = flags;
        Frame::decode(&frame)
    };
    let valid: Vec<u8> = (0..=u8::MAX).filter(|flags| decoded(*flags).is_ok()).collect();
    assert_eq!(valid.len(), 2 * Counted::all().count());
    assert!(matches!(decoded(16), Err(WireError::Value(_))) && matches!(decoded(32), Err(WireError::Value(_))));
}

fn entries() -> impl Strategy<Value = Vec<FlowTotal>> {
    let counted = prop::sample::select(Counted::all().collect::<Vec<_>>());
    let entry = (any::<[u64; 3]>(), any::<i64>(), counted, any::<bool>());
    vec(
        entry.prop_map(|([key, born, changed], total, counted, left)| FlowTotal {
            key: FlowKey(key),
            counted,
            born,
            changed,
            total,
            left,
        }),
        0..60,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn reports_arrive_as_sent(
        numbers: [u64; 8], [group, side, stream, to_stream, live]: [u32; 5], to: Option<u64>, more: bool, [from, receiver]: [u16; 2], entries in entries(),
    ) {
        let [incarnation, age, members, horizon, version, base, at_horizon, at] = numbers;
        let standing = Standing { members, group: ServerId(group), side: ServerId(side), stream, to_stream, live };
        let message = Message {
            incarnation,
            age: Duration::from_nanos(age),
            to,
            standing,
            ack: Position { horizon, version },
            base,
            at: Position { horizon: at_horizon, version: at },
            more,
            entries: entries.into(),
        };
        let frame = Frame::Report(Report { from, to: receiver, message: PeerMessage::Service(message) });
        let sent = bytes(&frame);
        prop_assert_eq!(Frame::decode(&sent), Ok(Some((frame, sent.len()))));
        fuzz::peer_frame(&sent);
    }

    /// As far as its digits go, and its range.
    #[test]
    fn messages_about_the_pace_arrive_as_sent(
        values: [f32; 10], rate in 0.0_f32..1e18, keys in vec(any::<u64>(), 0..32), at: proptest::sample::Index, apps in vec(any::<(u64, [f32; 11])>(), 0..32),
    ) {
        let value = |value: f32| if value > 0.0 { f64::from(value.min(1e18)) } else { 0.0 };
        let apps: Vec<_> = apps.into_iter().map(|(key, values)| (key, values.map(value))).collect();
        let [wide, most, best, largest, ..] = values.map(value);
        let (bulk, interactive) = keys.split_at(at.index(keys.len() + 1));
        for message in [measured(values.map(value), &apps), decided(Pace::At(rate.into()), [wide, most, best, largest], [bulk, interactive])] {
            let sent = bytes(&pace(message.clone()));
            prop_assert_eq!(Frame::decode(&sent), Ok(Some((pace(message), sent.len()))));
        }
    }

    #[test]
    fn damaged_frames(index in 0_usize..9, at: proptest::sample::Index, value: u8, cut: proptest::sample::Index) {
        let mut damaged = bytes(&examples()[index].1);
        let at = at.index(damaged.len());
        damaged[at] = value;
        fuzz::peer_frame(&damaged);
        damaged.truncate(cut.index(damaged.len()));
        fuzz::peer_frame(&damaged);
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300)) {
        fuzz::peer_frame(&bytes);
    }
}

#[test]
fn values_about_the_pace_are_limited() {
    let frame = bytes(&pace(decided(Pace::At(1.0), [1.0; 4], [&[], &[]])));
    let rate = vpfs_node::frames::HEADER_LEN + 4 + 1 + 4;
    for refused in [f32::NAN, f32::INFINITY, -1.0, -0.0, 2e18] {
        let mut frame = frame.clone();
        frame[rate..rate + 4].copy_from_slice(&refused.to_bits().to_be_bytes());
        assert!(matches!(Frame::decode(&frame), Err(WireError::Value(_))), "{refused}");
    }
    let mut many = frame.clone();
    *many.last_mut().unwrap() = 33;
    assert!(matches!(Frame::decode(&many), Err(WireError::Value(_))));
}

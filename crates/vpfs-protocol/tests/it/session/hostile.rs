//! Bytes that no correct peer sends: nothing panics, memory stays bounded, and every operation is returned.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use vpfs_protocol::session::{Action, CloseReason, Side};

use crate::fuzz;
use crate::session::common::Wire;
use crate::session::common::messages::*;

#[test]
fn fuzz_corpus() {
    for name in ["session", "nfs_session"] {
        let target = if name == "session" { fuzz::session } else { fuzz::nfs_session };
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        let entries: Vec<_> = fs::read_dir(corpus).unwrap().collect();
        assert!(!entries.is_empty(), "{name}");
        entries.into_iter().for_each(|entry| target(&fs::read(entry.unwrap().path()).unwrap()));
    }
}

/// Every captured request truncated to every length, with a matching header.
#[test]
fn truncated_requests() {
    let mut refused = 0;
    for name in captured_names("request") {
        let payload = captured("request", &name);
        for len in 0..payload.len() {
            let mut wire = Wire::new();
            let actions = wire.client(&frame_request(1, &payload[..len]));
            if let Some(Action::Close(reason)) = actions.last() {
                assert!(matches!(reason, CloseReason::Malformed { side: Side::Client, .. }), "{name}: {reason}");
                refused += 1;
            }
            wire.client_eof();
        }
    }
    assert!(refused > 5000, "{refused} requests");
}

/// Every captured reply truncated to every length, to a request with such a reply.
#[test]
fn truncated_replies() {
    let requests = captured_names("request");
    for name in captured_names("reply") {
        let payload = captured("reply", &name);
        let request = requests.iter().find(|request| request[..4] == name[..4]);
        let request = captured("request", request.unwrap_or(&"op03_io_request_write_basic_dist".to_owned()));
        for len in 0..payload.len() {
            let mut wire = Wire::new();
            if let Some(Action::Enqueue(op, _)) = wire.client(&frame_request(1, &request)).last() {
                wire.dispatch(*op);
            }
            let actions = wire.server(&frame_reply(1, &payload[..len]));
            if let Some(Action::Close(reason)) = actions.last() {
                assert!(reason.to_string().contains("server"), "{name}: {reason}");
            }
            wire.server_eof();
        }
    }
}

static REQUESTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| payloads("request"));
static REPLIES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut replies = payloads("reply");
    // The answers to most operations in progress, so that these advance.
    replies.extend(
        [ack(1, 0), ack(1, 1 << 40), written(1, 5), refusal(1, vpfs_protocol::wire::pvfs2::Op::Io)]
            .map(|message| message[24..].to_vec()),
    );
    replies
});

fn payloads(kind: &str) -> Vec<Vec<u8>> {
    captured_names(kind).iter().map(|name| captured(kind, name)).filter(|payload| payload.len() < 1000).collect()
}

/// A step of a script, as the fuzz target reads it: a message with a possibly damaged payload.
fn message(step: u8, payloads: &'static LazyLock<Vec<Vec<u8>>>) -> impl Strategy<Value = Vec<u8>> {
    let damage = proptest::collection::vec((any::<Index>(), any::<u8>()), 0..3);
    let damage = prop_oneof![4 => Just(Vec::new()), 1 => damage];
    let cut = prop_oneof![9 => Just(None), 1 => any::<Index>().prop_map(Some)];
    (0u8..6, any::<Index>(), damage, cut).prop_map(move |(tag, at, damage, cut)| {
        let mut payload = at.get(payloads).clone();
        for (at, value) in damage {
            let at = at.index(payload.len());
            payload[at] = value;
        }
        payload.truncate(cut.map_or(payload.len(), |cut| cut.index(payload.len())));
        let len = u16::try_from(payload.len()).unwrap().to_le_bytes();
        [&[step, tag][..], &len, &payload].concat()
    })
}

fn step() -> impl Strategy<Value = Vec<u8>> {
    let zeros = |step: u8| {
        (0u8..6, prop_oneof![0u16..30, any::<u16>()])
            .prop_map(move |(tag, len)| [&[step, tag][..], &len.to_le_bytes()].concat())
    };
    let raw = (select(vec![9u8, 10]), proptest::collection::vec(any::<u8>(), 0..60))
        .prop_map(|(step, bytes)| [&[step, u8::try_from(bytes.len()).unwrap()][..], &bytes].concat());
    let header =
        (select(vec![9u8, 10]), select(vec![2u32, 4, 8]), 0u64..6, 0u64..20_000).prop_map(|(step, mode, tag, size)| {
            let header = [&51_903u32.to_le_bytes()[..], &mode.to_le_bytes(), &tag.to_le_bytes(), &size.to_le_bytes()];
            [&[step, 24][..], &header.concat()].concat()
        });
    prop_oneof![
        8 => message(0, &REQUESTS),
        8 => message(1, &REPLIES),
        1 => message(2, &REPLIES),
        3 => zeros(3),
        3 => zeros(4),
        8 => any::<u8>().prop_map(|at| vec![5, at]),
        1 => any::<u8>().prop_map(|seconds| vec![6, seconds]),
        3 => (7u8..9, any::<u16>()).prop_map(|(step, count)| [&[step][..], &count.to_le_bytes()].concat()),
        1 => raw,
        1 => header,
        1 => prop_oneof![Just(vec![11, 0]), Just(vec![11, 1]), Just(vec![12])],
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn hostile_scripts(limits: u8, piece: u8, steps in proptest::collection::vec(step(), 0..60)) {
        fuzz::session(&[&[limits, piece][..], &steps.concat()].concat());
    }

    #[test]
    fn arbitrary_bytes(is_client: bool, bytes in proptest::collection::vec(any::<u8>(), 1..200), valid in 0usize..3) {
        let mut wire = Wire::new();
        for tag in 0..i32::try_from(valid).unwrap() {
            wire.sent(&readdir(tag));
        }
        let side = if is_client { "client" } else { "server" };
        let actions = if is_client { wire.client(&bytes) } else { wire.server(&bytes) };
        match actions.last() {
            Some(Action::Close(reason)) => prop_assert!(reason.to_string().contains(side)),
            _ => {
                prop_assert!(actions.is_empty());
                let actions = if is_client { wire.client_eof() } else { wire.server_eof() };
                let is_closed = matches!(actions.last(), Some(Action::Close(CloseReason::Truncated(_))));
                prop_assert!(is_closed);
            }
        }
        prop_assert!(is_client || wire.session.is_closed());
        wire.session.end();
        wire.actions();
        prop_assert!(wire.record.is_empty() && wire.session.is_closed());
    }
}

//! Borrowed views agree with full decoding on every captured message.
#![allow(clippy::unwrap_used, reason = "a test may unwrap: its panic is the report")]

mod common;

use common::{Frame, frames};
use vpfs_wire::pvfs2::view::ReplyNumbers;
use vpfs_wire::pvfs2::{Hint, HintView, IoType, Op, Reply, ReplyBody, ReplyHead, Request, RequestBody, RequestView};

fn requests() -> Vec<Frame> {
    frames().into_iter().filter(|frame| frame.is_request).collect()
}

#[test]
fn heads_of_requests() {
    for frame in requests() {
        let request = Request::decode(&frame.payload).unwrap();
        let view = RequestView::parse(&frame.payload).unwrap();
        assert_eq!(view.op(), request.body.op(), "{}", frame.name);
        assert_eq!(view.body_offset() as u64, frame.json["decoded"]["body_offset"].as_u64().unwrap(), "{}", frame.name);
        assert_eq!(view.capability().issuer, request.capability.issuer.0, "{}", frame.name);
        assert_eq!(view.capability().handles().collect::<Vec<_>>(), request.capability.handles, "{}", frame.name);
        assert_eq!(view.capability().timeout, request.capability.timeout, "{}", frame.name);
        assert_eq!(view.hints().count(), request.hints.len(), "{}", frame.name);
        let handle = request.hints.iter().find_map(|hint| match hint {
            Hint::Handle(handle) => Some(*handle),
            _ => None,
        });
        assert_eq!(view.hint_handle(), handle, "{}", frame.name);
        let has_server_id = request.hints.iter().any(|hint| matches!(hint, Hint::ServerId(_)));
        assert_eq!(view.has_server_id_hint(), has_server_id, "{}", frame.name);
    }
}

#[test]
fn credentials() {
    let mut count = 0;
    for frame in requests() {
        let request = Request::decode(&frame.payload).unwrap();
        let view = RequestView::parse(&frame.payload).unwrap();
        let ids = view.credential_ids().unwrap();
        assert_eq!(ids.is_some(), request.body.credential().is_some(), "{}", frame.name);
        if let (Some(ids), Some(credential)) = (ids, request.body.credential()) {
            assert_eq!(ids.uid, credential.uid, "{}", frame.name);
            assert_eq!(ids.gids().collect::<Vec<_>>(), credential.gids, "{}", frame.name);
            assert_eq!(ids.gid(), credential.gids.first().copied(), "{}", frame.name);
            assert_eq!(ids.issuer, credential.issuer.0, "{}", frame.name);
            count += 1;
        }
    }
    assert_eq!(count, 30);
}

#[test]
fn data_operations() {
    let mut count = 0;
    for frame in requests() {
        let view = RequestView::parse(&frame.payload).unwrap();
        let (io, small_io) = (view.io().unwrap(), view.small_io().unwrap());
        match Request::decode(&frame.payload).unwrap().body {
            RequestBody::Io(body) => {
                let io = io.unwrap();
                assert_eq!((io.handle, io.fs, io.io_type), (body.handle, body.fs, body.io_type));
                assert_eq!((io.server_nr, io.server_ct, io.dist), (body.server_nr, body.server_ct, body.dist.view()));
                assert_eq!(io.preq.nodes().collect::<Vec<_>>(), body.preq.nodes);
                assert_eq!((io.file_req_offset, io.aggregate_size), (body.file_req_offset, body.aggregate_size));
                assert_eq!(io.transfer().unwrap().write_bytes(), body.transfer().unwrap().write_bytes());
                count += 1;
            }
            RequestBody::SmallIo(body) => {
                let small = small_io.unwrap();
                assert_eq!((small.io.handle, small.io.io_type), (body.handle, body.io_type));
                assert_eq!(small.data, body.data);
                assert_eq!(small.total_bytes, frame.body()["total_bytes"].as_u64().unwrap());
                if body.io_type == IoType::Write {
                    assert_eq!(small.io.transfer().unwrap().write_bytes(), Ok(small.total_bytes), "{}", frame.name);
                }
                count += 1;
            }
            _ => assert!(io.is_none() && small_io.is_none()),
        }
    }
    assert_eq!(count, 20);
}

/// The variant of a capture between servers names it as such.
#[test]
fn servers_are_recognised() {
    for frame in requests() {
        let view = RequestView::parse(&frame.payload).unwrap();
        let is_server = frame.json["variant"].as_str().unwrap().starts_with("server_to_server");
        let found = view.is_from_server().unwrap();
        if is_server && view.op() == Op::Io {
            // Mirroring uses an IO without any mark.
            assert!(!found);
        } else {
            assert_eq!(found, is_server, "{}", frame.name);
        }
    }
}

#[test]
fn named_hints_mark_programs() {
    let frame = Frame::named("op01_create_request_simple_stripe_user_hints");
    let view = RequestView::parse(&frame.payload).unwrap();
    let named = view.hints().find_map(|hint| match hint {
        HintView::Named { name, value } => Some((name, value)),
        _ => None,
    });
    assert_eq!(named, Some((&b"app"[..], &b"myapp"[..])));
    assert!(view.hints().any(|hint| hint == HintView::Number { kind: 5, value: 3 }));
}

#[test]
fn heads_of_replies() {
    for frame in frames().into_iter().filter(|frame| !frame.is_request) {
        let head = ReplyHead::parse(&frame.payload).unwrap();
        let reply = Reply::decode(&frame.payload).unwrap();
        assert_eq!((head.op, head.status), (reply.op, reply.status), "{}", frame.name);
        let number = |key: &str| frame.body()[key].as_u64().unwrap();
        let expected = match reply.body {
            ReplyBody::Io(_) => ReplyNumbers::IoAck { bstream_size: number("bstream_size") },
            ReplyBody::WriteCompletion(_) => {
                ReplyNumbers::WriteCompletion { total_completed: number("total_completed") }
            }
            ReplyBody::SmallIo(_) => ReplyNumbers::SmallIo {
                io_type: if number("io_type") == 1 { IoType::Read } else { IoType::Write },
                bstream_size: number("bstream_size"),
                result_size: number("result_size"),
            },
            _ => ReplyNumbers::None,
        };
        assert_eq!(head.numbers, expected, "{}", frame.name);
    }
}

//! Borrowed views agree with full decoding on every captured message.

use crate::common::{Frame, frames};
use vpfs_wire::pvfs2::view::ReplyNumbers;
use vpfs_wire::pvfs2::{
    Columns, Credential, Dist, Handle, Hint, HintView, IoType, Op, Reply, ReplyBody, ReplyHead, Request, RequestBody,
    RequestView, request,
};

fn requests() -> Vec<Frame> {
    frames().into_iter().filter(|frame| frame.is_request).collect()
}

#[test]
fn heads_of_requests() {
    for frame in requests() {
        let request = Request::decode(&frame.payload).unwrap();
        let view = RequestView::parse(&frame.payload).unwrap();
        assert_eq!(view.op, request.body.op(), "{}", frame.name);
        assert_eq!(view.body_at as u64, frame.json["decoded"]["body_offset"].as_u64().unwrap(), "{}", frame.name);
        assert_eq!(view.capability.issuer, request.capability.issuer.0, "{}", frame.name);
        assert_eq!(view.capability.handles().collect::<Vec<_>>(), request.capability.handles, "{}", frame.name);
        assert_eq!(view.capability.timeout, request.capability.timeout, "{}", frame.name);
        assert_eq!(view.hints().count(), request.hints.len(), "{}", frame.name);
        let handle = request.hints.iter().find_map(|hint| match hint {
            Hint::Handle(handle) => Some(*handle),
            _ => None,
        });
        assert_eq!(view.hint_handle, handle, "{}", frame.name);
        let has_server_id = request.hints.iter().any(|hint| matches!(hint, Hint::ServerId(_)));
        assert_eq!(view.has_server_id_hint, has_server_id, "{}", frame.name);
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

/// How many objects a decoded request works on.
fn objects_of(body: &RequestBody) -> usize {
    let number = |count: i32| usize::try_from(count).unwrap_or(0);
    let count = match body {
        RequestBody::LookupPath(body) => {
            body.path.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).count()
        }
        RequestBody::Create(body) => number(body.num_dfiles),
        RequestBody::MkDir(body) => number(body.servers_initial),
        RequestBody::ReadDir(body) => body.count.min(512) as usize,
        RequestBody::BatchCreate(body) => body.count as usize,
        RequestBody::MgmtIterateHandles(body) => number(body.count),
        RequestBody::ListAttr(body) => body.handles.len(),
        RequestBody::BatchRemove(body) => body.handles.len(),
        RequestBody::GetEattr(body) => body.keys.0.len(),
        RequestBody::SetEattr(body) => body.entries.0.len(),
        RequestBody::AtomicEattr(body) => body.entries.0.len(),
        RequestBody::ListEattr(body) => body.key_sizes.len(),
        RequestBody::TreeRemove(body) => body.handles.len(),
        RequestBody::TreeGetFileSize(body) => body.handles.len(),
        RequestBody::TreeSetAttr(body) => body.handles.len(),
        RequestBody::TreeGetAttr(body) => body.handles.len(),
        RequestBody::Mirror(body) => body.targets.len(),
        RequestBody::MgmtSplitDirent(body) => body.entries.0.len(),
        _ => 1,
    };
    count.max(1)
}

#[test]
fn objects() {
    let mut several = 0;
    for frame in requests() {
        let request = Request::decode(&frame.payload).unwrap();
        let found = RequestView::parse(&frame.payload).unwrap().objects().unwrap() as usize;
        assert_eq!(found, objects_of(&request.body), "{}", frame.name);
        several += usize::from(found > 1);
    }
    assert!(several >= 10, "{several} captures with more than one object");
}

#[test]
fn objects_of_requests_that_were_not_captured() {
    let handles: Vec<_> = (0..9).map(Handle).collect();
    let credential = || Credential { gids: vec![1, 2], issuer: "C:host".into(), ..Credential::default() };
    let bodies = [
        RequestBody::TreeGetAttr(request::TreeGetAttr {
            fs: 1,
            caller_index: 0,
            retry_at_leaf: 0,
            credential: credential(),
            mask: 0,
            handles: handles.clone(),
        }),
        RequestBody::BatchRemove(request::BatchRemove { fs: 1, handles: handles.clone() }),
        RequestBody::ListAttr(request::ListAttr { fs: 1, mask: 0, handles }),
        RequestBody::ReadDir(request::ReadDir { dirdata: Handle(1), fs: 1, count: u32::MAX, token: 0 }),
        RequestBody::MgmtSplitDirent(request::MgmtSplitDirent {
            fs: 1,
            dirdata: Handle(1),
            dist: Dist::Basic,
            undo: 0,
            entries: Columns(vec![(Handle(1), "a".into()), (Handle(2), "b".into())]),
        }),
    ];
    for body in bodies {
        let payload = Request::bare(body.clone()).encode();
        let found = RequestView::parse(&payload).unwrap().objects().unwrap();
        assert!(found > 1 && found as usize == objects_of(&body), "{found} of {}", body.op());
    }
}

/// A session looks only at the first bytes of a reply.
#[test]
fn the_start_of_a_listing_tells_its_length() {
    let listings = frames()
        .into_iter()
        .filter(|frame| !frame.is_request && matches!(frame.op(), Some(Op::ReadDir | Op::MgmtIterateHandles)));
    let mut count = 0;
    for frame in listings {
        let start = &frame.payload[..frame.payload.len().min(48)];
        assert_eq!(ReplyHead::parse(start), ReplyHead::parse(&frame.payload), "{}", frame.name);
        count += 1;
    }
    assert!(count >= 2, "{count}");
}

/// The variant of a capture between servers names it as such.
#[test]
fn servers_are_recognised() {
    for frame in requests() {
        let view = RequestView::parse(&frame.payload).unwrap();
        let is_server = frame.json["variant"].as_str().unwrap().starts_with("server_to_server");
        let found = view.is_from_server().unwrap();
        if is_server && view.op == Op::Io {
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
            ReplyBody::ReadDir(body) => ReplyNumbers::Listing { entries: u32::try_from(body.entries.len()).unwrap() },
            ReplyBody::MgmtIterateHandles(body) => {
                ReplyNumbers::Listing { entries: u32::try_from(body.handles.len()).unwrap() }
            }
            _ => ReplyNumbers::None,
        };
        assert_eq!(head.numbers, expected, "{}", frame.name);
    }
}

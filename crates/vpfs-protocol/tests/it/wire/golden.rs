//! Every captured message decodes to what the capture's own decoder found, encodes to the same bytes outside its
//! padding, and decodes again to the same value.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use vpfs_protocol::wire::bmi::{Header, MAX_UNEXPECTED, Mode, TooLong};
use vpfs_protocol::wire::pvfs2::reply::GetConfig;
use vpfs_protocol::wire::pvfs2::rewrite::{ClientTimeouts, RewriteError};
use vpfs_protocol::wire::pvfs2::view::ReplyNumbers;
use vpfs_protocol::wire::pvfs2::{
    Columns, Credential, Dist, Errno, Handle, Hint, HintView, IoType, Op, Reply, ReplyBody, ReplyHead, Request,
    RequestBody, RequestView, Status, Transfer, request, rewrite,
};
use vpfs_protocol::wire::{DecodeError, bmi};

use crate::fuzz;

#[test]
fn headers() {
    for frame in frames() {
        let header = Header::decode(&frame.header).unwrap();
        assert_eq!(header.encode()[..], frame.header, "{}", frame.name);
        assert_eq!(header.size, frame.payload.len() as u64, "{}", frame.name);
        assert_eq!(header.tag.0, frame.json["bmi"]["tag"].as_u64().unwrap(), "{}", frame.name);
        let framed = if frame.is_request {
            assert_eq!(header.mode, Mode::Unexpected, "{}", frame.name);
            bmi::request_message(header.tag, &frame.payload)
        } else {
            bmi::reply_message(header.tag, &frame.payload)
        };
        assert_eq!(framed.unwrap()[..Header::LEN], frame.header, "{}", frame.name);
    }
}

#[test]
fn requests_and_replies_round_trip() {
    let mut count = 0;
    for frame in frames() {
        let encoded = if frame.is_request {
            let request = Request::decode(&frame.payload).unwrap_or_else(|e| panic!("{}: {e}", frame.name));
            assert_eq!(Some(request.body.op()), frame.op(), "{}", frame.name);
            let encoded = request.encode();
            assert_eq!(Request::decode(&encoded), Ok(request), "{}", frame.name);
            encoded
        } else {
            let reply = Reply::decode(&frame.payload).unwrap_or_else(|e| panic!("{}: {e}", frame.name));
            assert_eq!(Some(reply.op), frame.op(), "{}", frame.name);
            let encoded = reply.encode();
            assert_eq!(Reply::decode(&encoded), Ok(reply), "{}", frame.name);
            encoded
        };
        assert_eq!(frame.masked(&encoded), frame.masked(&frame.payload), "{}", frame.name);
        count += 1;
    }
    assert_eq!(count, 149);
}

#[test]
fn decoded_fields_equal_the_capture() {
    for frame in frames() {
        let found = if frame.is_request {
            format!("{:?}", Request::decode(&frame.payload).unwrap())
        } else {
            format!("{:?}", Reply::decode(&frame.payload).unwrap())
        };
        let mut found = scalars(&found);
        for value in frame.scalars() {
            match found.get_mut(&value) {
                Some(count) if *count > 0 => *count -= 1,
                _ => panic!("{}: {value} is missing in the decoded message", frame.name),
            }
        }
    }
}

#[test]
fn truncated_or_extended_payloads_are_malformed() {
    for frame in frames() {
        let decode = |payload: &[u8]| match frame.is_request {
            true => Request::decode(payload).map(|_| ()),
            false => Reply::decode(payload).map(|_| ()),
        };
        let step = 1 + frame.payload.len() / 500;
        for len in (0..frame.payload.len()).step_by(step) {
            match decode(&frame.payload[..len]) {
                Err(DecodeError::Malformed { offset, .. }) => assert!(offset <= len, "{} cut at {len}", frame.name),
                other => panic!("{} cut at {len}: {other:?}", frame.name),
            }
        }
        let longer = [&frame.payload[..], &[0]].concat();
        let end = frame.payload.len();
        assert!(
            matches!(decode(&longer), Err(DecodeError::Malformed { offset, .. }) if offset == end),
            "{}",
            frame.name
        );
    }
}

#[test]
fn operations_without_a_known_body_are_named() {
    let mut payload = Frame::named("op13_getconfig_request").payload;
    payload[8..12].copy_from_slice(&Op::MgmtEventMon.code().to_le_bytes());
    assert_eq!(Request::decode(&payload), Err(DecodeError::UnknownBody(Op::MgmtEventMon)));
}

/// One captured message.
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) json: Value,
    pub(crate) header: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) is_request: bool,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn load(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 2, 0);
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

impl Frame {
    fn load(path: &Path) -> Self {
        let json = load(path);
        Self {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            header: hex(json["bmi_header_hex"].as_str().unwrap()),
            payload: hex(json["payload_hex"].as_str().unwrap()),
            is_request: json["kind"] == "request",
            json,
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::load(&directory().join(name).with_extension("json"))
    }

    pub(crate) fn op(&self) -> Option<Op> {
        Op::from_code(i32::try_from(self.json["op_code"].as_i64().unwrap()).unwrap())
    }

    pub(crate) fn body(&self) -> &Value {
        &self.json["decoded"]["body"]
    }

    /// The bytes with those that have no meaning zeroed.
    pub(crate) fn masked(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = payload.to_vec();
        for range in self.json["pad_ranges"].as_array().into_iter().flatten() {
            let at = usize::try_from(range[0].as_u64().unwrap()).unwrap();
            let len = usize::try_from(range[1].as_u64().unwrap()).unwrap();
            bytes[at..at + len].fill(0);
        }
        bytes
    }

    /// All values of the capture's decoding, as the `Debug` output of the same fields writes them.
    pub(crate) fn scalars(&self) -> Vec<String> {
        let mut values = Vec::new();
        collect(&self.json["decoded"], "", &mut values);
        assert!(!values.is_empty(), "{}", self.name);
        values
    }
}

/// How often each number and quoted text occurs in a `Debug` output.
pub(crate) fn scalars(debug: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut rest = debug;
    while let Some(at) = rest.find(|c: char| c == '"' || c.is_ascii_digit()) {
        let is_negative = rest[..at].ends_with('-');
        rest = &rest[at..];
        let len = if let Some(text) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = |c: char| {
                let is_end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                is_end
            };
            2 + text.find(end).unwrap()
        } else {
            rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
        };
        let sign = if is_negative { "-" } else { "" };
        *counts.entry(format!("{sign}{}", &rest[..len])).or_default() += 1;
        rest = &rest[len..];
    }
    counts
}

fn collect(value: &Value, key: &str, out: &mut Vec<String>) {
    // Lengths and names that the decoded types express by their enums, and values in another notation.
    const SKIPPED: &str = "proto_version encoding op op_name body_offset sig_size certificate_size data_offset num_servers \
        bitmap_size nkey nentries handle_count nhandles target_len fs_config_buf_size config_len_field_offset value_type \
        io_type result_size total_bytes type signature entry_count num_nested_req";
    const VARIANTS: &str =
        "handle request_id client_id rank server_id simple_stripe basic_dist varstrip_dist twod_stripe";
    if SKIPPED.split(' ').any(|name| name == key) {
        return;
    }
    match value {
        Value::Number(number) => out.push(number.to_string()),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) => out.push(u64::from_str_radix(digits, 16).unwrap().to_string()),
            None if key == "perms" => out.push(u32::from_str_radix(text, 8).unwrap().to_string()),
            None if key == "name" && VARIANTS.split(' ').any(|name| name == text) => {}
            None => out.push(format!("\"{}\"", text.as_bytes().escape_ascii())),
        },
        Value::Array(list) => list.iter().for_each(|value| collect(value, key, out)),
        Value::Object(map) => map.iter().for_each(|(key, value)| collect(value, key, out)),
        Value::Bool(_) | Value::Null => {}
    }
}

/// All single captured messages.
pub(crate) fn frames() -> Vec<Frame> {
    paths("op").iter().map(|path| Frame::load(path)).collect()
}

/// All captured sequences: name and messages.
pub(crate) fn sequences() -> Vec<(String, Vec<Value>)> {
    let load = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, load(path)["messages"].as_array().unwrap().clone())
    };
    paths("seq_").iter().map(load).collect()
}

fn paths(prefix: &str) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix))
        .collect();
    paths.sort();
    paths
}

/// `FlowBufferSizeBytes` of the captured cluster.
const CHUNK: u64 = 262_144;

/// An operation between its request and its last message.
struct Pending {
    op: Op,
    io: Option<(IoType, Transfer)>,
    expected: Option<u64>,
    chunks: Vec<u64>,
}

impl Pending {
    fn new(payload: &[u8]) -> Self {
        let view = RequestView::parse(payload).unwrap();
        let io = view.io().unwrap().map(|io| (io.io_type, io.transfer().unwrap()));
        Self { op: view.op, io, expected: None, chunks: Vec::new() }
    }

    fn on_reply(&mut self, payload: &[u8]) {
        let head = ReplyHead::parse(payload).unwrap();
        match (&self.io, head.numbers) {
            (Some((io_type, transfer)), ReplyNumbers::IoAck { bstream_size }) => {
                self.expected = Some(match io_type {
                    IoType::Read => transfer.read_bytes(bstream_size).unwrap(),
                    IoType::Write => transfer.write_bytes().unwrap(),
                });
            }
            (Some(_), ReplyNumbers::WriteCompletion { total_completed }) => {
                assert_eq!(Some(total_completed), self.expected);
            }
            _ => assert_eq!(head.op, self.op),
        }
    }

    fn check_data(&self, name: &str) {
        let expected = self.expected.unwrap_or(0);
        assert_eq!(self.chunks.iter().sum::<u64>(), expected, "{name}");
        for (at, chunk) in self.chunks.iter().enumerate() {
            assert_eq!(*chunk, CHUNK.min(expected - at as u64 * CHUNK), "{name}");
        }
    }
}

fn header(message: &Value) -> Header {
    let header = hex(message["bmi_header_hex"].as_str().unwrap());
    for len in 0..header.len() {
        assert!(Header::decode(&header[..len]).is_err());
    }
    Header::decode(&header).unwrap()
}

#[test]
fn data_messages_carry_the_computed_share() {
    let mut operations = 0;
    for (name, messages) in sequences() {
        let mut pending = BTreeMap::new();
        for message in messages {
            let header = header(&message);
            assert_eq!(header.size, message["payload_len"].as_u64().unwrap(), "{name}");
            let key = (message["server"].as_u64().unwrap(), header.tag);
            let payload = || hex(message["payload_hex"].as_str().unwrap());
            match message["kind"].as_str().unwrap() {
                "req" => {
                    assert_eq!(header.mode, Mode::Unexpected, "{name}");
                    let previous = pending.insert(key, Pending::new(&payload()));
                    assert!(previous.is_none(), "{name}: tag used twice");
                }
                "resp" => {
                    assert_eq!(header.mode, Mode::for_reply(header.size), "{name}");
                    let pending = pending.get_mut(&key).unwrap();
                    // Long replies (configuration texts) are cut in the capture.
                    if message.get("payload_hex").is_some() {
                        pending.on_reply(&payload());
                    } else {
                        assert_eq!(pending.op, Op::GetConfig, "{name}");
                    }
                }
                _ => {
                    assert_eq!(header.mode == Mode::Rendezvous, header.size > MAX_UNEXPECTED, "{name}");
                    pending.get_mut(&key).unwrap().chunks.push(header.size);
                }
            }
        }
        for pending in pending.values().filter(|pending| pending.io.is_some()) {
            pending.check_data(&name);
            operations += 1;
        }
    }
    assert!(operations > 20, "{operations} operations");
}

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

const KEEP: ClientTimeouts = ClientTimeouts { bmi_secs: None, flow_secs: None };

fn proxy(address: &str) -> Option<String> {
    address.strip_prefix("tcp://127.0.0.1:").map(|port| format!("tcp://proxy.example:1{port}"))
}

fn text_of(payload: &[u8]) -> String {
    match Reply::decode(payload).unwrap().body {
        ReplyBody::GetConfig(GetConfig { text }) => String::from_utf8(text.0).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn configuration_of_a_real_server() {
    let payload = Frame::named("op13_getconfig_response").payload;
    let rewritten = rewrite::config_text(&payload, KEEP, proxy).unwrap();
    let expected = text_of(&payload).replace("tcp://127.0.0.1:", "tcp://proxy.example:1");
    assert_eq!(text_of(&rewritten), expected);
    assert_eq!(rewritten.len() % 8, 0, "the text is the last field and padded");
    let buf_size = u32::from_le_bytes(rewritten[16..20].try_into().unwrap()) as usize;
    assert_eq!(rewritten[28..][buf_size - 1], 0);
}

#[test]
fn nothing_to_rewrite_is_the_same_bytes() {
    let payload = Frame::named("op13_getconfig_response").payload;
    assert_eq!(rewrite::config_text(&payload, KEEP, |_| None).unwrap(), payload);
    let refused = Reply::error(Op::GetConfig, Status::error(Errno::EACCES)).encode();
    assert_eq!(rewrite::config_text(&refused, KEEP, proxy).unwrap(), refused);
}

#[test]
fn timeouts() {
    let payload = Frame::named("op13_getconfig_response").payload;
    let timeouts = ClientTimeouts { bmi_secs: Some(900), flow_secs: Some(1200) };
    let expected = text_of(&payload)
        .replace("ClientJobBMITimeoutSecs 300", "ClientJobBMITimeoutSecs 900")
        .replace("ClientJobFlowTimeoutSecs 300", "ClientJobFlowTimeoutSecs 1200");
    assert_eq!(text_of(&rewrite::config_text(&payload, timeouts, |_| None).unwrap()), expected);
}

#[test]
fn a_configuration_that_grows_too_long_is_refused() {
    let text = format!("<Aliases>\nAlias a tcp://127.0.0.1:1\n</Aliases>\n#{}", "x".repeat(65490));
    let payload = Reply::from(GetConfig { text: text.into() }).encode();
    let result = rewrite::config_text(&payload, KEEP, proxy);
    assert!(matches!(result, Err(RewriteError::TooLong(TooLong { limit: 65536, .. }))), "{result:?}");
}

#[test]
fn other_replies_are_refused() {
    let payload = Frame::named("op17_mgmt_noop_response").payload;
    assert!(matches!(rewrite::config_text(&payload, KEEP, proxy), Err(RewriteError::Decode(_))));
}

#[test]
fn explicit_layouts() {
    let original = Frame::named("op01_create_request_simple_stripe_layout_list").payload;
    let rewritten = rewrite::layout(&original, proxy).unwrap().unwrap();
    let mut expected = Request::decode(&original).unwrap();
    let RequestBody::Create(body) = &mut expected.body else { panic!() };
    body.layout.servers.0 = vec!["tcp://proxy.example:14335".into(), "tcp://proxy.example:14337".into()];
    assert_eq!(Request::decode(&rewritten), Ok(expected));
    assert_eq!(rewrite::layout(&original, |_| None).unwrap(), None);
    assert_eq!(rewrite::layout(&original, |same| Some(same.to_owned())).unwrap(), None);
}

#[test]
fn a_request_that_grows_too_long_is_refused() {
    let original = Frame::named("op01_create_request_simple_stripe_layout_list").payload;
    let result = rewrite::layout(&original, |_| Some("x".repeat(10_000)));
    assert!(matches!(result, Err(RewriteError::TooLong(TooLong { limit: 16384, .. }))), "{result:?}");
}

#[test]
fn other_requests_stay() {
    for frame in frames().into_iter().filter(|frame| frame.is_request) {
        let is_list = frame.name.ends_with("layout_list");
        assert_eq!(rewrite::layout(&frame.payload, proxy).unwrap().is_some(), is_list, "{}", frame.name);
    }
}

proptest! {
    /// Whatever a configuration holds, lines without an address to change stay byte for byte.
    #[test]
    fn any_text_survives(text in "([ \\t]?(Alias|alias|Name|#|<Defaults>)? ?[a-z\"'\\\\,# /:]{0,12}\r?\n?){0,12}") {
        let payload = Reply::from(GetConfig { text: text.as_str().into() }).encode();
        prop_assert_eq!(rewrite::config_text(&payload, KEEP, |_| None).unwrap(), payload.clone());
        let timeouts = ClientTimeouts { bmi_secs: Some(1), flow_secs: None };
        let once = rewrite::config_text(&payload, timeouts, proxy).unwrap();
        prop_assert_eq!(rewrite::config_text(&once, timeouts, proxy).unwrap(), once);
    }
}

static FRAMES: LazyLock<Vec<Frame>> = LazyLock::new(|| {
    let mut frames = frames();
    frames.retain(|frame| frame.payload.len() < 4096);
    frames
});

fn check(payload: &[u8]) {
    fuzz::bmi_header(payload);
    fuzz::request(payload);
    fuzz::reply(payload);
    fuzz::rewrite(payload);
}

#[test]
fn fuzz_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let replay = |name: &str, target: fn(&[u8])| {
        let mut count = 0;
        for entry in fs::read_dir(corpus.join(name)).unwrap() {
            target(&fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "the corpus of {name} is empty");
    };
    replay("bmi_header", fuzz::bmi_header);
    replay("request", fuzz::request);
    replay("reply", fuzz::reply);
    replay("transfer", fuzz::transfer);
    replay("rewrite", fuzz::rewrite);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn damaged_frames(
        at: Index, changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..5), cut: Option<Index>,
    ) {
        let mut payload = at.get(&FRAMES).payload.clone();
        for (at, value) in changes {
            let at = at.index(payload.len());
            payload[at] = value;
        }
        if let Some(cut) = cut {
            payload.truncate(cut.index(payload.len()));
        }
        check(&payload);
    }

    #[test]
    fn arbitrary_bodies(
        op in 0i32..53, body in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..300),
    ) {
        let mut payload = vec![0x58, 0x1b, 0, 0, 2, 0, 0, 0];
        payload.extend_from_slice(&op.to_le_bytes());
        payload.extend_from_slice(&body);
        check(&payload);
    }

    #[test]
    fn damaged_accesses(at: Index, changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..6), size: u64) {
        let accesses: Vec<_> = FRAMES.iter().filter(|frame| frame.name.starts_with("op03_io_request")).collect();
        let frame = at.get(&accesses);
        let body = usize::try_from(frame.json["decoded"]["body_offset"].as_u64().unwrap()).unwrap();
        let mut data = frame.payload[body..].to_vec();
        for (at, value) in changes {
            let at = at.index(data.len());
            data[at] = value;
        }
        data.extend_from_slice(&(size >> (size % 64)).to_le_bytes());
        fuzz::transfer(&data);
    }
}

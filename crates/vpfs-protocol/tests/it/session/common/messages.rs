//! The messages that clients and servers send, each with header and payload.

use std::fs;
use std::path::Path;

use vpfs_protocol::wire::bmi;
use vpfs_protocol::wire::pvfs2::reply::{self, SmallIoResult, WriteCompletion};
use vpfs_protocol::wire::pvfs2::request::{self, Io};
use vpfs_protocol::wire::pvfs2::transfer::Node;
use vpfs_protocol::wire::pvfs2::{
    Attr, Capability, Credential, Errno, Handle, Hint, IoType, Layout, Op, Padded, Preq, Reply, Request, RequestBody,
    Status, Text,
};

pub(crate) const FS: i32 = 1001;
/// The datafile of all accesses that do not name another one.
pub(crate) const FILE: Handle = Handle(7);

/// A captured payload from the wire codecs' corpus, by name.
pub(crate) fn captured(kind: &str, name: &str) -> Vec<u8> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    fs::read(corpus.join(kind).join(name)).unwrap()
}

pub(crate) fn captured_names(kind: &str) -> Vec<String> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let entries = fs::read_dir(corpus.join(kind)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // The rest are inputs that fuzzing found.
    names.retain(|name| name.starts_with("op"));
    names.sort();
    names
}

pub(crate) fn frame_request(tag: i32, payload: &[u8]) -> Vec<u8> {
    bmi::request_message(tag.into(), payload).unwrap()
}

pub(crate) fn frame_reply(tag: i32, payload: &[u8]) -> Vec<u8> {
    bmi::reply_message(tag.into(), payload).unwrap()
}

/// The capability that clients state with nearly all requests; servers among themselves often have none.
fn capability() -> Capability {
    Capability { issuer: "S:s1".into(), fs: FS, handles: vec![FILE], ..Capability::default() }
}

pub(crate) fn request(tag: i32, body: impl Into<RequestBody>) -> Vec<u8> {
    frame_request(tag, &Request { capability: capability(), ..Request::bare(body.into()) }.encode())
}

/// A request that a server makes while it serves another.
pub(crate) fn server_request(tag: i32, body: impl Into<RequestBody>) -> Vec<u8> {
    let hints = vec![Hint::ServerId(3)];
    frame_request(tag, &Request { capability: capability(), hints, body: body.into() }.encode())
}

pub(crate) fn reply(tag: i32, reply: impl Into<Reply>) -> Vec<u8> {
    frame_reply(tag, &reply.into().encode())
}

pub(crate) fn refusal(tag: i32, op: Op) -> Vec<u8> {
    reply(tag, Reply::error(op, ENOENT))
}

pub(crate) const ENOENT: Status = Status::error(Errno::ENOENT);

/// A data message; its bytes encode tag and position, so that a mix-up is noticed.
pub(crate) fn data(tag: i32, len: usize) -> Vec<u8> {
    let bytes: Vec<u8> = tag.to_le_bytes().into_iter().chain(0..=255).cycle().take(len).collect();
    frame_reply(tag, &bytes)
}

/// An access to `len` bytes of a file that lies on one server.
pub(crate) fn io(io_type: IoType, offset: i64, len: i64) -> Io {
    Io::contiguous(FILE, FS, io_type, offset, len)
}

pub(crate) fn read(tag: i32, len: i64) -> Vec<u8> {
    request(tag, io(IoType::Read, 0, len))
}

pub(crate) fn write(tag: i32, len: i64) -> Vec<u8> {
    request(tag, io(IoType::Write, 0, len))
}

/// An access in more pieces than may be counted: every second byte of 2 GiB.
pub(crate) fn too_complex(io_type: IoType) -> Io {
    every_second_byte(io_type, 1 << 30, 1)
}

/// A pattern of `blocks` single bytes with a gap after each, repeated `times` times.
pub(crate) fn every_second_byte(io_type: IoType, blocks: i32, times: i64) -> Io {
    let root = Node {
        num_blocks: blocks,
        stride: 2,
        ub: 2 * i64::from(blocks),
        aggregate_size: i64::from(blocks),
        num_contig_chunks: blocks,
        depth: 2,
        num_nested_req: 1,
        ereq: 1,
        ..Node::BYTE
    };
    Io { preq: Preq { nodes: vec![root, Node::BYTE] }, ..io(io_type, 0, times * i64::from(blocks)) }
}

pub(crate) fn small_read(tag: i32, len: i64) -> Vec<u8> {
    request(tag, io(IoType::Read, 0, len).small(Vec::new()))
}

pub(crate) fn small_write(tag: i32, len: usize) -> Vec<u8> {
    request(tag, io(IoType::Write, 0, i64::try_from(len).unwrap()).small(vec![5; len]))
}

/// The first reply of a read or write.
pub(crate) fn ack(tag: i32, bstream_size: i64) -> Vec<u8> {
    reply(tag, reply::Io { bstream_size })
}

/// The second reply of a write.
pub(crate) fn written(tag: i32, total_completed: i64) -> Vec<u8> {
    reply(tag, WriteCompletion { total_completed })
}

pub(crate) fn small_read_reply(tag: i32, bstream_size: i64, len: usize) -> Vec<u8> {
    reply(tag, reply::SmallIo { bstream_size, result: SmallIoResult::Read(vec![9; len]) })
}

pub(crate) fn small_write_reply(tag: i32, bstream_size: i64, len: i64) -> Vec<u8> {
    reply(tag, reply::SmallIo { bstream_size, result: SmallIoResult::Written(len) })
}

pub(crate) fn credential(issuer: &str, uid: u32, gids: &[u32]) -> Credential {
    Credential { uid, gids: gids.to_vec(), issuer: issuer.into(), ..Credential::default() }
}

pub(crate) fn getattr(tag: i32, credential: Credential) -> Vec<u8> {
    request(tag, request::GetAttr { handle: FILE, fs: FS, mask: 0x7f, credential })
}

/// A metadata request without a credential.
pub(crate) fn readdir(tag: i32) -> Vec<u8> {
    let token = request::TOKEN_START;
    request(tag, request::ReadDir { dirdata: FILE, fs: FS, count: 60, token })
}

/// A metadata request with exactly `len` payload bytes, a multiple of eight and at least 128.
pub(crate) fn padded_metadata(tag: i32, len: usize) -> Vec<u8> {
    let body = |name: usize| request::RmDirent { name: Text(vec![b'n'; name]), dirdata: FILE, fs: FS };
    let least = request(tag, body(1)).len() - bmi::LEN;
    let message = request(tag, body(len.checked_sub(least).expect("a longer request") + 1));
    assert_eq!(message.len(), bmi::LEN + len);
    message
}

/// The shortest request that is held.
pub(crate) fn statfs(tag: i32) -> Vec<u8> {
    frame_request(tag, &Request::bare(request::StatFs { fs: FS }.into()).encode())
}

/// The answer to [`readdir`]: with 512 entries a rendezvous message.
pub(crate) fn readdir_reply(tag: i32, entries: u64) -> Vec<u8> {
    let entries = (0..entries).map(|at| (Text::from(format!("a file with the number {at:08}")), Handle(at))).collect();
    reply(tag, reply::ReadDir { token: 0, directory_version: 0, entries })
}

pub(crate) fn getconfig(tag: i32) -> Vec<u8> {
    request(tag, RequestBody::GetConfig)
}

pub(crate) fn config_reply(tag: i32, text: &str) -> Vec<u8> {
    reply(tag, reply::GetConfig { text: text.into() })
}

fn layout(servers: &[&str]) -> Layout {
    let servers = Padded(servers.iter().map(|server| Text::from(*server)).collect());
    Layout { algorithm: Layout::LIST, servers }
}

pub(crate) fn create(servers: &[&str]) -> RequestBody {
    let credential = credential("C:host", 1000, &[1000]);
    request::Create { fs: FS, credential, attr: Attr::default(), num_dfiles: 2, layout: layout(servers) }.into()
}

pub(crate) fn mkdir(servers: &[&str]) -> RequestBody {
    request::MkDir {
        fs: FS,
        credential: credential("C:host", 1000, &[1000]),
        attr: Attr::default(),
        extents: Default::default(),
        servers_initial: 1,
        servers_max: 1,
        split_size: 100,
        layout: layout(servers),
    }
    .into()
}

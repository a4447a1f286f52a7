//! Tests of the servers with hand-made requests that the client of this crate never sends.

use crate::common::{client, cluster, pattern};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use vpfs_testbed::client::Errno;
use vpfs_testbed::{CreateOptions, EmbeddedCluster};
use vpfs_wire::bmi::{self, Header, Mode, Tag};
use vpfs_wire::pvfs2::attr::mask;
use vpfs_wire::pvfs2::preq::Node;
use vpfs_wire::pvfs2::reply::{self, SmallIoResult};
use vpfs_wire::pvfs2::{
    Attr, Capability, Columns, Credential, Handle, HandleRanges, IoType, KeyVal, ObjType, Preq, Reply, ReplyBody,
    Request, RequestBody, request,
};

const FS: i32 = 1001;

/// One connection, one request at a time.
struct Raw(TcpStream);

impl Raw {
    async fn new(cluster: &EmbeddedCluster, server: usize) -> Self {
        Self(TcpStream::connect(cluster.addresses()[server]).await.unwrap())
    }

    async fn send(&mut self, body: impl Into<RequestBody>) {
        let capability = Capability { op_mask: u32::MAX, ..Capability::default() };
        let request = Request { capability, ..Request::bare(body.into()) };
        self.0.write_all(&bmi::request_message(Tag(3), &request.encode()).unwrap()).await.unwrap();
    }

    async fn receive(&mut self) -> (Header, Vec<u8>) {
        let mut header = [0; Header::LEN];
        self.0.read_exact(&mut header).await.unwrap();
        let header = Header::decode(&header).unwrap();
        let mut payload = vec![0; header.size as usize];
        self.0.read_exact(&mut payload).await.unwrap();
        (header, payload)
    }

    async fn ask(&mut self, body: impl Into<RequestBody>) -> Result<ReplyBody, Errno> {
        self.send(body).await;
        let reply = Reply::decode(&self.receive().await.1).unwrap();
        reply.status.errno().map_or(Ok(reply.body), Err)
    }

    /// The reply to a request that succeeds.
    async fn get<R: TryFrom<ReplyBody, Error = ReplyBody>>(&mut self, body: impl Into<RequestBody>) -> R {
        self.ask(body).await.unwrap().try_into().unwrap()
    }

    async fn get_attr(&mut self, handle: Handle) -> Result<Attr, Errno> {
        let (mask, credential) =
            (mask::COMMON | mask::DATAFILES | mask::DISTDIR | mask::CAPABILITY, Credential::default());
        let reply = self.ask(request::GetAttr { handle, fs: FS, mask, credential }).await?;
        Ok(reply::GetAttr::try_from(reply).unwrap().attr)
    }
}

#[tokio::test]
async fn servers_serve_their_own_objects_only() {
    let cluster = cluster(2).await;
    let root = Handle(cluster.fs_config().root_handle);
    let attr = Raw::new(&cluster, 0).await.get_attr(root).await.unwrap();
    let capability = attr.capability.unwrap();
    assert_eq!((capability.op_mask, capability.issuer), (u32::MAX, "S:s1".into()));
    assert_eq!(capability.handles, [root, attr.distdir.unwrap().handles[0]]);
    assert_eq!(Raw::new(&cluster, 1).await.get_attr(root).await, Err(Errno::ENOENT));
    assert_eq!(Raw::new(&cluster, 1).await.ask(request::StatFs { fs: 7 }).await, Err(Errno::EINVAL));
}

#[tokio::test]
async fn a_long_listing_is_a_rendezvous_message() {
    let cluster = cluster(1).await;
    let client = client(&cluster).await;
    for n in 0..400 {
        client.mkdir(&format!("/{n:0>60}"), 0o755).await.unwrap();
    }
    let mut raw = Raw::new(&cluster, 0).await;
    let dirdata = Handle(cluster.fs_config().root_handle + 1);
    let token = request::TOKEN_START;
    raw.send(request::ReadDir { dirdata, fs: FS, count: 10_000, token }).await;
    let (header, payload) = raw.receive().await;
    assert_eq!(header.mode, Mode::Rendezvous);
    let page = reply::ReadDir::try_from(Reply::decode(&payload).unwrap().body).unwrap();
    assert_eq!((page.entries.len(), page.token), (400, request::TOKEN_END));
}

#[tokio::test]
async fn extended_attributes() {
    let cluster = cluster(1).await;
    let mut raw = Raw::new(&cluster, 0).await;
    let handle = Handle(cluster.fs_config().root_handle);
    let key = |name: &str| KeyVal::from(format!("user.{name}\0"));
    let set = |name: &str, value: &[u8], flags| {
        let entries = Columns(vec![(key(name), KeyVal::from(value))]);
        request::SetEattr { handle, fs: FS, flags, entries }
    };
    let get = |name: &str, room| request::GetEattr { handle, fs: FS, keys: Columns(vec![(key(name), room)]) };
    assert_eq!(raw.ask(get("a", 100)).await, Err(Errno::ENOENT));
    assert_eq!(raw.ask(set("a", b"one", 2)).await, Err(Errno::ENOENT));
    assert_eq!(raw.ask(set("a", b"one", 1)).await, Ok(ReplyBody::Empty));
    assert_eq!(raw.ask(set("a", b"two", 1)).await, Err(Errno::EEXIST));
    assert_eq!(raw.ask(set("b", &[5, 0, 0, 0], 0)).await, Ok(ReplyBody::Empty));
    assert_eq!(raw.ask(get("a", 2)).await, Err(Errno::EOVERFLOW));
    assert_eq!(raw.get::<reply::GetEattr>(get("a", 3)).await.values.0, [(KeyVal::from("one"), 0)]);
    let list = |count| request::ListEattr { handle, fs: FS, token: request::TOKEN_START, key_sizes: vec![256; count] };
    let listed: reply::ListEattr = raw.get(list(8)).await;
    assert_eq!((listed.keys, listed.token), (vec![key("a"), key("b")], request::TOKEN_END));
    let names = client(&cluster).await.xattr_names("/").await.unwrap();
    assert_eq!(names, [b"user.a", b"user.b"]);
    assert_eq!(raw.ask(list(17)).await, Err(Errno::EINVAL));
    let remove = || request::DelEattr { handle, fs: FS, key: key("a") };
    assert_eq!(raw.ask(remove()).await, Ok(ReplyBody::Empty));
    assert_eq!(raw.ask(remove()).await, Err(Errno::ENOENT));
}

#[tokio::test]
async fn attributes_are_set_as_the_mask_says() {
    let cluster = cluster(1).await;
    let handle = Handle(client(&cluster).await.create("/f", &CreateOptions::basic()).await.unwrap().handle());
    let mut raw = Raw::new(&cluster, 0).await;
    let before = raw.get_attr(handle).await.unwrap();
    let attr = Attr { mtime: 1_000, atime: 9, perms: 0o600, objtype: ObjType::METAFILE, ..Attr::default() };
    let set = |mask: u32, attr: &Attr| {
        let attr = Attr { mask, ..attr.clone() };
        request::SetAttr { handle, fs: FS, attr, credential: Credential::default() }
    };
    let unstuffed = Attr { stuffed_size: None, ..attr.clone() };
    raw.ask(set(mask::MTIME | mask::MTIME_SET | mask::TYPE, &unstuffed)).await.unwrap();
    let after = raw.get_attr(handle).await.unwrap();
    assert_eq!((after.mtime, after.atime, after.perms), (1_000, before.atime, before.perms));
    raw.ask(set(mask::PERMS | mask::ATIME, &unstuffed)).await.unwrap();
    let after = raw.get_attr(handle).await.unwrap();
    assert_eq!((after.mtime, after.perms), (1_000, 0o600));
    assert!(after.atime >= before.atime, "without its `set` bit a time becomes now");
    let wrong_type = Attr { objtype: ObjType::DIRECTORY, ..attr };
    assert_eq!(raw.ask(set(mask::TYPE | mask::PERMS, &wrong_type)).await, Err(Errno::EACCES));
}

#[tokio::test]
async fn many_objects_at_once() {
    let cluster = cluster(2).await;
    let client = client(&cluster).await;
    let file = client.create("/f", &CreateOptions::simple_stripe(1000).on_servers([0, 1])).await.unwrap();
    client.write_at(&file, 0, pattern(1, 2_500)).await.unwrap();
    let owner = cluster.fs_config().owner_of(file.handle()).unwrap();
    let mut raw = Raw::new(&cluster, owner).await;
    let datafiles = raw.get_attr(Handle(file.handle())).await.unwrap().datafiles.unwrap().handles.0;
    let handles = [&datafiles[..], &[Handle(5)]].concat();

    let credential = Credential::default();
    let sizes = request::TreeGetFileSize { fs: FS, caller_index: 4, retry_at_leaf: 0, credential, handles };
    let reply: reply::TreeGetFileSize = raw.get(sizes).await;
    let rows: Vec<(i64, bool)> = reply.sizes.0.into_iter().map(|(size, error)| (size, error == 0)).collect();
    assert_eq!((reply.caller_index, rows), (4, vec![(1_500, true), (1_000, true), (0, false)]));
    let list = request::ListAttr { fs: FS, mask: mask::COMMON, handles: vec![Handle(file.handle()), Handle(5)] };
    let attrs = raw.get::<reply::ListAttr>(list).await.attrs.0;
    let types: Vec<_> = attrs.iter().map(|(error, attr)| (*error == 0, attr.objtype)).collect();
    assert_eq!(types, [(true, ObjType::METAFILE), (false, ObjType::NONE)]);
    let mut position = request::TOKEN_START;
    let mut listed = Vec::new();
    while position != request::TOKEN_END {
        let page = request::MgmtIterateHandles { fs: FS, count: 2, flags: 0, position };
        let page: reply::MgmtIterateHandles = raw.get(page).await;
        position = page.position;
        listed.extend(page.handles);
    }
    assert!(listed.contains(&Handle(file.handle())) && listed.is_sorted());
    assert!(listed.iter().all(|handle| cluster.fs_config().owner_of(handle.0) == Some(owner)));
}

#[tokio::test]
async fn only_links_are_made_in_batches() {
    let cluster = cluster(1).await;
    let mut raw = Raw::new(&cluster, 0).await;
    let batch = |objtype, count| request::BatchCreate { fs: FS, objtype, count, extents: HandleRanges::default() };
    assert_eq!(raw.ask(batch(ObjType::DATAFILE, 1)).await, Err(Errno::EINVAL));
    assert_eq!(raw.ask(batch(ObjType::SYMLINK, 1_000_000)).await, Err(Errno::EINVAL));
    assert_eq!(raw.get::<reply::BatchCreate>(batch(ObjType::SYMLINK, 3)).await.handles.len(), 3);
}

/// 64 blocks of 1000 bytes, 5000 bytes apart.
fn strided() -> Preq {
    let root = Node {
        num_ereqs: 1_000,
        num_blocks: 64,
        stride: 5_000,
        ub: 316_000,
        aggregate_size: 64_000,
        num_contig_chunks: 64,
        depth: 2,
        num_nested_req: 1,
        ereq: 1,
        ..Node::BYTE
    };
    Preq { nodes: vec![root, Node { committed: 0, ..Node::BYTE }] }
}

#[tokio::test]
async fn strided_accesses_move_their_blocks_only() {
    let cluster = cluster(1).await;
    let client = client(&cluster).await;
    let file = client.create("/f", &CreateOptions::basic()).await.unwrap();
    let mut expected = pattern(1, 320_000).to_vec();
    client.write_at(&file, 0, Bytes::from(expected.clone())).await.unwrap();
    let mut raw = Raw::new(&cluster, 0).await;
    let handle = raw.get_attr(Handle(file.handle())).await.unwrap().datafiles.unwrap().handles.0[0];
    let io = |io_type, len| request::Io { preq: strided(), ..request::Io::contiguous(handle, FS, io_type, 0, len) };
    raw.ask(io(IoType::Read, 64_000)).await.unwrap();
    let blocks: Vec<u8> = expected.chunks(5_000).flat_map(|block| &block[..1_000]).copied().collect();
    let (header, data) = raw.receive().await;
    assert_eq!(header.mode, Mode::Rendezvous);
    assert!(data == blocks);

    let new = pattern(2, 64_000);
    raw.ask(io(IoType::Write, 64_000)).await.unwrap();
    raw.0.write_all(&bmi::reply_message(Tag(3), &new).unwrap()).await.unwrap();
    let done = reply::WriteCompletion::try_from(Reply::decode(&raw.receive().await.1).unwrap().body).unwrap();
    assert_eq!(done.total_completed, 64_000);
    for (block, data) in expected.chunks_mut(5_000).zip(new.chunks(1_000)) {
        block[..1_000].copy_from_slice(data);
    }
    assert!(client.read_at(&file, 0, 320_000).await.unwrap() == expected);
}

#[tokio::test]
async fn small_reads_end_with_the_file() {
    let cluster = cluster(1).await;
    let client = client(&cluster).await;
    let file = client.create("/f", &CreateOptions::basic()).await.unwrap();
    client.write_at(&file, 0, pattern(1, 100)).await.unwrap();
    let mut raw = Raw::new(&cluster, 0).await;
    let handle = raw.get_attr(Handle(file.handle())).await.unwrap().datafiles.unwrap().handles.0[0];
    for (offset, expected) in [(0, 100), (90, 10), (100, 0), (5_000, 0)] {
        let small = request::Io::contiguous(handle, FS, IoType::Read, offset, 10_000_000).small(Vec::new());
        let reply: reply::SmallIo = raw.get(small).await;
        let SmallIoResult::Read(data) = reply.result else { panic!("not a read") };
        assert_eq!((data.len(), reply.bstream_size), (expected, 100));
    }
}

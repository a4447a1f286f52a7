//! Peers that send and receive single frames: clients that break rules, servers controlled by the test.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use vpfs_protocol::wire::bmi::{Header, Tag, reply_message, request_message};
use vpfs_protocol::wire::pvfs2::attr::mask;
use vpfs_protocol::wire::pvfs2::reply::{self, SmallIoResult, WriteCompletion};
use vpfs_protocol::wire::pvfs2::types::op_mask;
use vpfs_protocol::wire::pvfs2::{
    Capability, Credential, Dist, Handle, Hint, IoType, Op, Preq, Reply, Request, RequestBody, request, transfer,
};
use vpfs_testbed::socket_for;

const FS: i32 = 1;

fn request(tag: u64, body: impl Into<RequestBody>) -> Vec<u8> {
    request_message(Tag(tag), &Request::bare(body.into()).encode()).unwrap()
}

/// A request that is never held, so that the order of arrival reveals which other requests were.
pub(crate) fn noop(tag: u64) -> Vec<u8> {
    request(tag, RequestBody::MgmtNoop)
}

pub(crate) fn get_config(tag: u64) -> Vec<u8> {
    request(tag, RequestBody::GetConfig)
}

pub(crate) fn iterate_handles(tag: u64) -> Vec<u8> {
    let body = request::MgmtIterateHandles { fs: FS, count: 2000, flags: 0, position: 0 };
    request(tag, body)
}

pub(crate) fn metadata(tag: u64) -> Vec<u8> {
    request(tag, request::Flush { handle: Handle(7), fs: FS, flags: 0 })
}

/// [`metadata`] as servers send it while they serve another request.
pub(crate) fn metadata_with_server_hint(tag: u64) -> Vec<u8> {
    let body = RequestBody::Flush(request::Flush { handle: Handle(7), fs: FS, flags: 0 });
    let request = Request { hints: vec![Hint::ServerId(3)], ..Request::bare(body) };
    request_message(Tag(tag), &request.encode()).unwrap()
}

pub(crate) fn metadata_of(tag: u64, uid: u32) -> Vec<u8> {
    let credential = Credential { uid, gids: vec![uid], issuer: "C:test".into(), ..Credential::default() };
    request(tag, request::GetAttr { handle: Handle(7), fs: FS, mask: 0, credential })
}

pub(crate) fn read(tag: u64, handle: u64, len: usize) -> Vec<u8> {
    io(tag, handle, len, IoType::Read)
}

pub(crate) fn write(tag: u64, handle: u64, len: usize) -> Vec<u8> {
    io(tag, handle, len, IoType::Write)
}

/// A read of the first bytes of a file on one server that checks what the client may do.
pub(crate) fn read_of(tag: u64, fs: i32, handle: Handle, len: usize) -> Vec<u8> {
    let capability = Capability { fs, op_mask: op_mask::READ, handles: vec![handle], ..Capability::default() };
    let body = RequestBody::Io(io_body(fs, handle, len, IoType::Read));
    request_message(Tag(tag), &Request { capability, ..Request::bare(body) }.encode()).unwrap()
}

pub(crate) fn get_attr(tag: u64, fs: i32, handle: u64) -> Vec<u8> {
    let mask = mask::COMMON | mask::DIST | mask::DATAFILES;
    request(tag, request::GetAttr { handle: Handle(handle), fs, mask, credential: Credential::default() })
}

fn io(tag: u64, handle: u64, len: usize, io_type: IoType) -> Vec<u8> {
    request(tag, io_body(FS, Handle(handle), len, io_type))
}

fn io_body(fs: i32, handle: Handle, len: usize, io_type: IoType) -> request::Io {
    // Not the basic distribution: that is how servers write to mirrors.
    let dist = Dist::SimpleStripe { strip_size: 64 << 10 };
    request::Io { dist, ..request::Io::contiguous(handle, fs, io_type, 0, i64::try_from(len).unwrap()) }
}

/// A read of every second byte of a gigabyte, in more pieces than are counted.
pub(crate) fn scattered_read(tag: u64, handle: u64) -> Vec<u8> {
    const BLOCKS: i32 = 1 << 29;
    let half = i64::from(BLOCKS);
    let root = transfer::Node {
        num_blocks: BLOCKS,
        stride: 2,
        ub: 2 * half,
        aggregate_size: half,
        num_contig_chunks: BLOCKS,
        depth: 2,
        num_nested_req: 1,
        ereq: 1,
        ..transfer::Node::BYTE
    };
    let whole = io_body(FS, Handle(handle), 1 << 29, IoType::Read);
    request(tag, request::Io { preq: Preq { nodes: vec![root, transfer::Node::BYTE] }, ..whole })
}

pub(crate) fn small_write(tag: u64, handle: u64, data: Vec<u8>) -> Vec<u8> {
    request(tag, io_body(FS, Handle(handle), data.len(), IoType::Write).small(data))
}

pub(crate) fn small_written(tag: Tag, len: usize) -> Vec<u8> {
    let len = i64::try_from(len).unwrap();
    reply(tag, &reply::SmallIo { bstream_size: len, result: SmallIoResult::Written(len) }.into())
}

pub(crate) fn done(tag: Tag) -> Vec<u8> {
    reply(tag, &Reply::done(Op::Flush))
}

pub(crate) fn ack(tag: Tag, size: usize) -> Vec<u8> {
    reply(tag, &reply::Io { bstream_size: i64::try_from(size).unwrap() }.into())
}

pub(crate) fn completion(tag: Tag, len: usize) -> Vec<u8> {
    reply(tag, &WriteCompletion { total_completed: i64::try_from(len).unwrap() }.into())
}

pub(crate) fn data(tag: Tag, bytes: &[u8]) -> Vec<u8> {
    reply_message(tag, bytes).unwrap()
}

pub(crate) fn reply(tag: Tag, reply: &Reply) -> Vec<u8> {
    reply_message(tag, &reply.encode()).unwrap()
}

pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
}

impl Peer {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = socket_for(address).unwrap().connect(address).await.unwrap();
        // Data must not wait for acknowledgements in real time while the tests' clock advances.
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    pub(crate) async fn connect_from(host: [u8; 4], address: SocketAddr) -> Self {
        let socket = socket_for(address).unwrap();
        socket.bind((IpAddr::from(host), 0).into()).unwrap();
        Self { stream: socket.connect(address).await.unwrap() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> io::Result<(Header, Vec<u8>)> {
        let mut header = [0; Header::LEN];
        self.stream.read_exact(&mut header).await?;
        let header = Header::decode(&header).map_err(io::Error::other)?;
        let mut payload = vec![0; usize::try_from(header.size).unwrap()];
        self.stream.read_exact(&mut payload).await?;
        Ok((header, payload))
    }

    pub(crate) async fn tag(&mut self) -> Tag {
        self.receive().await.unwrap().0.tag
    }

    pub(crate) async fn tags_before(&mut self, last: u64) -> Vec<u64> {
        let mut tags = Vec::new();
        loop {
            match self.tag().await {
                Tag(tag) if tag == last => return tags,
                Tag(tag) => tags.push(tag),
            }
        }
    }

    /// Reads to the end and returns how the connection ended: `None` for an orderly end.
    pub(crate) async fn end(&mut self) -> Option<io::ErrorKind> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.err().map(|error| error.kind())
    }
}

pub(crate) struct FakeServer {
    listener: TcpListener,
}

impl FakeServer {
    pub(crate) async fn start() -> Self {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let socket = socket_for(address).unwrap();
        socket.bind(address).unwrap();
        Self { listener: socket.listen(1024).unwrap() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) async fn accept(&self) -> Peer {
        Peer { stream: self.listener.accept().await.unwrap().0 }
    }

    pub(crate) async fn pair(&self, address: SocketAddr) -> (Peer, Peer) {
        let client = Peer::connect(address).await;
        (client, self.accept().await)
    }
}

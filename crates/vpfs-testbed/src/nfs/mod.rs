//! NFSv3: a server with a device model, and a client.
//!
//! [`NfsServer`] is the server of the crate `nfs3_server` over our stores and devices: each call is a task that waits
//! for the device, so calls of one connection wait at the same time. [`Client`] has one connection with many calls in
//! flight, as a mount has, and works with any server.

mod server;

use std::collections::HashMap;
use std::io::Cursor;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, FutureExt};
use nfs3_types::mount::{MOUNT_PROGRAM, dirpath, mountres3, mountstat3};
use nfs3_types::nfs3::{nfsstat3, *};
use nfs3_types::rpc::{
    RPC_VERSION_2, accept_stat_data, auth_unix, call_body, fragment_header, msg_body, opaque_auth, reply_body, rpc_msg,
};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack, Void};
use nfs3_types::{mount, nfs3};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::client::{ClientOptions, connect};
pub use server::{NfsConfig, NfsServer, answers};

/// Where an export is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// A name or address; one of IPv6 in brackets.
    pub host: String,
    /// Of NFS.
    pub port: u16,
    /// Of the mount daemon; the same as `port` if one program serves both.
    pub mount_port: u16,
    /// An absolute path.
    pub export: String,
}

impl Url {
    /// The port of NFS unless another one is given.
    pub const PORT: u16 = 2049;
    /// The port of the mount daemon unless another one is given.
    pub const MOUNT_PORT: u16 = 20048;

    /// `nfs://HOST[:PORT]/EXPORT[?mountport=PORT]`.
    pub fn parse(text: &str) -> std::result::Result<Self, NfsError> {
        Self::split(text).ok_or_else(|| NfsError::Url(text.to_owned()))
    }

    fn split(text: &str) -> Option<Self> {
        let (address, path) = text.strip_prefix("nfs://")?.split_once('/')?;
        let port_of = |text: &str| text.parse().ok().filter(|port| *port > 0);
        let (host, port) = match address.rsplit_once(':') {
            // The colons of an IPv6 address are in brackets.
            Some((host, port)) if !port.contains(']') => (host, port_of(port)?),
            _ => (address, Self::PORT),
        };
        let (path, mount_port) = match path.split_once("?mountport=") {
            Some((path, port)) => (path, port_of(port)?),
            None => (path, Self::MOUNT_PORT),
        };
        let is_valid = !host.is_empty() && !path.contains('?');
        is_valid.then(|| Self { host: host.to_owned(), port, mount_port, export: format!("/{path}") })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, mount_port, export } = self;
        write!(f, "nfs://{host}:{port}{export}?mountport={mount_port}")
    }
}

/// Why an operation failed. Nothing is repeated.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum NfsError {
    #[error("`{0}` is not nfs://HOST/EXPORT or nfs://HOST:PORT/EXPORT?mountport=PORT")]
    Url(String),
    #[error("{0}")]
    Argument(&'static str),
    #[error("{server} does not export {export}: {status}")]
    Mount { server: String, export: String, status: mountstat3 },
    #[error("{0}")]
    Refused(nfsstat3),
    #[error("connection to {server}: {reason}")]
    Connection { server: String, kind: io::ErrorKind, reason: String },
    #[error("{server} did not answer for {waited:?}")]
    Timeout { server: String, waited: Duration },
    /// The server does not offer this, or violated the protocol.
    #[error("{server}: {what}")]
    Protocol { server: String, what: String },
}

impl NfsError {
    fn connection(server: &str, error: &io::Error) -> Self {
        Self::Connection { server: server.to_owned(), kind: error.kind(), reason: error.to_string() }
    }

    /// Whether a name or object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(nfsstat3::NFS3ERR_NOENT))
    }

    /// Whether a name exists already.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused(nfsstat3::NFS3ERR_EXIST))
    }
}

/// How long to wait for a reply, unless the options say otherwise: as long as with OrangeFS.
const REPLY_WAIT: Duration = Duration::from_secs(300);

const LISTING_BYTES: u32 = 64 << 10;

/// Groups besides the primary one [RFC 5531 §8.2].
const GROUPS_MAX: usize = 16;

type Result<T> = std::result::Result<T, NfsError>;

/// A mounted export. Clones share its one connection; safe to use from many tasks at once.
///
/// Paths are absolute below the export, and are looked up anew each time: there is no cache.
#[derive(Clone, Debug)]
pub struct Client {
    mount: Arc<Mount>,
}

#[derive(Debug)]
struct Mount {
    connection: Connection,
    root: nfs_fh3,
    read_max: u32,
    write_max: u32,
}

/// An open file.
#[derive(Clone, Debug)]
pub struct File(nfs_fh3);

impl Client {
    /// Mounts `options.url`. Names, groups, address and the time to wait for replies count, and nothing is repeated.
    pub fn connect(options: &ClientOptions) -> BoxFuture<'_, Result<Self>> {
        Box::pin(async move {
            let Url { host, port, mount_port, export } = Url::parse(&options.url)?;
            let (mount_daemon, server) = (format!("{host}:{mount_port}"), format!("{host}:{port}"));
            let (credential, wait) = (credential(options)?, options.reply_timeout.unwrap_or(REPLY_WAIT));
            let open = |server| Connection::open(server, options.local_address, credential.clone(), wait);
            let path = dirpath(Opaque::borrowed(export.as_bytes()));
            let procedure = (mount::PROGRAM, mount::VERSION, MOUNT_PROGRAM::MOUNTPROC3_MNT as u32);
            let root = match open(&mount_daemon).await?.call(procedure, &path).await? {
                mountres3::Ok(found) => nfs_fh3 { data: found.fhandle.0 },
                mountres3::Err(status) => {
                    return Err(NfsError::Mount { server: mount_daemon, export, status });
                }
            };
            let connection = open(&server).await?;
            let args = FSINFO3args { fsroot: root.clone() };
            let info = connection.call(procedure_of(NFS_PROGRAM::NFSPROC3_FSINFO), &args).await?;
            let info = done::<FSINFO3resok, FSINFO3resfail>(info)?;
            if info.rtmax == 0 || info.wtmax == 0 {
                return Err(connection.violated(&"moves no bytes"));
            }
            let [read_max, write_max] = [info.rtmax, info.wtmax].map(|most| most.min(DATA_MAX));
            let mount = Mount { connection, root, read_max, write_max };
            Ok(Self { mount: Arc::new(mount) })
        })
    }

    /// The address that its connection comes from, and that of the server or proxy at its other end.
    pub fn ends(&self) -> (IpAddr, SocketAddr) {
        self.mount.connection.ends
    }

    /// Opens an existing file.
    pub fn open<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<File>> {
        Box::pin(async move { self.resolve(path).await.map(File) })
    }

    /// Creates a file of mode 0644, which must not exist.
    pub fn create<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<File>> {
        Box::pin(async move {
            let how = createhow3::GUARDED(sattr3 { mode: set_mode3::Some(0o644), ..sattr3::default() });
            let args = CREATE3args { where_: self.place(path).await?, how };
            match self.call::<CREATE3resok, CREATE3resfail>(NFS_PROGRAM::NFSPROC3_CREATE, &args).await?.obj {
                Nfs3Option::Some(handle) => Ok(File(handle)),
                // A server need not return it.
                Nfs3Option::None => self.open(path).await,
            }
        })
    }

    /// Creates a directory with permission bits `mode`.
    pub fn mkdir<'a>(&'a self, path: &'a str, mode: u32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let attributes = sattr3 { mode: set_mode3::Some(mode), ..sattr3::default() };
            let args = MKDIR3args { where_: self.place(path).await?, attributes };
            self.call::<MKDIR3resok, MKDIR3resfail>(NFS_PROGRAM::NFSPROC3_MKDIR, &args).await.map(drop)
        })
    }

    /// Removes a file.
    pub fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let args = REMOVE3args { object: self.place(path).await? };
            self.call::<REMOVE3resok, REMOVE3resfail>(NFS_PROGRAM::NFSPROC3_REMOVE, &args).await.map(drop)
        })
    }

    /// Removes an empty directory.
    pub fn rmdir<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let args = RMDIR3args { object: self.place(path).await? };
            self.call::<RMDIR3resok, RMDIR3resfail>(NFS_PROGRAM::NFSPROC3_RMDIR, &args).await.map(drop)
        })
    }

    /// The number of entries of a directory, all of which are read.
    pub fn readdir<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<usize>> {
        Box::pin(async move {
            let dir = self.resolve(path).await?;
            let (mut cookie, mut cookieverf, mut entries) = (0, cookieverf3::default(), 0);
            loop {
                let args = READDIR3args { dir: dir.clone(), cookie, cookieverf, count: LISTING_BYTES };
                let part =
                    self.call::<READDIR3resok<'_>, READDIR3resfail>(NFS_PROGRAM::NFSPROC3_READDIR, &args).await?;
                let listed = part.reply.entries.into_inner();
                entries += listed.len();
                match listed.last() {
                    Some(last) if !part.reply.eof => (cookie, cookieverf) = (last.cookie, part.cookieverf),
                    _ => return Ok(entries),
                }
            }
        })
    }

    /// Asks for the attributes of a file or directory.
    pub fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let args = GETATTR3args { object: self.resolve(path).await? };
            self.call::<GETATTR3resok, Void>(NFS_PROGRAM::NFSPROC3_GETATTR, &args).await.map(drop)
        })
    }

    /// Sets the times of last access and change, in seconds since 1970.
    pub fn set_times<'a>(&'a self, path: &'a str, accessed: u64, modified: u64) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let time = |seconds| nfstime3 { seconds: u32::try_from(seconds).unwrap_or(u32::MAX), nseconds: 0 };
            let new_attributes = sattr3 {
                atime: set_atime::SET_TO_CLIENT_TIME(time(accessed)),
                mtime: set_mtime::SET_TO_CLIENT_TIME(time(modified)),
                ..sattr3::default()
            };
            let args = SETATTR3args { object: self.resolve(path).await?, new_attributes, guard: sattrguard3::None };
            self.call::<SETATTR3resok, SETATTR3resfail>(NFS_PROGRAM::NFSPROC3_SETATTR, &args).await.map(drop)
        })
    }

    /// Writes, in as many calls at once as the server's largest one requires. What was written with `UNSTABLE` may be
    /// lost with the server's memory until [`Self::fsync`] returns.
    pub fn write_at<'a>(
        &'a self,
        file: &'a File,
        offset: u64,
        data: &'a Bytes,
        stable: stable_how,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut writes = Vec::new();
            let size = self.mount.write_max as usize;
            for (at, piece) in (offset..).step_by(size).zip(data.chunks(size)) {
                let args = WRITE3args {
                    file: file.0.clone(),
                    offset: at,
                    count: count(piece.len()),
                    stable,
                    data: Opaque::borrowed(piece),
                };
                let write = self.begin::<WRITE3resok, WRITE3resfail>(NFS_PROGRAM::NFSPROC3_WRITE, &args).await?;
                writes.push((piece.len(), write));
            }
            for (len, write) in writes {
                let written = done(write.reply().await?)?.count;
                if written as usize != len {
                    return Err(self.mount.connection.violated(&format!("wrote {written} of {len} bytes")));
                }
            }
            Ok(())
        })
    }

    /// Reads `len` bytes, fewer at the end of the file.
    pub fn read_at<'a>(&'a self, file: &'a File, offset: u64, len: usize) -> BoxFuture<'a, Result<Bytes>> {
        Box::pin(async move {
            let mut reads = Vec::new();
            let (end, size) = (offset + len as u64, self.mount.read_max as usize);
            for at in (offset..end).step_by(size) {
                let len = usize::try_from(end - at).unwrap_or(size).min(size);
                reads.push((at, len, self.begin_read(file, at, len).await?));
            }
            let mut data = BytesMut::with_capacity(len);
            for (at, len, mut read) in reads {
                let mut left = len;
                loop {
                    let part = done(read.reply().await?)?;
                    data.extend_from_slice(&part.data);
                    left = left.saturating_sub(part.data.len());
                    if part.eof || (left > 0 && part.data.is_empty()) {
                        return Ok(data.freeze());
                    }
                    if left == 0 {
                        break;
                    }
                    // A server may return less than it was asked for.
                    read = self.begin_read(file, at + (len - left) as u64, left).await?;
                }
            }
            Ok(data.freeze())
        })
    }

    /// Returns when everything written is on stable storage.
    pub fn fsync<'a>(&'a self, file: &'a File) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let args = COMMIT3args { file: file.0.clone(), offset: 0, count: 0 };
            self.call::<COMMIT3resok, COMMIT3resfail>(NFS_PROGRAM::NFSPROC3_COMMIT, &args).await.map(drop)
        })
    }

    async fn begin_read(
        &self,
        file: &File,
        offset: u64,
        len: usize,
    ) -> Result<Pending<'_, Nfs3Result<READ3resok<'static>, READ3resfail>>> {
        let args = READ3args { file: file.0.clone(), offset, count: count(len) };
        self.begin(NFS_PROGRAM::NFSPROC3_READ, &args).await
    }

    async fn resolve(&self, path: &str) -> Result<nfs_fh3> {
        let mut handle = self.mount.root.clone();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let args = LOOKUP3args { what: entry(handle, name) };
            handle = self.call::<LOOKUP3resok, LOOKUP3resfail>(NFS_PROGRAM::NFSPROC3_LOOKUP, &args).await?.object;
        }
        Ok(handle)
    }

    async fn place<'a>(&self, path: &'a str) -> Result<diropargs3<'a>> {
        let (directory, name) = path.rsplit_once('/').ok_or(NfsError::Argument("the path is not absolute"))?;
        Ok(entry(self.resolve(directory).await?, name))
    }

    async fn call<T: Unpack, E: Unpack>(&self, procedure: NFS_PROGRAM, args: &impl Pack) -> Result<T> {
        done(self.begin::<T, E>(procedure, args).await?.reply().await?)
    }

    async fn begin<T: Unpack, E: Unpack>(
        &self,
        procedure: NFS_PROGRAM,
        args: &impl Pack,
    ) -> Result<Pending<'_, Nfs3Result<T, E>>> {
        self.mount.connection.begin(procedure_of(procedure), args).await
    }
}

fn credential(options: &ClientOptions) -> Result<opaque_auth<'static>> {
    let (gid, others) = options.gids.split_first().map_or((0, &[][..]), |(gid, others)| (*gid, others));
    if others.len() > GROUPS_MAX {
        return Err(NfsError::Argument("NFS allows 16 groups besides the primary one"));
    }
    let machinename = Opaque::owned(options.host_name.clone().into_bytes());
    Ok(opaque_auth::auth_unix(&auth_unix { stamp: 0, machinename, uid: options.uid, gid, gids: others.to_vec() }))
}

fn procedure_of(procedure: NFS_PROGRAM) -> (u32, u32, u32) {
    (nfs3::PROGRAM, nfs3::VERSION, procedure as u32)
}

fn entry(dir: nfs_fh3, name: &str) -> diropargs3<'_> {
    diropargs3 { dir, name: filename3(Opaque::borrowed(name.as_bytes())) }
}

fn done<T, E>(result: Nfs3Result<T, E>) -> Result<T> {
    match result {
        Nfs3Result::Ok(value) => Ok(value),
        Nfs3Result::Err((status, _)) => Err(NfsError::Refused(status)),
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Calls in flight on a connection; further ones wait, as for the slots of a mount. Servers offer about as many.
const IN_FLIGHT: usize = 64;

/// Bytes of data in a call or reply, as proxies pass at most. Servers offer more: Ganesha 64 MiB, if it is not told.
const DATA_MAX: u32 = 4 << 20;

/// The largest reply: its data and what is around it.
const RECORD_MAX: usize = DATA_MAX as usize + (64 << 10);

type Procedure = (u32, u32, u32);

#[derive(Debug)]
struct Connection {
    /// The address that it comes from, and where it ends.
    ends: (IpAddr, SocketAddr),
    server: String,
    credential: opaque_auth<'static>,
    wait: Duration,
    next_number: AtomicU32,
    slots: Arc<Semaphore>,
    /// Bounded by the slots.
    queue: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
    tasks: [AbortHandle; 2],
}

#[derive(Debug, Default)]
struct Waiting {
    by_number: HashMap<u32, Waiter>,
    ended: Option<(io::ErrorKind, String)>,
}

/// A call keeps its slot until its reply, also if nobody waits for that any more.
#[derive(Debug)]
struct Waiter {
    reply: oneshot::Sender<Vec<u8>>,
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    /// Connects to `server` (`host:port`), from `local` if given; each reply may take as long as `wait`.
    async fn open(
        server: &str,
        local: Option<IpAddr>,
        credential: opaque_auth<'static>,
        wait: Duration,
    ) -> std::result::Result<Self, NfsError> {
        let failed = |error: io::Error| NfsError::connection(server, &error);
        let timed_out = |_| NfsError::Timeout { server: server.to_owned(), waited: wait };
        let stream = timeout(wait, connect(server, local)).await.map_err(timed_out)?.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let ends = (stream.local_addr().map_err(failed)?.ip(), stream.peer_addr().map_err(failed)?);
        let (read_half, mut write_half) = stream.into_split();
        let (queue, mut records) = mpsc::unbounded_channel::<Vec<u8>>();
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (read_side, write_side) = (Arc::clone(&waiting), Arc::clone(&waiting));
        let reading = tokio::spawn(async move { end(&read_side, &read(read_half, &read_side).await) }.boxed());
        let writing = tokio::spawn(
            async move {
                while let Some(record) = records.recv().await {
                    if let Err(error) = write_half.write_all(&record).await {
                        return end(&write_side, &error);
                    }
                }
            }
            .boxed(),
        );
        Ok(Self {
            ends,
            server: server.to_owned(),
            credential,
            wait,
            // Servers remember numbers by address and port, which an earlier client may have had.
            next_number: AtomicU32::new(rand::random()),
            slots: Arc::new(Semaphore::new(IN_FLIGHT)),
            queue,
            waiting,
            tasks: [reading.abort_handle(), writing.abort_handle()],
        })
    }

    /// Sends a call, as soon as there is a slot, and waits for its reply.
    async fn call<R: Unpack>(&self, procedure: Procedure, args: &impl Pack) -> std::result::Result<R, NfsError> {
        self.begin(procedure, args).await?.reply().await
    }

    async fn begin<R: Unpack>(
        &self,
        procedure: Procedure,
        args: &impl Pack,
    ) -> std::result::Result<Pending<'_, R>, NfsError> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.expect("nobody closes the semaphore");
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let record = self.record(number, procedure, args).map_err(|error| self.violated(&error))?;
        let (reply, receiver) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.ended.is_some() {
                drop(waiting);
                return Err(self.why_ended());
            }
            waiting.by_number.insert(number, Waiter { reply, _slot: slot });
        }
        self.queue.send(record).map_err(|_| self.why_ended())?;
        Ok(Pending { connection: self, receiver, result: PhantomData })
    }

    fn record(
        &self,
        xid: u32,
        (prog, vers, proc): Procedure,
        args: &impl Pack,
    ) -> std::result::Result<Vec<u8>, nfs3_types::xdr_codec::Error> {
        let (cred, verf) = (self.credential.borrow(), opaque_auth::default());
        let body = msg_body::CALL(call_body { rpcvers: RPC_VERSION_2, prog, vers, proc, cred, verf });
        let call = rpc_msg { xid, body };
        let len = call.packed_size() + args.packed_size();
        let mut record = Vec::with_capacity(4 + len);
        let marker = fragment_header::new(u32::try_from(len).expect("calls have at most DATA_MAX"), true);
        marker.pack(&mut record)?;
        call.pack(&mut record)?;
        args.pack(&mut record)?;
        Ok(record)
    }

    fn decode<R: Unpack>(&self, record: Vec<u8>) -> std::result::Result<R, NfsError> {
        let mut rest = Cursor::new(record);
        let (message, _) = rpc_msg::unpack(&mut rest).map_err(|error| self.violated(&error))?;
        let refused = match message.body {
            msg_body::REPLY(reply_body::MSG_ACCEPTED(accepted)) => match accepted.reply_data {
                accept_stat_data::SUCCESS => {
                    return R::unpack(&mut rest).map(|(result, _)| result).map_err(|error| self.violated(&error));
                }
                refused => format!("{refused:?}"),
            },
            msg_body::REPLY(reply_body::MSG_DENIED(refused)) => format!("{refused:?}"),
            msg_body::CALL(_) => "a call instead of a reply".to_owned(),
        };
        Err(NfsError::Protocol { server: self.server.clone(), what: refused })
    }

    fn violated(&self, what: &dyn std::fmt::Display) -> NfsError {
        NfsError::Protocol { server: self.server.clone(), what: what.to_string() }
    }

    fn why_ended(&self) -> NfsError {
        let closed = || (io::ErrorKind::ConnectionReset, "closed".to_owned());
        let (kind, reason) = lock(&self.waiting).ended.clone().unwrap_or_else(closed);
        NfsError::Connection { server: self.server.clone(), kind, reason }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

struct Pending<'a, R> {
    connection: &'a Connection,
    receiver: oneshot::Receiver<Vec<u8>>,
    result: PhantomData<R>,
}

impl<R: Unpack> Pending<'_, R> {
    async fn reply(self) -> std::result::Result<R, NfsError> {
        let Self { connection, receiver, .. } = self;
        match timeout(connection.wait, receiver).await {
            Ok(Ok(record)) => connection.decode(record),
            Ok(Err(_)) => Err(connection.why_ended()),
            Err(_) => Err(NfsError::Timeout { server: connection.server.clone(), waited: connection.wait }),
        }
    }
}

async fn read(mut stream: OwnedReadHalf, waiting: &Mutex<Waiting>) -> io::Error {
    loop {
        let record = match read_record(&mut stream).await {
            Ok(record) => record,
            Err(error) => return error,
        };
        let number = record.first_chunk().map(|number| u32::from_be_bytes(*number));
        if let Some(waiter) = number.and_then(|number| lock(waiting).by_number.remove(&number)) {
            // Its receiver may have been dropped.
            let _ = waiter.reply.send(record);
        }
    }
}

async fn read_record(stream: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut record = Vec::new();
    loop {
        let mut marker = [0; 4];
        stream.read_exact(&mut marker).await?;
        let fragment = fragment_header::from(marker);
        let (begin, len) = (record.len(), fragment.fragment_length() as usize);
        if begin + len > RECORD_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a reply of {} bytes", begin + len)));
        }
        record.resize(begin + len, 0);
        stream.read_exact(&mut record[begin..]).await?;
        if fragment.eof() {
            return Ok(record);
        }
    }
}

/// Records why the connection ended (the first reason stays) and wakes all waiting calls.
fn end(waiting: &Mutex<Waiting>, reason: &io::Error) {
    let mut waiting = lock(waiting);
    waiting.ended.get_or_insert_with(|| (reason.kind(), reason.to_string()));
    waiting.by_number.clear();
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_the_usual_ones_unless_others_are_given() {
        let url = |host: &str, port, mount_port, export: &str| Url {
            host: host.to_owned(),
            port,
            mount_port,
            export: export.to_owned(),
        };
        for (text, expected) in [
            ("nfs://nas1/home", url("nas1", 2049, 20048, "/home")),
            ("nfs://10.0.0.1:12049/home", url("10.0.0.1", 12049, 20048, "/home")),
            ("nfs://nas1:2049/a/b?mountport=635", url("nas1", 2049, 635, "/a/b")),
            ("nfs://[::1]/", url("[::1]", 2049, 20048, "/")),
            ("nfs://[::1]:3049/", url("[::1]", 3049, 20048, "/")),
        ] {
            assert_eq!(Url::parse(text).ok(), Some(expected.clone()), "{text}");
            assert_eq!(Url::parse(&expected.to_string()).ok(), Some(expected), "{text}");
        }
        for bad in [
            "tcp://h:1/x",
            "nfs://h:1",
            "nfs://:1/x",
            "nfs:///x",
            "nfs://h:0/x",
            "nfs://h:1/x?uid=1",
            "nfs://h:1/x?mountport=y",
        ] {
            assert!(matches!(Url::parse(bad), Err(NfsError::Url(_))), "{bad}");
        }
    }
}

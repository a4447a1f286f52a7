//! ONC RPC over one TCP connection: many calls in flight, each finds its reply by its number.

use std::collections::HashMap;
use std::io::{self, Cursor};
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nfs3_types::rpc::{
    RPC_VERSION_2, accept_stat_data, call_body, fragment_header, msg_body, opaque_auth, reply_body, rpc_msg,
};
use nfs3_types::xdr_codec::{Pack, Unpack};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::NfsError;
use crate::client::connect;

/// Calls in flight on a connection; further ones wait, as for the slots of a mount. Servers offer about as many.
const IN_FLIGHT: usize = 64;
/// Bytes of data in a call or reply, as proxies pass at most. Servers offer more: Ganesha 64 MiB, if it is not told.
pub(super) const DATA_MAX: u32 = 4 << 20;
/// The largest reply: its data and what is around it.
const RECORD_MAX: usize = DATA_MAX as usize + (64 << 10);

/// What to call: program, version, procedure.
pub(super) type Procedure = (u32, u32, u32);

/// An open connection. Dropping it ends all calls.
#[derive(Debug)]
pub(super) struct Connection {
    /// The address that it comes from, and where it ends.
    pub(super) ends: (IpAddr, SocketAddr),
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

/// The calls that wait for replies, by number.
#[derive(Debug, Default)]
struct Waiting {
    by_number: HashMap<u32, Waiter>,
    /// Why the connection ended.
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
    pub(super) async fn open(
        server: &str,
        local: Option<IpAddr>,
        credential: opaque_auth<'static>,
        wait: Duration,
    ) -> Result<Self, NfsError> {
        let failed = |error: io::Error| NfsError::connection(server, &error);
        let timed_out = |_| NfsError::Timeout { server: server.to_owned(), waited: wait };
        let stream = timeout(wait, connect(server, local)).await.map_err(timed_out)?.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let ends = (stream.local_addr().map_err(failed)?.ip(), stream.peer_addr().map_err(failed)?);
        let (read_half, mut write_half) = stream.into_split();
        let (queue, mut records) = mpsc::unbounded_channel::<Vec<u8>>();
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (read_side, write_side) = (Arc::clone(&waiting), Arc::clone(&waiting));
        let reading = tokio::spawn(async move { end(&read_side, &read(read_half, &read_side).await) });
        let writing = tokio::spawn(async move {
            while let Some(record) = records.recv().await {
                if let Err(error) = write_half.write_all(&record).await {
                    return end(&write_side, &error);
                }
            }
        });
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
    pub(super) async fn call<R: Unpack>(&self, procedure: Procedure, args: &impl Pack) -> Result<R, NfsError> {
        self.begin(procedure, args).await?.reply().await
    }

    /// Sends a call, as soon as there is a slot.
    pub(super) async fn begin<R: Unpack>(
        &self,
        procedure: Procedure,
        args: &impl Pack,
    ) -> Result<Pending<'_, R>, NfsError> {
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
    ) -> Result<Vec<u8>, nfs3_types::xdr_codec::Error> {
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

    fn decode<R: Unpack>(&self, record: Vec<u8>) -> Result<R, NfsError> {
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

    pub(super) fn violated(&self, what: &dyn std::fmt::Display) -> NfsError {
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

/// A call that was sent.
pub(super) struct Pending<'a, R> {
    connection: &'a Connection,
    receiver: oneshot::Receiver<Vec<u8>>,
    result: PhantomData<R>,
}

impl<R: Unpack> Pending<'_, R> {
    pub(super) async fn reply(self) -> Result<R, NfsError> {
        let Self { connection, receiver, .. } = self;
        match timeout(connection.wait, receiver).await {
            Ok(Ok(record)) => connection.decode(record),
            Ok(Err(_)) => Err(connection.why_ended()),
            Err(_) => Err(NfsError::Timeout { server: connection.server.clone(), waited: connection.wait }),
        }
    }
}

/// Delivers replies until the connection ends; returns the reason.
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

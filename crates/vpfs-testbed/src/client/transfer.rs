//! Accesses to the bytes of a file: the part of each server, and how it is transferred.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::future::FutureExt;
use tokio::task::JoinSet;
use vpfs_protocol::wire::bmi::MAX_UNEXPECTED;
use vpfs_protocol::wire::pvfs2::reply::SmallIoResult;
use vpfs_protocol::wire::pvfs2::transfer::TransferPiece;
use vpfs_protocol::wire::pvfs2::{
    Errno, IoType, Op, Preq, Reply, ReplyBody, RequestBody, Status, Transfer, TransferError, request,
};

use super::link::{Exchange, LinkError};
use super::mount::{File, Layout, Mount, pause_before_retry};
use super::{ClientError, Result};
use crate::transport::{Chunk, Outgoing, chunk_len, chunks};

/// Inline transfers are used when every server's share fits into what remains of a 16384-byte message
/// (docs/protocols/orangefs.md, SMALL_IO).
const SMALL_READ_MAX: u64 = 16344;

const SMALL_WRITE_MAX: u64 = 6768;

#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    offset: i64,
    len: i64,
}

impl Range {
    pub(super) fn new(offset: u64, len: usize) -> Result<Self> {
        let too_far = || ClientError::Argument("an access ends before byte 2⁶³");
        let len = i64::try_from(len).map_err(|_| too_far())?;
        let offset = i64::try_from(offset).map_err(|_| too_far())?;
        offset.checked_add(len).map(|_| Self { offset, len }).ok_or_else(too_far)
    }
}

/// The part of the access on each server that has one.
pub(super) fn shares(
    mount: &Arc<Mount>,
    file: &File,
    layout: &Arc<Layout>,
    range: Range,
    io_type: IoType,
) -> Result<Vec<Share>> {
    let malformed = |_: TransferError| ClientError::Argument("the file's distribution is invalid");
    let servers = u32::try_from(layout.datafiles.len()).unwrap_or(u32::MAX);
    let mut shares = Vec::new();
    for number in 0..servers {
        let preq = Preq::contiguous();
        let transfer =
            Transfer::new(&layout.dist, number, servers, &preq, range.offset, range.len).map_err(malformed)?;
        if transfer.upper_bound().map_err(malformed)? > 0 {
            let (mount, file, layout) = (Arc::clone(mount), file.clone(), Arc::clone(layout));
            let Range { offset, len } = range;
            shares.push(Share { mount, file, layout, number, offset, len, io_type, transfer, inline: false });
        }
    }
    let limit = if io_type == IoType::Read { SMALL_READ_MAX } else { SMALL_WRITE_MAX };
    let inline = shares.iter().all(|share| share.transfer.upper_bound().is_ok_and(|bytes| bytes <= limit));
    shares.iter_mut().for_each(|share| share.inline = inline);
    Ok(shares)
}

pub(super) async fn run(mut shares: Vec<Share>, direction: &Direction) -> Result<Vec<Outcome>> {
    if shares.len() == 1 {
        let only = shares.remove(0);
        return Ok(vec![only.run(direction.clone()).await?]);
    }
    let mut running = JoinSet::new();
    for share in shares {
        running.spawn(share.run(direction.clone()).boxed());
    }
    let mut outcomes = Vec::new();
    while let Some(outcome) = running.join_next().await {
        match outcome {
            Ok(outcome) => outcomes.push(outcome?),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
    Ok(outcomes)
}

/// Where the file ends, as far as it matters for a read up to byte `wanted`.
///
/// Each server that took part has returned its datafile's size. If none of these reaches `wanted`, another server's
/// may; then all servers are asked, because unwritten bytes before the end of the file read as zeros.
pub(super) async fn end_of_data(
    mount: &Mount,
    file: &File,
    layout: &Layout,
    wanted: u64,
    outcomes: &[Outcome],
) -> Result<u64> {
    let stripe = layout.stripe()?;
    let ends = outcomes.iter().filter_map(|outcome| stripe.logical_size(outcome.number, outcome.bstream_size));
    let end = ends.max().unwrap_or(0);
    if end >= wanted || outcomes.len() == layout.datafiles.len() { Ok(end) } else { mount.size(file).await }
}

/// Copies the pieces of all servers to their places in a buffer of `len` bytes.
pub(super) fn assemble(mut outcomes: Vec<Outcome>, len: usize) -> Bytes {
    if let [Outcome { pieces, .. }] = outcomes.as_mut_slice()
        && let [(0, bytes)] = pieces.as_mut_slice()
        && bytes.len() == len
    {
        return std::mem::take(bytes);
    }
    let mut buffer = BytesMut::zeroed(len);
    for (at, bytes) in outcomes.into_iter().flat_map(|outcome| outcome.pieces) {
        let room = buffer.get_mut(at..).unwrap_or(&mut []);
        let fits = bytes.len().min(room.len());
        room[..fits].copy_from_slice(&bytes[..fits]);
    }
    buffer.freeze()
}

const REPLIES_MAX: u64 = 2 * MAX_UNEXPECTED;

#[derive(Clone, Debug)]
pub(super) enum Direction {
    Read,
    Write(Bytes),
}

#[derive(Debug)]
pub(super) struct Share {
    mount: Arc<Mount>,
    file: File,
    layout: Arc<Layout>,
    number: u32,
    offset: i64,
    len: i64,
    io_type: IoType,
    transfer: Transfer,
    /// Whether the data is in the request or reply instead of further messages.
    inline: bool,
}

#[derive(Debug)]
pub(super) struct Outcome {
    number: u32,
    bstream_size: u64,
    /// The data read, by offset in the access.
    pieces: Vec<(usize, Bytes)>,
}

pub(crate) enum Failure {
    Link(LinkError),
    Refused { op: Op, status: Status },
    Protocol(&'static str),
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl Share {
    /// Retries until it succeeds or no attempts are left: after transport errors as for any request, after EAGAIN with
    /// a renewed capability. Other refusals are final (a stock client retries those too).
    async fn run(mut self, direction: Direction) -> Result<Outcome> {
        let mut attempts_left = self.mount.policy.retries;
        loop {
            let failure = match self.attempt(&direction).await {
                Ok(outcome) => return Ok(outcome),
                Err(failure) => failure,
            };
            let renew = matches!(&failure, Failure::Refused { status, .. } if status.errno() == Some(Errno::EAGAIN));
            let may_repeat = renew || matches!(&failure, Failure::Link(LinkError::Lost { .. } | LinkError::Silent(_)));
            let error = self.error(failure);
            if !may_repeat || attempts_left == 0 {
                return Err(error);
            }
            attempts_left -= 1;
            pause_before_retry(&error, self.mount.policy).await;
            if renew {
                let capability = self.mount.refresh(&self.file).await?.capability.clone();
                self.layout = Arc::new(Layout { capability, ..Layout::clone(&self.layout) });
            }
        }
    }

    fn error(&self, failure: Failure) -> ClientError {
        let (mount, server) = (&self.mount, self.server());
        let op = if self.inline { Op::SmallIo } else { Op::Io };
        match failure {
            Failure::Link(error) => mount.failure(server, op, error),
            Failure::Refused { op, status } => ClientError::Refused { op, status },
            Failure::Protocol(what) => mount.failure(server, op, LinkError::Protocol(what.to_owned())),
        }
    }

    fn server(&self) -> usize {
        self.layout.owners[self.number as usize]
    }

    async fn attempt(&self, direction: &Direction) -> std::result::Result<Outcome, Failure> {
        match (self.inline, direction) {
            (true, Direction::Read) => self.small_io(Vec::new()).await,
            (true, Direction::Write(data)) => {
                let whole = self.chunks(self.upper_bound()?, u64::MAX).next().unwrap_or(Ok(Chunk::new()))?;
                self.small_io(segments(data, &whole).concat()).await
            }
            (false, Direction::Read) => self.read().await,
            (false, Direction::Write(data)) => self.write(data).await,
        }
    }

    /// A bulk read: acknowledgement, then chunks until the end of the datafile's part.
    async fn read(&self) -> std::result::Result<Outcome, Failure> {
        let (mut exchange, bstream_size) = self.begin_bulk(self.upper_bound()?).await?;
        let total = self.transfer.read_bytes(bstream_size).map_err(|_| SENSELESS)?;
        let mut pieces = Vec::new();
        for chunk in self.chunks(total, self.mount.config.flow_buffer_bytes) {
            let chunk = chunk?;
            let payload = exchange.receive(self.mount.policy.flow_wait).await?;
            if payload.len() as u64 != chunk_len(&chunk) {
                return Err(exchange.fail("a data message has the wrong length".to_owned()).into());
            }
            pieces.extend(placed(&chunk, payload));
        }
        Ok(Outcome { number: self.number, bstream_size, pieces })
    }

    /// A bulk write: acknowledgement, all chunks, completion.
    async fn write(&self, data: &Bytes) -> std::result::Result<Outcome, Failure> {
        let (mut exchange, bstream_size) = self.begin_bulk(0).await?;
        let (total, wait) = (self.upper_bound()?, self.mount.policy.flow_wait);
        exchange.set_awaits_data(true);
        for chunk in self.chunks(total, self.mount.config.flow_buffer_bytes) {
            let message = Outgoing::data(exchange.tag(), segments(data, &chunk?));
            exchange.send(message.map_err(|_| Failure::Protocol("flow buffers are too large to send"))?, wait).await?;
        }
        exchange.set_awaits_data(false);
        match self.reply(&mut exchange, wait).await?.body {
            ReplyBody::WriteCompletion(done) if u64::try_from(done.total_completed) == Ok(total) => {
                Ok(Outcome { number: self.number, bstream_size, pieces: Vec::new() })
            }
            _ => Err(exchange.fail("a write was completed only partially".to_owned()).into()),
        }
    }

    fn access(&self) -> request::Io {
        let (handle, dist) = (self.layout.datafiles[self.number as usize], self.layout.dist.clone());
        let server_ct = u32::try_from(self.layout.datafiles.len()).unwrap_or(u32::MAX);
        let whole = request::Io::contiguous(handle, self.mount.config.fs_id, self.io_type, self.offset, self.len);
        request::Io { server_nr: self.number, server_ct, dist, ..whole }
    }

    /// Sends an IO request and returns the datafile's size from a positive acknowledgement.
    async fn begin_bulk(&self, data_bytes: u64) -> std::result::Result<(Exchange, u64), Failure> {
        let mut exchange = self.begin(self.access(), data_bytes).await?;
        match self.reply(&mut exchange, self.mount.policy.reply_wait).await?.body {
            ReplyBody::Io(ack) => Ok((exchange, size_of(ack.bstream_size)?)),
            _ => Err(exchange.fail("expected an acknowledgement".to_owned()).into()),
        }
    }

    async fn small_io(&self, data: Vec<u8>) -> std::result::Result<Outcome, Failure> {
        let sent = data.len() as u64;
        let mut exchange = self.begin(self.access().small(data), 0).await?;
        let reply = self.reply(&mut exchange, self.mount.policy.reply_wait).await?;
        let ReplyBody::SmallIo(done) = reply.body else {
            return Err(exchange.fail("expected a reply to a small I/O".to_owned()).into());
        };
        let pieces = match done.result {
            SmallIoResult::Read(bytes) => self.placed_small(bytes.into())?,
            SmallIoResult::Written(written) if u64::try_from(written) == Ok(sent) => Vec::new(),
            SmallIoResult::Written(_) => return Err(Failure::Protocol("a write was completed only partially")),
        };
        Ok(Outcome { number: self.number, bstream_size: size_of(done.bstream_size)?, pieces })
    }

    /// Places the data of a small read, which may be shorter than requested.
    fn placed_small(&self, bytes: Bytes) -> std::result::Result<Vec<(usize, Bytes)>, Failure> {
        let total = bytes.len() as u64;
        if total > self.upper_bound()? {
            return Err(Failure::Protocol("more data than requested"));
        }
        match self.chunks(total, u64::MAX).next() {
            Some(chunk) => Ok(placed(&chunk?, bytes).collect()),
            None => Ok(Vec::new()),
        }
    }

    async fn begin(&self, body: impl Into<RequestBody>, data_bytes: u64) -> std::result::Result<Exchange, Failure> {
        let capability = self.layout.capability.clone().unwrap_or_default();
        let request = self.mount.request(capability, self.file.metafile(), body);
        let allowance = REPLIES_MAX.saturating_add(data_bytes);
        Ok(self.mount.begin(self.server(), &request.encode().into(), allowance).await?)
    }

    /// The next message as a reply; a refusal is a failure.
    async fn reply(&self, exchange: &mut Exchange, wait: std::time::Duration) -> std::result::Result<Reply, Failure> {
        let payload = exchange.receive(wait).await?;
        match Reply::decode(&payload) {
            Ok(reply) if reply.status.is_ok() => Ok(reply),
            Ok(Reply { op, status, .. }) => Err(Failure::Refused { op, status }),
            Err(error) => Err(exchange.fail(format!("reply {error}")).into()),
        }
    }

    fn upper_bound(&self) -> std::result::Result<u64, Failure> {
        self.transfer.upper_bound().map_err(|_| SENSELESS)
    }

    fn chunks(&self, total: u64, buffer: u64) -> impl Iterator<Item = std::result::Result<Chunk, Failure>> {
        chunks(self.transfer.pieces(), total, buffer).map(|chunk| chunk.map_err(|_| SENSELESS))
    }
}

/// Never seen, as the share was checked when it was created.
const SENSELESS: Failure = Failure::Protocol("the access cannot be computed");

fn size_of(bstream_size: i64) -> std::result::Result<u64, Failure> {
    u64::try_from(bstream_size).map_err(|_| Failure::Protocol("a datafile of negative size"))
}

/// The data of a chunk, taken from the data of the whole access without copying.
fn segments(data: &Bytes, chunk: &[TransferPiece]) -> Vec<Bytes> {
    chunk.iter().map(|piece| data.slice(place(piece.access_offset)..place(piece.access_offset + piece.len))).collect()
}

fn placed(chunk: &[TransferPiece], mut data: Bytes) -> impl Iterator<Item = (usize, Bytes)> {
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for piece in chunk {
        let (at, len) = (place(piece.access_offset), place(piece.len));
        match joined.last_mut() {
            Some((begin, so_far)) if *begin + *so_far == at => *so_far += len,
            _ => joined.push((at, len)),
        }
    }
    joined.into_iter().map(move |(at, len)| (at, data.split_to(len)))
}

/// Offsets in an access are offsets into a buffer in memory.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

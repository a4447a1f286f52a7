//! Reading and writing: one operation on each server that holds part of the access.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::task::JoinSet;
use vpfs_wire::pvfs2::{IoType, Preq, Transfer, TransferError};

use super::file::{File, Layout};
use super::mount::Mount;
use super::share::{Direction, Outcome, Share};
use super::{Client, ClientError, Result};

/// Inline transfers are used when every server's share fits into what remains of a 16384-byte message
/// (docs/protocols/orangefs.md, SMALL_IO).
const SMALL_READ_MAX: u64 = 16344;
const SMALL_WRITE_MAX: u64 = 6768;

/// An access as requested by the caller.
#[derive(Clone, Copy, Debug)]
struct Range {
    offset: i64,
    len: i64,
}

impl Range {
    fn new(offset: u64, len: usize) -> Result<Self> {
        let too_far = || ClientError::Argument("an access ends before byte 2⁶³");
        let len = i64::try_from(len).map_err(|_| too_far())?;
        let offset = i64::try_from(offset).map_err(|_| too_far())?;
        offset.checked_add(len).map(|_| Self { offset, len }).ok_or_else(too_far)
    }
}

impl Client {
    /// Writes all of `data` at `offset`, extending the file where needed.
    pub async fn write_at(&self, file: &File, offset: u64, data: Bytes) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let range = Range::new(offset, data.len())?;
        let layout = self.mount.layout_up_to(file, offset + data.len() as u64, true).await?;
        let shares = shares(&self.mount, file, &layout, range, IoType::Write)?;
        run(shares, &Direction::Write(data)).await.map(drop)
    }

    /// Up to `len` bytes from `offset`; fewer only at the end of the file. Holes read as zeros.
    pub async fn read_at(&self, file: &File, offset: u64, len: usize) -> Result<Bytes> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        let range = Range::new(offset, len)?;
        let layout = self.mount.layout_up_to(file, offset + len as u64, false).await?;
        let outcomes = run(shares(&self.mount, file, &layout, range, IoType::Read)?, &Direction::Read).await?;
        let end = end_of_data(&self.mount, file, &layout, offset + len as u64, &outcomes).await?;
        let len = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(len);
        Ok(assemble(outcomes, len))
    }
}

/// The part of the access on each server that has one.
fn shares(mount: &Arc<Mount>, file: &File, layout: &Arc<Layout>, range: Range, io_type: IoType) -> Result<Vec<Share>> {
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

/// Runs all shares concurrently; the first error cancels the others.
async fn run(mut shares: Vec<Share>, direction: &Direction) -> Result<Vec<Outcome>> {
    if shares.len() == 1 {
        let only = shares.remove(0);
        return Ok(vec![only.run(direction.clone()).await?]);
    }
    let mut running = JoinSet::new();
    for share in shares {
        running.spawn(share.run(direction.clone()));
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
async fn end_of_data(mount: &Mount, file: &File, layout: &Layout, wanted: u64, outcomes: &[Outcome]) -> Result<u64> {
    let stripe = layout.stripe()?;
    let ends = outcomes.iter().filter_map(|outcome| stripe.logical_size(outcome.number, outcome.bstream_size));
    let end = ends.max().unwrap_or(0);
    if end >= wanted || outcomes.len() == layout.datafiles.len() { Ok(end) } else { mount.size(file).await }
}

/// Copies the pieces of all servers to their places in a buffer of `len` bytes.
fn assemble(mut outcomes: Vec<Outcome>, len: usize) -> Bytes {
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

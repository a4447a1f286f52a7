//! How many bytes an I/O moves through one server, and which (docs/protocols/orangefs.md, bytes of an I/O).
//!
//! Requests say what the whole access touches; each server's share follows from the access description and the
//! distribution. Reads have no end marker on the wire, so a proxy must count exactly this share.

mod tree;

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use vpfs_core::Bytes;
use vpfs_core::stripe::{self, Stripe, StripeError};

use super::dist::{Dist, DistView};
use super::preq::{Node, Preq};
use tree::{Run, Runs, Tree};

/// Limit on the steps (runs and pieces visited) for all [`Transfer::pieces`], about a millisecond: those who ask for
/// them move the data as well.
pub const PIECES_BUDGET: u32 = 1 << 17;

/// Limit on the steps that any other query on a structured access may take. A query beyond it fails with
/// [`TransferError::TooComplex`], so that a small request cannot cause much work. The limit amounts to about 60 µs,
/// somewhat more for variable strips, and is enough for thousands of pieces.
pub const STEP_BUDGET: u32 = 1 << 13;

/// Why the share of a server cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// Negative sizes, overflowing offsets, broken trees: no correct client sends this.
    #[error("malformed access: {0}")]
    Malformed(&'static str),
    /// The distribution's parameters are invalid.
    #[error("malformed distribution: {0}")]
    Distribution(#[from] StripeError),
    /// More than [`STEP_BUDGET`] steps would be needed, or [`PIECES_BUDGET`] for all pieces.
    #[error("the access has too many pieces to count")]
    TooComplex,
}

/// One server's part of an access.
#[derive(Clone, Debug)]
pub struct Transfer {
    stripe: Stripe,
    servers: u32,
    server: u32,
    pattern: AccessShape,
    /// Stream positions of the access: bytes of the tiled access description.
    stream: Range<u64>,
    steps: Steps,
}

#[derive(Clone, Debug)]
enum AccessShape {
    /// Stream position p is file offset `start` + p.
    Contiguous { start: u64 },
    /// Anything else.
    Nested(Box<Tree>),
}

/// Bytes that are contiguous in the file, in the datafile, in the client's buffer and in the data on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferPiece {
    /// Offset in this server's datafile.
    pub physical: u64,
    /// Number of bytes, never zero.
    pub len: u64,
    /// Offset in the buffer of the whole access (all servers): where a client takes it from or puts it.
    pub access_offset: u64,
    /// Offset in this server's data: where a server takes it from or puts it.
    pub wire_offset: u64,
}

impl Transfer {
    /// The part of server `server_nr` of `server_ct` in the access that takes `aggregate_size` bytes from position
    /// `file_req_offset` of the description `preq`, of a file striped by `dist`.
    pub fn new(
        dist: &Dist,
        server_nr: u32,
        server_ct: u32,
        preq: &Preq,
        file_req_offset: i64,
        aggregate_size: i64,
    ) -> Result<Self, TransferError> {
        Self::build(dist.view(), server_nr, server_ct, preq.nodes.iter().copied(), file_req_offset, aggregate_size)
    }

    /// Like [`Transfer::new`], from borrowed parts. Does not allocate for a plain byte range, except with variable
    /// strips.
    pub(crate) fn build(
        dist: DistView<'_>,
        server_nr: u32,
        server_ct: u32,
        nodes: impl Iterator<Item = Node>,
        file_req_offset: i64,
        aggregate_size: i64,
    ) -> Result<Self, TransferError> {
        let stripe = dist.stripe(server_ct)?;
        if server_nr >= server_ct {
            return Err(TransferError::Malformed("a server number beyond the server count"));
        }
        // Servers ignore their number in this distribution: the server that is asked holds everything.
        let server = if dist == DistView::Basic { 0 } else { server_nr };
        let end = file_req_offset.checked_add(aggregate_size);
        let (Ok(start), Ok(len), Some(_)) = (u64::try_from(file_req_offset), u64::try_from(aggregate_size), end) else {
            return Err(TransferError::Malformed("a negative or overflowing offset or size"));
        };
        let stream = start..start + len;
        let pattern = AccessShape::build(nodes, &stream)?;
        Ok(Self { stripe, servers: server_ct, server, pattern, stream, steps: Steps::default() })
    }

    /// Bytes of memory that it takes up: an access in many parts can take up more than its request. O(1).
    pub fn memory(&self) -> usize {
        let pattern = match &self.pattern {
            AccessShape::Contiguous { .. } => 0,
            AccessShape::Nested(tree) => tree.memory(),
        };
        size_of::<Self>() + self.stripe.memory() + pattern
    }

    /// The steps that all queries have taken so far, about 8 ns each.
    pub fn steps(&self) -> u32 {
        self.steps.0.load(Ordering::Relaxed)
    }

    /// Bytes that a write moves: all that lie on the server.
    pub fn write_bytes(&self) -> Result<u64, TransferError> {
        self.bytes_below(u64::MAX)
    }

    /// Upper bound on the bytes that a read moves: what it would move from a datafile without end.
    pub fn upper_bound(&self) -> Result<u64, TransferError> {
        self.write_bytes()
    }

    /// Bytes that a read moves from a datafile of `bstream_size` bytes. The read stops at the first end of file, even
    /// if later regions of an unsorted access lie inside the file.
    ///
    /// Differs from real servers in one case, which was never seen on the wire: they also stop if a region ends exactly
    /// where a flow buffer is full and the next byte that the distribution would map lies beyond the end of the
    /// datafile.
    pub fn read_bytes(&self, bstream_size: u64) -> Result<u64, TransferError> {
        self.bytes_below(bstream_size)
    }

    /// The bytes that the access moves at all other servers, if every server can compute this from its own request
    /// [vPFS §III-B2]; this holds only for accesses to consecutive bytes. At most O(n) in servers.
    pub fn elsewhere(&self) -> Option<Bytes> {
        // No real layout has more servers than the step budget allows.
        let AccessShape::Contiguous { start } = self.pattern else { return None };
        if self.servers > STEP_BUDGET {
            return None;
        }
        stripe::elsewhere(&self.stripe, self.server, &(start + self.stream.start..start + self.stream.end))
    }

    /// The offset in the datafile of the first byte that is moved; `None` if none lies on this server.
    pub fn first_physical_offset(&self) -> Result<Option<u64>, TransferError> {
        self.pieces_within(STEP_BUDGET).next().transpose().map(|piece| piece.map(|piece| piece.physical))
    }

    /// The pieces on this server, in wire order. Ends with an error after [`PIECES_BUDGET`] steps.
    pub fn pieces(&self) -> impl Iterator<Item = Result<TransferPiece, TransferError>> + '_ {
        self.pieces_within(PIECES_BUDGET)
    }

    fn pieces_within(&self, steps: u32) -> impl Iterator<Item = Result<TransferPiece, TransferError>> + '_ {
        let mut runs = self.runs(self.stream.clone());
        let mut current: Option<(Run, vpfs_core::stripe::Pieces<'_>)> = None;
        let mut wire_offset = 0;
        let mut budget = Budget::new(steps, &self.steps);
        let mut failed = false;
        std::iter::from_fn(move || {
            while !failed {
                if let Err(error) = budget.spend() {
                    failed = true;
                    return Some(Err(error));
                }
                if let Some((run, pieces)) = &mut current
                    && let Some(piece) = pieces.next()
                {
                    let access_offset = run.position - self.stream.start + (piece.logical - run.file_offset);
                    let len = piece.len;
                    wire_offset += len;
                    let piece =
                        TransferPiece { physical: piece.physical, len, access_offset, wire_offset: wire_offset - len };
                    return Some(Ok(piece));
                }
                let run = match runs.next(&mut budget) {
                    Ok(run) => run?,
                    Err(error) => {
                        failed = true;
                        return Some(Err(error));
                    }
                };
                let pieces = self.stripe.pieces(self.server, run.file_offset..run.file_offset + run.len);
                current = Some((run, pieces));
            }
            None
        })
    }

    /// Bytes moved until the first one at or beyond the physical offset `end`.
    fn bytes_below(&self, end: u64) -> Result<u64, TransferError> {
        let len = self.stream.end - self.stream.start;
        let bytes = match &self.pattern {
            AccessShape::Contiguous { start } => {
                let from = start + self.stream.start;
                self.run_below(&Run { file_offset: from, len, position: 0 }, end).0
            }
            AccessShape::Nested(tree) => self.nested_below(tree, end)?,
        };
        debug_assert!(bytes <= len, "a server's part of an access is no more than the access");
        Ok(bytes)
    }

    /// The bytes of one run on this server and below `end`, and whether these are all of the run's bytes here.
    ///
    /// A server's bytes of a contiguous run are contiguous in its datafile too, so this needs no loop.
    fn run_below(&self, run: &Run, end: u64) -> (u64, bool) {
        let first = self.stripe.bytes_before(self.server, run.file_offset);
        let last = self.stripe.bytes_before(self.server, run.file_offset + run.len);
        debug_assert!(first <= last && last - first <= run.len, "a server has at most all bytes of a run");
        (last.min(end.max(first)) - first, last <= end || last == first)
    }

    /// Sums runs one by one, except for the middle part of whole tiles that lie entirely below `end`: their contents
    /// repeat with the distribution's round.
    fn nested_below(&self, tree: &Tree, end: u64) -> Result<u64, TransferError> {
        let mut budget = Budget::new(STEP_BUDGET, &self.steps);
        let size = tree.size();
        let first_tile = self.stream.start.div_ceil(size);
        let last_tile = self.stream.end / size;
        if first_tile >= last_tile {
            return Ok(self.sum(self.stream.clone(), end, &mut budget)?.0);
        }
        let (mut total, goes_on) = self.sum(self.stream.start..first_tile * size, end, &mut budget)?;
        if !goes_on {
            return Ok(total);
        }
        let whole = self.whole_tiles_below(tree, first_tile..last_tile, end);
        let round = self.stripe.round().unwrap_or(1);
        let period = round / gcd(tree.extent(), round);
        let (periods, rest) = (whole / period, whole % period);
        let mut runs = self.runs(first_tile * size..(first_tile + whole.min(period)) * size);
        while let Some(run) = runs.next(&mut budget)? {
            let times = periods + u64::from(run.position < (first_tile + rest) * size);
            total += self.run_below(&run, u64::MAX).0 * times;
        }
        Ok(total + self.sum((first_tile + whole) * size..self.stream.end, end, &mut budget)?.0)
    }

    /// How many of `tiles`, counted from the first, have all their bytes on this server below `end`.
    fn whole_tiles_below(&self, tree: &Tree, tiles: Range<u64>, end: u64) -> u64 {
        let is_below = |tile| self.stripe.bytes_before(self.server, tree.end_of_tile(tile)) <= end;
        let (mut low, mut high) = (tiles.start, tiles.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_below(middle) { low = middle + 1 } else { high = middle }
        }
        low - tiles.start
    }

    /// The bytes of a part of the stream below `end`, and whether `end` was not reached.
    fn sum(&self, stream: Range<u64>, end: u64, budget: &mut Budget<'_>) -> Result<(u64, bool), TransferError> {
        let mut runs = self.runs(stream);
        let mut total = 0;
        while let Some(run) = runs.next(budget)? {
            let (bytes, all) = self.run_below(&run, end);
            total += bytes;
            if !all {
                return Ok((total, false));
            }
        }
        Ok((total, true))
    }

    fn runs(&self, stream: Range<u64>) -> Runs<'_> {
        match &self.pattern {
            AccessShape::Contiguous { start } => Runs::single(*start, stream),
            AccessShape::Nested(tree) => tree.runs(stream),
        }
    }
}

impl AccessShape {
    fn build(mut nodes: impl Iterator<Item = Node>, stream: &Range<u64>) -> Result<Self, TransferError> {
        let root = nodes.next().ok_or(TransferError::Malformed("an access description without nodes"))?;
        let start = if root.ereq == -1 {
            root.offset
        } else {
            let tree = Tree::build([root].into_iter().chain(nodes).collect(), stream)?;
            match tree.contiguous_start() {
                Some(start) => start,
                None => return Ok(Self::Nested(Box::new(tree))),
            }
        };
        match u64::try_from(start) {
            Ok(start) if start.checked_add(stream.end).is_some_and(|end| i64::try_from(end).is_ok()) => {
                Ok(Self::Contiguous { start })
            }
            _ => Err(TransferError::Malformed("file offsets are negative or overflow")),
        }
    }
}

/// The steps taken so far. Atomic only because pieces are walked by tasks that move from thread to thread.
#[derive(Debug, Default)]
struct Steps(AtomicU32);

impl Clone for Steps {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.0.load(Ordering::Relaxed)))
    }
}

/// The steps that one query may take.
struct Budget<'a> {
    limit: u32,
    left: u32,
    /// Where the steps taken are added up.
    steps: &'a Steps,
}

impl<'a> Budget<'a> {
    fn new(limit: u32, steps: &'a Steps) -> Self {
        Self { limit, left: limit, steps }
    }

    fn spend(&mut self) -> Result<(), TransferError> {
        self.left = self.left.checked_sub(1).ok_or(TransferError::TooComplex)?;
        Ok(())
    }
}

impl Drop for Budget<'_> {
    fn drop(&mut self) {
        self.steps.0.fetch_add(self.limit - self.left, Ordering::Relaxed);
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if a == 0 { b } else { gcd(b % a, a) }
}

//! How many bytes an I/O moves through one server, and which (docs/protocols/orangefs.md, bytes of an I/O).
//!
//! Requests say what the whole access touches; each server's share follows from the access description and the
//! distribution. Reads have no end marker on the wire, so a proxy must count exactly this share.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use vpfs_core::stripe::{Stripe, StripeError};
use vpfs_core::{Bytes, stripe};

use super::attr::{Dist, DistView};
use super::codec::{Reader, Wire, Writer, wire_structs};
use crate::wire::DecodeError;

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
    /// Real servers also stop if a region ends exactly where a flow buffer is full and the next byte that the
    /// distribution would map lies beyond the end of the datafile; this was never seen on the wire.
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

#[derive(Debug, Default)]
struct Steps(AtomicU32);

impl Clone for Steps {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.0.load(Ordering::Relaxed)))
    }
}

struct Budget<'a> {
    limit: u32,
    left: u32,
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

// Access descriptions with structure: checked once, then walked run by run from any position.
//
// The walk follows the request processor that clients and servers share, including what it treats as contiguous: a
// type whose data fills its extent and whose element counts as one chunk is one run, whatever its inner order.

/// A contiguous part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    file_offset: u64,
    /// Length in bytes, may be zero.
    len: u64,
    position: u64,
}

#[derive(Clone, Debug)]
struct Tree {
    nodes: Vec<Node>,
    /// Set for nodes that are walked into.
    rows: Vec<Option<Row>>,
    /// Set for nodes that start a type.
    types: Vec<Option<Type>>,
    root: Type,
}

/// A type, as seen by a node that has it as its element.
#[derive(Clone, Copy, Debug)]
struct Type {
    /// Copies form one run, each of this type's `size`.
    is_run: bool,
    /// Data bytes of one copy.
    size: u64,
    /// The first byte of a copy relative to its origin; for a run, where the run starts.
    low: i64,
    /// One past the last byte of a copy relative to its origin.
    high: i64,
}

/// What one node repeats in each of its blocks.
#[derive(Clone, Copy, Debug)]
struct Row {
    element: usize,
    /// Copies of the element, at least 1 if it is walked into.
    copies: u64,
    blocks: u64,
    /// Data bytes of all copies in one block.
    len: u64,
    next: Option<usize>,
}

const OVERFLOW: TransferError = TransferError::Malformed("sizes or offsets overflow");

impl Tree {
    /// Checks that `nodes` is a tree (shared parts allowed), that the root's size is correct and that the stream
    /// positions of `stream` lie at offsets that a file can have.
    fn build(nodes: Vec<Node>, stream: &Range<u64>) -> Result<Self, TransferError> {
        if nodes.len() > MAX_NESTED + 1 {
            return Err(TransferError::Malformed("too many nodes"));
        }
        let count = nodes.len();
        let root = Type { is_run: false, size: 0, low: 0, high: 0 };
        let mut tree = Self { nodes, rows: vec![None; count], types: vec![None; count], root };
        tree.check_acyclic(0, &mut vec![Visit::New; count])?;
        let node = tree.nodes[0];
        tree.root = if tree.fills_extent(&node) && tree.element_is_one_chunk(&node) {
            tree.run_type(0)?
        } else {
            tree.walked_type(0)?
        };
        if u64::try_from(node.aggregate_size) != Ok(tree.root.size) || tree.root.size == 0 {
            return Err(TransferError::Malformed("the root's size is not that of its parts"));
        }
        if !tree.root.is_run {
            tree.check_tiles(stream)?;
        }
        Ok(tree)
    }

    fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.nodes) + size_of_val(&*self.rows) + size_of_val(&*self.types)
    }

    /// Data bytes of one tile, never zero.
    fn size(&self) -> u64 {
        self.root.size
    }

    /// Where the stream starts if it is one run.
    fn contiguous_start(&self) -> Option<i64> {
        self.root.is_run.then_some(self.root.low)
    }

    /// Bytes from one tile to the next; not negative where more than one is touched.
    fn extent(&self) -> u64 {
        u64::try_from(self.extent_of(0)).unwrap_or(0)
    }

    /// One past the highest byte of a tile that the stream touches.
    fn end_of_tile(&self, tile: u64) -> u64 {
        offset(self.root.high.wrapping_add(times(tile, self.extent_of(0))))
    }

    /// The runs of a part of the stream that [`Tree::build`] checked.
    fn runs(&self, stream: Range<u64>) -> Runs<'_> {
        Runs { source: Source::Tree { tree: self, stack: Vec::new() }, stream }
    }

    fn extent_of(&self, node: usize) -> i64 {
        self.nodes[node].ub.wrapping_sub(self.nodes[node].lb)
    }

    fn link(&self, index: i32) -> Result<Option<usize>, TransferError> {
        match usize::try_from(index) {
            Ok(node) if node < self.nodes.len() => Ok(Some(node)),
            Err(_) if index == -1 => Ok(None),
            _ => Err(TransferError::Malformed("a link to a node that does not exist")),
        }
    }

    /// Depth first; recursion is as deep as there are nodes, at most 101.
    fn check_acyclic(&self, node: usize, visits: &mut [Visit]) -> Result<(), TransferError> {
        match visits[node] {
            Visit::Done => return Ok(()),
            Visit::Open => return Err(TransferError::Malformed("the description contains itself")),
            Visit::New => {}
        }
        visits[node] = Visit::Open;
        let Node { ereq, sreq, ub, lb, aggregate_size, .. } = self.nodes[node];
        if ub.checked_sub(lb).is_none() || aggregate_size < 0 {
            return Err(OVERFLOW);
        }
        for link in [ereq, sreq] {
            if let Some(next) = self.link(link)? {
                self.check_acyclic(next, visits)?;
            }
        }
        visits[node] = Visit::Done;
        Ok(())
    }

    fn fills_extent(&self, node: &Node) -> bool {
        node.aggregate_size == node.ub.wrapping_sub(node.lb)
    }

    fn element_is_one_chunk(&self, node: &Node) -> bool {
        usize::try_from(node.ereq).is_ok_and(|element| self.nodes[element].num_contig_chunks == 1)
    }

    fn type_of(&mut self, node: usize) -> Result<Type, TransferError> {
        if let Some(known) = self.types[node] {
            return Ok(known);
        }
        let Node { ereq, num_contig_chunks, .. } = self.nodes[node];
        let this = self.nodes[node];
        let is_chunk = num_contig_chunks == 1 || self.element_is_one_chunk(&this);
        let is_run = ereq == -1 || (self.fills_extent(&this) && is_chunk);
        let this = if is_run { self.run_type(node)? } else { self.walked_type(node)? };
        self.types[node] = Some(this);
        Ok(this)
    }

    fn run_type(&self, node: usize) -> Result<Type, TransferError> {
        let size = self.nodes[node].aggregate_size;
        let mut low = 0i64;
        let mut next = Some(node);
        while let Some(node) = next {
            low = low.checked_add(self.nodes[node].offset).ok_or(OVERFLOW)?;
            next = self.link(self.nodes[node].ereq)?;
        }
        let high = low.checked_add(size).ok_or(OVERFLOW)?;
        Ok(Type { is_run: true, size: offset(size), low, high })
    }

    fn walked_type(&mut self, head: usize) -> Result<Type, TransferError> {
        let mut this = Type { is_run: false, size: 0, low: i64::MAX, high: i64::MIN };
        let mut next = Some(head);
        while let Some(node) = next {
            let row = self.row(node)?;
            let (low, high) = self.row_bounds(node, &row)?;
            let size = row.blocks.checked_mul(row.len).and_then(|size| this.size.checked_add(size));
            this.size = size.filter(|size| i64::try_from(*size).is_ok()).ok_or(OVERFLOW)?;
            this.low = this.low.min(low);
            this.high = this.high.max(high);
            self.rows[node] = Some(row);
            next = row.next;
        }
        Ok(this)
    }

    fn row(&mut self, node: usize) -> Result<Row, TransferError> {
        let Node { ereq, sreq, num_ereqs, num_blocks, .. } = self.nodes[node];
        let (element, next) = (self.link(ereq)?, self.link(sreq)?);
        let element = element.ok_or(TransferError::Malformed("a leaf inside a sequence"))?;
        let this = self.type_of(element)?;
        let copies = u64::try_from(num_ereqs).map_err(|_| TransferError::Malformed("a negative count"))?;
        // The request processor looks at its counts only after the first block and the first nested copy.
        let copies = if this.is_run { copies } else { copies.max(1) };
        let blocks = u64::try_from(num_blocks).unwrap_or(0).max(1);
        let len = this.size.checked_mul(copies).ok_or(OVERFLOW)?;
        Ok(Row { element, copies, blocks, len, next })
    }

    /// The lowest byte of a row's blocks and one past the highest, relative to the origin of its type.
    fn row_bounds(&self, node: usize, row: &Row) -> Result<(i64, i64), TransferError> {
        let this = self.types[row.element].ok_or(OVERFLOW)?;
        let last = |count: u64, step: i64| i128::from(count.saturating_sub(1)) * i128::from(step);
        let blocks = last(row.blocks, self.nodes[node].stride);
        let (copies, high) = if this.is_run {
            (0, i128::from(this.low) + i128::from(row.len))
        } else {
            (last(row.copies, self.extent_of(row.element)), i128::from(this.high))
        };
        let place = i128::from(self.nodes[node].offset);
        let low = place + blocks.min(0) + copies.min(0) + i128::from(this.low);
        let high = place + blocks.max(0) + copies.max(0) + high;
        match (i64::try_from(low), i64::try_from(high)) {
            (Ok(low), Ok(high)) => Ok((low, high)),
            _ => Err(OVERFLOW),
        }
    }

    /// All tiles of the stream must lie at offsets from 0 to the largest `i64`.
    fn check_tiles(&self, stream: &Range<u64>) -> Result<(), TransferError> {
        let tiles = [stream.start / self.root.size, stream.end.saturating_sub(1) / self.root.size];
        let extent = i128::from(self.extent_of(0));
        if tiles[0] != tiles[1] && extent < 0 {
            return Err(TransferError::Malformed("tiles go backwards"));
        }
        for tile in tiles {
            let place = i128::from(tile) * extent;
            let (low, high) = (place + i128::from(self.root.low), place + i128::from(self.root.high));
            if low < 0 || i64::try_from(high).is_err() {
                return Err(TransferError::Malformed("file offsets are negative or overflow"));
            }
        }
        Ok(())
    }

    /// Fills the stack for a stream position; returns the rest of the run there.
    fn seek(
        &self,
        stack: &mut Vec<Frame>,
        position: u64,
        budget: &mut Budget<'_>,
    ) -> Result<(u64, u64), TransferError> {
        let mut head = 0;
        let mut base = 0;
        let mut copies = u64::MAX;
        let mut rest = position;
        loop {
            let size = if stack.is_empty() { self.root.size } else { self.size_of(head)? };
            let copy = rest / size;
            rest %= size;
            let mut node = head;
            let mut row = self.row_of(node)?;
            while rest >= row.blocks * row.len {
                budget.spend()?;
                rest -= row.blocks * row.len;
                node = row.next.ok_or(OVERFLOW)?;
                row = self.row_of(node)?;
            }
            let frame = Frame { head, node, copy, copies, block: rest / row.len, base };
            rest %= row.len;
            stack.push(frame);
            let element = self.types[row.element].ok_or(OVERFLOW)?;
            if element.is_run {
                let start = self.place(&frame).wrapping_add(element.low);
                return Ok((offset(start) + rest, row.len - rest));
            }
            head = row.element;
            base = self.place(&frame);
            copies = row.copies;
        }
    }

    /// Advances to the next row and descends to its run.
    fn step(&self, stack: &mut Vec<Frame>, budget: &mut Budget<'_>) -> Result<(u64, u64), TransferError> {
        while let Some(frame) = stack.last_mut() {
            budget.spend()?;
            let row = self.row_of(frame.node)?;
            frame.block += 1;
            if frame.block < row.blocks {
                break;
            }
            frame.block = 0;
            frame.node = row.next.unwrap_or(frame.head);
            if row.next.is_some() {
                break;
            }
            frame.copy += 1;
            if frame.copy < frame.copies {
                break;
            }
            stack.pop();
        }
        loop {
            budget.spend()?;
            let frame = stack.last().ok_or(OVERFLOW)?;
            let row = self.row_of(frame.node)?;
            let element = self.types[row.element].ok_or(OVERFLOW)?;
            let base = self.place(frame);
            if element.is_run {
                return Ok((offset(base.wrapping_add(element.low)), row.len));
            }
            let head = row.element;
            stack.push(Frame { head, node: head, copy: 0, copies: row.copies, block: 0, base });
        }
    }

    fn place(&self, frame: &Frame) -> i64 {
        let node = &self.nodes[frame.node];
        let copy = frame.base.wrapping_add(times(frame.copy, self.extent_of(frame.head)));
        copy.wrapping_add(node.offset).wrapping_add(times(frame.block, node.stride))
    }

    fn size_of(&self, head: usize) -> Result<u64, TransferError> {
        self.types[head].map(|this| this.size).ok_or(OVERFLOW)
    }

    fn row_of(&self, node: usize) -> Result<Row, TransferError> {
        self.rows[node].ok_or(OVERFLOW)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    New,
    Open,
    Done,
}

/// A checked offset or size: never negative.
fn offset(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// `count * step` modulo 2⁶⁴: a sum of such products that fits is correct even if one of the products does not fit.
fn times(count: u64, step: i64) -> i64 {
    count.cast_signed().wrapping_mul(step)
}

#[derive(Clone, Debug)]
struct Runs<'a> {
    source: Source<'a>,
    /// Bytes left to walk.
    stream: Range<u64>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Single { start: u64 },
    Tree { tree: &'a Tree, stack: Vec<Frame> },
}

/// A position in one level of nesting: block `block` of node `node` in copy `copy` of the type that starts at `head`.
#[derive(Clone, Copy, Debug)]
struct Frame {
    head: usize,
    node: usize,
    copy: u64,
    copies: u64,
    block: u64,
    /// File offset of copy 0.
    base: i64,
}

impl<'a> Runs<'a> {
    /// A stream that is contiguous in the file from offset `start` on.
    fn single(start: u64, stream: Range<u64>) -> Self {
        Self { source: Source::Single { start }, stream }
    }

    fn next(&mut self, budget: &mut Budget<'_>) -> Result<Option<Run>, TransferError> {
        if self.stream.is_empty() {
            return Ok(None);
        }
        budget.spend()?;
        let position = self.stream.start;
        let left = self.stream.end - position;
        let (file_offset, len) = match &mut self.source {
            Source::Single { start } => (*start + position, left),
            Source::Tree { tree, stack } if stack.is_empty() => tree.seek(stack, position, budget)?,
            Source::Tree { tree, stack } => tree.step(stack, budget)?,
        };
        let len = len.min(left);
        self.stream.start += len;
        Ok(Some(Run { file_offset, len, position }))
    }
}

/// Largest number of nodes besides the root.
pub const MAX_NESTED: usize = 100;

wire_structs! {
    /// One node of an access description.
    #[derive(Copy)]
    pub struct Node {
        /// Where its first block starts, in bytes relative to its parent.
        pub offset: i64,
        /// Copies of the element type in each block.
        pub num_ereqs: i32,
        /// Number of blocks.
        pub num_blocks: i32,
        /// Bytes from one block's start to the next one's.
        pub stride: i64,
        /// Upper bound; the extent is `ub - lb` bytes.
        pub ub: i64,
        /// Lower bound.
        pub lb: i64,
        /// Data bytes of this node and of those that follow it in sequence (`sreq`).
        pub aggregate_size: i64,
        /// Number of contiguous runs, as counted by the sender.
        pub num_contig_chunks: i32,
        /// Levels of nesting.
        pub depth: i32,
        /// Nodes below this one.
        pub num_nested_req: i32,
        /// -1 in a packed root.
        pub committed: i32,
        /// Meaningless on the wire.
        pub refcount: i32,
        /// Index of the element type's node; -1: a leaf of `aggregate_size` contiguous bytes.
        [pad4] pub ereq: i32,
        /// Index of the node that follows in sequence; -1: none.
        pub sreq: i32,
    }
}

impl Node {
    /// Bytes of a node on the wire.
    pub const LEN: usize = 80;

    /// The single node of a plain byte range: one byte, tiled.
    pub const BYTE: Self = Self {
        offset: 0,
        num_ereqs: 1,
        num_blocks: 0,
        stride: 1,
        ub: 1,
        lb: 0,
        aggregate_size: 1,
        num_contig_chunks: 1,
        depth: 1,
        num_nested_req: 0,
        committed: -1,
        refcount: -1,
        ereq: -1,
        sreq: -1,
    };
}

/// An access description: a tree of nodes, the first of which is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preq {
    /// The root and at most [`MAX_NESTED`] others; never empty.
    pub nodes: Vec<Node>,
}

impl Preq {
    /// The plain byte range, which every ordinary read and write carries.
    pub fn contiguous() -> Self {
        Self { nodes: vec![Node::BYTE] }
    }
}

impl Wire for Preq {
    const MIN_LEN: usize = 8 + Node::LEN;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { nodes: PreqView::read(r)?.nodes().collect() })
    }
    fn write(&self, w: &mut Writer) {
        w.count(self.nodes.len().saturating_sub(1));
        w.pad4();
        w.elements(&self.nodes);
    }
}

/// [`Preq`] borrowed from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreqView<'a> {
    bytes: &'a [u8],
}

impl<'a> PreqView<'a> {
    pub(crate) fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = *r;
        let nested = r.u32()?;
        r.pad4()?;
        match r.fits(u64::from(nested) + 1, Node::LEN) {
            Some(nodes) if nodes <= MAX_NESTED + 1 => Ok(Self { bytes: r.take(nodes * Node::LEN)? }),
            _ => Err(start.malformed("an access description has too many nodes")),
        }
    }

    /// The nodes, the root first.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + use<'a> {
        let mut r = Reader::new(self.bytes);
        std::iter::from_fn(move || Node::read(&mut r).ok())
    }
}

//! Access descriptions with structure: checked once, then walked run by run from any position.
//!
//! The walk follows the request processor that clients and servers share, including what it treats as contiguous: a
//! type whose data fills its extent and whose element counts as one chunk is one run, whatever its inner order.

use std::ops::Range;

use super::super::preq::{MAX_NESTED, Node};
use super::{Budget, TransferError};

/// A contiguous part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Offset in the file.
    pub(super) file_offset: u64,
    /// Length in bytes, may be zero.
    pub(super) len: u64,
    /// Position in the stream of the access description.
    pub(super) position: u64,
}

/// A checked access description.
#[derive(Clone, Debug)]
pub(super) struct Tree {
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
    pub(super) fn build(nodes: Vec<Node>, stream: &Range<u64>) -> Result<Self, TransferError> {
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

    /// Bytes of memory that it takes up.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.nodes) + size_of_val(&*self.rows) + size_of_val(&*self.types)
    }

    /// Data bytes of one tile, never zero.
    pub(super) fn size(&self) -> u64 {
        self.root.size
    }

    /// Where the stream starts if it is one run.
    pub(super) fn contiguous_start(&self) -> Option<i64> {
        self.root.is_run.then_some(self.root.low)
    }

    /// Bytes from one tile to the next; not negative where more than one is touched.
    pub(super) fn extent(&self) -> u64 {
        u64::try_from(self.extent_of(0)).unwrap_or(0)
    }

    /// One past the highest byte of a tile that the stream touches.
    pub(super) fn end_of_tile(&self, tile: u64) -> u64 {
        offset(self.root.high.wrapping_add(times(tile, self.extent_of(0))))
    }

    /// The runs of a part of the stream that [`Tree::build`] checked.
    pub(super) fn runs(&self, stream: Range<u64>) -> Runs<'_> {
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

    /// The type that starts at `node`, as an element.
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

    /// The start of a run is the sum of the offsets down the chain of elements.
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

    /// A type whose sequence of nodes is walked.
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

/// Walks the runs of a part of a stream.
#[derive(Clone, Debug)]
pub(super) struct Runs<'a> {
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
    pub(super) fn single(start: u64, stream: Range<u64>) -> Self {
        Self { source: Source::Single { start }, stream }
    }

    /// The next run, which may be empty; `None` at the end.
    pub(super) fn next(&mut self, budget: &mut Budget<'_>) -> Result<Option<Run>, TransferError> {
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

impl Tree {
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

    /// The file offset of a frame's block.
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

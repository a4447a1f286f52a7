//! Access descriptions: which bytes of a file an I/O touches (docs/protocols/orangefs.md, access description).

use super::codec::{Reader, Wire, Writer, wire_structs};
use crate::DecodeError;

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

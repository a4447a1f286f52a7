//! Non-contiguous calls.

use super::{Extent, FileId};

/// Equal blocks at equal distances in a file, moved by one call: list I/O [IOCO §5.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// The file.
    pub file: FileId,
    /// First byte of the first block.
    pub offset: u64,
    /// Bytes of each block, at least one.
    pub block_bytes: u32,
    /// From the start of one block to the start of the next, at least `block_bytes`.
    pub stride_bytes: u64,
    /// Number of blocks, at least one.
    pub blocks: u32,
}

impl Strided {
    /// The blocks, by offset.
    pub fn extents(self) -> impl Iterator<Item = Extent> + Send {
        let Self { file, offset, block_bytes, stride_bytes, blocks } = self;
        let block = move |index| Extent { file, offset: offset + u64::from(index) * stride_bytes, bytes: block_bytes };
        (0..blocks).map(block)
    }

    /// Total bytes of all blocks.
    pub fn bytes(self) -> u64 {
        u64::from(self.block_bytes) * u64::from(self.blocks)
    }
}

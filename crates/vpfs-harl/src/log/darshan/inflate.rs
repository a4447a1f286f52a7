//! Decompresses a region: one zlib stream after another, one for each process that had something to write.

use flate2::{Decompress, FlushDecompress, Status};

/// Bytes that are decompressed at once.
const BLOCK: usize = 64 << 10;

/// The state of decompression between two pieces of a region.
#[derive(Debug)]
pub(super) struct Inflate {
    /// None if the region is not compressed.
    zlib: Option<Decompress>,
    block: Vec<u8>,
    is_within_stream: bool,
}

impl Inflate {
    pub(super) fn new(is_compressed: bool) -> Self {
        let zlib = is_compressed.then(|| Decompress::new(true));
        let block = if is_compressed { vec![0; BLOCK] } else { Vec::new() };
        Self { zlib, block, is_within_stream: false }
    }

    /// Whether the region must not end here.
    pub(super) fn is_within_stream(&self) -> bool {
        self.is_within_stream
    }

    /// Hands the decompressed bytes over in blocks. An error has the number of bytes used before it.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), (usize, String)> {
        let Some(zlib) = &mut self.zlib else {
            return take(bytes).map_err(|message| (0, message));
        };
        let mut used = 0;
        loop {
            let (in_before, out_before) = (zlib.total_in(), zlib.total_out());
            let status = zlib
                .decompress(&bytes[used..], &mut self.block, FlushDecompress::None)
                .map_err(|error| (used, format!("this is not zlib ({error}); is the log damaged?")))?;
            let (taken, made) = (zlib.total_in() - in_before, zlib.total_out() - out_before);
            let (taken, made) = (small(taken), small(made));
            used += taken;
            take(&self.block[..made]).map_err(|message| (used, message))?;
            self.is_within_stream = status != Status::StreamEnd && (self.is_within_stream || taken > 0);
            if status == Status::StreamEnd {
                zlib.reset(true);
            }
            match (used == bytes.len(), status == Status::StreamEnd || made < BLOCK) {
                (true, true) => return Ok(()),
                (false, _) if taken == 0 && made == 0 => {
                    return Err((used, "the zlib stream makes no progress".into()));
                }
                _ => {}
            }
        }
    }
}

/// A number of bytes of a slice.
fn small(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

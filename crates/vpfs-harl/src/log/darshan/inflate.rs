//! Decompresses a region: one stream of zlib or bzip2 after another, one for each process that had something to write.

use flate2::{FlushDecompress, Status};

use super::super::packed::unpacked_max;

/// Bytes that are decompressed at once.
const BLOCK: usize = 64 << 10;

/// How the regions of a log are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Zlib,
    /// Written by `darshan-convert --bzip2` only.
    Bzip2,
    None,
}

/// The state of decompression between two pieces of a region.
pub(super) struct Inflate {
    stream: Stream,
    block: Vec<u8>,
    is_within_stream: bool,
    taken: u64,
    made: u64,
}

enum Stream {
    Zlib(flate2::Decompress),
    Bzip2(bzip2::Decompress),
    Plain,
}

/// What a decompressor did: bytes it took and made, and whether the stream ended.
struct Step {
    taken: usize,
    made: usize,
    is_end: bool,
}

impl std::fmt::Debug for Inflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflate").field("taken", &self.taken).field("made", &self.made).finish_non_exhaustive()
    }
}

impl Inflate {
    pub(super) fn new(compression: Compression) -> Self {
        let stream = Stream::new(compression);
        let block = if compression == Compression::None { Vec::new() } else { vec![0; BLOCK] };
        Self { stream, block, is_within_stream: false, taken: 0, made: 0 }
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
        if matches!(self.stream, Stream::Plain) {
            return take(bytes).map_err(|message| (0, message));
        }
        let mut used = 0;
        loop {
            let Step { taken, made, is_end } =
                self.stream.step(&bytes[used..], &mut self.block).map_err(|message| (used, message))?;
            used += taken;
            (self.taken, self.made) = (self.taken + taken as u64, self.made + made as u64);
            if self.made > unpacked_max(self.taken) {
                return Err((used, format!("more than {} bytes after decompression", unpacked_max(self.taken))));
            }
            take(&self.block[..made]).map_err(|message| (used, message))?;
            self.is_within_stream = !is_end && (self.is_within_stream || taken > 0);
            match (used == bytes.len(), is_end || made < BLOCK) {
                (true, true) => return Ok(()),
                (false, _) if taken == 0 && made == 0 => {
                    return Err((used, "the compressed data makes no progress; is the log damaged?".into()));
                }
                _ => {}
            }
        }
    }
}

impl Stream {
    fn new(compression: Compression) -> Self {
        match compression {
            Compression::Zlib => Self::Zlib(flate2::Decompress::new(true)),
            Compression::Bzip2 => Self::Bzip2(bzip2::Decompress::new(false)),
            Compression::None => Self::Plain,
        }
    }

    /// Decompresses once; after the end of a stream, the next one may begin.
    fn step(&mut self, bytes: &[u8], block: &mut [u8]) -> Result<Step, String> {
        let (before, is_end, after) = match self {
            Self::Zlib(zlib) => {
                let before = (zlib.total_in(), zlib.total_out());
                let status = zlib.decompress(bytes, block, FlushDecompress::None);
                let status = status.map_err(|error| format!("this is not zlib ({error}); is the log damaged?"))?;
                (before, status == Status::StreamEnd, (zlib.total_in(), zlib.total_out()))
            }
            Self::Bzip2(bzip2) => {
                let before = (bzip2.total_in(), bzip2.total_out());
                let status = bzip2.decompress(bytes, block);
                let status = status.map_err(|error| format!("this is not bzip2 ({error}); is the log damaged?"))?;
                (before, status == bzip2::Status::StreamEnd, (bzip2.total_in(), bzip2.total_out()))
            }
            Self::Plain => return Ok(Step { taken: 0, made: 0, is_end: true }),
        };
        match self {
            Self::Zlib(zlib) if is_end => zlib.reset(true),
            Self::Bzip2(_) if is_end => *self = Self::new(Compression::Bzip2),
            _ => {}
        }
        Ok(Step { taken: small(after.0 - before.0), made: small(after.1 - before.1), is_end })
    }
}

/// A number of bytes of a slice.
fn small(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

//! Logs that were compressed as a whole: sites keep them so, and Darshan 1 and 2 wrote them so.

use std::cell::Cell;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::rc::Rc;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Compressions around each other that are taken off; nobody has more than two.
const LAYERS_MAX: usize = 4;
/// Bytes from which a kind of file is told.
const START: usize = 2048;
/// The most memory of a decompressor, in KiB: what `xz -9` and `zstd --ultra` need, and some more.
const MEMORY_KIB: u32 = 256 << 10;

/// How a log is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// By gzip.
    Gzip,
    /// By bzip2.
    Bzip2,
    /// By zstd.
    Zstd,
    /// By xz.
    Xz,
}

impl Packing {
    /// The compression of a file that begins with these bytes.
    fn of(start: &[u8]) -> Option<Self> {
        let kinds: [(&[u8], Self); 4] = [
            (&[0x1f, 0x8b], Self::Gzip),
            (b"BZh", Self::Bzip2),
            (&[0x28, 0xb5, 0x2f, 0xfd], Self::Zstd),
            (&[0xfd, b'7', b'z', b'X', b'Z', 0], Self::Xz),
        ];
        kinds.into_iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, packing)| packing)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
        }
    }

    fn unpack<'a>(self, packed: impl BufRead + 'a) -> Box<dyn Read + 'a> {
        match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
            Self::Zstd => Box::new(Frames { packed, frame: None }),
            Self::Xz => Box::new(XzReader::new_mem_limit(packed, true, MEMORY_KIB)),
        }
    }
}

/// The bytes that one may decompress to: what a log of as many requests as are read has, and beyond that a hundred
/// times the packed ones, which no log reaches. A small file that becomes endless is refused there.
pub(super) fn unpacked_max(packed: u64) -> u64 {
    (1 << 30) + 100 * packed
}

/// A log without its compressions.
pub struct Unpacked<'a> {
    /// Its first bytes: enough to tell what it is.
    pub start: Vec<u8>,
    /// What follows them.
    pub rest: Box<dyn Read + 'a>,
    /// The compressions that were around it, the outermost first.
    pub packings: Vec<Packing>,
}

impl<'a> Unpacked<'a> {
    /// Begins to read a log, compressed or not. Memory is bounded, whatever the bytes are.
    ///
    /// # Errors
    /// Those of the reader, and of decompression.
    pub fn new(log: impl Read + 'a) -> io::Result<Self> {
        let mut this = Self { start: Vec::new(), rest: Box::new(log), packings: Vec::new() };
        this.start = start(&mut this.rest)?;
        while let Some(packing) = Packing::of(&this.start).filter(|_| this.packings.len() < LAYERS_MAX) {
            let mut rest: Box<dyn Read> = Box::new(Bounded::new(packing, Cursor::new(this.start).chain(this.rest)));
            this.start = start(&mut rest)?;
            this.rest = rest;
            this.packings.push(packing);
        }
        Ok(this)
    }

    /// The whole log.
    pub fn bytes(self) -> impl Read + 'a {
        Cursor::new(self.start).chain(self.rest)
    }
}

/// Decompressed bytes, with their number bounded by that of the packed ones.
struct Bounded<'a> {
    packing: Packing,
    /// None after an error, because not every decompressor may be asked again.
    unpacked: Option<Box<dyn Read + 'a>>,
    count: u64,
    packed: Rc<Cell<u64>>,
}

impl<'a> Bounded<'a> {
    fn new(packing: Packing, bytes: impl Read + 'a) -> Self {
        let packed = Rc::new(Cell::new(0));
        let counted = Counted { bytes, count: Rc::clone(&packed) };
        Self { packing, unpacked: Some(packing.unpack(BufReader::new(counted))), count: 0, packed }
    }

    fn failed(&mut self, reason: impl std::fmt::Display) -> io::Error {
        self.unpacked = None;
        io::Error::new(ErrorKind::InvalidData, format!("{} data {reason}", self.packing.name()))
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(unpacked) = &mut self.unpacked else { return Err(self.failed("is damaged")) };
        match unpacked.read(buffer) {
            Ok(length) => {
                self.count += length as u64;
                if self.count > unpacked_max(self.packed.get()) {
                    let packed = self.packed.get();
                    return Err(self.failed(format!(
                        "of {packed} bytes becomes more than {} bytes, as no log does; if it is one, unpack it before",
                        unpacked_max(packed)
                    )));
                }
                Ok(length)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(error) if is_early(&error) => Err(self.failed("ends early; was the log copied whole?")),
            Err(error) => Err(self.failed(format!("cannot be unpacked ({error}); is the log damaged?"))),
        }
    }
}

struct Counted<R> {
    bytes: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.bytes.read(buffer)?;
        self.count.set(self.count.get() + length as u64);
        Ok(length)
    }
}

/// All frames of a file of zstd, of which the library reads one at a time.
struct Frames<R> {
    packed: R,
    frame: Option<FrameDecoder>,
}

impl<R: BufRead> Frames<R> {
    /// The next frame; none after what is no data and is skipped.
    fn begin(&mut self) -> io::Result<()> {
        let mut frame = FrameDecoder::new();
        match frame.init(&mut self.packed) {
            Ok(()) => self.frame = Some(frame),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                io::copy(&mut (&mut self.packed).take(length.into()), &mut io::sink())?;
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                while frame.can_collect() == 0 && !frame.is_finished() {
                    let blocks = frame.decode_blocks(&mut self.packed, BlockDecodingStrategy::UptoBlocks(1));
                    blocks.map_err(io::Error::other)?;
                }
                match frame.read(buffer)? {
                    0 if !buffer.is_empty() => {}
                    length => return Ok(length),
                }
                let stated = frame.get_checksum_from_data();
                if stated.is_some() && stated != frame.get_calculated_checksum() {
                    return Err(io::Error::new(ErrorKind::InvalidData, "the checksum differs"));
                }
                self.frame = None;
            }
            if self.packed.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.begin()?;
        }
    }
}

/// Whether an error, or what caused it, is the end of the data.
fn is_early(error: &(dyn Error + 'static)) -> bool {
    let is_end = |error: &io::Error| error.kind() == ErrorKind::UnexpectedEof;
    let inner = |error: &io::Error| error.get_ref().is_some_and(|inner| is_early(inner));
    error.downcast_ref().is_some_and(|error| is_end(error) || inner(error)) || error.source().is_some_and(is_early)
}

fn start(log: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    log.take(START as u64).read_to_end(&mut start)?;
    Ok(start)
}

//! Darshan's own log files with extended traces (DXT).
//!
//! After a header with their places, a log has regions: the job, names of files, and one for each module of Darshan.
//! Each is a sequence of streams of zlib, or of bzip2 after `darshan-convert --bzip2`. The layout is that of
//! `darshan-log-format.h` and `darshan-dxt-log-format.h`, versions 3.00 to 3.41, in either byte order.
//!
//! Names are of less value than requests: damage to them is noted, and files without one are called by their number.
//! The uncompressed logs that a killed job leaves behind (`DARSHAN_MMAP_LOGPATH`) have no DXT.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use flate2::{FlushDecompress, Status};

use super::packed::unpacked_max;
use super::{Log, NAME_MAX, Requests, nanoseconds, shown};
use crate::trace::{Op, Request};

/// A problem of a Darshan log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {message}")]
pub struct DarshanError {
    /// Where in the file, or where its compressed bytes end.
    pub offset: u64,
    /// The problem and how to fix it.
    pub message: String,
}

fn at(offset: u64, message: String) -> DarshanError {
    DarshanError { offset, message }
}

/// The layer of a trace: what a file system sees is POSIX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Posix,
    Mpiio,
}

impl Layer {
    fn name(self) -> &'static str {
        match self {
            Self::Posix => "DXT_POSIX",
            Self::Mpiio => "DXT_MPIIO",
        }
    }
}

/// Reads a Darshan log: push the bytes that [`DarshanReader::wanted`] names until there are none, then
/// [`DarshanReader::finish`]. Holds the requests, 40 bytes each, the names of their files, and 64 KiB for each region.
///
/// Requests of MPI-IO count only for files without any of POSIX. DXT_MPIIO before version 2 has no offsets and is not
/// read.
#[derive(Debug)]
pub struct DarshanReader {
    is_big_endian: bool,
    is_incomplete: bool,
    /// Traces first, so that only names of files with requests are kept.
    regions: VecDeque<Region>,
    found: Found,
    lost_names: Option<DarshanError>,
}

#[derive(Debug)]
struct Region {
    name: &'static str,
    /// What has not been read.
    rest: Range<u64>,
    inflate: Inflate,
    items: Items,
    /// Decompressed bytes of an item that is cut off.
    pending: Vec<u8>,
    /// The place of `pending` in the decompressed region.
    position: u64,
}

impl DarshanReader {
    /// How many bytes [`DarshanReader::new`] needs, or the whole log if it is shorter.
    pub const HEADER: usize = HEADER_MAX;

    /// Whether a file that begins with these bytes is a Darshan log, `1.21` to `3.41` so far, or one that was never
    /// finished; eight are enough.
    pub fn is_darshan(bytes: &[u8]) -> bool {
        match bytes {
            [major, b'.', minor, patch, rest @ ..]
                if [major, minor, patch].iter().all(|digit| digit.is_ascii_digit()) =>
            {
                rest.len() > 4 && rest[..4] == [0; 4]
            }
            _ => is_unfinished(bytes),
        }
    }

    /// Reads the header of a log of `size` bytes.
    ///
    /// # Errors
    /// For an unknown version or compression, places outside the log, and logs without a usable trace.
    pub fn new(header: &[u8], size: u64) -> Result<Self, DarshanError> {
        let Header { is_big_endian, compression, has_counted_names, names, posix, mpiio } = Header::read(header, size)?;
        let mut reader = Self {
            is_big_endian,
            is_incomplete: false,
            regions: VecDeque::new(),
            found: Found::default(),
            lost_names: names.clone().err(),
        };
        let has_old_mpiio = mpiio.as_ref().is_some_and(|module| module.version < 2);
        let traces = [(Layer::Posix, posix), (Layer::Mpiio, mpiio.filter(|module| module.version >= 2))];
        for (layer, module) in traces {
            let Some(module) = module else { continue };
            let items = Items::trace(layer, module.version).map_err(|message| at(module.span.start, message))?;
            reader.is_incomplete |= module.is_partial;
            reader.regions.push_back(Region::new(layer.name(), module.span, compression, items));
        }
        if reader.regions.is_empty() {
            return Err(at(0, no_trace(has_old_mpiio)));
        }
        if let Ok(Some(span)) = names {
            let items = Items::names(has_counted_names);
            reader.regions.push_back(Region::new(NAMES, span, compression, items));
        }
        Ok(reader)
    }

    /// The bytes of the file to push next; as many from their start as are at hand.
    pub fn wanted(&self) -> Option<Range<u64>> {
        self.regions.front().map(|region| region.rest.clone())
    }

    /// Takes bytes from the start of what is [wanted](DarshanReader::wanted), and ignores any beyond that.
    ///
    /// # Errors
    /// If there are none, because the log ends too early, or if they are not of the format or state an impossible
    /// request. The reader is of no use after that.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), DarshanError> {
        let Some(region) = self.regions.front_mut() else { return Ok(()) };
        let length = usize::try_from(region.rest.end - region.rest.start).unwrap_or(usize::MAX).min(bytes.len());
        if length == 0 {
            return Err(at(region.rest.start, format!("the log ends within {}; was it copied whole?", region.name)));
        }
        let mut pushed = region.push(&bytes[..length], self.is_big_endian, &mut self.found);
        if pushed.is_ok() && region.rest.is_empty() {
            pushed = region.finish();
        }
        if let (Err(error), NAMES) = (&pushed, region.name) {
            self.lost_names = Some(error.clone());
            self.regions.clear();
            return Ok(());
        }
        if region.rest.is_empty() {
            self.regions.pop_front();
        }
        pushed
    }

    /// The log, when nothing more is wanted. Files that it does not name are called by their number.
    ///
    /// # Errors
    /// If bytes are still wanted.
    pub fn finish(self) -> Result<Log, DarshanError> {
        if let Some(region) = self.regions.front() {
            return Err(at(region.rest.start, format!("the log ends within {}; was it copied whole?", region.name)));
        }
        let Found { requests, names, long_names } = self.found;
        let mut by_file = BTreeMap::new();
        // POSIX comes first.
        for ((_, file), requests) in requests.files {
            by_file.entry(file).or_insert(requests);
        }
        let mut notes = Vec::new();
        if long_names > 0 {
            notes.push(format!("names of more than {NAME_MAX} bytes, which no file has, are left out: {long_names}"));
        }
        if let Some(error) = self.lost_names {
            notes.push(format!("{error}: files without a name are called by their number"));
        }
        let mut files = BTreeMap::<String, Vec<_>>::new();
        for (file, requests) in by_file {
            let name = names.get(&file).cloned().unwrap_or_else(|| format!("record {file} without a name"));
            files.entry(name).or_default().extend(requests);
        }
        Ok(Log { files, left_out: requests.left_out, is_incomplete: self.is_incomplete, notes })
    }
}

fn no_trace(has_old_mpiio: bool) -> String {
    let fix = "run the job with DARSHAN_MOD_ENABLE=DXT_POSIX";
    match has_old_mpiio {
        true => format!("the log's trace of MPI-IO (DXT_MPIIO, version 1) has no offsets; {fix}"),
        false => format!("the log has counters only, not the requests that DXT traces; {fix}"),
    }
}

impl Region {
    fn new(name: &'static str, rest: Range<u64>, compression: Compression, items: Items) -> Self {
        Self { name, rest, inflate: Inflate::new(compression), items, pending: Vec::new(), position: 0 }
    }

    fn push(&mut self, bytes: &[u8], is_big_endian: bool, found: &mut Found) -> Result<(), DarshanError> {
        let Self { inflate, items, pending, position, .. } = self;
        let pushed = inflate.push(bytes, |plain| {
            pending.extend_from_slice(plain);
            let mut used = 0;
            while let Some(length) = items
                .take(Bytes { bytes: &pending[used..], is_big_endian }, found)
                .map_err(|message| format!("{message} (byte {} after decompression)", *position + used as u64))?
            {
                used += length;
            }
            pending.drain(..used);
            *position += used as u64;
            Ok(())
        });
        pushed.map_err(|(used, message)| at(self.rest.start + used as u64, format!("{}: {message}", self.name)))?;
        self.rest.start += bytes.len() as u64;
        Ok(())
    }

    fn finish(&self) -> Result<(), DarshanError> {
        if self.inflate.is_within_stream || !self.pending.is_empty() || !self.items.is_complete() {
            let message = format!(
                "{} ends within an item (byte {} after decompression); is the log damaged?",
                self.name, self.position
            );
            return Err(at(self.rest.end, message));
        }
        Ok(())
    }
}

// The header of a log: where its regions are. It alone is not compressed.

const NAMES: &str = "the names of files";
/// The number that tells a Darshan log and its byte order.
const MAGIC: u64 = 6_567_223;
/// Bytes of the longest header, that of version 3.41.
const HEADER_MAX: usize = 1328;

#[derive(Debug)]
struct Header {
    is_big_endian: bool,
    compression: Compression,
    /// Whether names have a length instead of an end.
    has_counted_names: bool,
    /// The names of files, or why they are lost.
    names: Result<Option<Range<u64>>, DarshanError>,
    posix: Option<Module>,
    mpiio: Option<Module>,
}

#[derive(Debug)]
struct Module {
    span: Range<u64>,
    version: u32,
    /// Whether Darshan ran out of memory for it.
    is_partial: bool,
}

struct Fields {
    partial: usize,
    names: usize,
    modules: usize,
    versions: usize,
    size: usize,
    /// The place of DXT_POSIX in the tables of modules; DXT_MPIIO follows it.
    dxt: usize,
}

/// Until 3.21: 16 modules.
const OLD: Fields = Fields { partial: 20, names: 24, modules: 40, versions: 296, size: 360, dxt: 8 };
/// The module H5D came before DXT.
const WITH_H5D: Fields = Fields { dxt: 9, ..OLD };
/// From 3.41: 64 modules, of which PNETCDF_VAR came before DXT.
const NEW: Fields = Fields { partial: 24, names: 32, modules: 48, versions: 1072, size: HEADER_MAX, dxt: 10 };

/// Darshan leaves room for the header, and writes it last.
fn is_unfinished(bytes: &[u8]) -> bool {
    bytes.len() >= OLD.size && bytes.iter().take(HEADER_MAX).all(|byte| *byte == 0)
}

impl Header {
    fn read(bytes: &[u8], size: u64) -> Result<Self, DarshanError> {
        if is_unfinished(bytes) {
            let message = "the header is of zeros: the job was killed before Darshan wrote it (such logs are \
                           called *.darshan_partial), and without it nothing can be found; give the log of a run \
                           that ended by itself";
            return Err(at(0, message.into()));
        }
        let (fields, version) = Fields::of(bytes)?;
        if bytes.len() < fields.size {
            let message = format!("the log ends within its header of {} bytes; was it copied whole?", fields.size);
            return Err(at(bytes.len() as u64, message));
        }
        let mut numbers = Bytes { bytes, is_big_endian: false };
        if numbers.u64(8) != MAGIC {
            numbers.is_big_endian = true;
        }
        if numbers.u64(8) != MAGIC {
            return Err(at(8, "the magic number is not that of a Darshan log; is it damaged?".into()));
        }
        let module = |index: usize, name| fields.module(numbers, index, name, size);
        Ok(Self {
            is_big_endian: numbers.is_big_endian,
            compression: compression(bytes[16])?,
            has_counted_names: version == "3.00",
            names: fields.span(numbers, fields.names, NAMES, size),
            posix: module(fields.dxt, Layer::Posix.name())?,
            mpiio: module(fields.dxt + 1, Layer::Mpiio.name())?,
        })
    }
}

impl Fields {
    /// The fields of the version that bytes begin with, and that version.
    fn of(bytes: &[u8]) -> Result<(Self, &str), DarshanError> {
        let text = bytes.get(..8).unwrap_or(bytes);
        let version = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let version = std::str::from_utf8(version).unwrap_or_default();
        let fields = match version {
            "3.00" | "3.10" => OLD,
            "3.20" | "3.21" => WITH_H5D,
            "3.41" => NEW,
            old if old.starts_with("1.") || old.starts_with("2.") => {
                let message = format!(
                    "this is a log of Darshan {}, which has counters only; requests are traced from Darshan 3.1.3 on: \
                     run the job with that and DARSHAN_MOD_ENABLE=DXT_POSIX",
                    &old[..1]
                );
                return Err(at(0, message));
            }
            other => {
                let message = format!(
                    "version {} of Darshan logs is not supported, only 3.00 to 3.41; give the output of \
                     `darshan-dxt-parser --show-incomplete LOG`",
                    shown(other)
                );
                return Err(at(0, message));
            }
        };
        Ok((fields, version))
    }

    fn module(&self, numbers: Bytes<'_>, index: usize, name: &str, size: u64) -> Result<Option<Module>, DarshanError> {
        let Some(span) = self.span(numbers, self.modules + 16 * index, name, size)? else { return Ok(None) };
        let partial = match self.partial {
            20 => u64::from(numbers.u32(20)),
            place => numbers.u64(place),
        };
        let version = numbers.u32(self.versions + 4 * index);
        Ok(Some(Module { span, version, is_partial: partial >> index & 1 == 1 }))
    }

    /// The bytes of a region whose place and length are at `place`.
    fn span(
        &self,
        numbers: Bytes<'_>,
        place: usize,
        name: &str,
        size: u64,
    ) -> Result<Option<Range<u64>>, DarshanError> {
        let (begin, length) = (numbers.u64(place), numbers.u64(place + 8));
        if length == 0 {
            return Ok(None);
        }
        match begin.checked_add(length) {
            Some(end) if begin >= self.size as u64 && end <= size => Ok(Some(begin..end)),
            _ => {
                let message = format!(
                    "{name}: {length} bytes from byte {begin} are not in this log of {size} bytes; was it copied whole?"
                );
                Err(at(place as u64, message))
            }
        }
    }
}

fn compression(byte: u8) -> Result<Compression, DarshanError> {
    match byte {
        0 => Ok(Compression::Zlib),
        1 => Ok(Compression::Bzip2),
        2 => Ok(Compression::None),
        other => Err(at(16, format!("compression {other} is not known; is the log damaged?"))),
    }
}

/// Bytes of what stands before the requests of a process to a file.
const RECORD: usize = 104;
/// Bytes of a request, and with the thread that sent it.
const SEGMENT: usize = 32;
const SEGMENT_WITH_THREAD: usize = 40;

#[derive(Debug, Default)]
struct Found {
    /// Requests to each file, by layer and the file's number.
    requests: Requests<(Layer, u64)>,
    names: BTreeMap<u64, String>,
    /// Names that are too long for a file's, as those of data sets can be.
    long_names: u64,
}

/// What a region is a sequence of.
#[derive(Debug)]
enum Items {
    Requests(Trace),
    Names(Names),
}

#[derive(Debug)]
struct Names {
    /// Whether they have a length instead of an end.
    are_counted: bool,
    /// What is left of a name that is too long.
    skipped: Skipped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipped {
    Nothing,
    Bytes(usize),
    ToNul,
}

#[derive(Debug)]
struct Trace {
    layer: Layer,
    segment: usize,
    /// The process and file of the following segments, and how many there are.
    file: u64,
    rank: u32,
    writes: u64,
    reads: u64,
}

impl Items {
    fn trace(layer: Layer, version: u32) -> Result<Self, String> {
        let segment = match (layer, version) {
            (Layer::Posix, 1) | (Layer::Mpiio, 2) => SEGMENT,
            (Layer::Posix, 2) | (Layer::Mpiio, 3) => SEGMENT_WITH_THREAD,
            _ => {
                return Err(format!(
                    "version {version} of {} is not supported; give the output of \
                     `darshan-dxt-parser --show-incomplete LOG`",
                    layer.name()
                ));
            }
        };
        Ok(Self::Requests(Trace { layer, segment, file: 0, rank: 0, writes: 0, reads: 0 }))
    }

    fn names(are_counted: bool) -> Self {
        Self::Names(Names { are_counted, skipped: Skipped::Nothing })
    }

    /// Takes the item that bytes begin with, and returns its length; none if it is cut off.
    fn take(&mut self, bytes: Bytes<'_>, found: &mut Found) -> Result<Option<usize>, String> {
        match self {
            Self::Requests(trace) => trace.take(bytes, &mut found.requests),
            Self::Names(names) => Ok(names.take(bytes, found)),
        }
    }

    /// Whether nothing is missing after the last item.
    fn is_complete(&self) -> bool {
        match self {
            Self::Requests(trace) => trace.writes == 0 && trace.reads == 0,
            Self::Names(names) => names.skipped == Skipped::Nothing,
        }
    }
}

impl Trace {
    fn take(&mut self, bytes: Bytes<'_>, requests: &mut Requests<(Layer, u64)>) -> Result<Option<usize>, String> {
        let op = match (self.writes, self.reads) {
            (0, 0) => return self.record(bytes),
            (0, _) => Op::Read,
            _ => Op::Write,
        };
        if bytes.bytes.len() < self.segment {
            return Ok(None);
        }
        let left = if op == Op::Write { &mut self.writes } else { &mut self.reads };
        *left -= 1;
        let (start, end) = (nanoseconds("start", bytes.f64(16))?, nanoseconds("end", bytes.f64(24))?);
        match (u64::try_from(bytes.i64(0)), u64::try_from(bytes.i64(8))) {
            (Ok(offset), Ok(size)) => {
                requests.push(&(self.layer, self.file), Request { rank: self.rank, op, offset, size, start, end })?;
            }
            // Darshan writes what a failed call returned.
            _ => requests.left_out += 1,
        }
        Ok(Some(self.segment))
    }

    fn record(&mut self, bytes: Bytes<'_>) -> Result<Option<usize>, String> {
        if bytes.bytes.len() < RECORD {
            return Ok(None);
        }
        let number = |what: &str, at: usize| {
            let number = bytes.i64(at);
            u64::try_from(number).map_err(|_| format!("{what} {number} is below 0; is the log damaged?"))
        };
        let rank = number("rank", 8)?;
        self.file = bytes.u64(0);
        self.rank = u32::try_from(rank).map_err(|_| format!("rank {rank} is above {}", u32::MAX))?;
        (self.writes, self.reads) = (number("the number of writes", 88)?, number("the number of reads", 96)?);
        Ok(Some(RECORD))
    }
}

impl Names {
    /// A name that is too long is skipped, so that the others are found.
    fn take(&mut self, bytes: Bytes<'_>, found: &mut Found) -> Option<usize> {
        match self.skipped {
            Skipped::Nothing if self.are_counted => self.counted(bytes, found),
            Skipped::Nothing => self.ended(bytes, found),
            _ if bytes.bytes.is_empty() => None,
            Skipped::Bytes(left) => {
                let length = left.min(bytes.bytes.len());
                self.skipped = if length == left { Skipped::Nothing } else { Skipped::Bytes(left - length) };
                Some(length)
            }
            Skipped::ToNul => {
                let end = bytes.bytes.iter().position(|byte| *byte == 0);
                self.skipped = end.map_or(Skipped::ToNul, |_| Skipped::Nothing);
                Some(end.map_or(bytes.bytes.len(), |end| end + 1))
            }
        }
    }

    /// `u64 id, u32 length, name`.
    fn counted(&mut self, bytes: Bytes<'_>, found: &mut Found) -> Option<usize> {
        if bytes.bytes.len() < 12 {
            return None;
        }
        let length = bytes.u32(8) as usize;
        if length > NAME_MAX {
            found.long_names += 1;
            self.skipped = Skipped::Bytes(length);
            return Some(12);
        }
        found.name(bytes.u64(0), bytes.bytes.get(12..12 + length)?);
        Some(12 + length)
    }

    /// `u64 id, name, NUL`.
    fn ended(&mut self, bytes: Bytes<'_>, found: &mut Found) -> Option<usize> {
        let text = bytes.bytes.get(8..)?;
        let Some(length) = text.iter().take(NAME_MAX + 1).position(|byte| *byte == 0) else {
            if text.len() <= NAME_MAX {
                return None;
            }
            found.long_names += 1;
            self.skipped = Skipped::ToNul;
            return Some(8);
        };
        found.name(bytes.u64(0), &text[..length]);
        Some(8 + length + 1)
    }
}

impl Found {
    /// Keeps the name if there are requests to the file; logs name files that were only opened, too.
    fn name(&mut self, file: u64, name: &[u8]) {
        let is_used =
            [Layer::Posix, Layer::Mpiio].iter().any(|layer| self.requests.files.contains_key(&(*layer, file)));
        if is_used && !name.is_empty() {
            let name = String::from_utf8_lossy(name);
            self.names.entry(file).or_insert_with(|| name.trim_end_matches('\0').to_owned());
        }
    }
}

// Decompresses a region: one stream of zlib or bzip2 after another, one for each process that had something to write.

/// Bytes that are decompressed at once.
const BLOCK: usize = 64 << 10;

/// How the regions of a log are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Zlib,
    /// Written by `darshan-convert --bzip2` only.
    Bzip2,
    None,
}

/// The state of decompression between two pieces of a region.
struct Inflate {
    stream: Stream,
    block: Vec<u8>,
    /// The region must not end here.
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
    fn new(compression: Compression) -> Self {
        let stream = Stream::new(compression);
        let block = if compression == Compression::None { Vec::new() } else { vec![0; BLOCK] };
        Self { stream, block, is_within_stream: false, taken: 0, made: 0 }
    }

    /// Hands the decompressed bytes over in blocks. An error has the number of bytes used before it.
    fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), (usize, String)> {
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

fn small(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Bytes with numbers at known places, in either byte order.
#[derive(Clone, Copy, Debug)]
struct Bytes<'a> {
    bytes: &'a [u8],
    is_big_endian: bool,
}

impl Bytes<'_> {
    /// The number at `at`, which the caller knows to be there.
    fn u64(&self, at: usize) -> u64 {
        let mut number = [0; 8];
        number.copy_from_slice(&self.bytes[at..at + 8]);
        if self.is_big_endian { u64::from_be_bytes(number) } else { u64::from_le_bytes(number) }
    }

    fn i64(&self, at: usize) -> i64 {
        self.u64(at).cast_signed()
    }

    fn f64(&self, at: usize) -> f64 {
        f64::from_bits(self.u64(at))
    }

    fn u32(&self, at: usize) -> u32 {
        let mut number = [0; 4];
        number.copy_from_slice(&self.bytes[at..at + 4]);
        if self.is_big_endian { u32::from_be_bytes(number) } else { u32::from_le_bytes(number) }
    }
}

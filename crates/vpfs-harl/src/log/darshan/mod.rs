//! Darshan's own log files with extended traces (DXT).
//!
//! After a header with their places, a log has regions: the job, names of files, and one for each module of Darshan.
//! Each is a sequence of streams of zlib, or of bzip2 after `darshan-convert --bzip2`. The layout is that of
//! `darshan-log-format.h` and `darshan-dxt-log-format.h`, versions 3.00 to 3.41, in either byte order.
//!
//! Names are of less value than requests: damage to them is noted, and files without one are called by their number.
//! The uncompressed logs that a killed job leaves behind (`DARSHAN_MMAP_LOGPATH`) have no DXT.

mod bytes;
mod header;
mod inflate;
mod items;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use self::bytes::Bytes;
use self::header::{HEADER_MAX, Header, NAMES};
use self::inflate::{Compression, Inflate};
use self::items::{Found, Items};
use super::{Log, NAME_MAX};

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
    /// Why names are missing.
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

    /// Whether a file that begins with these bytes is a Darshan log; eight are enough.
    pub fn is_darshan(bytes: &[u8]) -> bool {
        header::begins(bytes)
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
        if self.inflate.is_within_stream() || !self.pending.is_empty() || !self.items.is_complete() {
            let message = format!(
                "{} ends within an item (byte {} after decompression); is the log damaged?",
                self.name, self.position
            );
            return Err(at(self.rest.end, message));
        }
        Ok(())
    }
}

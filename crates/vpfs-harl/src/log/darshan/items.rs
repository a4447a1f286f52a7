//! What the regions contain once they are decompressed.

use std::collections::BTreeMap;

use super::super::{NAME_MAX, Requests, nanoseconds};
use super::Layer;
use super::bytes::Bytes;
use crate::trace::{Op, Request};

/// Bytes of what stands before the requests of a process to a file.
const RECORD: usize = 104;
/// Bytes of a request, and with the thread that sent it.
const SEGMENT: usize = 32;
const SEGMENT_WITH_THREAD: usize = 40;

/// What has been found in the log.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Requests to each file, by layer and the file's number.
    pub(super) requests: Requests<(Layer, u64)>,
    /// Names of files with requests.
    pub(super) names: BTreeMap<u64, String>,
    /// Names that are too long for a file's, as those of data sets can be.
    pub(super) long_names: u64,
}

/// What a region is a sequence of.
#[derive(Debug)]
pub(super) enum Items {
    Requests(Trace),
    Names(Names),
}

/// The names of a log.
#[derive(Debug)]
pub(super) struct Names {
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

/// A trace of one layer.
#[derive(Debug)]
pub(super) struct Trace {
    layer: Layer,
    segment: usize,
    /// The process and file of the following segments, and how many there are.
    file: u64,
    rank: u32,
    writes: u64,
    reads: u64,
}

impl Items {
    /// The items of a trace of the given version of its module.
    pub(super) fn trace(layer: Layer, version: u32) -> Result<Self, String> {
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

    pub(super) fn names(are_counted: bool) -> Self {
        Self::Names(Names { are_counted, skipped: Skipped::Nothing })
    }

    /// Takes the item that bytes begin with, and returns its length; none if it is cut off.
    pub(super) fn take(&mut self, bytes: Bytes<'_>, found: &mut Found) -> Result<Option<usize>, String> {
        match self {
            Self::Requests(trace) => trace.take(bytes, &mut found.requests),
            Self::Names(names) => Ok(names.take(bytes, found)),
        }
    }

    /// Whether nothing is missing after the last item.
    pub(super) fn is_complete(&self) -> bool {
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

//! The header of a log: where its regions are. It alone is not compressed.

use std::ops::Range;

use super::super::shown;
use super::bytes::Bytes;
use super::inflate::Compression;
use super::{DarshanError, Layer, at};

/// What the region of names is called.
pub(super) const NAMES: &str = "the names of files";
/// The number that tells a Darshan log and its byte order.
const MAGIC: u64 = 6_567_223;
/// Bytes of the longest header, that of version 3.41.
pub(super) const HEADER_MAX: usize = 1328;

/// What the header says.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) is_big_endian: bool,
    pub(super) compression: Compression,
    /// Whether names have a length instead of an end.
    pub(super) has_counted_names: bool,
    /// The names of files, or why they are lost.
    pub(super) names: Result<Option<Range<u64>>, DarshanError>,
    pub(super) posix: Option<Module>,
    pub(super) mpiio: Option<Module>,
}

/// A trace in the log.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) span: Range<u64>,
    pub(super) version: u32,
    /// Whether Darshan ran out of memory for it.
    pub(super) is_partial: bool,
}

/// Where the fields of a version are.
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

/// Whether bytes begin a log of any version of Darshan, `1.21` to `3.41` so far, or one that was never finished.
pub(super) fn begins(bytes: &[u8]) -> bool {
    match bytes {
        [major, b'.', minor, patch, rest @ ..] if [major, minor, patch].iter().all(|digit| digit.is_ascii_digit()) => {
            rest.len() > 4 && rest[..4] == [0; 4]
        }
        _ => is_unfinished(bytes),
    }
}

/// Darshan leaves room for the header, and writes it last.
fn is_unfinished(bytes: &[u8]) -> bool {
    bytes.len() >= OLD.size && bytes.iter().take(HEADER_MAX).all(|byte| *byte == 0)
}

impl Header {
    /// Reads the header at the beginning of a log of `size` bytes.
    pub(super) fn read(bytes: &[u8], size: u64) -> Result<Self, DarshanError> {
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

    /// The module at `index` of the tables, if the log has it.
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

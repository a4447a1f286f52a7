//! One line of a log in columns.

use super::names::Column;
use super::time::TimeUnit;
use crate::log::shown;
use crate::trace::{Op, Request, TraceError};

/// The units of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    pub(super) time: TimeUnit,
    pub(super) sector: u64,
    /// Whether times may have a comma for a point, as in tables of some languages.
    pub(super) has_decimal_commas: bool,
}

/// What a line says.
#[derive(Debug, Default)]
pub(super) struct Row {
    rank: u32,
    op: Option<Op>,
    offset: u64,
    size: u64,
    start: u64,
    end: Option<u64>,
    duration: Option<u64>,
    pub(super) file: String,
}

impl Row {
    pub(super) fn take(&mut self, column: Column, field: &str, units: Units) -> Result<(), String> {
        let time = || if units.has_decimal_commas { field.replacen(',', ".", 1) } else { field.to_owned() };
        match column {
            Column::Rank => self.rank = rank(field)?,
            Column::Op => self.op = op(field)?,
            Column::Offset => self.offset = bytes("offset", field, units.sector)?,
            Column::Size => self.size = bytes("size", field, units.sector)?,
            Column::Time => self.start = units.time.time("time", &time())?,
            Column::End => self.end = Some(units.time.time("end", &time())?),
            Column::Duration => self.duration = Some(units.time.duration("duration", &time())?),
            Column::File => field.clone_into(&mut self.file),
        }
        Ok(())
    }

    /// The request; none for a call that moves no bytes.
    pub(super) fn request(&self) -> Option<Request> {
        let Self { rank, op, offset, size, start, .. } = *self;
        let end = self.end.or_else(|| Some(start.saturating_add(self.duration?))).unwrap_or(start);
        Some(Request { rank, op: op?, offset, size, start, end })
    }
}

/// A whole number, also as tables of statistics have it: `4096.0`.
pub(super) fn whole_number(field: &str) -> Option<u64> {
    let whole = field.split_once('.').filter(|(_, zeros)| zeros.bytes().all(|digit| digit == b'0'));
    whole.map_or(field, |(whole, _)| whole).parse().ok()
}

fn number(what: &str, field: &str) -> Result<u64, String> {
    whole_number(field).ok_or_else(|| format!("{what} {} is not a whole number from 0", shown(field)))
}

fn bytes(what: &str, field: &str, sector: u64) -> Result<u64, String> {
    let bytes = number(what, field)?.checked_mul(sector);
    bytes.ok_or_else(|| TraceError::TooFar(u64::MAX).to_string())
}

fn rank(field: &str) -> Result<u32, String> {
    let rank = number("rank", field)?;
    u32::try_from(rank).map_err(|_| format!("rank {rank} is above {}", u32::MAX))
}

/// Calls that move no bytes of a file.
const OTHERS: [&str; 21] = [
    "open", "close", "seek", "stat", "sync", "flush", "trim", "discard", "unlink", "truncate", "alloc", "mkdir",
    "creat", "readdir", "readlink", "rename", "mmap", "lock", "dup", "fcntl", "ioctl",
];

/// The operation, by its name in any tracer; none if it moves no bytes.
pub(super) fn op(field: &str) -> Result<Option<Op>, String> {
    let name = field.to_ascii_lowercase();
    if OTHERS.iter().any(|other| name.contains(other)) {
        return Ok(None);
    }
    match name.as_str() {
        "r" | "rd" => Ok(Some(Op::Read)),
        "w" | "wr" => Ok(Some(Op::Write)),
        name if name.contains("read") != name.contains("write") => {
            Ok(Some(if name.contains("read") { Op::Read } else { Op::Write }))
        }
        _ => Err(format!("op {} is not r or w", shown(field))),
    }
}

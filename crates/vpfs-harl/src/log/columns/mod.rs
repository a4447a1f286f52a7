//! Logs in columns: CSV of ours, `rank,op,offset,size,time,end,file`, and what other tracers write.

mod fields;
mod guess;
mod names;
mod row;
mod time;

use std::borrow::Cow;

use self::fields::{Separator, whole};
use self::names::{Column, Counted};
use self::row::{Row, Units, whole_number};
pub use self::time::TimeUnit;
use super::{LOGS, Requests, shown};
use crate::trace::Request;

/// Requests from which offsets and sizes are taken for sectors if all look like them.
const SECTORS_FROM: u64 = 16;
/// A log that takes longer than this, in whole numbers, is probably not in seconds: 30 days, in nanoseconds.
const LONG: u64 = 30 * 86_400 * 1_000_000_000;

/// How logs in columns differ from ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Which columns are ours: our name, and theirs or their number from 1.
    pub names: Vec<(String, String)>,
    /// The unit of times, if not seconds.
    pub time_unit: Option<TimeUnit>,
    /// What offsets and sizes count, in bytes, if not bytes.
    pub sector: Option<u64>,
}

/// The columns of a log, in its order.
#[derive(Debug)]
pub(super) struct Table {
    separator: Separator,
    /// None for one that is not used.
    columns: Vec<Option<Column>>,
    units: Units,
    seen: Seen,
    notes: Vec<String>,
}

/// What tells whether units are right, as long as nobody stated them.
#[derive(Debug)]
struct Seen {
    has_whole_times: bool,
    first: u64,
    last: u64,
    /// Requests that could be in sectors of pages.
    sectors: u64,
    could_be_sectors: bool,
}

impl Columns {
    /// Our columns, each with theirs, as `--columns` has them.
    ///
    /// # Errors
    /// If a name is none of ours, or twice there.
    pub fn parse(list: &str) -> Result<Vec<(String, String)>, String> {
        let mut columns: Vec<(String, String)> = Vec::new();
        for part in list.split(',') {
            let (ours, theirs) = part.split_once('=').unwrap_or((part, part));
            let (ours, theirs) = (ours.trim().to_owned(), theirs.trim().to_owned());
            if names::ours(&ours).is_none() {
                let known: Vec<&str> = names::NAMES.iter().map(|(name, ..)| *name).collect();
                return Err(format!("{} is none of {}; write for example offset=LBA", shown(&ours), known.join(", ")));
            }
            if columns.iter().any(|(name, _)| *name == ours) {
                return Err(format!("{ours} is there twice"));
            }
            columns.push((ours, theirs));
        }
        Ok(columns)
    }
}

impl Table {
    /// Reads the first line. It is a request already if true is returned.
    pub(super) fn new(line: &str, given: &Columns) -> Result<(Self, bool), String> {
        let line = line.trim_start_matches('\u{feff}');
        let separator = Separator::of(line);
        let fields = separator.fields(line);
        let is_numbered = given.names.iter().any(|(_, theirs)| theirs.parse::<usize>().is_ok());
        let columns = if is_numbered { numbered(&fields, given)? } else { headed(&fields, given)? };
        let names: &[Cow<'_, str>] = if is_numbered { &[] } else { &fields };
        let mut this = Self {
            separator,
            units: Units {
                time: given.time_unit.or_else(|| stated_unit(&columns, names)).unwrap_or(TimeUnit::Seconds),
                sector: given.sector.unwrap_or(1),
                has_decimal_commas: separator != Separator::Character(','),
            },
            seen: Seen {
                has_whole_times: given.time_unit.is_none(),
                first: u64::MAX,
                last: 0,
                sectors: 0,
                could_be_sectors: given.sector.is_none(),
            },
            columns,
            notes: Vec::new(),
        };
        if given.sector.is_none() {
            this.refuse_sectors(names)?;
        }
        this.note_unused(names);
        // With numbers, a header may be there or not.
        let offset = this.columns.iter().position(|column| *column == Some(Column::Offset));
        let offset = offset.and_then(|at| fields.get(at)).filter(|_| is_numbered);
        Ok((this, offset.is_some_and(|field| whole_number(field).is_some())))
    }

    fn refuse_sectors(&self, names: &[Cow<'_, str>]) -> Result<(), String> {
        let is_place = |column: &Option<Column>| matches!(column, Some(Column::Offset | Column::Size));
        let mut places = (1..).zip(self.columns.iter().zip(names)).filter(|(_, (column, _))| is_place(column));
        match places.find(|(_, (_, name))| names::counted(name) == Counted::Sectors) {
            Some((number, (_, name))) => Err(format!(
                "the column {} counts sectors, by its name: give --sector 512B if offset and size are both in sectors \
                 of 512 bytes, and --sector 1B if they are bytes; if only one is in sectors, multiply it before: `{}`",
                shown(name),
                self.separator.awk(&format!("NR > 1 {{ ${number} *= 512 }} 1"))
            )),
            None => Ok(()),
        }
    }

    fn note_unused(&mut self, names: &[Cow<'_, str>]) {
        let unused = self.columns.iter().zip(names).filter(|(column, _)| column.is_none());
        let unused: Vec<String> = unused.map(|(_, name)| shown(name)).collect();
        if !unused.is_empty() {
            self.notes.push(format!("columns that are not used: {}", unused.join(", ")));
        }
    }

    pub(super) fn line(&mut self, text: &str, requests: &mut Requests) -> Result<(), String> {
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let (mut row, mut rest) = (Row::default(), Some(text));
        for (at, column) in self.columns.iter().enumerate() {
            let line = rest.ok_or_else(|| self.wrong_count(text))?;
            let is_rest = *column == Some(Column::File) && at + 1 == self.columns.len();
            let (field, next) = if is_rest { (whole(line), None) } else { self.separator.split(line) };
            rest = next;
            let Some(column) = column else { continue };
            self.seen.has_whole_times &= *column != Column::Time || whole_number(&field).is_some();
            row.take(*column, &field, self.units).map_err(|problem| match field.as_ref() {
                "0" | "1" if *column == Column::Op => {
                    let replace = format!("{{ ${0} = ${0} ? \"w\" : \"r\" }} 1", at + 1);
                    let replace = self.separator.awk(&replace);
                    format!("{problem}; if 0 means a read and 1 a write, replace them: `{replace}`")
                }
                _ => problem,
            })?;
        }
        if rest.is_some_and(|rest| !rest.trim().is_empty()) {
            return Err(self.wrong_count(text));
        }
        let Some(request) = row.request() else {
            requests.left_out += 1;
            return Ok(());
        };
        self.seen.take(&request);
        requests.add(&row.file, request)
    }

    /// What is worth knowing about how the log was read.
    pub(super) fn notes(mut self) -> Vec<String> {
        let Seen { has_whole_times, first, last, sectors, could_be_sectors } = self.seen;
        let days = last.saturating_sub(first) / (86_400 * 1_000_000_000);
        if has_whole_times && self.units.time == TimeUnit::Seconds && last.saturating_sub(first) > LONG {
            self.notes.push(format!(
                "the log takes {days} days if its times are in seconds; if not, give --time-unit ms, us or ns"
            ));
        }
        if could_be_sectors && sectors >= SECTORS_FROM {
            self.notes.push(
                "offsets and sizes are small multiples of 8, as those in sectors of 512 bytes; if they are, give \
                 --sector 512B"
                    .into(),
            );
        }
        self.notes
    }

    fn wrong_count(&self, text: &str) -> String {
        let found = self.separator.fields(text).len();
        let quote = if found > self.columns.len() { "; a field with a separator in it needs quotes" } else { "" };
        format!("{found} fields, but the first line has {}{quote}", self.columns.len())
    }
}

impl Seen {
    fn take(&mut self, request: &Request) {
        (self.first, self.last) = (self.first.min(request.start), self.last.max(request.end));
        self.sectors += 1;
        let is_multiple = request.offset.is_multiple_of(8) && request.size.is_multiple_of(8);
        self.could_be_sectors &= is_multiple && request.size <= 2048;
    }
}

/// The unit of times that the header states.
fn stated_unit(columns: &[Option<Column>], names: &[Cow<'_, str>]) -> Option<TimeUnit> {
    let is_time = |column: &Option<Column>| matches!(column, Some(Column::Time | Column::End));
    columns.iter().zip(names).filter(|(column, _)| is_time(column)).find_map(|(_, name)| match names::counted(name) {
        Counted::Time(unit) => Some(unit),
        _ => None,
    })
}

/// Columns by number; a log need not have a header.
fn numbered(fields: &[Cow<'_, str>], given: &Columns) -> Result<Vec<Option<Column>>, String> {
    let mut columns = vec![None; fields.len()];
    for (ours, theirs) in &given.names {
        let place = theirs.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let Some(column) = place.and_then(|place| columns.get_mut(place)) else {
            return Err(format!(
                "--columns {ours}={theirs}: the first line has columns 1 to {}; give either numbers or names",
                fields.len()
            ));
        };
        *column = names::ours(ours);
    }
    require(columns, fields)
}

/// Columns by the names of a header.
fn headed(fields: &[Cow<'_, str>], given: &Columns) -> Result<Vec<Option<Column>>, String> {
    let mut columns = vec![None; fields.len()];
    for (ours, theirs) in &given.names {
        let Some(place) = fields.iter().position(|field| field.eq_ignore_ascii_case(theirs)) else {
            return Err(format!("--columns {ours}={theirs}: the header is {}", listed(fields)));
        };
        columns[place] = names::ours(ours);
    }
    // Our own names count before those of others.
    for is_own in [true, false] {
        for (place, field) in fields.iter().enumerate() {
            let own = names::ours(field);
            let Some(column) = (if is_own { own } else { names::column(field) }) else { continue };
            if is_own && fields[..place].contains(field) {
                return Err(format!("the header names {field} twice"));
            }
            if columns[place].is_none() && !columns.contains(&Some(column)) {
                columns[place] = Some(column);
            }
        }
    }
    require(columns, fields)
}

fn require(columns: Vec<Option<Column>>, fields: &[Cow<'_, str>]) -> Result<Vec<Option<Column>>, String> {
    let is_absent = |column: &&Column| !columns.contains(&Some(**column));
    let Some(column) = [Column::Op, Column::Offset, Column::Size].iter().find(is_absent) else { return Ok(columns) };
    let name = names::name_of(*column);
    if let Some(options) = guess::guessed(fields) {
        return Err(format!(
            "the log has no header that names its columns; by its first line, they could be {options}"
        ));
    }
    if columns.iter().all(Option::is_none) {
        return Err(format!("not a log: the first line is {}; {LOGS}", shown(&fields.join(" "))));
    }
    Err(format!(
        "the header lacks the column {name}; it is {}: say which one that is, as in --columns {name}=NAME",
        listed(fields)
    ))
}

fn listed(fields: &[Cow<'_, str>]) -> String {
    let shown: Vec<String> = fields.iter().take(20).map(|field| shown(field)).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests;

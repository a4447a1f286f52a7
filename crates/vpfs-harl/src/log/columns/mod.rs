//! Logs in columns: CSV of ours, `rank,op,offset,size,time,end,file`, which is written here, too, and what other
//! tracers write.

mod names;

use std::borrow::Cow;
use std::fmt;

pub use self::names::TimeUnit;
use self::names::{Column, Counted, name_of};
use super::{LOGS, Requests, shown};
use crate::trace::{Op, Request, TraceError};

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

fn stated_unit(columns: &[Option<Column>], names: &[Cow<'_, str>]) -> Option<TimeUnit> {
    let is_time = |column: &Option<Column>| matches!(column, Some(Column::Time | Column::End));
    columns.iter().zip(names).filter(|(column, _)| is_time(column)).find_map(|(_, name)| match names::counted(name) {
        Counted::Time(unit) => Some(unit),
        _ => None,
    })
}

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
    if let Some(options) = guessed(fields) {
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

#[derive(Clone, Copy, Debug)]
struct Units {
    time: TimeUnit,
    sector: u64,
    /// Whether times may have a comma for a point, as in tables of some languages.
    has_decimal_commas: bool,
}

#[derive(Debug, Default)]
struct Row {
    rank: u32,
    op: Option<Op>,
    offset: u64,
    size: u64,
    start: u64,
    end: Option<u64>,
    duration: Option<u64>,
    file: String,
}

impl Row {
    fn take(&mut self, column: Column, field: &str, units: Units) -> Result<(), String> {
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

    fn request(&self) -> Option<Request> {
        let Self { rank, op, offset, size, start, .. } = *self;
        let end = self.end.or_else(|| Some(start.saturating_add(self.duration?))).unwrap_or(start);
        Some(Request { rank, op: op?, offset, size, start, end })
    }
}

/// A whole number, also as tables of statistics have it: `4096.0`.
fn whole_number(field: &str) -> Option<u64> {
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
fn op(field: &str) -> Result<Option<Op>, String> {
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

// What the columns of a log without a header look like.

/// Says which columns of a first line look like what, with the options for them; none if it does not look like a
/// request.
fn guessed(fields: &[Cow<'_, str>]) -> Option<String> {
    let at = |found: &dyn Fn(&str) -> bool| fields.iter().position(|field| found(field));
    let op = at(&|field| op(field).is_ok())?;
    let epoch = |field: &str| field.split('.').next()?.parse().ok().and_then(TimeUnit::of_epoch);
    let is_decimal = |field: &str| field.contains('.') && field.parse::<f64>().is_ok() && whole_number(field).is_none();
    let time = at(&|field| epoch(field).is_some()).or_else(|| at(&is_decimal));
    let file = at(&|field| field.contains('/'));
    let (offset, size) = place(fields, &[Some(op), time, file])?;
    let mut columns = vec![(Column::Op, op), (Column::Offset, offset), (Column::Size, size)];
    columns.extend(time.map(|time| (Column::Time, time)));
    columns.extend(file.map(|file| (Column::File, file)));
    columns.sort_by_key(|(_, place)| *place);
    let columns: Vec<String> =
        columns.into_iter().map(|(column, place)| format!("{}={}", name_of(column), place + 1)).collect();
    let unit = time.and_then(|time| epoch(&fields[time]));
    let unit = unit.map_or(String::new(), |unit| format!(" --time-unit {}", unit.option()));
    let [place, length] = [offset, size].map(|place| whole_number(&fields[place]).unwrap_or(0));
    let could_be_sectors = place.is_multiple_of(8) && length.is_multiple_of(8) && length <= 2048;
    let sector = if could_be_sectors { ", and --sector 512B if offset and size are in sectors" } else { "" };
    Some(format!("--columns {}{unit}{sector}", columns.join(",")))
}

/// Offset and size: two whole numbers that follow each other, the first of them the largest.
fn place(fields: &[Cow<'_, str>], others: &[Option<usize>]) -> Option<(usize, usize)> {
    let number = |at: usize| whole_number(fields.get(at)?).filter(|_| !others.contains(&Some(at)));
    let pairs = (0..fields.len()).filter_map(|at| Some((number(at)?, number(at + 1).filter(|size| *size > 0)?, at)));
    pairs.max_by_key(|(offset, ..)| *offset).map(|(.., at)| (at, at + 1))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Character(char),
    Blanks,
}

impl Separator {
    /// That of a log that begins with this line.
    fn of(line: &str) -> Self {
        let count = |separator: &char| line.matches(*separator).count();
        let most = ['\t', ';', ',', '|'].into_iter().rev().max_by_key(count).filter(|separator| count(separator) > 0);
        most.map_or(Self::Blanks, Self::Character)
    }

    /// The first field, without quotes, and what follows it.
    fn split(self, line: &str) -> (Cow<'_, str>, Option<&str>) {
        let line = line.trim_start_matches(|letter: char| letter == ' ' || self == Self::Blanks && letter == '\t');
        if let Some((field, rest)) = self.quoted(line) {
            return (field, rest);
        }
        let split = match self {
            Self::Character(separator) => line.split_once(separator),
            Self::Blanks => line.split_once([' ', '\t']),
        };
        match split {
            Some((field, rest)) if self == Self::Blanks && rest.trim().is_empty() => (field.into(), None),
            Some((field, rest)) => (field.trim().into(), Some(rest)),
            None => (line.trim().into(), None),
        }
    }

    /// A field that begins with a quote, if another one ends it.
    fn quoted(self, line: &str) -> Option<(Cow<'_, str>, Option<&str>)> {
        let inner = line.strip_prefix('"')?;
        let mut from = 0;
        loop {
            let end = from + inner[from..].find('"')?;
            let after = &inner[end + 1..];
            if after.starts_with('"') {
                from = end + 2;
                continue;
            }
            let field = unescaped(&inner[..end]);
            let after = after.trim_start_matches(' ');
            return match self {
                _ if after.is_empty() => Some((field, None)),
                Self::Blanks => Some((field, Some(after))),
                Self::Character(separator) => Some((field, Some(after.strip_prefix(separator)?))),
            };
        }
    }

    /// A command that changes such lines.
    fn awk(self, program: &str) -> String {
        match self {
            Self::Blanks => format!("awk '{program}'"),
            Self::Character('\t') => format!("awk -F '\\t' -v OFS='\\t' '{program}'"),
            Self::Character(separator) => format!("awk -F '{separator}' -v OFS='{separator}' '{program}'"),
        }
    }

    fn fields(self, line: &str) -> Vec<Cow<'_, str>> {
        let mut rest = Some(line);
        std::iter::from_fn(|| {
            let (field, next) = self.split(rest?);
            rest = next;
            Some(field)
        })
        .collect()
    }
}

fn unescaped(field: &str) -> Cow<'_, str> {
    if field.contains('"') { field.replace("\"\"", "\"").into() } else { field.into() }
}

/// The rest of a line as one field: a name may contain separators.
fn whole(rest: &str) -> Cow<'_, str> {
    let rest = rest.trim();
    match rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => unescaped(inner),
        None => rest.into(),
    }
}

const COLUMNS: [&str; 7] = ["rank", "op", "offset", "size", "time", "end", "file"];

/// A line of a log in CSV, without its end. Line breaks in the name of a file become spaces.
#[derive(Clone, Copy, Debug)]
pub enum CsvLine<'a> {
    /// The first line.
    Header,
    /// A request, and the file that it is to.
    Request(&'a Request, &'a str),
}

impl fmt::Display for CsvLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Request(Request { rank, op, offset, size, start, end }, file) = self else {
            return f.write_str(&COLUMNS.join(","));
        };
        let op = match op {
            Op::Read => 'r',
            Op::Write => 'w',
        };
        write!(f, "{rank},{op},{offset},{size},{},{},{}", Seconds(*start), Seconds(*end), quoted(file))
    }
}

struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// The reader takes a name as it is, unless it is quoted; blanks around it would be lost.
fn quoted(name: &str) -> String {
    let name = name.replace('\n', " ");
    if name.starts_with('"') || name.trim() != name { format!("\"{}\"", name.replace('"', "\"\"")) } else { name }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::log::tests::{problem, read};
    use crate::log::{Log, LogReader};

    #[test]
    fn traces_that_sites_keep_are_recognised() {
        for (line, expected) in [
            // As of MSR Cambridge, SPC, FIU and our own.
            (
                "128166372003061629,hm,1,Read,383496192,32768,1331",
                "--columns time=1,op=4,offset=5,size=6 --time-unit filetime",
            ),
            ("0,20941264,8192,W,0.551706", "--columns offset=2,size=3,op=4,time=5"),
            (
                "1237392000123456789 4892 syslogd 904265560 8 W 6 0 531e779",
                "--columns time=1,offset=4,size=5,op=6 --time-unit ns, and --sector 512B if offset and size are in sectors",
            ),
            ("3\tw\t0\t4096\t0.012\t0.019\t/scratch/a", "--columns op=2,offset=3,size=4,time=5,file=7"),
        ] {
            let guessed = guessed(&Separator::of(line).fields(line));
            assert_eq!(guessed.as_deref(), Some(expected), "{line}");
        }
        for line in ["hello world", "1,2,3", "r,w"] {
            assert_eq!(guessed(&Separator::of(line).fields(line)), None, "{line}");
        }
    }

    #[test]
    fn fields_are_split_as_their_line_says() {
        for (line, expected) in [
            ("a,b, c", vec!["a", "b", "c"]),
            ("a;b;1,5", vec!["a", "b", "1,5"]),
            ("a\tb c\t\t5", vec!["a", "b c", "", "5"]),
            ("  a   b c  ", vec!["a", "b", "c"]),
            ("\"a,\"\"b\",c", vec!["a,\"b", "c"]),
            ("\"a\" \"b c\" 5", vec!["a", "b c", "5"]),
            ("\"a,b", vec!["\"a", "b"]),
            ("a | b", vec!["a", "b"]),
        ] {
            assert_eq!(Separator::of(line).fields(line), expected, "{line}");
        }
        assert_eq!(Separator::of("one"), Separator::Blanks);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            rank in any::<u32>(),
            is_write in any::<bool>(),
            (offset, size) in (0..1_u64 << 50, 1..1_u64 << 36),
            (start, duration) in (0..1_u64 << 51, 0..1_u64 << 40),
            file in "\\PC*|[ ,\"a]*",
        ) {
            let op = if is_write { Op::Write } else { Op::Read };
            let request = Request { rank, op, offset, size, start, end: start + duration };
            let mut reader = LogReader::default();
            for line in [CsvLine::Header, CsvLine::Request(&request, &file)] {
                reader.line(line.to_string().as_bytes()).unwrap();
            }
            prop_assert_eq!(reader.finish().unwrap(), Log { files: [(file, vec![request])].into(), ..Log::default() });
        }
    }

    #[test]
    fn a_line_is_a_request() {
        let request =
            Request { rank: 3, op: Op::Write, offset: 4096, size: 512, start: 1_500_000_000, end: 2_000_000_001 };
        let line = CsvLine::Request(&request, "a\nb").to_string();
        assert_eq!(line, "3,w,4096,512,1.500000000,2.000000001,a b");
        assert_eq!(CsvLine::Header.to_string(), "rank,op,offset,size,time,end,file");
    }

    const SECOND: u64 = 1_000_000_000;

    fn columns(list: &str, time_unit: Option<TimeUnit>, sector: Option<u64>) -> Columns {
        Columns { names: Columns::parse(list).unwrap(), time_unit, sector }
    }

    fn read_as(text: &str, columns: Columns) -> Result<Log, String> {
        let mut reader = LogReader::new(columns);
        text.lines().try_for_each(|line| reader.line(line.as_bytes())).map_err(|error| error.to_string())?;
        reader.finish().map_err(|error| error.to_string())
    }

    fn request(rank: u32, op: Op, (offset, size): (u64, u64), (start, end): (u64, u64)) -> Request {
        Request { rank, op, offset, size, start, end }
    }

    #[test]
    fn files_have_their_own_requests() {
        let text = "rank,op,offset,size,time,end,file\n# a comment\n3,w,4096,512,1.5,1.75,a\n\n0,read,0,1,0,1e-05,\"b,\"\"c\"\n";
        let log = read(text).unwrap();
        assert_eq!(log.files["a"], [request(3, Op::Write, (4096, 512), (SECOND * 3 / 2, SECOND * 7 / 4))]);
        assert_eq!(log.files["b,\"c"], [request(0, Op::Read, (0, 1), (0, 10_000))]);
        assert_eq!(log.notes, [""; 0]);
    }

    #[test]
    fn requests_of_no_bytes_are_counted() {
        let log = read("op,offset,size\nr,5,0\nw,5,1\nopen,0,0\nfsync,0,0").unwrap();
        assert_eq!((log.left_out, log.files[""].len()), (3, 1));
    }

    #[test]
    fn other_separators_names_and_spellings_are_read() {
        let expected = request(3, Op::Write, (4096, 512), (SECOND * 3 / 2, SECOND * 7 / 4));
        for text in [
            "rank op offset size time end file\n3 w 4096 512 1.5 1.75 a b\n",
            "rank\top\toffset\tsize\ttime\tend\tfile\n3\tWRITE\t4096\t512\t1.5\t1.75\ta b\n",
            "rank;op;offset;size;time;end;file\n3;w;4096;512;1,5;1,75;a b\n",
            "\"rank\",\"op\",\"offset\",\"size\",\"time\",\"end\",\"file\"\n\"3\",\"w\",\"4096\",\"512\",\"1.5\",\"1.75\",\"a b\"\n",
            "file,operation,Offset,Length,Start_Time,end_time,pid\n\"a b\",pwrite64,4096.0,512.0,1.5,1.75,3\n",
            "PID,Operation,Offset (bytes),Length,Timestamp (us),Duration (us),Path\n3,MPI_File_write_at,4096,512,1500000,250000,a b\n",
        ] {
            let log = read(text).unwrap();
            assert_eq!((log.files["a b"].as_slice(), log.notes.len()), (&[expected][..], 0), "{text}");
        }
    }

    #[test]
    fn columns_that_are_not_used_are_named() {
        let log = read("host,op,offset,size,tme\nn1,r,0,4096,1\n").unwrap();
        assert_eq!(log.notes, ["columns that are not used: \"host\", \"tme\""]);
    }

    #[test]
    fn options_say_which_columns_and_units_a_log_has() {
        // MSR Cambridge, without a header: file times, and a duration in the same units.
        let msr = columns("time=1,op=4,offset=5,size=6,duration=7", Some(TimeUnit::Filetime), None);
        let log = read_as("128166372003061629,hm,1,Read,383496192,32768,1331", msr).unwrap();
        let start = 1_172_163_600_306_162_900;
        assert_eq!(log.files[""], [request(0, Op::Read, (383_496_192, 32_768), (start, start + 133_100))]);
        // FIU: blanks, sectors, nanoseconds. A header is skipped.
        let fiu = columns("time=1,rank=2,offset=4,size=5,op=6", Some(TimeUnit::Nanoseconds), Some(512));
        let text = "ts pid process lba size rw\n1237392000123456789 4892 syslogd 904265560 8 W\n";
        let expected =
            request(4892, Op::Write, (904_265_560 * 512, 4096), (1_237_392_000_123_456_789, 1_237_392_000_123_456_789));
        assert_eq!(read_as(text, fiu).unwrap().files[""], [expected]);
        // By name; what is not given is found as usual.
        let named = columns("offset=where,size=much", None, None);
        let log = read_as("op,where,much,time\nr,1,2,3\n", named).unwrap();
        assert_eq!(log.files[""], [request(0, Op::Read, (1, 2), (3 * SECOND, 3 * SECOND))]);
    }

    #[test]
    fn what_needs_an_option_says_which() {
        let contains = |problem: &str, expected: &str| assert!(problem.contains(expected), "{problem}");
        contains(
            &problem("128166372003061629,hm,1,Read,383496192,32768,1331"),
            "1: the log has no header that names its columns; by its first line, they could be --columns \
             time=1,op=4,offset=5,size=6 --time-unit filetime",
        );
        contains(
            &problem("op,where,size\n"),
            "the header lacks the column offset; it is \"op\", \"where\", \"size\": say which",
        );
        contains(
            &problem("op,offset,size,time\nr,1,1,1488412345123456"),
            "microseconds since 1970: give --time-unit us",
        );
        contains(
            &problem("op,LBA,size\nr,1,1"),
            "1: the column \"LBA\" counts sectors, by its name: give --sector 512B",
        );
        contains(
            &problem("op,offset,size\n0,1,1"),
            "if 0 means a read and 1 a write, replace them: `awk -F ',' -v OFS=',' '{ $1 = $1 ? \"w\" : \"r\" } 1'`",
        );
        let by = |list: &str| read_as("op,offset,size\n", columns(list, None, None)).unwrap_err();
        contains(&by("offset=5"), "--columns offset=5: the first line has columns 1 to 3");
        contains(&by("offset=place"), "--columns offset=place: the header is \"op\", \"offset\", \"size\"");
        contains(
            &Columns::parse("ofset=1").unwrap_err(),
            "\"ofset\" is none of rank, op, offset, size, time, end, duration, file",
        );
        contains(&Columns::parse("op=1,op=2").unwrap_err(), "op is there twice");
    }

    #[test]
    fn what_can_be_read_but_is_improbable_is_noted() {
        let long = read("op,offset,size,time\nr,0,1,0\nr,0,1,60000000\n").unwrap();
        assert_eq!(
            long.notes,
            ["the log takes 694 days if its times are in seconds; if not, give --time-unit ms, us or ns"]
        );
        let sectors: String = (0..20).map(|number| format!("r,{},8\n", number * 16)).collect();
        let sectors = read(&format!("op,offset,size\n{sectors}")).unwrap();
        assert_eq!(sectors.notes.len(), 1);
        assert!(sectors.notes[0].ends_with("give --sector 512B"), "{:?}", sectors.notes);
    }

    #[test]
    fn long_names_and_other_characters_do_not_refuse_a_log() {
        let long = format!("op,offset,size,file\nr,0,1,{}\nr,0,1,a\n", "n".repeat(5000));
        let log = read(&long).unwrap();
        assert_eq!(log.files.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(log.notes, ["requests left out because the name of their file has more than 4096 bytes: 1"]);
        let mut reader = LogReader::default();
        for line in [&b"op,offset,size,file"[..], b"r,0,1,caf\xe9"] {
            reader.line(line).unwrap();
        }
        assert_eq!(reader.finish().unwrap().files.keys().collect::<Vec<_>>(), ["caf\u{fffd}"]);
    }

    #[test]
    fn problems_name_their_line() {
        assert!(problem("op,size").starts_with("1: the header lacks the column offset"));
        assert_eq!(problem("op,op"), "1: the header names op twice");
        assert_eq!(problem("op,offset,size\nr,1"), "2: 2 fields, but the first line has 3");
        assert_eq!(problem("op,file,offset,size\nr,a,b,1,1"), "2: offset \"b\" is not a whole number from 0",);
        assert!(problem("op,offset,size\nr,1,1,5").starts_with("2: 4 fields, but the first line has 3; a field with"));
        assert_eq!(problem("op,offset,size\nr,1,1\nx,1,1"), "3: op \"x\" is not r or w");
        assert_eq!(problem("op,offset,size\nr,-1,1"), "2: offset \"-1\" is not a whole number from 0");
        assert_eq!(
            problem("op,offset,size,time\nr,1,1,nan"),
            "2: time \"nan\" is not a number of seconds from 0 to 10^10 s"
        );
        assert!(problem("op,offset,size\nr,1,99999999999999").contains("2: a request of 99999999999999 bytes"));
        assert!(problem("op,offset,size,time,end\nr,1,1,2,1").contains("ends before it begins"));
    }
}

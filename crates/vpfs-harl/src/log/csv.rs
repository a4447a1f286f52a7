//! CSV: a header such as `rank,op,offset,size,time,end,file`, then a line for each request.

use std::fmt;

use super::{LOGS, Requests, number, op, seconds, shown};
use crate::trace::{Op, Request};

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

/// Nanoseconds as seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A column of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Rank,
    Op,
    Offset,
    Size,
    Time,
    End,
    File,
}

/// The columns, in the order of the header.
#[derive(Debug)]
pub(super) struct Csv {
    columns: Vec<Column>,
}

impl Csv {
    pub(super) fn new(header: &str) -> Result<Self, String> {
        let known = [Column::Rank, Column::Op, Column::Offset, Column::Size, Column::Time, Column::End, Column::File];
        let mut columns = Vec::new();
        for name in header.trim_start_matches('\u{feff}').split(',').map(str::trim) {
            let column = COLUMNS.iter().position(|column| *column == name).map(|index| known[index]);
            let column = column.ok_or_else(|| not_a_header(name))?;
            if columns.contains(&column) {
                return Err(format!("the header names {name} twice"));
            }
            columns.push(column);
        }
        for (column, name) in [(Column::Op, "op"), (Column::Offset, "offset"), (Column::Size, "size")] {
            if !columns.contains(&column) {
                return Err(format!("the header lacks the column {name}"));
            }
        }
        if columns.iter().rev().skip(1).any(|column| *column == Column::File) {
            return Err("file must be the last column, because names may contain commas".into());
        }
        Ok(Self { columns })
    }

    pub(super) fn line(&self, text: &str, requests: &mut Requests) -> Result<(), String> {
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let mut request = Request { rank: 0, op: Op::Read, offset: 0, size: 0, start: 0, end: 0 };
        let (mut file, mut end) = (String::new(), None);
        let mut fields = text.splitn(self.columns.len(), ',').map(str::trim);
        for column in &self.columns {
            let field = fields.next().ok_or_else(|| self.too_few(text))?;
            match column {
                Column::Rank => request.rank = rank(field)?,
                Column::Op => request.op = op(field).ok_or_else(|| format!("op {} is not r or w", shown(field)))?,
                Column::Offset => request.offset = number("offset", field)?,
                Column::Size => request.size = number("size", field)?,
                Column::Time => request.start = seconds("time", field)?,
                Column::End => end = Some(seconds("end", field)?),
                Column::File => file = unquoted(field),
            }
        }
        request.end = end.unwrap_or(request.start);
        requests.add(&file, request)
    }

    fn too_few(&self, text: &str) -> String {
        let found = text.split(',').count();
        format!("{found} fields, but the header has {}", self.columns.len())
    }
}

fn not_a_header(name: &str) -> String {
    format!("not a log: {} is no column; {LOGS}", shown(name))
}

fn rank(field: &str) -> Result<u32, String> {
    let rank = number("rank", field)?;
    u32::try_from(rank).map_err(|_| format!("rank {rank} is above {}", u32::MAX))
}

/// The reader takes a name as it is, unless it is quoted; blanks around it would be lost.
fn quoted(name: &str) -> String {
    let name = name.replace('\n', " ");
    if name.starts_with('"') || name.trim() != name { format!("\"{}\"", name.replace('"', "\"\"")) } else { name }
}

fn unquoted(field: &str) -> String {
    match field.strip_prefix('"').and_then(|field| field.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{problem, read};
    use super::super::{Log, LogReader};
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn files_have_their_own_requests() {
        let text = "rank,op,offset,size,time,end,file\n# a comment\n3,w,4096,512,1.5,1.75,a\n\n0,read,0,1,0,1e-05,\"b,\"\"c\"\n";
        let log = read(text).unwrap();
        let first =
            Request { rank: 3, op: Op::Write, offset: 4096, size: 512, start: 1_500_000_000, end: 1_750_000_000 };
        assert_eq!(log.files["a"], [first]);
        assert_eq!(log.files["b,\"c"], [Request { rank: 0, op: Op::Read, offset: 0, size: 1, start: 0, end: 10_000 }]);
    }

    #[test]
    fn requests_of_no_bytes_are_counted() {
        let log = read("op,offset,size\nr,5,0\nw,5,1").unwrap();
        assert_eq!((log.left_out, log.files[""].len()), (1, 1));
    }

    #[test]
    fn problems_name_their_line() {
        assert_eq!(problem("op,size"), "1: the header lacks the column offset");
        assert_eq!(problem("op,op"), "1: the header names op twice");
        assert!(problem("op,offset,size,file,rank").contains("file must be the last column"));
        assert_eq!(problem("op,offset,size\nr,1"), "2: 2 fields, but the header has 3");
        assert_eq!(problem("op,offset,size\nr,1,1\nx,1,1"), "3: op \"x\" is not r or w");
        assert_eq!(problem("op,offset,size\nr,-1,1"), "2: offset \"-1\" is not a whole number from 0");
        assert_eq!(problem("op,offset,size,time\nr,1,1,nan"), "2: time NaN is not a number of seconds from 0 to 10^10");
        assert!(problem("op,offset,size\nr,1,99999999999999").contains("2: a request of 99999999999999 bytes"));
        assert!(problem("op,offset,size,time,end\nr,1,1,2,1").contains("ends before it begins"));
    }
}

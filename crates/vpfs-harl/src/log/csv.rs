//! Writes CSV: the header `rank,op,offset,size,time,end,file`, then a line for each request.

use std::fmt;

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

/// The reader takes a name as it is, unless it is quoted; blanks around it would be lost.
fn quoted(name: &str) -> String {
    let name = name.replace('\n', " ");
    if name.starts_with('"') || name.trim() != name { format!("\"{}\"", name.replace('"', "\"\"")) } else { name }
}

#[cfg(test)]
mod tests {
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
}

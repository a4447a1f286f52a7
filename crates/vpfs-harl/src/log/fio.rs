//! Logs that fio writes with `write_iolog` and replays with `read_iolog`, versions 2 and 3.
//!
//! They have no ranks and no ends of requests. Jobs that share a log each begin with a header, which counts as the next
//! rank.

use super::{Requests, number, op, shown};
use crate::trace::Request;

#[derive(Debug)]
pub(super) struct Fio {
    has_times: bool,
    rank: u32,
    /// Time of the next request in version 2, which only has waits.
    now: u64,
}

impl Fio {
    pub(super) fn new(header: &str) -> Result<Self, String> {
        Ok(Self { has_times: has_times(header)?, rank: 0, now: 0 })
    }

    /// Names of files are not quoted, so a line is read from its end.
    pub(super) fn line(&mut self, text: &str, requests: &mut Requests) -> Result<(), String> {
        if text.is_empty() {
            return Ok(());
        }
        if text.starts_with("fio version") {
            (self.has_times, self.rank, self.now) = (has_times(text)?, self.rank.saturating_add(1), 0);
            return Ok(());
        }
        let (time, text) = self.time(text)?;
        let mut fields = text.rsplitn(4, ' ');
        let last = fields.next().unwrap_or_default();
        if matches!(last, "add" | "open" | "close") {
            return Ok(());
        }
        let (Some(offset), Some(action), Some(file)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(format!("{} is no action on a file; is the log cut off?", shown(text)));
        };
        let (offset, size) = (number("offset", offset)?, number("length", last)?);
        match (op(action), action) {
            (Some(op), _) => requests.add(file, Request { rank: self.rank, op, offset, size, start: time, end: time }),
            // The wait is where requests have their offset.
            (None, "wait") => {
                self.now = self.now.saturating_add(offset.saturating_mul(1000));
                Ok(())
            }
            (None, "trim" | "sync" | "datasync") => Ok(()),
            (None, other) => Err(format!("{} is no action that fio logs", shown(other))),
        }
    }

    /// The time in nanoseconds, and the rest of the line.
    fn time<'a>(&self, text: &'a str) -> Result<(u64, &'a str), String> {
        if !self.has_times {
            return Ok((self.now, text));
        }
        let (time, rest) = text.split_once(' ').ok_or_else(|| format!("{} has no action", shown(text)))?;
        Ok((number("time", time)?.saturating_mul(1000), rest.trim_start()))
    }
}

fn has_times(header: &str) -> Result<bool, String> {
    match header {
        "fio version 2 iolog" => Ok(false),
        "fio version 3 iolog" => Ok(true),
        other => Err(format!("{} is not supported; write the log with fio 2 or later", shown(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{problem, read};
    use super::*;
    use crate::trace::Op;

    fn request(rank: u32, op: Op, offset: u64, start: u64) -> Request {
        Request { rank, op, offset, size: 65_536, start, end: start }
    }

    #[test]
    fn version_3_has_times_in_microseconds() {
        let text = "fio version 3 iolog\n20 /scratch/data add\n197 /scratch/data open\n200 /scratch/data write 0 65536\n\
                    257 /scratch/data read 851968 65536\n260 /scratch/data sync 0 0\n2050 /scratch/data close\n";
        let expected = [request(0, Op::Write, 0, 200_000), request(0, Op::Read, 851_968, 257_000)];
        assert_eq!(read(text).unwrap().files["/scratch/data"], expected);
    }

    #[test]
    fn version_2_has_waits_and_another_header_is_another_rank() {
        let text = "fio version 2 iolog\na b write 0 65536\na b wait 5 0\na b write 0 65536\nfio version 2 iolog\na b read 0 65536";
        let expected = [request(0, Op::Write, 0, 0), request(0, Op::Write, 0, 5000), request(1, Op::Read, 0, 0)];
        assert_eq!(read(text).unwrap().files["a b"], expected);
    }

    #[test]
    fn problems_name_their_line() {
        assert!(problem("fio version 1 iolog").starts_with("1: \"fio version 1 iolog\" is not supported"));
        assert!(problem("fio version 3 iolog\n5 a wri").starts_with("2: \"a wri\" is no action"));
        assert_eq!(problem("fio version 3 iolog\nx a read 0 1"), "2: time \"x\" is not a whole number from 0");
        assert_eq!(problem("fio version 3 iolog\n1 a read 0 -1"), "2: length \"-1\" is not a whole number from 0");
        assert_eq!(problem("fio version 2 iolog\na eat 0 1"), "2: \"eat\" is no action that fio logs");
    }
}

//! Logs that fio writes with `write_iolog` and replays with `read_iolog`, versions 2 and 3.
//!
//! They have no ranks and no ends of requests. Each job begins its log with a header, so logs can be joined, and each
//! header counts as the next rank. Jobs that are processes and share a log write into each other's lines.

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

    pub(super) fn line(&mut self, text: &str, requests: &mut Requests) -> Result<(), String> {
        self.action(text, requests).map_err(|problem| {
            format!(
                "{problem}; if several jobs wrote this log, give each its own (write_iolog) and join them with `cat`"
            )
        })
    }

    /// Names of files are not quoted, so a line is read from its end.
    fn action(&mut self, text: &str, requests: &mut Requests) -> Result<(), String> {
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
            (None, "trim" | "sync" | "datasync" | "sync_file_range" | "syncfs") => Ok(()),
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
        let begins = |text: &str, expected: &str| assert!(problem(text).starts_with(expected), "{}", problem(text));
        begins("fio version 3 iolog\n5 a wri", "2: \"a wri\" is no action");
        begins("fio version 3 iolog\nx a read 0 1", "2: time \"x\" is not a whole number from 0");
        begins("fio version 3 iolog\n1 a read 0 -1", "2: length \"-1\" is not a whole number from 0");
        begins("fio version 2 iolog\na eat 0 1", "2: \"eat\" is no action that fio logs");
        assert!(
            problem("fio version 3 iolog\n5 a").contains("2: \"a\" is no action on a file; is the log cut off?; if")
        );
    }

    /// fio 3.33: `--rw=randwrite --bs=8k --size=1m --filename='we ird:second' --fsync=4 --number_ios=12`.
    const TWO_FILES: &str = "fio version 3 iolog
24 we ird add
31 second add
135 we ird open
140 we ird write 24576 8192
174 second open
175 second write 385024 8192
182 we ird write 434176 8192
188 second write 245760 8192
192 we ird sync 245760 0
2924 second write 204800 8192
2949 we ird write 442368 8192
2956 second write 196608 8192
2963 we ird write 180224 8192
2967 second sync 180224 0
3983 we ird write 475136 8192
3994 second write 32768 8192
4000 we ird write 450560 8192
4003 second write 335872 8192
4016 we ird close
4033 second close
";

    /// fio 3.33: `--rw=write --bs=1k-9k --bs_unaligned=1 --size=64k --iodepth=4 --sync_file_range=write:2`.
    const RANGES: &str = "fio version 3 iolog
23 d.0.0 add
252 d.0.0 open
255 d.0.0 write 0 9216
288 d.0.0 write 9216 9216
295 d.0.0 sync_file_range 0 0
300 d.0.0 write 18432 9216
888 d.0.0 close
";

    /// fio 3.33: the end of a buffer of one of four processes, and what another one wrote then.
    const TORN: &str = "fio version 3 iolog
22 ./a.2.0 add
131 ./a.2.0 open
13452 ./a.2.0 read 386fio version 3 iolog
";

    #[test]
    fn logs_of_fio_itself_are_read() {
        let log = read(&[TWO_FILES, RANGES].concat()).unwrap();
        let offsets = |file: &str| log.files[file].iter().map(|request| request.offset / 8192).collect::<Vec<_>>();
        assert_eq!(offsets("we ird"), [3, 53, 54, 22, 58, 55]);
        assert_eq!(offsets("second"), [47, 30, 25, 24, 4, 41]);
        assert_eq!(log.files["second"][5], Request { size: 8192, ..request(0, Op::Write, 335_872, 4_003_000) });
        assert_eq!(log.files["d.0.0"][2], Request { size: 9216, ..request(1, Op::Write, 18_432, 300_000) });
        assert_eq!((log.files.len(), log.files["d.0.0"].len(), log.left_out), (3, 3, 0));
        assert!(problem(TORN).starts_with("4: length \"iolog\""), "{}", problem(TORN));
        assert!(problem(TORN).ends_with("give each its own (write_iolog) and join them with `cat`"));
    }
}

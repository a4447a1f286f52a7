//! Logs of ours and of others, and what is said about those that need an option.

use super::super::tests::{problem, read};
use super::super::{Log, LogReader};
use super::*;
use crate::trace::Op;

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
    let text =
        "rank,op,offset,size,time,end,file\n# a comment\n3,w,4096,512,1.5,1.75,a\n\n0,read,0,1,0,1e-05,\"b,\"\"c\"\n";
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
    contains(&problem("op,offset,size,time\nr,1,1,1488412345123456"), "microseconds since 1970: give --time-unit us");
    contains(&problem("op,LBA,size\nr,1,1"), "1: the column \"LBA\" counts sectors, by its name: give --sector 512B");
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

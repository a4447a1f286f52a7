//! Files that are no logs of requests, or not as they are: what they are, and what to do.

use super::LOGS;
use super::packed::START;

type Kind = (usize, &'static [u8], &'static str, &'static str);

const UNPACK: &str = "unpack it and give the logs in it";
const DATA: &str = "which has data, not a log of requests";
const DEVICE: &str = "whose requests are to a device, not to files";

/// Where their marks are, the marks, what they are, and what follows from that.
const KINDS: [Kind; 27] = [
    (257, b"ustar", "a tar archive", "unpack it with `tar xf` and give the logs in it"),
    (0, b"PK\x03\x04", "a zip archive", "unpack it with `unzip` and give the logs in it"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (0, b"Rar!", "a rar archive", UNPACK),
    (0, b"\x04\x22\x4d\x18", "compressed with lz4", "unpack it with `lz4 -d`"),
    (0, b"\x1f\x9d", "compressed with compress", "unpack it with `gzip -d`"),
    (0, b"LZIP", "compressed with lzip", "unpack it with `lzip -d`"),
    (0, b"\xff\xfe", "text in UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8`"),
    (0, b"\xfe\xff", "text in UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8`"),
    (0, b"\x89HDF", "an HDF5 file", DATA),
    (0, b"CDF\x01", "a netCDF file", DATA),
    (0, b"CDF\x02", "a netCDF file", DATA),
    (0, b"CDF\x05", "a netCDF file", DATA),
    (0, b"SQLite format 3", "a database of SQLite", "export its table of requests as CSV"),
    (0, b"PAR1", "a Parquet file", "export its table of requests as CSV"),
    (0, b"ARROW1", "an Arrow file", "export its table of requests as CSV"),
    (0, b"\x07\x74\x61\x65", "a trace of blktrace", DEVICE),
    (0, b"\x65\x61\x74\x07", "a trace of blktrace", DEVICE),
    (0, b"PERFILE2", "a record of perf", "which has no requests to files"),
    (0, b"\x7fELF", "a program", "give a log"),
    (0, b"%PDF", "a PDF, such as a summary of Darshan's", "give the log that it was made of"),
    (0, b"<!DOCTYPE", "a page of HTML, such as a summary of Darshan's", "give the log that it was made of"),
    (0, b"<html", "a page of HTML, such as a summary of Darshan's", "give the log that it was made of"),
    (0, b"{", "JSON", "write its requests as CSV: rank,op,offset,size,time,end,file"),
    (0, b"[", "JSON", "write its requests as CSV: rank,op,offset,size,time,end,file"),
    (0, b"\xd4\xc3\xb2\xa1", "a capture of packets", "give a log of requests"),
    (0, b"\x0a\x0d\x0d\x0a", "a capture of packets", "give a log of requests"),
];

/// If a file that begins with these bytes is no log in lines, what it is and what to do.
pub(super) fn foreign(start: &[u8]) -> Option<String> {
    let is = |(place, mark, ..): &&Kind| start.get(*place..).is_some_and(|rest| rest.starts_with(mark));
    if let Some((_, _, what, then)) = KINDS.iter().find(is) {
        return Some(format!("this is {what}: {then}"));
    }
    let first = start.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty())?;
    match std::str::from_utf8(first).map(|line| other_text(line.trim())) {
        Ok(what) => what,
        // A character may be cut off at the end.
        Err(error) if error.error_len().is_none() && start.len() == START => None,
        Err(_) => Some(format!("this is no text, and no log that is known; {LOGS}")),
    }
}

/// Logs in lines that have no requests to files.
fn other_text(line: &str) -> Option<String> {
    if line.contains('\0') {
        return Some(format!("this is no text, and no log that is known; {LOGS}"));
    }
    let calls = ["read(", "write(", "pread64(", "pwrite64(", "openat(", "lseek(", "execve("];
    if calls.iter().any(|call| line.contains(call)) {
        return Some(
            "this is what strace prints, where reads and writes have no offsets of their own: write the requests as \
             CSV: rank,op,offset,size,time,end,file"
                .into(),
        );
    }
    let (device, rest) = line.split_once(char::is_whitespace)?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_device = device.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor));
    if is_device && rest.split_whitespace().count() >= 5 {
        return Some(format!("this is what blkparse prints, {DEVICE}"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_called_by_their_names() {
        let tar = [&[b'x'; 257][..], b"ustar\x0000"].concat();
        for (start, expected) in [
            (&tar[..], "this is a tar archive: unpack it with `tar xf` and give the logs in it"),
            (b"PK\x03\x04....", "this is a zip archive: unpack it with `unzip` and give the logs in it"),
            (b"\x89HDF\r\n", "this is an HDF5 file: which has data, not a log of requests"),
            (b"[{\"name\": \"read\"}]", "this is JSON: write its requests as CSV: rank,op,offset,size,time,end,file"),
            (b"1234 pread64(3, \"\"..., 4096, 0) = 4096", "this is what strace prints"),
            (b"  8,0    3   1   0.000000000   697  Q  W 223490 + 8 [kjournald]\n", "this is what blkparse prints"),
            (b"\0\x01\x02\xff", "this is no text, and no log that is known; give a CSV file"),
        ] {
            let found = foreign(start).unwrap();
            assert!(found.starts_with(expected), "{found}");
        }
        for log in [&b"rank,op,offset,size\n"[..], b"# DXT", b"fio version 3 iolog", b"\n\n0,r,1,2", b""] {
            assert_eq!(foreign(log), None);
        }
    }
}

//! Checks of logs: Darshan's, logs of lines, and compressed ones, on any bytes. Each panics if an invariant is
//! violated, never because of an invalid log.

use std::io::Read;

use vpfs_harl::{Columns, CsvLine, DarshanReader, Log, LogReader, TimeUnit, Trace, Unpacked};

/// A log of Darshan is read equally in pieces of any size, and what is read can be used; or its error has a place in
/// it.
pub fn darshan(data: &[u8]) {
    let whole = read_darshan(data, usize::MAX);
    let pieces = read_darshan(data, 7);
    match (whole, pieces) {
        (Ok(log), Ok(again)) => {
            // Where names are damaged, how many of them are known depends on the pieces.
            if log.notes.is_empty() {
                assert_eq!(log, again);
            }
            for requests in log.files.into_values() {
                assert!(!Trace::new(requests).expect("checked by the reader").requests().is_empty());
            }
        }
        (Err(offset), Err(_)) => assert!(offset <= data.len() as u64, "an error at byte {offset} of {}", data.len()),
        (whole, pieces) => panic!("{whole:?} as a whole, {pieces:?} in pieces"),
    }
}

/// Reads a log in pieces of at most `piece` bytes; the error is where.
fn read_darshan(data: &[u8], piece: usize) -> Result<Log, u64> {
    let header = &data[..data.len().min(DarshanReader::HEADER)];
    let mut reader = DarshanReader::new(header, data.len() as u64).map_err(|error| error.offset)?;
    while let Some(wanted) = reader.wanted() {
        let start = usize::try_from(wanted.start).expect("within the data");
        let end = data.len().min(start.saturating_add(piece));
        reader.push(&data[start..end]).map_err(|error| error.offset)?;
    }
    reader.finish().map_err(|error| error.offset)
}

/// What is read of a log of lines can be used, and written and read again; or its error has a line of it. So with
/// columns as the log names them, and with columns and units that were given.
pub fn log(data: &[u8]) {
    let numbers = Columns::parse("op=1,offset=2,size=3,time=4,duration=5").expect("our own names");
    let given = Columns { names: numbers, time_unit: Some(TimeUnit::Filetime), sector: Some(512) };
    for columns in [Columns::default(), given] {
        check_lines(data, &columns);
    }
}

fn check_lines(data: &[u8], columns: &Columns) {
    match read_lines(data, columns) {
        Ok(log) => {
            let again = read_lines(written(&log).as_bytes(), &Columns::default()).expect("our own log");
            assert_eq!(again.files.keys().collect::<Vec<_>>(), log.files.keys().collect::<Vec<_>>());
            for (requests, again) in log.files.into_values().zip(again.files.into_values()) {
                // Times in floating point are not those of other tracers to the last nanosecond.
                let place = |request: &vpfs_harl::Request| (request.rank, request.op, request.offset, request.size);
                assert!(requests.iter().map(place).eq(again.iter().map(place)));
                assert!(!Trace::new(requests).expect("checked by the reader").requests().is_empty());
            }
        }
        Err(line) => assert!((1..=data.split(|byte| *byte == b'\n').count() as u64).contains(&line), "line {line}"),
    }
}

/// Reads a log; the error is the line.
fn read_lines(data: &[u8], columns: &Columns) -> Result<Log, u64> {
    let mut reader = LogReader::new(columns.clone());
    for line in data.split(|byte| *byte == b'\n') {
        reader.line(line).map_err(|error| error.line)?;
    }
    reader.finish().map_err(|error| error.line)
}

fn written(log: &Log) -> String {
    let requests = log.files.iter().flat_map(|(file, all)| all.iter().map(|request| CsvLine::Request(request, file)));
    std::iter::once(CsvLine::Header).chain(requests).map(|line| format!("{line}\n")).collect()
}

/// Bytes after decompression that are looked at.
const MOST: u64 = 1 << 20;

/// Data is unpacked equally however it comes, and what is not packed stays as it is.
pub fn packed(data: &[u8]) {
    let whole = unpacked(data);
    let pieces = unpacked(Pieces(data));
    assert_eq!(whole, pieces, "as a whole and in pieces");
    if let Some((bytes, 0)) = whole {
        assert!(data.starts_with(&bytes) && (bytes.len() == data.len() || bytes.len() as u64 == MOST));
    }
}

/// The first bytes, and how many compressions were around them; none if they cannot be unpacked.
fn unpacked<'a>(data: impl Read + 'a) -> Option<(Vec<u8>, usize)> {
    let log = Unpacked::new(data).ok()?;
    let (packings, mut bytes) = (log.packings.len(), Vec::new());
    log.bytes().take(MOST).read_to_end(&mut bytes).ok()?;
    Some((bytes, packings))
}

/// A reader that gives a few bytes at a time.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(7);
        self.0.read(&mut buffer[..length])
    }
}

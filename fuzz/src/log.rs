//! The check of logs of lines, on any bytes: it panics if an invariant is violated, never because of an invalid log.

use vpfs_harl::{Columns, CsvLine, Log, LogReader, TimeUnit, Trace};

/// What is read of a log can be used, and written and read again; or its error has a line of it. So with columns as the
/// log names them, and with columns and units that were given.
pub fn log(data: &[u8]) {
    let numbers = Columns::parse("op=1,offset=2,size=3,time=4,duration=5").expect("our own names");
    let given = Columns { names: numbers, time_unit: Some(TimeUnit::Filetime), sector: Some(512) };
    for columns in [Columns::default(), given] {
        check(data, &columns);
    }
}

fn check(data: &[u8], columns: &Columns) {
    match read(data, columns) {
        Ok(log) => {
            let again = read(written(&log).as_bytes(), &Columns::default()).expect("our own log");
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
fn read(data: &[u8], columns: &Columns) -> Result<Log, u64> {
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

//! The check of Darshan's logs, on any bytes: it panics if an invariant is violated, never because of an invalid log.

use vpfs_harl::{DarshanReader, Log, Trace};

/// A log is read equally in pieces of any size, and what is read can be used; or its error has a place in it.
pub fn darshan(data: &[u8]) {
    let whole = read(data, usize::MAX);
    let pieces = read(data, 7);
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
fn read(data: &[u8], piece: usize) -> Result<Log, u64> {
    let header = &data[..data.len().min(DarshanReader::HEADER)];
    let mut reader = DarshanReader::new(header, data.len() as u64).map_err(|error| error.offset)?;
    while let Some(wanted) = reader.wanted() {
        let start = usize::try_from(wanted.start).expect("within the data");
        let end = data.len().min(start.saturating_add(piece));
        reader.push(&data[start..end]).map_err(|error| error.offset)?;
    }
    reader.finish().map_err(|error| error.offset)
}

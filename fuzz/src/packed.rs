//! The check of logs that are compressed, on any bytes: it panics if an invariant is violated, never because of invalid
//! data.

use std::io::Read;

use vpfs_harl::Unpacked;

/// Bytes after decompression that are looked at.
const MOST: u64 = 1 << 20;

/// Data is unpacked equally however it comes, and what is not packed stays as it is.
pub fn packed(data: &[u8]) {
    let whole = read(data);
    let pieces = read(Pieces(data));
    assert_eq!(whole, pieces, "as a whole and in pieces");
    if let Some((bytes, 0)) = whole {
        assert!(data.starts_with(&bytes) && (bytes.len() == data.len() || bytes.len() as u64 == MOST));
    }
}

/// The first bytes, and how many compressions were around them; none if they cannot be unpacked.
fn read<'a>(data: impl Read + 'a) -> Option<(Vec<u8>, usize)> {
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

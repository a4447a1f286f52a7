//! Results of a COMPOUND.

use super::arguments::{attributes, name};
use super::{Cursor, DecodeError, MAX_HANDLE, MAX_OPAQUE, op};

/// The number of bytes that the first READ returned. An error if it failed, or if the results before it are not known.
pub fn compound_moved(results: &[u8]) -> Result<u32, DecodeError> {
    let mut cursor = find(op::READ, results)?;
    cursor.bool()?;
    cursor.u32()
}

/// Whether what the first WRITE wrote is on stable storage. An error if it failed, or if the results before it are not
/// known.
pub fn compound_stored(results: &[u8]) -> Result<bool, DecodeError> {
    let mut cursor = find(op::WRITE, results)?;
    cursor.u32()?;
    Ok(cursor.u32()? != 0)
}

/// The number of entries that the first READDIR returned, as far as they are here; 0 if there is none. O(n).
pub fn compound_listed(results: &[u8]) -> u32 {
    let mut entries = 0;
    if let Ok(mut cursor) = find(op::READDIR, results)
        && cursor.take(8).is_ok()
    {
        while entry(&mut cursor) == Ok(true) {
            entries += 1;
        }
    }
    entries
}

/// Whether there is another entry, which is skipped.
fn entry(cursor: &mut Cursor<'_>) -> Result<bool, DecodeError> {
    if !cursor.bool()? {
        return Ok(false);
    }
    cursor.u64()?;
    name(cursor)?;
    attributes(cursor)?;
    Ok(true)
}

/// The results of the first successful operation of this kind.
fn find(wanted: u32, results: &[u8]) -> Result<Cursor<'_>, DecodeError> {
    let mut cursor = Cursor::new(results);
    cursor.u32()?;
    cursor.opaque(MAX_OPAQUE)?;
    for _ in 0..cursor.u32()? {
        let op = cursor.u32()?;
        if cursor.u32()? != 0 {
            break;
        }
        if op == wanted {
            return Ok(cursor);
        }
        skip(op, &mut cursor)?;
    }
    Err(cursor.malformed("no such result"))
}

/// Skips the results of an operation that comes before a READ, WRITE or READDIR.
fn skip(op: u32, cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    match op {
        op::PUTFH
        | op::PUTROOTFH
        | op::PUTPUBFH
        | op::SAVEFH
        | op::RESTOREFH
        | op::LOOKUP
        | op::LOOKUPP
        | op::VERIFY
        | op::NVERIFY => Ok(()),
        op::SEQUENCE => cursor.take(36).map(drop),
        op::ACCESS | op::COMMIT => cursor.take(8).map(drop),
        op::WRITE => cursor.take(16).map(drop),
        op::GETATTR => attributes(cursor),
        op::GETFH => cursor.opaque(MAX_HANDLE).map(drop),
        _ => Err(cursor.malformed("results that are not known")),
    }
}

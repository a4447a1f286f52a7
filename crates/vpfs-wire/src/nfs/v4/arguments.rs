//! Arguments that are skipped.

use super::{Cursor, DecodeError, MAX_OPAQUE, STATEID, op};

/// Skips the arguments of an operation that moves no data. An error for one that is not known.
pub(super) fn skip(op: u32, cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    match op {
        op::GETFH | op::LOOKUPP | op::PUTPUBFH | op::PUTROOTFH | op::READLINK | op::RESTOREFH | op::SAVEFH => Ok(()),
        op::ACCESS | op::OPENATTR | op::SECINFO_NO_NAME | op::RECLAIM_COMPLETE => fixed(cursor, 4),
        op::RENEW | op::DELEGPURGE | op::DESTROY_CLIENTID => fixed(cursor, 8),
        op::COMMIT => fixed(cursor, 12),
        op::DELEGRETURN | op::FREE_STATEID | op::DESTROY_SESSION | op::SETCLIENTID_CONFIRM => fixed(cursor, STATEID),
        op::CLOSE | op::OPEN_CONFIRM => fixed(cursor, 4 + STATEID),
        op::BIND_CONN_TO_SESSION => fixed(cursor, 24),
        op::OPEN_DOWNGRADE => fixed(cursor, STATEID + 12),
        op::SEQUENCE => fixed(cursor, 32),
        op::LOCKU => fixed(cursor, 8 + STATEID + 16),
        op::LAYOUTGET => fixed(cursor, 12 + 24 + STATEID + 4),
        op::LOOKUP | op::LINK | op::REMOVE | op::SECINFO => name(cursor),
        op::RENAME => name(cursor).and_then(|()| name(cursor)),
        op::GETATTR => bitmap(cursor),
        op::VERIFY | op::NVERIFY => attributes(cursor),
        op::SETATTR => fixed(cursor, STATEID).and_then(|()| attributes(cursor)),
        op::RELEASE_LOCKOWNER => owner(cursor),
        op::LOCKT => fixed(cursor, 20).and_then(|()| owner(cursor)),
        op::TEST_STATEID => list(cursor, STATEID),
        op::CREATE => create(cursor),
        op::LOCK => lock(cursor),
        op::OPEN => open(cursor),
        op::SETCLIENTID => set_client_id(cursor),
        _ => Err(cursor.malformed("an operation that is not known")),
    }
}

fn fixed(cursor: &mut Cursor<'_>, count: usize) -> Result<(), DecodeError> {
    cursor.take(count).map(drop)
}

pub(super) fn name(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    cursor.opaque(MAX_OPAQUE).map(drop)
}

/// A list whose elements have this length.
fn list(cursor: &mut Cursor<'_>, len: usize) -> Result<(), DecodeError> {
    let count = cursor.u32()? as usize;
    fixed(cursor, count.saturating_mul(len))
}

pub(super) fn bitmap(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    list(cursor, 4)
}

/// Which attributes, and their values.
pub(super) fn attributes(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    bitmap(cursor)?;
    name(cursor)
}

/// A client id and a name within it.
fn owner(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    fixed(cursor, 8)?;
    name(cursor)
}

fn create(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    const BLOCK: u32 = 3;
    const CHARACTER: u32 = 4;
    const LINK: u32 = 5;
    match cursor.u32()? {
        LINK => name(cursor)?,
        BLOCK | CHARACTER => fixed(cursor, 8)?,
        _ => {}
    }
    name(cursor)?;
    attributes(cursor)
}

fn lock(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    fixed(cursor, 24)?;
    if cursor.bool()? {
        fixed(cursor, 8 + STATEID)?;
        return owner(cursor);
    }
    fixed(cursor, STATEID + 4)
}

fn open(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    fixed(cursor, 12)?;
    owner(cursor)?;
    // Whether to create it.
    if cursor.bool()? {
        match cursor.u32()? {
            // Unless it exists, or whether it exists or not.
            0 | 1 => attributes(cursor)?,
            // Exclusively, with a verifier.
            2 => fixed(cursor, 8)?,
            3 => fixed(cursor, 8).and_then(|()| attributes(cursor))?,
            _ => return Err(cursor.malformed("an unknown way to create a file")),
        }
    }
    match cursor.u32()? {
        // By name.
        0 | 3 => name(cursor),
        // Again, after a restart of the server.
        1 => fixed(cursor, 4),
        // With a delegation, by name or by the current handle.
        2 => fixed(cursor, STATEID).and_then(|()| name(cursor)),
        5 => fixed(cursor, STATEID),
        4 | 6 => Ok(()),
        _ => Err(cursor.malformed("an unknown claim of an OPEN")),
    }
}

fn set_client_id(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    owner(cursor)?;
    fixed(cursor, 4)?;
    name(cursor)?;
    name(cursor)?;
    fixed(cursor, 4)
}

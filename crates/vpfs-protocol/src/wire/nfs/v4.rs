//! NFSv4.0 and v4.1 (RFC 7530, RFC 8881): what a COMPOUND asks for, and what its reply says was done.
//!
//! Operations do not state their length, so a view walks all before those that it looks for. It ends at an operation
//! that it does not know, and what follows is not counted.

use super::{Cursor, unstable};
use crate::wire::DecodeError;

macro_rules! operations {
    ($($name:ident $number:literal $($kind:ident)*;)*) => {
        /// Operation numbers.
        mod op {
            $(pub(super) const $name: u32 = $number;)*
        }

        /// What is known of an operation, as bits. One that is not known may be work.
        fn kinds(op: u32) -> u8 {
            match op {
                $(op::$name => 0 $(| $kind)*,)*
                _ => WORK,
            }
        }
    };
}

/// Does more than keep state alive, or choose a handle for another operation.
const WORK: u8 = 1;
/// Looks up, lists or changes an object. What only shows attributes of it is no more work.
const OBJECT: u8 = 2;
/// Must not overtake data of its file, or be overtaken by it.
const ORDERED: u8 = 4;
/// Operations after this one work on an object whose handle is not in the call.
const MOVES: u8 = 8;

operations! {
    ACCESS 3 WORK;                 CLOSE 4 WORK ORDERED;           COMMIT 5 WORK OBJECT ORDERED;
    CREATE 6 WORK OBJECT MOVES;    DELEGPURGE 7;                   DELEGRETURN 8 ORDERED;
    GETATTR 9 WORK;                GETFH 10 WORK;                  LINK 11 WORK OBJECT;
    LOCK 12 WORK ORDERED;          LOCKT 13 WORK;                  LOCKU 14 WORK ORDERED;
    LOOKUP 15 WORK OBJECT MOVES;   LOOKUPP 16 WORK OBJECT MOVES;   NVERIFY 17 WORK;
    OPEN 18 WORK OBJECT MOVES;     OPENATTR 19 WORK OBJECT MOVES;  OPEN_CONFIRM 20 WORK;
    OPEN_DOWNGRADE 21 WORK ORDERED; PUTFH 22;                      PUTPUBFH 23 MOVES;
    PUTROOTFH 24 MOVES;            READ 25 WORK;                   READDIR 26 WORK OBJECT;
    READLINK 27 WORK;              REMOVE 28 WORK OBJECT;          RENAME 29 WORK OBJECT;
    RENEW 30;                      RESTOREFH 31 WORK MOVES;        SAVEFH 32 WORK;
    SECINFO 33 WORK;               SETATTR 34 WORK OBJECT ORDERED; SETCLIENTID 35;
    SETCLIENTID_CONFIRM 36;        VERIFY 37 WORK;                 WRITE 38 WORK;
    RELEASE_LOCKOWNER 39;          BACKCHANNEL_CTL 40;             BIND_CONN_TO_SESSION 41;
    EXCHANGE_ID 42;                CREATE_SESSION 43;              DESTROY_SESSION 44;
    FREE_STATEID 45;               LAYOUTGET 50 WORK;              LAYOUTRETURN 51 ORDERED;
    SECINFO_NO_NAME 52 WORK;       SEQUENCE 53;                    TEST_STATEID 55;
    DESTROY_CLIENTID 57;           RECLAIM_COMPLETE 58;
}

/// The longest file handle, in bytes.
const MAX_HANDLE: usize = 128;

/// The longest name, owner or list of attributes that is skipped, in bytes; servers allow less.
const MAX_OPAQUE: usize = 64 << 10;

const STATEID: usize = 16;

/// The largest number of operations to walk: a few times what servers execute.
const MAX_OPERATIONS: u32 = 4096;

/// What follows the data of a WRITE in so few bytes is not walked: the GETATTR of usual clients. It can be no READ or
/// WRITE, no SETATTR, CLOSE or lock. It can be a COMMIT, but who wants other data committed waits for that before.
const SHORT: usize = 16;

/// What a COMPOUND asks for, as far as it was walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compound<'a> {
    /// Bytes that its READs ask for.
    pub read: u64,
    /// The number of its READs.
    pub reads: u32,
    /// Bytes of data in its WRITEs, as they state; those of the last one may not be there.
    pub written: u64,
    /// The handle and the first byte of its first READ or WRITE; no handle if an operation before it found the file.
    pub data: Option<(Option<&'a [u8]>, u64)>,
    /// Where the arguments say that its only WRITE may be stored later, until a COMMIT; as [`super::Access::Write`].
    pub unstable_at: Option<usize>,
    /// Bytes of the longest reply that its READDIRs ask for; 0 if it has none.
    pub listing: u32,
    /// The number of objects that it looks up, lists or changes.
    pub objects: u32,
    /// The number of operations.
    pub operations: u32,
    /// The first handle.
    pub file: Option<&'a [u8]>,
    /// Has an operation on that file that belongs before or after data of it: COMMIT, SETATTR, CLOSE, LOCK and so on.
    pub is_ordered: bool,
    /// Bytes that the data of its last WRITE lacks, behind which nothing was walked.
    pub missing: usize,
    /// Has an operation that does more than keep clients, sessions and leases alive.
    pub is_work: bool,
    /// The walk ended before the last operation; others follow, which may be anything.
    pub is_cut: bool,
}

impl<'a> Compound<'a> {
    /// Walks the arguments of procedure 1. An error if not even the number of operations can be read. O(n) in
    /// operations, of which no more than 4096 are looked at.
    pub fn parse(arguments: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(arguments);
        cursor.opaque(MAX_OPAQUE)?;
        cursor.u32()?;
        let (mut compound, mut current) = (Self::default(), None);
        compound.operations = cursor.u32()?;
        compound.is_cut = compound.operations > MAX_OPERATIONS;
        for walked in 1..=compound.operations.min(MAX_OPERATIONS) {
            let written = compound.written;
            if compound.walk(&mut cursor, &mut current).is_err() {
                compound.is_cut = walked < compound.operations;
                break;
            }
            if compound.written > written && cursor.rest().len() <= SHORT {
                compound.is_cut = false;
                break;
            }
        }
        Ok(compound)
    }

    /// Whether all that matters was walked, if `unread` bytes of the COMPOUND follow those that were parsed.
    pub fn is_known(&self, unread: usize) -> bool {
        !self.is_cut || self.missing > 0 && unread.checked_sub(self.missing).is_some_and(|behind| behind <= SHORT)
    }

    /// Walks one operation; `current` is the handle that it works on, if that is in the call.
    fn walk(&mut self, cursor: &mut Cursor<'a>, current: &mut Option<&'a [u8]>) -> Result<(), DecodeError> {
        let op = cursor.u32()?;
        let is = |kind: u8| kinds(op) & kind != 0;
        self.is_work |= is(WORK);
        self.objects += u32::from(is(OBJECT));
        match op {
            op::PUTFH => {
                *current = Some(cursor.opaque(MAX_HANDLE)?);
                self.file = self.file.or(*current);
            }
            op::READ => {
                cursor.take(STATEID)?;
                let offset = cursor.u64()?;
                self.read += u64::from(cursor.u32()?);
                self.reads += 1;
                self.data.get_or_insert((*current, offset));
            }
            op::WRITE => {
                cursor.take(STATEID)?;
                let offset = cursor.u64()?;
                let unstable_at = unstable(cursor)?;
                let len = cursor.u32()?;
                self.unstable_at = unstable_at.filter(|_| self.written == 0);
                self.written += u64::from(len);
                self.data.get_or_insert((*current, offset));
                let len = (len as usize).next_multiple_of(4);
                self.missing = len.saturating_sub(cursor.rest().len());
                cursor.take(len)?;
            }
            op::READDIR => {
                cursor.take(20)?;
                self.listing = self.listing.max(cursor.u32()?);
                bitmap(cursor)?;
            }
            op => {
                self.is_ordered |= is(ORDERED);
                if is(MOVES) {
                    *current = None;
                }
                skip(op, cursor)?;
            }
        }
        Ok(())
    }
}

/// Skips the arguments of an operation that moves no data. An error for one that is not known.
fn skip(op: u32, cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
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

fn name(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    cursor.opaque(MAX_OPAQUE).map(drop)
}

fn list(cursor: &mut Cursor<'_>, len: usize) -> Result<(), DecodeError> {
    let count = cursor.u32()? as usize;
    fixed(cursor, count.saturating_mul(len))
}

fn bitmap(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    list(cursor, 4)
}

fn attributes(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
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
        skip_result(op, &mut cursor)?;
    }
    Err(cursor.malformed("no such result"))
}

/// Skips the results of an operation that comes before a READ, WRITE or READDIR.
fn skip_result(op: u32, cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
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

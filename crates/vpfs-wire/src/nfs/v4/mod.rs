//! NFSv4.0 and v4.1 (RFC 7530, RFC 8881): what a COMPOUND asks for, and what its reply says was done.
//!
//! Operations do not state their length, so a view walks all before those that it looks for. It ends at an operation
//! that it does not know, and what follows is not counted.

mod arguments;
mod results;

pub use results::{compound_listed, compound_moved, compound_stored};

use super::v3::unstable;
use super::xdr::Cursor;
use crate::DecodeError;

/// Operation numbers.
mod op {
    pub(super) const ACCESS: u32 = 3;
    pub(super) const CLOSE: u32 = 4;
    pub(super) const COMMIT: u32 = 5;
    pub(super) const CREATE: u32 = 6;
    pub(super) const DELEGPURGE: u32 = 7;
    pub(super) const DELEGRETURN: u32 = 8;
    pub(super) const GETATTR: u32 = 9;
    pub(super) const GETFH: u32 = 10;
    pub(super) const LINK: u32 = 11;
    pub(super) const LOCK: u32 = 12;
    pub(super) const LOCKT: u32 = 13;
    pub(super) const LOCKU: u32 = 14;
    pub(super) const LOOKUP: u32 = 15;
    pub(super) const LOOKUPP: u32 = 16;
    pub(super) const NVERIFY: u32 = 17;
    pub(super) const OPEN: u32 = 18;
    pub(super) const OPENATTR: u32 = 19;
    pub(super) const OPEN_CONFIRM: u32 = 20;
    pub(super) const OPEN_DOWNGRADE: u32 = 21;
    pub(super) const PUTFH: u32 = 22;
    pub(super) const PUTPUBFH: u32 = 23;
    pub(super) const PUTROOTFH: u32 = 24;
    pub(super) const READ: u32 = 25;
    pub(super) const READDIR: u32 = 26;
    pub(super) const READLINK: u32 = 27;
    pub(super) const REMOVE: u32 = 28;
    pub(super) const RENAME: u32 = 29;
    pub(super) const RENEW: u32 = 30;
    pub(super) const RESTOREFH: u32 = 31;
    pub(super) const SAVEFH: u32 = 32;
    pub(super) const SECINFO: u32 = 33;
    pub(super) const SETATTR: u32 = 34;
    pub(super) const SETCLIENTID: u32 = 35;
    pub(super) const SETCLIENTID_CONFIRM: u32 = 36;
    pub(super) const VERIFY: u32 = 37;
    pub(super) const WRITE: u32 = 38;
    pub(super) const RELEASE_LOCKOWNER: u32 = 39;
    pub(super) const BACKCHANNEL_CTL: u32 = 40;
    pub(super) const BIND_CONN_TO_SESSION: u32 = 41;
    pub(super) const EXCHANGE_ID: u32 = 42;
    pub(super) const CREATE_SESSION: u32 = 43;
    pub(super) const DESTROY_SESSION: u32 = 44;
    pub(super) const FREE_STATEID: u32 = 45;
    pub(super) const LAYOUTGET: u32 = 50;
    pub(super) const LAYOUTRETURN: u32 = 51;
    pub(super) const SECINFO_NO_NAME: u32 = 52;
    pub(super) const SEQUENCE: u32 = 53;
    pub(super) const TEST_STATEID: u32 = 55;
    pub(super) const DESTROY_CLIENTID: u32 = 57;
    pub(super) const RECLAIM_COMPLETE: u32 = 58;
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
        self.is_work |= is_work(op);
        self.objects += u32::from(has_object(op));
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
                arguments::bitmap(cursor)?;
            }
            op => {
                self.is_ordered |= is_ordered(op);
                if moves_elsewhere(op) {
                    *current = None;
                }
                arguments::skip(op, cursor)?;
            }
        }
        Ok(())
    }
}

/// Whether an operation does more than keep state alive, or choose a handle for another one.
fn is_work(op: u32) -> bool {
    !matches!(
        op,
        op::SEQUENCE
            | op::PUTFH
            | op::PUTROOTFH
            | op::PUTPUBFH
            | op::RENEW
            | op::SETCLIENTID
            | op::SETCLIENTID_CONFIRM
            | op::RELEASE_LOCKOWNER
            | op::DELEGPURGE
            | op::DELEGRETURN
            | op::BACKCHANNEL_CTL
            | op::BIND_CONN_TO_SESSION
            | op::EXCHANGE_ID
            | op::CREATE_SESSION
            | op::DESTROY_SESSION
            | op::DESTROY_CLIENTID
            | op::FREE_STATEID
            | op::TEST_STATEID
            | op::RECLAIM_COMPLETE
            | op::LAYOUTRETURN
    )
}

/// Whether an operation looks up, lists or changes an object. What only shows attributes of it is no more work.
fn has_object(op: u32) -> bool {
    matches!(
        op,
        op::COMMIT
            | op::CREATE
            | op::LINK
            | op::LOOKUP
            | op::LOOKUPP
            | op::OPEN
            | op::OPENATTR
            | op::READDIR
            | op::REMOVE
            | op::RENAME
            | op::SETATTR
    )
}

/// Whether an operation must not overtake data of its file, or be overtaken by it.
fn is_ordered(op: u32) -> bool {
    matches!(
        op,
        op::COMMIT
            | op::SETATTR
            | op::CLOSE
            | op::LOCK
            | op::LOCKU
            | op::OPEN_DOWNGRADE
            | op::DELEGRETURN
            | op::LAYOUTRETURN
    )
}

/// Whether operations after this one work on an object whose handle is not in the call.
fn moves_elsewhere(op: u32) -> bool {
    matches!(
        op,
        op::CREATE | op::LOOKUP | op::LOOKUPP | op::OPEN | op::OPENATTR | op::PUTPUBFH | op::PUTROOTFH | op::RESTOREFH
    )
}

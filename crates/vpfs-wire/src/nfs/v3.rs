//! NFSv3 (RFC 1813): what a call asks for, and what its reply says was done.

use super::xdr::Cursor;
use crate::DecodeError;

/// The longest file handle, in bytes.
const MAX_HANDLE: usize = 64;
/// The longest name that servers store, in bytes; more of it need not be looked at.
const MAX_NAME: usize = 4096;

const NULL: u32 = 0;
const READ: u32 = 6;
const WRITE: u32 = 7;
const READDIR: u32 = 16;
const READDIRPLUS: u32 = 17;

/// In a WRITE of NFSv3 or v4: to be answered when the data is on stable storage.
pub const DATA_SYNC: [u8; 4] = 1_u32.to_be_bytes();

/// Reads when a WRITE is to be stored; its place if that is up to the server.
pub(super) fn unstable(cursor: &mut Cursor<'_>) -> Result<Option<usize>, DecodeError> {
    let at = cursor.at();
    Ok((cursor.u32()? == 0).then_some(at))
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Access<'a> {
    /// Nothing: whether the server is there.
    Null,
    /// `count` bytes from `offset` of the file with this handle.
    Read { file: &'a [u8], offset: u64, count: u32 },
    /// To store the `count` bytes of data that follow at `offset`. If the server may do that later, until a COMMIT,
    /// `unstable_at` is where the arguments say so, in a word for which [`DATA_SYNC`] may stand.
    Write { file: &'a [u8], offset: u64, count: u32, unstable_at: Option<usize> },
    /// Entries of a directory, with attributes and handles if `is_plus`, in a reply of at most `bytes` bytes; 0 if the
    /// call does not say it.
    List { file: &'a [u8], bytes: u32, is_plus: bool },
    /// Any other operation, on the object with the first handle in the call.
    Other { file: &'a [u8] },
}

impl<'a> Access<'a> {
    /// Decodes the arguments of a procedure as far as needed; the data of a WRITE need not be there.
    pub fn parse(procedure: u32, arguments: &'a [u8]) -> Result<Self, DecodeError> {
        if procedure == NULL {
            return Ok(Self::Null);
        }
        let mut cursor = Cursor::new(arguments);
        let file = cursor.opaque(MAX_HANDLE)?;
        Ok(match procedure {
            READ => Self::Read { file, offset: cursor.u64()?, count: cursor.u32()? },
            WRITE => {
                let offset = cursor.u64()?;
                cursor.u32()?;
                let unstable_at = unstable(&mut cursor)?;
                Self::Write { file, offset, count: cursor.u32()?, unstable_at }
            }
            READDIR | READDIRPLUS => {
                let is_plus = procedure == READDIRPLUS;
                // A cookie and its verifier, and for READDIRPLUS the limit without attributes.
                cursor.take(if is_plus { 20 } else { 16 })?;
                Self::List { file, bytes: cursor.u32()?, is_plus }
            }
            _ => Self::Other { file },
        })
    }

    /// The handle of the object, or of the directory, that the call names first.
    pub fn file(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Null => None,
            Self::Read { file, .. } | Self::Write { file, .. } | Self::List { file, .. } | Self::Other { file } => {
                Some(file)
            }
        }
    }
}

/// The status at the start of all results; 0 is success.
pub fn status(results: &[u8]) -> Result<u32, DecodeError> {
    Cursor::new(results).u32()
}

/// What a READ or WRITE did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that were read or written.
    pub count: u32,
    /// The file's size afterwards, if the reply has its attributes.
    pub size: Option<u64>,
    /// They are on stable storage: a WRITE that the server need not remember.
    pub is_stored: bool,
}

/// Decodes the results of a READ or WRITE that succeeded.
pub fn moved(is_write: bool, results: &[u8]) -> Result<Moved, DecodeError> {
    let mut cursor = Cursor::new(results);
    cursor.u32()?;
    if is_write && cursor.bool()? {
        // Size and times before the write.
        cursor.take(24)?;
    }
    let size = attributes(&mut cursor)?;
    Ok(Moved { count: cursor.u32()?, size, is_stored: is_write && cursor.u32()? != 0 })
}

/// The size of an object, if its attributes follow.
fn attributes(cursor: &mut Cursor<'_>) -> Result<Option<u64>, DecodeError> {
    if !cursor.bool()? {
        return Ok(None);
    }
    // Type, mode, links, user and group are before it, space, device, file system, file and times behind it.
    cursor.take(20)?;
    let size = cursor.u64()?;
    cursor.take(56)?;
    Ok(Some(size))
}

/// The number of entries in the results of a READDIR or READDIRPLUS that succeeded, as far as they are here. O(n).
pub fn listed(is_plus: bool, results: &[u8]) -> u32 {
    let mut cursor = Cursor::new(results);
    let mut entries = 0;
    let start = |cursor: &mut Cursor<'_>| {
        cursor.u32()?;
        attributes(cursor)?;
        cursor.take(8).map(drop)
    };
    if start(&mut cursor).is_ok() {
        while entry(&mut cursor, is_plus) == Ok(true) {
            entries += 1;
        }
    }
    entries
}

/// Whether there is another entry, which is skipped.
fn entry(cursor: &mut Cursor<'_>, is_plus: bool) -> Result<bool, DecodeError> {
    if !cursor.bool()? {
        return Ok(false);
    }
    cursor.u64()?;
    cursor.opaque(MAX_NAME)?;
    cursor.u64()?;
    if is_plus {
        attributes(cursor)?;
        if cursor.bool()? {
            cursor.opaque(MAX_HANDLE)?;
        }
    }
    Ok(true)
}

//! ONC RPC over TCP (RFC 5531) and NFS, as borrowed views.
//!
//! A view decodes what a proxy needs to schedule a call and to know what its reply moved, without allocation; the
//! original bytes are forwarded, with their record marks, except for one word of a WRITE. Views of the start of a
//! message return *incomplete* where it ends, so that the caller, who knows whether more of it follows, decides what
//! that means.

mod v4;

use std::borrow::Cow;

use crate::wire::DecodeError;
pub use v4::{Compound, compound_listed, compound_moved, compound_stored};

/// A cursor over the bytes of a message. Whatever reaches beyond them is *incomplete*.
#[derive(Clone, Debug)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn malformed(&self, what: &'static str) -> DecodeError {
        DecodeError::Malformed { offset: self.at, what }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.rest();
        let taken = rest.get(..count).ok_or(DecodeError::Incomplete { needed: count - rest.len().min(count) })?;
        self.at += count;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        let word = self.take(4)?;
        Ok(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }

    fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed("a boolean that is neither 0 nor 1")),
        }
    }

    fn opaque(&mut self, most: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()? as usize;
        if len > most {
            return Err(self.malformed("opaque data longer than its limit"));
        }
        Ok(&self.take(len.next_multiple_of(4))?[..len])
    }
}

/// The longest record in bytes, with its marks: 4 MiB of data, which clients ask for at most, and what is around it.
pub const MAX_RECORD: usize = (4 << 20) + (64 << 10);

/// The largest number of fragments in a record: those of the longest one if a fragment is as small as libraries have
/// their buffers. Every fragment is looked at again when more bytes arrive.
const MAX_FRAGMENTS: usize = 2048;

/// Bytes gathered from the fragments of a record: headers, names and handles fit, data need not.
const GATHERED: usize = 8 << 10;

const MARK: usize = 4;

const IS_LAST: u32 = 1 << 31;

/// Where a record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Bytes in it, with all marks.
    pub len: usize,
    fragments: usize,
}

impl Record {
    /// Reads the marks of the record at the start of `bytes`. For a record of one fragment the first mark is enough,
    /// for others all must have arrived; otherwise it is *incomplete*. *Malformed* if it is longer than [`MAX_RECORD`]
    /// or has too many fragments. O(n) in fragments.
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut len = 0;
        for fragments in 1..=MAX_FRAGMENTS {
            let offset = len;
            let (is_last, fragment) = mark(bytes, offset)?;
            len += MARK + fragment;
            if len > MAX_RECORD {
                return Err(DecodeError::Malformed { offset, what: "an RPC record of more than 4 MiB" });
            }
            if is_last {
                return Ok(Self { len, fragments });
            }
        }
        Err(DecodeError::Malformed { offset: len, what: "an RPC record of too many fragments" })
    }

    /// Bytes of the message, without marks.
    pub fn message_len(&self) -> usize {
        self.len - self.fragments * MARK
    }

    /// Whether the message is contiguous.
    pub fn is_contiguous(&self) -> bool {
        self.fragments == 1
    }

    /// Where a word of the message that is `at` bytes behind its start is in `bytes`, which start with this record;
    /// `None` if it is not in the first fragment.
    pub fn place(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let (_, fragment) = mark(bytes, 0).ok()?;
        (at + MARK <= fragment).then_some(MARK + at)
    }

    /// The message as far as it is in `bytes`, which start with this record, without marks. If it has several
    /// fragments, no more than its start, copied.
    pub fn message<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let bytes = &bytes[..bytes.len().min(self.len)];
        if self.is_contiguous() {
            return Cow::Borrowed(bytes.get(MARK..).unwrap_or_default());
        }
        let (mut gathered, mut at) = (Vec::new(), 0);
        while let Ok((is_last, fragment)) = mark(bytes, at) {
            let (start, room) = (at + MARK, GATHERED - gathered.len());
            let end = (start + fragment.min(room)).min(bytes.len());
            gathered.extend_from_slice(&bytes[start..end]);
            at = start + fragment;
            if is_last || gathered.len() == GATHERED {
                break;
            }
        }
        Cow::Owned(gathered)
    }
}

/// Whether the fragment at this offset is the last one, and its length.
fn mark(bytes: &[u8], at: usize) -> Result<(bool, usize), DecodeError> {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<MARK>()) {
        Some(mark) => {
            let mark = u32::from_be_bytes(*mark);
            Ok((mark & IS_LAST != 0, (mark & !IS_LAST) as usize))
        }
        None => Err(DecodeError::Incomplete { needed: at + MARK - bytes.len() }),
    }
}

/// Program numbers.
pub mod program {
    /// NFS.
    pub const NFS: u32 = 100_003;
}

/// The longest body of a credential or verifier, in bytes.
const MAX_AUTH: usize = 400;

/// The longest name of a machine, in bytes.
const MAX_MACHINE: usize = 255;

/// The largest number of group ids besides the primary one.
const MAX_GIDS: u32 = 16;

const AUTH_SYS: u32 = 1;

const RPCSEC_GSS: u32 = 6;

/// A message of RPC.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// A call, of the client, or of the server on the back channel of NFSv4.1.
    Call(Call<'a>),
    /// The reply to a call.
    Reply(Reply<'a>),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The transaction's number, which its reply repeats.
    pub xid: u32,
    /// The program, see [`program`].
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// A procedure of that version; 0 does nothing in every program.
    pub procedure: u32,
    /// On whose behalf it is made.
    pub credential: Credential<'a>,
    /// The arguments, `None` if they are encrypted.
    pub arguments: Option<&'a [u8]>,
}

/// On whose behalf a call is made.
#[derive(Clone, Debug)]
pub enum Credential<'a> {
    /// Numbers as the client's kernel states them.
    Sys(SysCredential<'a>),
    /// A security context.
    Gss(GssCredential<'a>),
    /// Nobody, or nobody known: other flavours, and credentials that servers reject.
    Unknown,
}

/// The credential of AUTH_SYS.
#[derive(Clone, Copy, Debug)]
pub struct SysCredential<'a> {
    /// The name that the client's host has for itself; empty if it is not text.
    pub machine: &'a str,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    others: &'a [u8],
}

impl<'a> SysCredential<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(body);
        cursor.u32()?;
        let machine = std::str::from_utf8(cursor.opaque(MAX_MACHINE)?).unwrap_or_default();
        let (uid, gid) = (cursor.u32()?, cursor.u32()?);
        let count = cursor.u32()?;
        if count > MAX_GIDS {
            return Err(cursor.malformed("more than 16 groups"));
        }
        Ok(Self { machine, uid, gid, others: cursor.take(count as usize * 4)? })
    }

    /// Group ids, the primary one first.
    pub fn gids(&self) -> impl Iterator<Item = u32> + use<'a> {
        let others = self.others.chunks_exact(4).map(|id| u32::from_be_bytes([id[0], id[1], id[2], id[3]]));
        std::iter::once(self.gid).chain(others)
    }
}

/// The credential of RPCSEC_GSS.
#[derive(Clone, Copy, Debug)]
pub struct GssCredential<'a> {
    /// Whether it carries a call; otherwise it creates or destroys a context.
    pub is_data: bool,
    /// The call's number in its context.
    pub number: u32,
    /// How arguments and results are protected.
    pub protection: Protection,
    /// The server's name for the context; empty while it is being created.
    pub context: &'a [u8],
}

impl<'a> GssCredential<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(body);
        let (version, procedure) = (cursor.u32()?, cursor.u32()?);
        if version != 1 {
            return Err(cursor.malformed("an unknown version of RPCSEC_GSS"));
        }
        let number = cursor.u32()?;
        let protection = match cursor.u32()? {
            1 => Protection::None,
            2 => Protection::Integrity,
            _ => Protection::Privacy,
        };
        Ok(Self { is_data: procedure == 0, number, protection, context: cursor.opaque(MAX_AUTH)? })
    }
}

/// How arguments and results are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Plain.
    None,
    /// Plain, with a sequence number in front and a checksum behind them.
    Integrity,
    /// Encrypted.
    Privacy,
}

impl Protection {
    /// The arguments or results inside, `None` if they cannot be read.
    pub fn open(self, body: &[u8]) -> Option<&[u8]> {
        match self {
            Self::None => Some(body),
            // The length of number and content together, then the number.
            Self::Integrity => body.get(8..),
            Self::Privacy => None,
        }
    }
}

impl Credential<'_> {
    /// How arguments and results of its calls are protected.
    pub fn protection(&self) -> Protection {
        match self {
            // Handshakes carry tokens.
            Self::Gss(gss) if !gss.is_data => Protection::Privacy,
            Self::Gss(gss) => gss.protection,
            _ => Protection::None,
        }
    }
}

/// A reply.
#[derive(Clone, Debug)]
pub struct Reply<'a> {
    /// That of its call.
    pub xid: u32,
    /// What the procedure returned, as protected as the arguments; `None` if it was not executed.
    pub results: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Decodes the header at the start of a message. *Incomplete* if it is not all there.
    pub fn parse(message: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(message);
        let xid = cursor.u32()?;
        match cursor.u32()? {
            0 => call(xid, cursor).map(Self::Call),
            1 => reply(xid, cursor).map(Self::Reply),
            _ => Err(cursor.malformed("neither a call nor a reply")),
        }
    }
}

fn call(xid: u32, mut cursor: Cursor<'_>) -> Result<Call<'_>, DecodeError> {
    if cursor.u32()? != 2 {
        return Err(cursor.malformed("not version 2 of RPC"));
    }
    let (program, version, procedure) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let (flavour, body) = (cursor.u32()?, cursor.opaque(MAX_AUTH)?);
    cursor.u32()?;
    cursor.opaque(MAX_AUTH)?;
    // The server rejects a credential that cannot be decoded.
    let credential = match flavour {
        AUTH_SYS => SysCredential::parse(body).map_or(Credential::Unknown, Credential::Sys),
        RPCSEC_GSS => GssCredential::parse(body).map_or(Credential::Unknown, Credential::Gss),
        _ => Credential::Unknown,
    };
    let arguments = credential.protection().open(cursor.rest());
    Ok(Call { xid, program, version, procedure, credential, arguments })
}

fn reply(xid: u32, mut cursor: Cursor<'_>) -> Result<Reply<'_>, DecodeError> {
    match cursor.u32()? {
        0 => {
            cursor.u32()?;
            cursor.opaque(MAX_AUTH)?;
            let is_executed = cursor.u32()? == 0;
            Ok(Reply { xid, results: is_executed.then(|| cursor.rest()) })
        }
        1 => Ok(Reply { xid, results: None }),
        _ => Err(cursor.malformed("neither accepted nor denied")),
    }
}

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
fn unstable(cursor: &mut Cursor<'_>) -> Result<Option<usize>, DecodeError> {
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

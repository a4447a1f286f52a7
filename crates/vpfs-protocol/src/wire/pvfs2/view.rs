//! Borrowed messages for scheduling: the fields that decide whether and when a request is dispatched, without
//! allocation.
//!
//! A view checks the capability and the hints at once and the body only when asked, so a proxy decodes no more than it
//! needs and forwards the original bytes.

use super::attr::{DistView, mask};
use super::codec::{Reader, Wire};
use super::request::{self, HintView};
use super::transfer::{PreqView, Transfer, TransferError};
use super::types::{FsId, Handle, IoType, ObjType, Op, OpClass, Status};
use crate::wire::DecodeError;

/// A request, decoded up to its body.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    payload: &'a [u8],
    /// The operation.
    pub op: Op,
    /// What the request may do.
    pub capability: CapabilityView<'a>,
    hints_at: usize,
    hint_count: usize,
    /// Whether a server made the request while serving another one (hint type 6); clients never send this hint.
    pub has_server_id_hint: bool,
    /// Where the body starts, in bytes from the start of the payload.
    pub body_at: usize,
}

impl<'a> RequestView<'a> {
    /// Decodes the payload of an unexpected message up to its body. Never returns *incomplete*.
    pub fn parse(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        let op = request::read_head(&mut r)?;
        r.pad4()?;
        let capability = CapabilityView::read(&mut r)?;
        let hint_count = r.count(8)?;
        let hints_at = r.offset();
        let mut has_server_id_hint = false;
        for _ in 0..hint_count {
            has_server_id_hint |= matches!(HintView::read(&mut r)?, HintView::Number { kind: 6, .. });
        }
        let body_at = r.offset();
        Ok(Self { payload, op, capability, hints_at, hint_count, has_server_id_hint, body_at })
    }

    /// The hints in order.
    pub fn hints(&self) -> impl Iterator<Item = HintView<'a>> + use<'a> {
        let mut r = Reader::at(self.payload, self.hints_at);
        (0..self.hint_count).map_while(move |_| HintView::read(&mut r).ok())
    }

    fn body(&self) -> Reader<'a> {
        Reader::at(self.payload, self.body_at)
    }

    /// On whose behalf the request is made; `None` for operations without a credential, such as IO.
    pub fn credential_ids(&self) -> Result<Option<CredentialIds<'a>>, DecodeError> {
        let mut r = self.body();
        let before = match self.op {
            Op::CrDirent => 0,
            Op::TreeRemove | Op::TreeSetAttr => 4,
            Op::Create | Op::MkDir => 8,
            Op::Remove | Op::TreeGetFileSize | Op::TreeGetAttr => 12,
            Op::GetAttr | Op::Unstuff | Op::SetAttr => 16,
            Op::LookupPath => {
                r.str()?;
                20
            }
            _ => return Ok(None),
        };
        r.take(before)?;
        if self.op == Op::SetAttr {
            attr(&mut r)?;
        }
        CredentialIds::read(&mut r).map(Some)
    }

    /// The fields of an IO; `None` for other operations.
    pub fn io(&self) -> Result<Option<IoView<'a>>, DecodeError> {
        if self.op != Op::Io { Ok(None) } else { IoView::read(self.body()).map(Some) }
    }

    /// The fields of a SMALL_IO; `None` for other operations.
    pub fn small_io(&self) -> Result<Option<SmallIoView<'a>>, DecodeError> {
        if self.op != Op::SmallIo { Ok(None) } else { SmallIoView::read(self.body()).map(Some) }
    }

    fn batch_create(&self) -> Result<Option<(ObjType, u32)>, DecodeError> {
        if self.op != Op::BatchCreate {
            return Ok(None);
        }
        let mut r = self.body();
        r.take(4)?;
        Ok(Some((r.read()?, r.u32()?)))
    }

    /// Whether the message itself shows that a server sent it: the server hint, an operation or a batch that clients
    /// never send, a credential that a server issued. A `false` proves nothing.
    pub fn is_from_server(&self) -> Result<bool, DecodeError> {
        if self.has_server_id_hint || self.op.class() == OpClass::ServerToServer {
            return Ok(true);
        }
        if let Some((objtype, count)) = self.batch_create()? {
            // Clients create their symbolic links this way, one at a time.
            return Ok(objtype != ObjType::SYMLINK || count > 1);
        }
        Ok(self.credential_ids()?.is_some_and(|ids| ids.is_from_server()))
    }

    /// Where the layout of a CREATE or MKDIR starts, in bytes from the start of the payload.
    pub(crate) fn layout_offset(&self) -> Result<Option<usize>, DecodeError> {
        let mut r = self.body();
        match self.op {
            Op::Create => {
                skip_attr(&mut r)?;
                r.take(4)?;
            }
            Op::MkDir => {
                skip_attr(&mut r)?;
                r.pad4()?;
                array(&mut r, 16)?;
                r.take(12)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(r.offset()))
    }
}

/// The start of a reply, with the sizes that decide when an operation is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    /// The request's operation; [`Op::WriteCompletion`] for the second reply of a write.
    pub op: Op,
    /// Success or error.
    pub status: Status,
    /// The sizes; only for successful data operations and listings.
    pub numbers: ReplyNumbers,
}

/// The sizes in the reply of a data operation, in bytes, or of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum ReplyNumbers {
    /// An error, or an operation that neither moves data nor lists anything.
    None,
    /// An IO was accepted, on a datafile of so many bytes.
    IoAck { bstream_size: u64 },
    /// A SMALL_IO is done; it moved `result_size` bytes, and the datafile has `bstream_size`.
    SmallIo { io_type: IoType, bstream_size: u64, result_size: u64 },
    /// A listing is done: READDIR or MGMT_ITERATE_HANDLES.
    Listing { entries: u32 },
    /// A write is done; so many bytes were written.
    WriteCompletion { total_completed: u64 },
}

impl ReplyHead {
    /// Decodes the payload of a message that must be a reply, not data. Never returns *incomplete*.
    ///
    /// An error must be 16 bytes, and the replies of data operations must have the length that they state; other bodies
    /// are not examined.
    pub fn parse(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        let op = request::read_head(&mut r)?;
        let status = Status(r.i32()?);
        if !status.is_ok() {
            r.finish()?;
            return Ok(Self { op, status, numbers: ReplyNumbers::None });
        }
        let numbers = match op {
            Op::Io => ReplyNumbers::IoAck { bstream_size: r.size()? },
            Op::WriteCompletion => ReplyNumbers::WriteCompletion { total_completed: r.size()? },
            Op::SmallIo => {
                let io_type = IoType::read(&mut r)?;
                r.pad4()?;
                let (bstream_size, result_size) = (r.size()?, r.size()?);
                if io_type == IoType::Read {
                    let data = r.fits(result_size, 1);
                    r.take(data.ok_or_else(|| r.malformed("more data than the message holds"))?)?;
                }
                ReplyNumbers::SmallIo { io_type, bstream_size, result_size }
            }
            Op::ReadDir | Op::MgmtIterateHandles => {
                r.take(if op == Op::ReadDir { 20 } else { 12 })?;
                return Ok(Self { op, status, numbers: ReplyNumbers::Listing { entries: r.u32()? } });
            }
            _ => return Ok(Self { op, status, numbers: ReplyNumbers::None }),
        };
        r.finish()?;
        Ok(Self { op, status, numbers })
    }
}

/// The fields of an IO, and those that SMALL_IO shares with it.
#[derive(Clone, Copy, Debug)]
pub struct IoView<'a> {
    /// The datafile.
    pub handle: Handle,
    /// The file system.
    pub fs: FsId,
    /// The direction.
    pub io_type: IoType,
    /// The receiver's index among the file's datafiles.
    pub server_nr: u32,
    /// Number of datafiles.
    pub server_ct: u32,
    /// How the file is striped.
    pub dist: DistView<'a>,
    /// Which bytes the access touches.
    pub preq: PreqView<'a>,
    /// Position in the access description's data, in bytes.
    pub file_req_offset: i64,
    /// Bytes of the whole access over all servers.
    pub aggregate_size: i64,
}

impl<'a> IoView<'a> {
    fn read(mut r: Reader<'a>) -> Result<Self, DecodeError> {
        let (handle, fs) = (r.read()?, r.i32()?);
        r.pad4()?;
        let io_type = r.read()?;
        r.take(4)?; // flow type
        let view = Self::read_access(&mut r, handle, fs, io_type)?;
        r.finish()?;
        Ok(view)
    }

    fn read_access(r: &mut Reader<'a>, handle: Handle, fs: FsId, io_type: IoType) -> Result<Self, DecodeError> {
        let (server_nr, server_ct) = (r.u32()?, r.u32()?);
        let (dist, preq) = (DistView::read(r)?, PreqView::read(r)?);
        let (file_req_offset, aggregate_size) = (r.i64()?, r.i64()?);
        Ok(Self { handle, fs, io_type, server_nr, server_ct, dist, preq, file_req_offset, aggregate_size })
    }

    /// The share of the access that this server moves.
    pub fn transfer(&self) -> Result<Transfer, TransferError> {
        let Self { dist, server_nr, server_ct, preq, file_req_offset, aggregate_size, .. } = *self;
        Transfer::build(dist, server_nr, server_ct, preq.nodes(), file_req_offset, aggregate_size)
    }
}

/// The fields of a SMALL_IO.
#[derive(Clone, Copy, Debug)]
pub struct SmallIoView<'a> {
    /// The fields that it shares with an IO.
    pub io: IoView<'a>,
    /// Bytes that a write carries, all for this server; 0 in a read.
    pub total_bytes: u64,
    /// The data of a write.
    pub data: &'a [u8],
}

impl<'a> SmallIoView<'a> {
    fn read(mut r: Reader<'a>) -> Result<Self, DecodeError> {
        let (handle, fs, io_type) = (r.read()?, r.i32()?, r.read()?);
        let io = IoView::read_access(&mut r, handle, fs, io_type)?;
        let total_bytes = r.size()?;
        r.pad4()?;
        let mut data: &[u8] = &[];
        if io_type == IoType::Write {
            let len = r.fits(total_bytes, 1);
            data = r.take(len.ok_or_else(|| r.malformed("more data than the message holds"))?)?;
        }
        r.finish()?;
        Ok(Self { io, total_bytes, data })
    }
}

/// The most entries that a server lists in one reply; it refuses to list more.
const LISTED_MAX: u32 = 512;

impl RequestView<'_> {
    /// The number of objects, entries, names or keys that the request asks a server to work on, as far as it says so;
    /// at least 1. Where it states a maximum, as for a listing, that maximum. Data operations have one object.
    pub fn objects(&self) -> Result<u32, DecodeError> {
        let mut r = self.body();
        let count = match self.op {
            Op::LookupPath => names(r.str()?),
            Op::Create => {
                skip_attr(&mut r)?;
                u32::try_from(r.i32()?).unwrap_or(1)
            }
            Op::MkDir => {
                skip_attr(&mut r)?;
                r.pad4()?;
                array(&mut r, 16)?;
                u32::try_from(r.i32()?).unwrap_or(1)
            }
            Op::ReadDir => after(&mut r, 12)?.u32()?.min(LISTED_MAX),
            Op::BatchCreate => after(&mut r, 8)?.u32()?,
            Op::MgmtIterateHandles => u32::try_from(after(&mut r, 4)?.i32()?).unwrap_or(1),
            Op::ListAttr => counted(after(&mut r, 12)?, 8)?,
            Op::BatchRemove => counted(after(&mut r, 4)?, 8)?,
            Op::GetEattr => counted(after(&mut r, 12)?, 16)?,
            Op::SetEattr => counted(after(&mut r, 20)?, 16)?,
            Op::AtomicEattr => counted(after(&mut r, 20)?, 24)?,
            Op::ListEattr => counted(after(&mut r, 24)?, 8)?,
            Op::TreeRemove | Op::TreeGetFileSize | Op::TreeSetAttr | Op::TreeGetAttr => tree(self.op, &mut r)?,
            Op::Mirror => distributed(&mut r, 12)?,
            Op::MgmtSplitDirent => distributed(&mut r, 16)?,
            _ => 1,
        };
        Ok(count.max(1))
    }
}

fn after<'r, 'a>(r: &'r mut Reader<'a>, len: usize) -> Result<&'r mut Reader<'a>, DecodeError> {
    r.take(len)?;
    Ok(r)
}

/// The number of elements of an array, each of at least `len` bytes.
fn counted(r: &mut Reader<'_>, len: usize) -> Result<u32, DecodeError> {
    Ok(u32::try_from(r.count(len)?).unwrap_or(u32::MAX))
}

/// The names in a path: each is looked up.
fn names(path: &[u8]) -> u32 {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).count();
    u32::try_from(names).unwrap_or(u32::MAX)
}

/// Skips the start of a CREATE or MKDIR with its attributes.
fn skip_attr(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    r.take(8)?;
    CredentialIds::read(r)?;
    attr(r)
}

/// The handles of a request that servers pass on to each other.
fn tree(op: Op, r: &mut Reader<'_>) -> Result<u32, DecodeError> {
    r.take(if matches!(op, Op::TreeRemove | Op::TreeSetAttr) { 4 } else { 12 })?;
    CredentialIds::read(r)?;
    if op == Op::TreeSetAttr {
        r.take(4)?;
        attr(r)?;
    }
    if op != Op::TreeGetFileSize {
        // The caller's index, or the mask of attributes.
        r.take(4)?;
    }
    counted(r, 8)
}

/// The copies of a MIRROR, or the entries of a MGMT_SPLIT_DIRENT.
fn distributed(r: &mut Reader<'_>, len: usize) -> Result<u32, DecodeError> {
    r.take(12)?;
    DistView::read(r)?;
    r.take(8)?;
    counted(r, len)
}

/// A borrowed [`super::Capability`].
#[derive(Clone, Copy, Debug)]
pub struct CapabilityView<'a> {
    /// `S:` and the alias of the server that issued it; empty in the null capability.
    pub issuer: &'a [u8],
    /// The file system it is for.
    pub fs: FsId,
    /// When it expires, in seconds since 1970.
    pub timeout: u64,
    /// What it allows, see [`super::types::op_mask`].
    pub op_mask: u32,
    handles: &'a [u8],
}

impl<'a> CapabilityView<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let issuer = r.str()?;
        let fs = r.i32()?;
        r.pad4()?;
        r.blob()?;
        let (timeout, op_mask) = (r.u64()?, r.u32()?);
        let handles = array(r, 8)?;
        r.align8()?;
        Ok(Self { issuer, fs, timeout, op_mask, handles })
    }

    /// The object first, then its datafile or directory data handles.
    pub fn handles(&self) -> impl ExactSizeIterator<Item = Handle> + use<'a> {
        self.handles.chunks_exact(8).map(|bytes| Handle(bytes.try_into().map_or(0, u64::from_le_bytes)))
    }
}

/// The user and issuer of a credential.
#[derive(Clone, Copy, Debug)]
pub struct CredentialIds<'a> {
    /// The user.
    pub uid: u32,
    /// `C:` and a client's host name, or `S:` and a server's alias.
    pub issuer: &'a [u8],
    gids: &'a [u8],
}

impl<'a> CredentialIds<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.take(8)?;
        let uid = r.u32()?;
        let gids = array(r, 4)?;
        r.align8()?;
        let issuer = r.str()?;
        r.take(8)?;
        r.blob()?;
        r.pad4()?;
        r.blob()?;
        Ok(Self { uid, issuer, gids })
    }

    /// The user's groups, the primary one first.
    pub fn gids(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.gids.chunks_exact(4).map(|bytes| bytes.try_into().map_or(0, u32::from_le_bytes))
    }

    /// Whether a server issued the credential to itself.
    pub fn is_from_server(&self) -> bool {
        self.issuer.starts_with(b"S:")
    }
}

fn array<'a>(r: &mut Reader<'a>, len: usize) -> Result<&'a [u8], DecodeError> {
    let count = r.count(len)?;
    r.take(count * len)
}

/// Skips attributes; consumes the same bytes as decoding them.
fn attr(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    r.take(40)?;
    let (mask, objtype) = (r.u32()?, ObjType(r.i32()?));
    let has = |bit: u32| mask & bit != 0;
    if has(mask::CAPABILITY) {
        CapabilityView::read(r)?;
    }
    if objtype == ObjType::METAFILE && !has(mask::UNSTUFFED) {
        r.take(8)?;
    }
    if has(mask::DIST) {
        DistView::read(r)?;
    }
    let mut datafiles = 0;
    if has(mask::DATAFILES) {
        datafiles = r.count(8)?;
        r.pad4()?;
        r.take(datafiles.saturating_mul(8))?;
        r.take(8)?;
    }
    if has(mask::MIRRORS) {
        let copies = r.u32()? as usize;
        r.pad4()?;
        r.take(copies.saturating_mul(datafiles).saturating_mul(8))?;
    }
    if has(mask::SIZE) {
        r.take(8)?;
    }
    if has(mask::SYMLINK_TARGET) {
        r.take(8)?;
        r.str()?;
    }
    if has(mask::DISTDIR) {
        r.pad4()?;
        let (servers, words) = (r.u32()? as usize, r.u32()? as usize);
        r.take(12)?;
        r.take(words.saturating_mul(4))?;
        r.pad4()?;
        r.take(servers.saturating_mul(8))?;
    }
    if has(mask::DIRENT_COUNT | mask::DIR_HINT) {
        r.take(16)?;
        r.str()?;
        r.take(8)?;
        r.str()?;
        r.take(16)?;
        r.str()?;
    }
    Ok(())
}

//! Borrowed messages for scheduling: the fields that decide whether and when a request is dispatched, without
//! allocation.
//!
//! A view checks the capability and the hints at once and the body only when asked, so a proxy decodes no more than it
//! needs and forwards the original bytes.

mod objects;
mod request_io;
mod skip;

pub use request_io::{IoView, SmallIoView};
pub use skip::{CapabilityView, CredentialIds};

use super::codec::{Reader, Wire};
use super::head;
use super::hints::HintView;
use super::op::{Op, OpClass};
use super::status::Status;
use super::types::{Handle, IoType, ObjType};
use crate::DecodeError;

/// A request, decoded up to its body.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    payload: &'a [u8],
    /// The operation.
    pub op: Op,
    /// What the request may do.
    pub capability: CapabilityView<'a>,
    /// Offset behind the hint count.
    hints_at: usize,
    hint_count: usize,
    /// Whether a server made the request while serving another one (hint type 6); clients never send this hint.
    pub has_server_id_hint: bool,
    /// The metafile or parent directory (hint type 3).
    pub hint_handle: Option<Handle>,
    /// Where the body starts, in bytes from the start of the payload.
    pub body_at: usize,
}

impl<'a> RequestView<'a> {
    /// Decodes the payload of an unexpected message up to its body. Never returns *incomplete*.
    pub fn parse(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        let op = head::read(&mut r)?;
        r.pad4()?;
        let capability = CapabilityView::read(&mut r)?;
        let hint_count = r.count(8)?;
        let hints_at = r.offset();
        let mut has_server_id_hint = false;
        let mut hint_handle = None;
        for _ in 0..hint_count {
            match HintView::read(&mut r)? {
                HintView::Handle(handle) => hint_handle = Some(handle),
                HintView::Number { kind: 6, .. } => has_server_id_hint = true,
                _ => {}
            }
        }
        let body_at = r.offset();
        Ok(Self { payload, op, capability, hints_at, hint_count, has_server_id_hint, hint_handle, body_at })
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
        match self.op {
            Op::CrDirent => {}
            Op::TreeRemove | Op::TreeSetAttr => {
                r.take(4)?;
            }
            Op::Create | Op::MkDir => {
                r.take(8)?;
            }
            Op::Remove | Op::TreeGetFileSize | Op::TreeGetAttr => {
                r.take(12)?;
            }
            Op::GetAttr | Op::Unstuff => {
                r.take(16)?;
            }
            Op::SetAttr => {
                r.take(16)?;
                skip::attr(&mut r)?;
            }
            Op::LookupPath => {
                r.str()?;
                r.take(20)?;
            }
            _ => return Ok(None),
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

    /// The type and number of objects of a BATCH_CREATE; `None` for other operations.
    pub fn batch_create(&self) -> Result<Option<(ObjType, u32)>, DecodeError> {
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
            Op::Create | Op::MkDir => r.take(8)?,
            _ => return Ok(None),
        };
        CredentialIds::read(&mut r)?;
        skip::attr(&mut r)?;
        if self.op == Op::MkDir {
            r.pad4()?;
            skip::array(&mut r, 16)?;
            r.take(12)?;
        } else {
            r.take(4)?;
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
        let op = head::read(&mut r)?;
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

    /// Bytes in this server's datafile, if the reply states it.
    pub fn bstream_size(&self) -> Option<u64> {
        match self.numbers {
            ReplyNumbers::IoAck { bstream_size } | ReplyNumbers::SmallIo { bstream_size, .. } => Some(bstream_size),
            _ => None,
        }
    }
}

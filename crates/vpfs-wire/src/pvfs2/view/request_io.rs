//! Borrowed views of the two requests that move data.

use super::super::codec::Reader;
use super::super::dist::DistView;
use super::super::preq::PreqView;
use super::super::transfer::{Transfer, TransferError};
use super::super::types::{FsId, Handle, IoType};
use crate::DecodeError;

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
    pub(super) fn read(mut r: Reader<'a>) -> Result<Self, DecodeError> {
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
    pub(super) fn read(mut r: Reader<'a>) -> Result<Self, DecodeError> {
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

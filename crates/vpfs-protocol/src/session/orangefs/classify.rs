//! Classifies requests for the scheduler: data, metadata, or never delayed.

use vpfs_core::{Bytes, FileKey, FilePosition, Objects, OpKind};

use crate::wire::DecodeError;
use crate::wire::pvfs2::view::IoView;
use crate::wire::pvfs2::{DistView, Handle, IoType, Op, OpClass, RequestView, Transfer, TransferError};

use super::detail::Detail;
use crate::session::Submission;
use crate::session::shared::{Class, data_cost};

/// Handles are unique in a file system.
pub(crate) fn file_key(handle: Handle) -> FileKey {
    FileKey(handle.0)
}

/// Whether a request looks like one that only servers send. Anybody can make it look so.
pub(crate) fn claims_server(request: &RequestView<'_>) -> Result<bool, DecodeError> {
    Ok(request.is_from_server()? || mirrors(request)?)
}

/// Whether a request administers a server. All clients ask for the configuration, and may ask whether a server is
/// there.
pub(crate) fn administers(op: Op) -> bool {
    op.class() == OpClass::Management && !matches!(op, Op::GetConfig | Op::MgmtNoop)
}

/// Whether a server copies a file to its mirrors. Such writes have no capability, while clients always state one.
fn mirrors(request: &RequestView<'_>) -> Result<bool, DecodeError> {
    let capability = &request.capability;
    let is_null = capability.issuer.is_empty() && capability.op_mask == 0 && capability.handles().len() == 0;
    let is_copy = |io: IoView<'_>| io.io_type == IoType::Write && io.server_ct == 1 && io.dist == DistView::Basic;
    Ok(is_null && request.io()?.is_some_and(is_copy))
}

/// Classifies a request, and determines the form of its reply.
///
/// Exempt are configuration and administration of the server itself, of a client one at a time, and requests of servers
/// to each other. A client's operation may be waiting for the latter inside a server, so queueing them behind client
/// work could deadlock.
///
/// Adds to `steps` those of [`Transfer::steps`].
pub(crate) fn plan(
    request: &RequestView<'_>,
    is_from_server: bool,
    steps: &mut u32,
) -> Result<(Class, Detail), DecodeError> {
    let (submission, reply) = match (request.op.class(), request.op) {
        (OpClass::Data, Op::Io) => {
            let Some(io) = request.io()? else { unreachable!("the operation is an IO") };
            plan_io(&io, steps)?
        }
        (OpClass::Data, _) => plan_small_io(request, steps)?,
        (_, Op::GetConfig) => return Ok((Class::Exempt, Detail::Config)),
        (_, Op::ReadDir | Op::MgmtIterateHandles) => (metadata(request)?, Detail::Listing),
        (_, Op::MgmtRemoveObject | Op::MgmtRemoveDirent | Op::MgmtGetDirdataHandle) => {
            (metadata(request)?, Detail::Plain)
        }
        (OpClass::Management, _) => return Ok((Class::Exempt, Detail::Plain)),
        // The last two are never requests: the server refuses them.
        (OpClass::Metadata | OpClass::ServerToServer | OpClass::ReplyOnly | OpClass::Internal, _) => {
            (metadata(request)?, Detail::Plain)
        }
    };
    Ok((if is_from_server { Class::Exempt } else { Class::Scheduled(submission) }, reply))
}

/// A request that moves no data.
pub(crate) fn metadata(request: &RequestView<'_>) -> Result<Submission, DecodeError> {
    let objects = Objects::new(request.objects()?.into());
    Ok(Submission {
        kind: OpKind::Metadata,
        cost: Bytes::ZERO,
        objects,
        position: None,
        elsewhere: None,
        piece: None,
        may_be_left: false,
        user: None,
    })
}

fn plan_io(io: &IoView<'_>, steps: &mut u32) -> Result<(Submission, Detail), DecodeError> {
    let transfer = told(io.transfer())?;
    let share = transfer.as_ref().map(Transfer::upper_bound).map_or(Ok(None), told)?;
    let start = transfer.as_ref().map(Transfer::first_physical_offset).map_or(Ok(None), told)?.flatten();
    *steps += transfer.as_ref().map_or(0, Transfer::steps);
    // If the share is unknown, the whole access is an upper bound.
    let bytes = share.unwrap_or_else(|| u64::try_from(io.aggregate_size).unwrap_or(0));
    let elsewhere = transfer.as_ref().and_then(Transfer::elsewhere);
    let reply = match (io.io_type, transfer) {
        (IoType::Write, _) => Detail::Write { expected: bytes },
        (IoType::Read, Some(transfer)) if share.is_some() => {
            Detail::Read { handle: io.handle, transfer: Box::new(transfer) }
        }
        (IoType::Read, _) => Detail::UncountedRead,
    };
    Ok((data(io, bytes, start, elsewhere), reply))
}

fn plan_small_io(request: &RequestView<'_>, steps: &mut u32) -> Result<(Submission, Detail), DecodeError> {
    let Some(small) = request.small_io()? else { unreachable!("the only other operation that moves data") };
    let io = &small.io;
    if io.io_type == IoType::Write {
        let bytes = small.total_bytes;
        return Ok((data(io, bytes, Some(0), None), Detail::SmallWrite { bytes }));
    }
    // The data fits the reply, so a small read cannot move more than this, whatever it asks for.
    let transfer = told(io.transfer())?;
    let share = transfer.as_ref().map(Transfer::upper_bound).map_or(Ok(None), told)?;
    *steps += transfer.as_ref().map_or(0, Transfer::steps);
    let bytes = share.unwrap_or(u64::MAX).min(crate::wire::bmi::MAX_UNEXPECTED);
    Ok((data(io, bytes, None, None), Detail::SmallRead { handle: io.handle }))
}

/// Clients send the data of a write in messages of this size.
const FLOW_BUFFER: Bytes = Bytes::kib(256);

fn data(io: &IoView<'_>, bytes: u64, start: Option<u64>, elsewhere: Option<Bytes>) -> Submission {
    let kind = match io.io_type {
        IoType::Read => OpKind::Read,
        IoType::Write => OpKind::Write,
    };
    let position = start.map(|start| FilePosition { file: file_key(io.handle), start });
    let piece = (kind == OpKind::Write).then_some(FLOW_BUFFER);
    let (cost, objects) = (data_cost(bytes), Objects::ONE);
    Submission { kind, cost, objects, position, elsewhere, piece, may_be_left: false, user: None }
}

/// `None` if computing the answer would take more steps than allowed for one request.
fn told<T>(result: Result<T, TransferError>) -> Result<Option<T>, DecodeError> {
    let malformed = |what| Err(DecodeError::Malformed { offset: 0, what });
    match result {
        Ok(value) => Ok(Some(value)),
        Err(TransferError::TooComplex) => Ok(None),
        Err(TransferError::Malformed(what)) => malformed(what),
        Err(TransferError::Distribution(_)) => malformed("invalid distribution parameters"),
    }
}

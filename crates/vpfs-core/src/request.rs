//! What a scheduler knows of a request, and what it says when the request may go.

use crate::units::{AppId, Bytes, RequestId, SlotCost, Time};

/// What a request does, as far as its cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpKind {
    /// Data from the storage to the client.
    Read,
    /// Data from the client to the storage.
    Write,
    /// Everything else that is scheduled: lookups, creates, attribute changes [vPFS+ §IV].
    Metadata,
}

/// A request as its scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's name for it; must not be in use in this scheduler.
    pub id: RequestId,
    /// The flow it belongs to.
    pub app: AppId,
    /// Read, write or metadata.
    pub op: OpKind,
    /// Service it asks for (c in the papers): this server's bytes for data, a constant for metadata.
    /// May be an estimate, see [`crate::Scheduler::correct_cost`].
    pub cost: Bytes,
}

/// A request that goes to the storage now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The request.
    pub id: RequestId,
    /// Its application.
    pub app: AppId,
    /// When it was enqueued.
    pub enqueued_at: Time,
    /// Slots it occupies until it is completed or cancelled.
    pub slot_cost: SlotCost,
    /// It passed a larger request that waits for slots [vPFS+ §III-C].
    pub backfilled: bool,
}

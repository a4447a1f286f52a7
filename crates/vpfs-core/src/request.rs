//! What a scheduler knows about a request, and what it says when the request may go.

use core::time::Duration;

use crate::total::Scope;
use crate::units::{AppId, Bytes, FileKey, Objects, RequestId, SlotCost, Time};

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

/// Minimum cost of a data request: no device serves less than a page, and a request that finds nothing to read must not
/// be free.
pub const MIN_DATA_COST: Bytes = Bytes::kib(4);

/// Where in a file's part on one server an access starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// The file's part on this server.
    pub file: FileKey,
    /// First byte that is accessed.
    pub start: u64,
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
    /// The service that it requests (c in the papers): this server's bytes for data, for metadata a constant for each
    /// of its objects. May be an estimate, see [`crate::Scheduler::correct_cost`].
    pub cost: Bytes,
    /// For metadata: how many objects it works on. A server works on them one after the other, so they take one slot,
    /// for a longer time.
    pub objects: Objects,
    /// When the client issued it, if the protocol carries that [IOCO §3]; otherwise the time of arrival counts.
    pub issued_at: Option<Time>,
    /// The cost of the same access's parts at other servers, if each of them can derive it as well from how the file is
    /// striped [vPFS §III-B2]; `None` if the request does not reveal it.
    pub elsewhere: Option<Bytes>,
    /// For a write: the smallest piece in which its data can be sent; `None` if it can only be sent as a whole.
    pub piece: Option<Bytes>,
}

impl Request {
    /// A request, for metadata on one object, that reveals neither when it was issued nor its cost elsewhere, and can
    /// only be sent as a whole.
    pub const fn new(id: RequestId, app: AppId, op: OpKind, cost: Bytes) -> Self {
        Self { id, app, op, cost, objects: Objects::ONE, issued_at: None, elsewhere: None, piece: None }
    }

    /// Its real cost is known, and for metadata that changes the number of objects in proportion. Returns the estimate.
    pub(crate) fn correct(&mut self, real: Bytes) -> Bytes {
        if self.op == OpKind::Metadata {
            self.objects = self.objects.at_cost(self.cost, real);
        }
        core::mem::replace(&mut self.cost, real)
    }
}

/// The classes in which servers report service separately: bytes of data, or metadata operations at a constant cost for
/// each object [vPFS+ §IV].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceClass {
    /// Reads and writes.
    Data,
    /// Metadata operations.
    Metadata,
}

impl From<OpKind> for ServiceClass {
    fn from(op: OpKind) -> Self {
        match op {
            OpKind::Read | OpKind::Write => Self::Data,
            OpKind::Metadata => Self::Metadata,
        }
    }
}

/// An application's service that one scheduler reports to all others [vPFS §III-B1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceReport {
    /// The application.
    pub app: AppId,
    /// The class of service.
    pub class: ServiceClass,
    /// Bytes of cost since the last report; negative if refunds exceeded requests.
    pub bytes: i64,
}

/// The promise to an application of a latency-controlled class [Two-level]: while it asks for no more than `rate`, its
/// requests take no longer than `deadline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// T: bytes per second.
    pub rate: Bytes,
    /// For what T is. The deadline is for each request, at whatever server.
    pub scope: Scope,
    /// D: from entering the deadline queue, within the rate, until completion.
    pub deadline: Duration,
}

/// The rule for which a request waits although it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Its application's share: it is the turn of others, or of earlier requests of its own.
    #[default]
    Share,
    /// The cap of its application.
    Cap,
    /// The pace of bulk, or the bound on it: room for applications that ask for less than their share.
    Pace,
    /// The minimum of another application.
    Minimum,
}

impl Rule {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Share, Self::Cap, Self::Pace, Self::Minimum];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Cap => "cap",
            Self::Pace => "pace",
            Self::Minimum => "minimum",
        }
    }
}

/// A request that is dispatched to the storage now.
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
    /// It was backfilled past a larger request that waits for slots [vPFS+ §III-C].
    pub backfilled: bool,
    /// How its data should go to the storage, if not all at once.
    pub pieces: Option<Pieces>,
    /// The rule that held it last, if it waited; never [`Rule::Cap`], of which [`crate::Event::CapHeld`] tells.
    pub rule: Rule,
}

/// How to send a request's data in pieces of equal size, one after another, so that other requests get in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// How many, at least two.
    pub count: u32,
    /// From the start of one piece to the start of the next.
    pub every: Duration,
}

impl Pieces {
    /// Bytes of each piece but the last, of `total`.
    pub const fn size(self, total: u64) -> u64 {
        total.div_ceil(self.count as u64)
    }

    /// When the next bytes may go to the storage, if `gone` of `total` are gone since `began`.
    pub fn next_at(self, began: Time, gone: u64, total: u64) -> Time {
        let pieces = u128::from(gone) * u128::from(self.count) / u128::from(total.max(1));
        let pieces = u32::try_from(pieces).unwrap_or(u32::MAX).min(self.count);
        began + self.every.saturating_mul(pieces)
    }

    /// Nanoseconds from the start of the first piece to the end of the last.
    pub(crate) fn whole_ns(self) -> u64 {
        u64::try_from(self.every.as_nanos() * u128::from(self.count)).unwrap_or(u64::MAX)
    }

    /// Nanoseconds from the start of the first piece to the start of the last.
    pub fn paused_ns(self) -> u64 {
        self.whole_ns() / u64::from(self.count.max(1)) * u64::from(self.count.saturating_sub(1))
    }
}

//! Limits on everything a peer can make a session hold.

use core::time::Duration;

/// Bounds of one session. [`SessionLimits::default`] suits stock clients, which keep at most a few dozen requests in
/// flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Operations of one connection that are queued or in progress, at least 1. At the limit the client is not read,
    /// unless it is in the middle of a message or a dispatched write still waits for its data.
    pub ops: usize,
    /// Bytes of the requests of one connection, as
    /// [`Session::held_requests`](crate::session::Session::held_requests) counts them; at the limit the client is not
    /// read, with the same exceptions.
    pub request_bytes: usize,
    /// Bytes queued towards one side, at least 1; at the limit the other side is not read.
    pub outbound_bytes: usize,
    /// A reply or acknowledgement that takes longer frees the operation's slots. Longer than the clients' own timeout
    /// (300 s), after which they repeat the request.
    pub reply_timeout: Duration,
    /// A request that was held for so long is not sent until its client repeats it, see
    /// [`Action::Overdue`](crate::session::Action::Overdue). Shorter than the clients' own timeout (300 s) by more than
    /// a server takes to answer, and longer than half of it.
    pub max_hold: Duration,
    /// A started transfer without progress for this long frees the operation's slots: a server that fails in the middle
    /// of a flow sends nothing at all.
    pub flow_timeout: Duration,
    /// The same for a transfer or reply that waits for the client: its slots are free by then, so others do not suffer.
    pub stall_timeout: Duration,
    /// A client that has sent a part of a header or a request must complete it within this time. Not for the data of
    /// writes.
    pub request_timeout: Duration,
    /// How long clients wait for an answer, as announced to them in whole seconds; `None` keeps the servers' value.
    /// Must be equal in all proxies, like the addresses.
    pub client_timeout: Option<Duration>,
}

impl SessionLimits {
    /// After this time without progress by the client, the slots of what waits for it are freed, unless
    /// [`Session::set_patience`](crate::session::Session::set_patience) says otherwise.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// The number of operations at which a client is disconnected. Only an endless series of requests reaches it,
    /// either in front of the data of a dispatched write or between unsolicited messages.
    ///
    /// The requests of a single read are permitted: 256 KiB hold 3000 of the shortest requests.
    pub(crate) fn most_ops(&self) -> usize {
        self.ops.saturating_mul(8).max(self.ops.saturating_add(4096))
    }

    /// The corresponding bound for [`SessionLimits::request_bytes`]: twice that, and at least 1 MiB more, the size of a
    /// few reads, or of two of the `longest` requests.
    pub(crate) fn most_request_bytes(&self, longest: usize) -> usize {
        let more = (2 * longest).max(1 << 20);
        self.request_bytes.saturating_mul(2).max(self.request_bytes.saturating_add(more))
    }
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            ops: 256,
            request_bytes: 4 << 20,
            outbound_bytes: 1 << 20,
            reply_timeout: Duration::from_secs(330),
            max_hold: Duration::from_secs(270),
            flow_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(300),
            request_timeout: Duration::from_secs(10),
            client_timeout: None,
        }
    }
}

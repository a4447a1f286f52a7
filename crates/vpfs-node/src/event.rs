//! What happened at a node, for logs and metrics.

/// One thing that the scheduler or the coordination noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Requests, policies, and promises that are not kept.
    Scheduler(vpfs_core::Event),
    /// Nodes of other servers.
    Coordination(crate::coordination::Event),
}

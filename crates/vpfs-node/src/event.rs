//! Events of a node, for logs and metrics.

/// An event of the scheduler or of the coordination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Requests, policies, and missed promises.
    Scheduler(vpfs_core::Event),
    /// Peers.
    Coordination(crate::coordination::Event),
}

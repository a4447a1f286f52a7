//! Configured limits as the data plane uses them.

use std::time::Duration;

/// What peers can make the daemon hold, and how long it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) session: vpfs_interpose::Limits,
    pub(crate) connect_timeout: Duration,
    pub(crate) drain_timeout: Duration,
}

impl From<&vpfs_config::Limits> for Limits {
    fn from(limits: &vpfs_config::Limits) -> Self {
        Self {
            session: vpfs_interpose::Limits {
                ops: limits.operations,
                outbound_bytes: usize::try_from(limits.buffer.0).unwrap_or(usize::MAX),
                reply_timeout: limits.reply_timeout,
                flow_timeout: limits.flow_timeout,
                client_timeout: limits.client_timeout,
                ..vpfs_interpose::Limits::default()
            },
            connect_timeout: limits.connect_timeout,
            drain_timeout: limits.drain_timeout,
        }
    }
}

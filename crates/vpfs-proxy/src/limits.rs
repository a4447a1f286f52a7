//! Configured limits as the data plane uses them.

use std::time::Duration;

/// What peers can make the daemon hold, and how long it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DaemonLimits {
    pub(crate) session: vpfs_session::SessionLimits,
    /// Bytes that all connections of the process, and of one client host, hold together.
    pub(crate) memory: usize,
    pub(crate) host_memory: usize,
    /// Connections of one client host.
    pub(crate) host_connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) drain_timeout: Duration,
}

impl From<&vpfs_config::Limits> for DaemonLimits {
    fn from(limits: &vpfs_config::Limits) -> Self {
        let size = |bytes: vpfs_core::Bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX);
        Self {
            session: vpfs_session::SessionLimits {
                ops: limits.operations,
                request_bytes: size(limits.request_bytes),
                outbound_bytes: size(limits.buffer),
                reply_timeout: limits.reply_timeout,
                max_hold: limits.max_hold,
                flow_timeout: limits.flow_timeout,
                stall_timeout: limits.stall_timeout,
                request_timeout: limits.request_timeout,
                client_timeout: limits.client_timeout,
            },
            memory: size(limits.memory),
            host_memory: size(limits.host_memory),
            host_connections: limits.connections_per_host,
            connect_timeout: limits.connect_timeout,
            drain_timeout: limits.drain_timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use vpfs_config::Config;

    use crate::memory::FREE;
    use crate::read_buffers::READ_SIZE;

    use super::*;

    #[test]
    fn the_service_may_hold_what_the_defaults_allow() {
        let minimal = include_str!("../../../examples/minimal.toml");
        let config = Config::parse("minimal", minimal).unwrap();
        let limits = DaemonLimits::from(&config.limits);
        let most = limits.memory + config.limits.connections * (2 * READ_SIZE + 3 * FREE);
        let unit = include_str!("../../../packaging/vpfs-proxy.service");
        let gib: usize =
            unit.lines().find_map(|line| line.strip_prefix("MemoryMax=")?.strip_suffix('G')).unwrap().parse().unwrap();
        assert!((most + most / 5..2 * most).contains(&(gib << 30)), "{most}");
        assert_eq!(limits.host_memory, limits.memory / 4);
    }
}

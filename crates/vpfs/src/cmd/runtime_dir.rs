//! Where the sockets of processes on this host are.

use std::path::PathBuf;

use vpfs_admin::socket;
use vpfs_config::Config;

/// Set by systemd for a service with `RuntimeDirectory=`; several directories are separated by colons.
const VARIABLE: &str = "RUNTIME_DIRECTORY";
const DEFAULT: &str = "/run/vpfs";

/// The first directory of `$RUNTIME_DIRECTORY`, or else `/run/vpfs`.
pub(super) fn of_service() -> PathBuf {
    let directories = std::env::var_os(VARIABLE);
    let first = directories.and_then(|list| std::env::split_paths(&list).next());
    first.filter(|path| path.is_absolute()).unwrap_or_else(|| DEFAULT.into())
}

/// The directory of the sockets that answer questions: `peers.sockets`, or without `[peers]` that of the service.
pub(super) fn of_sockets(config: &Config) -> PathBuf {
    config.peers.as_ref().map_or_else(of_service, |peers| peers.sockets.clone())
}

/// The socket of the proxy whose first server is `server`.
pub(super) fn socket_of(config: &Config, server: &str) -> PathBuf {
    socket::path(&of_sockets(config), server)
}

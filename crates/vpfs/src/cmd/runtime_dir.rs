//! Where a process of a service has its sockets.

use std::path::PathBuf;

/// Set by systemd for a service with `RuntimeDirectory=`; several directories are separated by colons.
const VARIABLE: &str = "RUNTIME_DIRECTORY";
const DEFAULT: &str = "/run/vpfs";

/// The first directory of `$RUNTIME_DIRECTORY`, or else `/run/vpfs`.
pub(super) fn of_service() -> PathBuf {
    let directories = std::env::var_os(VARIABLE);
    let first = directories.and_then(|list| std::env::split_paths(&list).next());
    first.filter(|path| path.is_absolute()).unwrap_or_else(|| DEFAULT.into())
}

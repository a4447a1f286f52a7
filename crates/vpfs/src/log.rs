//! Structured logs on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::{Registry, prelude::*};

/// Changes the level of a running daemon.
pub(crate) struct LogLevel(Handle<EnvFilter, Registry>);

impl LogLevel {
    pub(crate) fn set(&self, level: &str) {
        // The only failure is a subscriber that is gone, and with it the log.
        let _ = self.0.reload(EnvFilter::new(level));
    }
}

/// Starts logging. The environment variable `VPFS_LOG` (a tracing filter, for example `vpfs_proxy=debug`) wins over `level`.
pub(crate) fn start(level: &str, json: bool) -> LogLevel {
    let filter = EnvFilter::try_from_env("VPFS_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let (filter, handle) = reload::Layer::new(filter);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    if json {
        registry.with(layer.json()).init();
    } else {
        registry.with(layer).init();
    }
    LogLevel(handle)
}

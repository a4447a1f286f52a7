//! Structured logs on standard error, or in the journal of systemd with their fields.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::{EnvFilter, Registry, prelude::*};
use vpfs_admin::events::Events;
use vpfs_config::LogLevel;

use crate::exit::Exit;

/// Overrides every configured level: a tracing filter such as `vpfs_proxy=debug`.
const VARIABLE: &str = "VPFS_LOG";

/// Changes the level of a running daemon.
pub(crate) struct LogSwitch {
    handle: Handle<EnvFilter, Registry>,
    overridden: bool,
}

impl LogSwitch {
    /// Applies a configured level, unless the environment overrides it.
    pub(crate) fn set(&self, level: LogLevel) {
        if !self.overridden {
            // The only possible error is that the subscriber is gone, and with it the log.
            let _ = self.handle.reload(EnvFilter::new(level.name()));
        }
    }
}

/// Starts logging at `level`, or at the level in the environment variable `VPFS_LOG`. `events` get what has the default
/// level, whatever the level of the log is.
pub(crate) fn start(level: LogLevel, json: bool, events: &Events) -> Result<LogSwitch, Exit> {
    let variable = std::env::var(VARIABLE).ok();
    let filter = match &variable {
        Some(text) => EnvFilter::try_new(text)
            .map_err(|error| Exit::Usage(format!("{VARIABLE}={text} is not a filter: {error}")))?,
        None => EnvFilter::new(level.name()),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let layer = match journal().filter(|_| !json) {
        Some(journal) => journal.boxed(),
        None => {
            let layer = tracing_subscriber::fmt::layer()
                .with_writer(std::io::stderr)
                .with_ansi(std::io::stderr().is_terminal())
                .with_target(false);
            if json { layer.json().boxed() } else { layer.boxed() }
        }
    };
    let kept = events.layer().with_filter(LevelFilter::INFO);
    tracing_subscriber::registry().with(layer.with_filter(filter)).with(kept).init();
    Ok(LogSwitch { handle, overridden: variable.is_some() })
}

/// The journal of systemd, if standard error goes there and it can be reached. `VPFS_APP` there is the field `app`
/// here.
fn journal() -> Option<tracing_journald::Layer> {
    let stream = std::env::var("JOURNAL_STREAM").ok()?;
    let error = File::from(std::io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
    // It is inherited by whatever a service starts, also with standard error elsewhere.
    let is_journal = stream == format!("{}:{}", error.dev(), error.ino());
    let journal = is_journal.then(tracing_journald::layer)?.ok()?;
    Some(journal.with_field_prefix(Some("VPFS".to_owned())))
}

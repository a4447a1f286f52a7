//! What applications did and waited for, kept over restarts: by ten seconds for an hour, by minutes for a day, by ten
//! minutes for thirty days (docs/decisions/0010-watching.md).
//!
//! One task writes, in threads for blocking work, from the same [`Status`](vpfs_proxy::Status) as metrics. Whatever
//! fails costs history and is logged once.

mod query;
mod store;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::MissedTickBehavior;
use vpfs_proxy::Observer;

use crate::api::{History, Span, Status};
pub(crate) use query::Query;
pub use query::{HISTORY, route};
pub(crate) use store::read;
use store::{LEVELS, Store};

/// Keeps history in the file at `path`, for ever. The time since the last sample is lost if this is dropped.
pub async fn keep(path: PathBuf, observer: Observer) {
    let mut keeper = Keeper { path, store: None, before: None, is_failing: false };
    let mut ticks = tokio::time::interval(Duration::from_secs(LEVELS[0].seconds));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let status = observer.status().await;
        let writing = tokio::task::spawn_blocking(move || {
            keeper.take(now(), Status::from(&status));
            keeper
        });
        match writing.await {
            Ok(again) => keeper = again,
            Err(error) => return tracing::error!(%error, "history is kept no longer"),
        }
    }
}

/// What a process, which need not run any more, kept in the file at `path` of the latest `since` seconds: all samples
/// of `app`, or sums of all applications. Blocks.
///
/// # Errors
/// If the file cannot be read, or is no history.
pub fn kept(path: &Path, app: Option<&str>, since: u64) -> io::Result<History> {
    read(path, &Query { app: app.map(str::to_owned), since }, now()).map_err(io::Error::other)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
pub(crate) fn write(path: &Path, at: u64, span: &Span) -> rusqlite::Result<()> {
    Store::open(path)?.add(at, span)
}

struct Keeper {
    path: PathBuf,
    /// Open as long as it works.
    store: Option<Store>,
    before: Option<Status>,
    /// The log has said so.
    is_failing: bool,
}

impl Keeper {
    /// Writes what happened since the status before. Blocks.
    fn take(&mut self, at: u64, status: Status) {
        if let Some(before) = self.before.replace(status) {
            let span = Span::between(&[before], self.before.as_slice());
            let written = self.write(at, &span);
            self.report(&written);
        }
    }

    fn write(&mut self, at: u64, span: &Span) -> rusqlite::Result<()> {
        let mut store = self.store.take().map_or_else(|| open(&self.path), Ok)?;
        store.add(at, span)?;
        self.store = Some(store);
        Ok(())
    }

    fn report(&mut self, result: &rusqlite::Result<()>) {
        let path = self.path.display();
        match result {
            Ok(()) if self.is_failing => tracing::info!(%path, "history is kept again"),
            Err(error) if !self.is_failing => {
                tracing::warn!(%path, %error, "history cannot be kept; nothing else is affected");
            }
            _ => {}
        }
        self.is_failing = result.is_err();
    }
}

/// One that is damaged is replaced.
fn open(path: &Path) -> rusqlite::Result<Store> {
    Store::open(path).or_else(|error| {
        let is_damaged = matches!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt)
        );
        if !is_damaged {
            return Err(error);
        }
        tracing::warn!(path = %path.display(), %error, "the history is damaged; it begins anew");
        // If it cannot be removed, it is damaged again below. Its journal belongs to what was there.
        let _ = std::fs::remove_file(path);
        let _ = std::fs::remove_file(path.with_extension("sqlite-journal"));
        Store::open(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn keeper(path: &Path) -> Keeper {
        Keeper { path: path.to_owned(), store: None, before: None, is_failing: false }
    }

    fn status(up: f64) -> Status {
        let mut status = Status::from(&testing::status(&["climate"]));
        status.up_seconds = up;
        status
    }

    fn samples(path: &Path, at: u64) -> usize {
        let query = Query { app: Some("climate".into()), since: 3600 };
        read(path, &query, at).map_or(0, |history| history.samples.len())
    }

    #[test]
    fn a_damaged_file_and_a_disk_that_fails_cost_history_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.sqlite");
        std::fs::write(
            &path,
            "no database, for as long as it takes to be more than a header of a hundred bytes".repeat(9),
        )
        .unwrap();
        let mut kept = keeper(&path);
        (0_u32..3).for_each(|tick| kept.take(1000 + 10 * u64::from(tick), status(f64::from(10 * tick))));
        assert_eq!((samples(&path, 1020), kept.is_failing), (4, false), "two of two servers");
        let mut lost = keeper(&folder.path().join("missing/h.sqlite"));
        (0_u32..3).for_each(|tick| lost.take(1000, status(f64::from(tick))));
        assert!(lost.is_failing && lost.store.is_none());
        std::fs::create_dir(folder.path().join("missing")).unwrap();
        lost.take(1010, status(9.0));
        assert!(!lost.is_failing, "it goes on as soon as it can");
    }

    #[test]
    fn a_later_process_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.sqlite");
        for start in [1000, 2000] {
            let mut kept = keeper(&path);
            kept.take(start, status(0.0));
            kept.take(start + 10, status(10.0));
        }
        assert_eq!(samples(&path, 2010), 4);
    }
}

//! What happens at a server, in the log: with names, and each thing once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vpfs_config::AppEntry;
use vpfs_core::{AppId, Event as SchedulerEvent, ServerId, Time};
use vpfs_node::Event;
use vpfs_node::coordination::Event as CoordinationEvent;

use crate::log_limit::{Kind, LogLimit};

/// The lines about one server.
pub(crate) struct EventLog {
    server: String,
    /// By id.
    apps: Mutex<Vec<App>>,
    limit: LogLimit,
}

#[derive(Clone, Default)]
struct App {
    name: String,
    /// Whether it is bulk, as the latest line about it said.
    bulk: Option<bool>,
    /// The number of these lines since this time.
    lines: u32,
    since: Time,
}

/// In a period there are at most so many lines about the kind of one application.
const KIND_LINES: u32 = 6;
const PERIOD: Duration = Duration::from_secs(60);

/// Whether an event is logged at the default level.
pub(crate) fn is_important(event: &Event) -> bool {
    matches!(
        event,
        Event::Scheduler(
            SchedulerEvent::LatencyMissed { .. }
                | SchedulerEvent::KindChanged { .. }
                | SchedulerEvent::CostsMeasured { .. }
        ) | Event::Coordination(CoordinationEvent::StepRefused { .. })
    )
}

impl EventLog {
    pub(crate) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), apps: Mutex::default(), limit: LogLimit::default() }
    }

    /// An application has this name.
    pub(crate) fn set_app(&self, app: AppId, entry: &AppEntry) {
        let mut apps = self.apps();
        if apps.len() <= app.index() {
            apps.resize_with(app.index() + 1, App::default);
        }
        if apps[app.index()].name != entry.name {
            apps[app.index()] = App { name: entry.name.clone(), ..App::default() };
        }
    }

    /// Something happened in the node.
    pub(crate) fn note(&self, at: Time, event: &Event) {
        let server = self.server.as_str();
        match *event {
            Event::Scheduler(SchedulerEvent::LatencyMissed { app, latency, kept, cause }) => tracing::warn!(
                server,
                app = self.name(app),
                promised = ?latency,
                possible = ?kept,
                ?cause,
                "a promised latency cannot be kept; promise what is possible, or see the cause"
            ),
            Event::Scheduler(SchedulerEvent::KindChanged { app, bulk }) => self.note_kind(at, app, bulk),
            Event::Scheduler(SchedulerEvent::CostsMeasured { changed }) => {
                if let Some(suppressed) = self.due(Kind::Costs, at) {
                    tracing::info!(server, changed, suppressed, "measured what requests cost");
                }
            }
            Event::Coordination(CoordinationEvent::StepRefused { peer, bytes, .. }) => {
                if let Some(suppressed) = self.due(Kind::Violation, at) {
                    tracing::warn!(
                        server,
                        peer = peer.0,
                        bytes,
                        suppressed,
                        "reports more service than any server can give; ignored"
                    );
                }
            }
            _ => {}
        }
        tracing::debug!(server, at_ns = at.as_nanos(), ?event);
    }

    /// A report of another server is not valid.
    pub(crate) fn note_refused(&self, at: Time, peer: ServerId, error: &impl std::fmt::Display) {
        if let Some(suppressed) = self.due(Kind::Malformed, at) {
            tracing::warn!(server = self.server, peer = peer.0, %error, suppressed, "a report was refused");
        }
    }

    /// A request in the storage waited for its client for too long.
    pub(crate) fn note_released(&self, at: Time, app: AppId) {
        if let Some(suppressed) = self.due(Kind::Released, at) {
            let (server, app) = (self.server.as_str(), self.name(app));
            tracing::info!(server, app, suppressed, "a client kept the storage waiting, and lost its slots");
        }
    }

    /// Said only if it is not what was said before.
    fn note_kind(&self, at: Time, app: AppId, bulk: bool) {
        let mut apps = self.apps();
        let Some(known) = apps.get_mut(app.index()) else { return };
        if at.since(known.since) >= PERIOD {
            (known.since, known.lines) = (at, 0);
        }
        if known.bulk == Some(bulk) || known.lines == KIND_LINES {
            return;
        }
        (known.bulk, known.lines) = (Some(bulk), known.lines + 1);
        let name = known.name.clone();
        drop(apps);
        let (server, app) = (self.server.as_str(), name.as_str());
        match bulk {
            true => tracing::info!(server, app, "takes all that it can get; others are protected from it"),
            false => tracing::info!(server, app, "asks for less than its share; it is protected from others"),
        }
    }

    /// Whether to write a line, and how many were left out before it, if any.
    fn due(&self, kind: Kind, at: Time) -> Option<Option<u64>> {
        self.limit.due(kind, at).map(|suppressed| (suppressed > 0).then_some(suppressed))
    }

    fn name(&self, app: AppId) -> String {
        self.apps().get(app.index()).map(|app| app.name.clone()).unwrap_or_default()
    }

    fn apps(&self) -> MutexGuard<'_, Vec<App>> {
        self.apps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: the last that was said of an application was its kind in its first tenth of a second. Cause: one line a
    /// minute.
    #[test]
    fn the_kind_is_said_when_it_changes_but_flapping_is_bounded() {
        let log = EventLog::new("s1");
        log.apps().push(App { name: "climate".to_owned(), ..App::default() });
        let said = || log.apps()[0].bulk;
        let (app, start) = (AppId(0), Time::from_millis(70_000));
        log.note_kind(start, app, true);
        log.note_kind(start + Duration::from_millis(300), app, false);
        assert_eq!(said(), Some(false));
        (0..100).for_each(|round| log.note_kind(start + Duration::from_secs(1), app, round % 2 == 0));
        assert_eq!(log.apps()[0].lines, KIND_LINES);
        log.note_kind(start + PERIOD, app, said() == Some(false));
        assert_eq!(log.apps()[0].lines, 1);
    }
}

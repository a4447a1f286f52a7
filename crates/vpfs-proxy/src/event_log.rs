//! What happens at a server, in the log: with names, and each thing once.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use vpfs_config::AppEntry;
use vpfs_core::{AppId, Event as SchedulerEvent, ServerId, Time};
use vpfs_node::Event;
use vpfs_node::coordination::Event as CoordinationEvent;

use crate::lock;

pub(crate) struct EventLog {
    server: String,
    known: Mutex<Known>,
    limit: LogLimit,
}

#[derive(Default)]
struct Known {
    apps: Vec<App>,
    due: Option<Time>,
}

#[derive(Clone, Default)]
struct App {
    name: String,
    kind: Kinds,
}

/// Whether an application is bulk. An application at the border between both kinds changes many times a second, so a
/// kind is worth a line once it has lasted, and does not end with what does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kinds {
    /// The latest one that has lasted, and since when it has,
    lasting: Option<(bool, Time)>,
    /// and another one that may.
    other: Option<(bool, Time)>,
}

impl Kinds {
    const LASTING: Duration = Duration::from_secs(30);

    fn change(&mut self, at: Time, bulk: bool) {
        let is_known = self.lasting.is_some_and(|(lasting, _)| lasting == bulk);
        match self.other {
            _ if is_known => self.other = None,
            Some((other, _)) if other == bulk => {}
            _ => self.other = Some((bulk, at)),
        }
    }

    fn due(&self) -> Option<Time> {
        self.other.map(|(_, since)| since + Self::LASTING)
    }

    fn settle(&mut self, now: Time) -> Option<(bool, Option<Duration>)> {
        let (bulk, since) = self.other.filter(|(_, since)| now.since(*since) >= Self::LASTING)?;
        let before = self.lasting.replace((bulk, since)).map(|(_, began)| since.since(began));
        self.other = None;
        Some((bulk, before))
    }
}

pub(crate) fn is_important(event: &Event) -> bool {
    matches!(
        event,
        Event::Scheduler(SchedulerEvent::LatencyMissed { .. } | SchedulerEvent::KindChanged { .. })
            | Event::Coordination(CoordinationEvent::StepRefused { .. })
    )
}

impl EventLog {
    pub(crate) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), known: Mutex::default(), limit: LogLimit::default() }
    }

    pub(crate) fn set_app(&self, app: AppId, entry: &AppEntry) {
        let mut known = lock(&self.known);
        let apps = &mut known.apps;
        if apps.len() <= app.index() {
            apps.resize_with(app.index() + 1, App::default);
        }
        if apps[app.index()].name != entry.name {
            apps[app.index()] = App { name: entry.name.clone(), ..App::default() };
        }
    }

    /// Something happened in the node. Returns whether [`Self::due_at`] may have changed.
    pub(crate) fn note(&self, at: Time, event: &Event) -> bool {
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
            Event::Coordination(CoordinationEvent::StepRefused { peer, bytes, .. }) => {
                if let Some(suppressed) = self.limit.due(Kind::Violation, at) {
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
        matches!(event, Event::Scheduler(SchedulerEvent::KindChanged { .. }))
    }

    pub(crate) fn note_refused(&self, at: Time, peer: ServerId, error: &impl std::fmt::Display) {
        if let Some(suppressed) = self.limit.due(Kind::Malformed, at) {
            tracing::warn!(server = self.server, peer = peer.0, %error, suppressed, "a report was refused");
        }
    }

    pub(crate) fn note_released(&self, at: Time, app: AppId) {
        if let Some(suppressed) = self.limit.due(Kind::Released, at) {
            let (server, app) = (self.server.as_str(), self.name(app));
            tracing::info!(server, app, suppressed, "a client kept the storage waiting, and lost its slots");
        }
    }

    fn note_kind(&self, at: Time, app: AppId, bulk: bool) {
        self.settle(at);
        let mut known = lock(&self.known);
        let Known { apps, due } = &mut *known;
        if let Some(app) = apps.get_mut(app.index()) {
            app.kind.change(at, bulk);
            *due = [*due, app.kind.due()].into_iter().flatten().min();
        }
    }

    pub(crate) fn due_at(&self) -> Option<Time> {
        lock(&self.known).due
    }

    /// Says which applications have changed their kind for good. O(applications) if one may have.
    pub(crate) fn settle(&self, now: Time) {
        let mut known = lock(&self.known);
        if known.due.is_none_or(|due| due > now) {
            return;
        }
        let changed = known.apps.iter_mut().filter_map(|app| {
            let settled = app.kind.settle(now)?;
            Some((app.name.clone(), settled))
        });
        let changed: Vec<_> = changed.collect();
        known.due = known.apps.iter().filter_map(|app| app.kind.due()).min();
        drop(known);
        for (app, (bulk, before)) in changed {
            let (server, app) = (self.server.as_str(), app.as_str());
            let before = before.map(|lasted| lasted.as_secs());
            match bulk {
                true => tracing::info!(
                    server,
                    app,
                    asked_for_less_seconds = before,
                    "takes all that it can get; others are protected from it"
                ),
                false => tracing::info!(
                    server,
                    app,
                    took_all_seconds = before,
                    "asks for less than its share; it is protected from others"
                ),
            }
        }
    }

    fn name(&self, app: AppId) -> String {
        lock(&self.known).apps.get(app.index()).map(|app| app.name.clone()).unwrap_or_default()
    }
}

const PERIOD: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Malformed,
    Violation,
    Truncated,
    Configuration,
    TimedOut,
    OutOfMemory,
    ConnectionsUsedUp,
    NoSocket,
    HeldForTooLong,
    TooManyConnections,
    Released,
}

/// The lines about one peer. Holds an entry for each kind of failure that occurred.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<BTreeMap<Kind, Quiet>>);

#[derive(Debug)]
struct Quiet {
    until: Time,
    suppressed: u64,
}

impl LogLimit {
    /// Whether to write a line about a failure, and how many without one came before it, if any. `None` if the previous
    /// line is less than a minute old; then the failure is counted.
    pub(crate) fn due(&self, kind: Kind, now: Time) -> Option<Option<u64>> {
        let mut kinds = lock(&self.0);
        let quiet = kinds.entry(kind).or_insert(Quiet { until: now, suppressed: 0 });
        if now < quiet.until {
            quiet.suppressed += 1;
            return None;
        }
        quiet.until = now + PERIOD;
        Some(Some(std::mem::take(&mut quiet.suppressed)).filter(|suppressed| *suppressed > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: of 277 lines of `vpfs events`, 270 said that an application took all, or asked for less. Cause: each
    /// change had a line, up to six a minute.
    #[test]
    fn a_kind_is_worth_a_line_once_it_has_lasted() {
        let at = |seconds: u64| Time::from_millis(1000 * seconds);
        let (mut kind, mut lines) = (Kinds::default(), Vec::new());
        let mut change = |seconds, bulk| {
            lines.extend(kind.settle(at(seconds)));
            kind.change(at(seconds), bulk);
            assert_eq!(kind.settle(at(seconds)), None);
        };
        (100..200).for_each(|second| change(second, second % 2 == 0));
        // From second 198 on it is bulk, except for a moment; from 1000 on it no longer is.
        change(200, true);
        change(500, false);
        change(510, true);
        change(1000, false);
        change(1001, false);
        change(1600, true);
        assert_eq!(lines, [(true, None), (false, Some(Duration::from_secs(800)))]);
        assert_eq!(kind.due(), Some(at(1630)));
    }

    #[test]
    fn one_line_in_a_period_for_each_kind() {
        let (limit, start) = (LogLimit::default(), Time::from_millis(5000));
        assert_eq!(limit.due(Kind::Malformed, start), Some(None));
        assert_eq!(limit.due(Kind::TimedOut, start), Some(None), "another kind");
        for second in 0..60 {
            assert_eq!(limit.due(Kind::Malformed, start + Duration::from_secs(second)), None);
        }
        assert_eq!(limit.due(Kind::Malformed, start + PERIOD), Some(Some(60)));
        assert_eq!(limit.due(Kind::Malformed, start + PERIOD), None);
        assert_eq!(limit.due(Kind::Malformed, start + 9 * PERIOD), Some(Some(1)));
    }
}

//! What applications did between two looks, over the servers that both saw.

use std::collections::BTreeMap;

use serde::Serialize;
use vpfs_admin::api::{App, Span, Status, Work};

use crate::print::plain;

/// An application.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    /// Its name.
    pub(super) app: String,
    /// Its weight.
    pub(super) weight: u32,
    /// The part of the storage's time due to it, if it has requests, beside those that have some now; the mean of
    /// several servers.
    pub(super) part: f64,
    /// The part of the storage's time that was due to it, ...
    pub(super) due: f64,
    /// ... and that it got; of several servers, the mean.
    pub(super) got: f64,
    /// Data that it moved.
    pub(super) bytes_per_second: f64,
    /// Requests of it that ended.
    pub(super) requests_per_second: f64,
    /// Of these, the mean time in vpfs, if there were any, ...
    pub(super) wait_seconds: Option<f64>,
    /// ... and in the storage.
    pub(super) storage_seconds: Option<f64>,
    /// Its requests that wait now, ...
    pub(super) queued: u64,
    /// ... and that are in the storage now.
    pub(super) outstanding: u64,
    /// What determines how it is served.
    pub(super) state: State,
}

/// What determines how an application is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Its requests pass at once.
    Exempt,
    /// Its clients kept the storage waiting.
    Released,
    /// Its cap held it.
    Capped,
    /// The pace of bulk held it.
    Paced,
    /// It takes all that it can get.
    Bulk,
    /// It has requests.
    Active,
    /// It has none.
    Idle,
}

impl State {
    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::Released => "released",
            Self::Capped => "capped",
            Self::Paced => "paced",
            Self::Bulk => "bulk",
            Self::Active => "active",
            Self::Idle => "idle",
        }
    }
}

/// A mean time for people; `-` if nothing had any.
pub(super) fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 0.01 => format!("{:.2}ms", seconds * 1e3),
        Some(seconds) if seconds < 1.0 => format!("{:.0}ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.1}s"),
    }
}

/// The applications by name, at the server called `server` or the sum of all. A server whose proxy started in between
/// is left out, as its counters began anew.
pub(super) fn rows(before: &[Status], after: &[Status], server: Option<&str>) -> Vec<Row> {
    let mut span = Span::of_all(before, after);
    span.servers.retain(|found| server.is_none_or(|name| name == found.name));
    let seconds = span.servers.iter().map(|server| server.seconds).fold(f64::MIN_POSITIVE, f64::max);
    let server_seconds = seconds * span.servers.len() as f64;
    let mut apps = BTreeMap::<&str, Vec<&App>>::new();
    for app in span.servers.iter().flat_map(|server| &server.apps) {
        apps.entry(&app.app).or_default().push(app);
    }
    apps.into_iter().map(|(name, apps)| row(name, &apps, seconds, server_seconds)).collect()
}

/// Of an application at several servers.
fn row(name: &str, apps: &[&App], seconds: f64, server_seconds: f64) -> Row {
    let sum = |of: fn(&App) -> f64| apps.iter().map(|app| of(app)).sum::<f64>();
    let mut work = Work::default();
    apps.iter().for_each(|app| work.add(&app.work()));
    Row {
        app: plain(name),
        weight: apps.last().map_or(0, |app| app.weight),
        part: sum(|app| app.part) / apps.len() as f64,
        due: sum(|app| app.due_seconds) / server_seconds,
        got: sum(|app| app.got_seconds) / server_seconds,
        bytes_per_second: work.bytes as f64 / seconds,
        requests_per_second: work.requests as f64 / seconds,
        wait_seconds: work.mean(work.wait_seconds),
        storage_seconds: work.mean(work.storage_seconds),
        queued: work.queued,
        outstanding: work.outstanding,
        state: state(apps),
    }
}

fn state(apps: &[&App]) -> State {
    let any = |is: fn(&App) -> bool| apps.iter().any(|app| is(app));
    let is_held = any(|app| app.held_seconds > 0.0);
    if any(|app| app.exempt) {
        State::Exempt
    } else if any(|app| app.released_requests > 0) {
        State::Released
    } else if is_held && any(|app| app.has_cap) {
        State::Capped
    } else if is_held {
        State::Paced
    } else if !any(App::is_active) {
        State::Idle
    } else if any(|app| app.bulk) {
        State::Bulk
    } else {
        State::Active
    }
}

#[cfg(test)]
pub(super) mod tests {
    use vpfs_admin::api::{Server, Usage, Waits};

    use super::*;

    fn work(requests: u64) -> Work {
        Work {
            queued: 1,
            outstanding: 2,
            requests,
            failed: 0,
            late: 0,
            bytes: requests << 20,
            wait_seconds: requests as f64 * 0.5,
            storage_seconds: requests as f64 * 0.25,
        }
    }

    /// A proxy for a server after some time, in which *climate* had a request a second and was due and got half of the
    /// storage's time, and *idle* had nothing.
    pub(in crate::cmd) fn status(server: &str, up: u32) -> Status {
        let nothing = Work { queued: 0, outstanding: 0, ..work(0) };
        let app = |app: &str, work, seconds| App {
            app: app.to_owned(),
            automatic: false,
            shares: Vec::new(),
            weight: 2,
            part: 0.25,
            exempt: false,
            bulk: true,
            due_seconds: seconds,
            got_seconds: seconds,
            has_cap: false,
            cap_bytes_per_second: None,
            released_requests: 0,
            held_seconds: 0.0,
            waits: Waits::default(),
            behind: Vec::new(),
            behind_in_storage: Vec::new(),
            in_storage: Vec::new(),
            read: work,
            write: nothing,
            metadata: nothing,
        };
        let usage = Usage { now: 0, limit: 1 };
        let server = Server {
            server: server.to_owned(),
            policy: "isolation".to_owned(),
            queued: 1,
            outstanding: 2,
            busy_seconds: up.into(),
            window_seconds: None,
            pace: None,
            refused_connections: 0,
            apps: vec![app("climate", work(up.into()), f64::from(up) / 2.0), app("idle", nothing, 0.0)],
        };
        let up_seconds = up.into();
        let (version, holders, servers) = ("1".into(), Vec::new(), vec![server]);
        let (memory_bytes, connections, configuration) = (usage, usage, String::new());
        Status { version, configuration, up_seconds, memory_bytes, connections, unstored_bytes: 0, holders, servers }
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let rows = rows(&[status("s1", 10)], &[status("s1", 14)], None);
        let climate = Row {
            app: "climate".into(),
            weight: 2,
            part: 0.25,
            due: 0.5,
            got: 0.5,
            bytes_per_second: f64::from(1 << 20),
            requests_per_second: 1.0,
            wait_seconds: Some(0.5),
            storage_seconds: Some(0.25),
            queued: 1,
            outstanding: 2,
            state: State::Bulk,
        };
        assert_eq!(rows[0], climate);
        assert_eq!((rows[1].app.as_str(), rows[1].wait_seconds, rows[1].state), ("idle", None, State::Idle));
    }

    #[test]
    fn servers_are_added_and_one_that_started_anew_is_left_out() {
        let before = [status("s1", 10), status("s2", 10), status("s3", 10)];
        let after = [status("s1", 14), status("s2", 14), status("s3", 2)];
        let all = rows(&before, &after, None);
        assert_eq!((all[0].requests_per_second, all[0].got), (2.0, 0.5));
        assert_eq!(rows(&before, &after, Some("s2"))[0].requests_per_second, 1.0);
        assert_eq!(rows(&before, &after, Some("s3")), []);
        assert_eq!(rows(&[], &after, None), []);
    }

    #[test]
    fn a_state_says_what_holds_it() {
        let app = App { held_seconds: 1.0, ..status("s1", 1).servers.remove(0).apps.remove(0) };
        let state = |app: &App| state(&[app]);
        assert_eq!(state(&app), State::Paced);
        assert_eq!(state(&App { has_cap: true, ..app.clone() }), State::Capped);
        assert_eq!(state(&App { released_requests: 1, ..app.clone() }), State::Released);
        assert_eq!(state(&App { held_seconds: 0.0, bulk: false, ..app.clone() }), State::Active);
        assert_eq!(state(&App { exempt: true, ..app }), State::Exempt);
    }

    #[test]
    fn a_name_does_not_control_the_terminal() {
        assert_eq!(row("a\u{1b}[2J", &[], 1.0, 1.0).app, "a?[2J");
    }
}

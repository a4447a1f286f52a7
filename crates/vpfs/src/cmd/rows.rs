//! What applications did between two looks, over the servers that both saw.

use std::collections::BTreeMap;

use serde::Serialize;
use vpfs_admin::api::{App, Server, Status};

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

/// What was counted between two looks.
#[derive(Clone, Default)]
struct Sum {
    weight: u32,
    /// Of all servers that know it, and their number.
    parts: (f64, u32),
    is_exempt: bool,
    due: f64,
    got: f64,
    held: f64,
    work: Total,
    queued: u64,
    outstanding: u64,
    released: u64,
    has_cap: bool,
    is_bulk: bool,
}

/// Of all requests of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Total {
    /// Data that they moved.
    pub(super) bytes: u64,
    /// Those that ended.
    pub(super) requests: u64,
    /// Their time in vpfs, ...
    pub(super) wait: f64,
    /// ... and in the storage, in seconds.
    pub(super) storage: f64,
}

impl Total {
    fn of(app: &App) -> Self {
        let mut total = Self::default();
        total.add(app);
        total
    }

    /// Adds those of an application.
    pub(super) fn add(&mut self, app: &App) {
        for work in app.works() {
            self.bytes += work.bytes;
            self.requests += work.requests;
            self.wait += work.wait_seconds;
            self.storage += work.storage_seconds;
        }
    }

    /// A sum of times, for each request; `None` if there were none.
    pub(super) fn mean(&self, seconds: f64) -> Option<f64> {
        (self.requests > 0).then(|| seconds / self.requests as f64)
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
    let (mut sums, mut servers, mut seconds) = (BTreeMap::<&str, Sum>::new(), 0_u32, 0.0_f64);
    for status in after {
        for now in status.servers.iter().filter(|found| server.is_none_or(|name| name == found.server)) {
            let Some((up, then)) = find(before, &now.server).filter(|(up, _)| *up < status.up_seconds) else {
                continue;
            };
            servers += 1;
            seconds = seconds.max(status.up_seconds - up);
            for app in &now.apps {
                let then = then.apps.iter().find(|found| found.app == app.app);
                add(sums.entry(&app.app).or_default(), app, then);
            }
        }
    }
    let time = seconds.max(f64::MIN_POSITIVE);
    sums.into_iter().map(|(app, sum)| row(app, &sum, time, time * f64::from(servers))).collect()
}

fn find<'a>(statuses: &'a [Status], server: &str) -> Option<(f64, &'a Server)> {
    statuses.iter().find_map(|status| {
        let found = status.servers.iter().find(|found| found.server == server)?;
        Some((status.up_seconds, found))
    })
}

fn add(sum: &mut Sum, now: &App, then: Option<&App>) {
    let (work, before) = (Total::of(now), then.map(Total::of).unwrap_or_default());
    sum.weight = now.weight;
    sum.parts = (sum.parts.0 + now.part, sum.parts.1 + 1);
    sum.is_exempt |= now.exempt;
    sum.due += now.due_seconds - then.map_or(0.0, |then| then.due_seconds);
    sum.got += now.got_seconds - then.map_or(0.0, |then| then.got_seconds);
    sum.held += now.held_seconds - then.map_or(0.0, |then| then.held_seconds);
    sum.work.bytes += work.bytes.saturating_sub(before.bytes);
    sum.work.requests += work.requests.saturating_sub(before.requests);
    sum.work.wait += work.wait - before.wait;
    sum.work.storage += work.storage - before.storage;
    sum.released += now.released_requests.saturating_sub(then.map_or(0, |then| then.released_requests));
    let works = [&now.read, &now.write, &now.metadata];
    sum.queued += works.iter().map(|work| work.queued).sum::<u64>();
    sum.outstanding += works.iter().map(|work| work.outstanding).sum::<u64>();
    sum.has_cap |= now.has_cap;
    sum.is_bulk |= now.bulk;
}

fn row(app: &str, sum: &Sum, seconds: f64, server_seconds: f64) -> Row {
    let Total { bytes, requests, wait, storage } = sum.work;
    Row {
        app: plain(app),
        weight: sum.weight,
        part: sum.parts.0 / f64::from(sum.parts.1.max(1)),
        due: sum.due / server_seconds,
        got: sum.got / server_seconds,
        bytes_per_second: bytes as f64 / seconds,
        requests_per_second: requests as f64 / seconds,
        wait_seconds: sum.work.mean(wait),
        storage_seconds: sum.work.mean(storage),
        queued: sum.queued,
        outstanding: sum.outstanding,
        state: state(sum),
    }
}

fn state(sum: &Sum) -> State {
    match sum {
        Sum { is_exempt: true, .. } => State::Exempt,
        Sum { released: 1.., .. } => State::Released,
        Sum { held, has_cap: true, .. } if *held > 0.0 => State::Capped,
        Sum { held, .. } if *held > 0.0 => State::Paced,
        Sum { work: Total { requests: 0, .. }, queued: 0, outstanding: 0, .. } => State::Idle,
        Sum { is_bulk: true, .. } => State::Bulk,
        _ => State::Active,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use vpfs_admin::api::{Usage, Waits, Work};

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
        Status { version: "1".into(), up_seconds, memory_bytes: usage, connections: usage, servers: vec![server] }
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
        let sum = Sum { held: 1.0, is_bulk: true, ..Sum::default() };
        assert_eq!(state(&sum), State::Paced);
        assert_eq!(state(&Sum { has_cap: true, ..sum.clone() }), State::Capped);
        assert_eq!(state(&Sum { released: 1, ..sum.clone() }), State::Released);
        assert_eq!(state(&Sum { is_exempt: true, ..sum }), State::Exempt);
        assert_eq!(state(&Sum { queued: 1, ..Sum::default() }), State::Active);
    }

    #[test]
    fn a_name_does_not_control_the_terminal() {
        assert_eq!(row("a\u{1b}[2J", &Sum::default(), 1.0, 1.0).app, "a?[2J");
    }
}

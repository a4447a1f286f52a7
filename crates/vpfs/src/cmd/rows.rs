//! What applications did between two looks, over the servers that both saw: `vpfs top`, and the page.

use std::collections::BTreeMap;

use serde::Serialize;
use vpfs_proxy::admin::api::{App, Span, Status, Work};

use super::why::{Breakdown, Cause};
use crate::print::{percent, plain};

/// What is found out for so many applications, those whose requests took longest; of others, only what they did.
const EXPLAINED: usize = 100;

/// Some time, for a glance.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Glance {
    pub(super) verdict: Verdict,
    /// The sum of all applications: what they used is the storage's utilisation.
    pub(super) total: Row,
    pub(super) apps: Vec<Row>,
    #[serde(skip)]
    pub(super) span: Span,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) app: String,
    /// Its weight; of a sum none.
    pub(super) weight: Option<u32>,
    pub(super) bytes_per_second: f64,
    pub(super) requests_per_second: f64,
    /// The part of the storage's time that it used; of several servers, the mean.
    pub(super) used: f64,
    /// The part to which its weight entitled it among those that asked, from 0 to 1; of all applications, these are 1.
    pub(super) entitled: f64,
    /// It used less than that, although it waited for others.
    pub(super) below_entitled: bool,
    /// Of the requests that ended, the mean time in vpfs, if there were any, ...
    pub(super) wait_seconds: Option<f64>,
    /// ... and in the storage.
    pub(super) storage_seconds: Option<f64>,
    /// Its requests that wait now, ...
    pub(super) queued: u64,
    /// ... and that are in the storage now.
    pub(super) outstanding: u64,
    /// Its requests pass at once.
    pub(super) exempt: bool,
    /// What most of the time of its requests was for, as `vpfs why` says it; `null` if none ended.
    pub(super) cause: Option<Cause>,
    /// Behind whom they waited longest, if that is worth a word.
    pub(super) slowed_by: Option<SlowedBy>,
}

/// Another application, and the part of the time of the requests that were behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SlowedBy {
    app: String,
    part: f64,
}

impl Row {
    /// For people; `-` if it asked for nothing, or does not take turns.
    pub(super) fn entitled(&self) -> String {
        if self.entitled > 0.0 { percent(self.entitled) } else { "-".to_owned() }
    }

    /// A sign for people who do not see colours: it is below what it is entitled to, or waits for somebody.
    pub(super) fn sign(&self) -> char {
        match &self.cause {
            _ if self.below_entitled => '!',
            _ if self.slowed_by.is_some() => '~',
            Some(Cause::Pace | Cause::Minimum) => '~',
            _ => ' ',
        }
    }

    /// Why its requests take as long as they do.
    pub(super) fn why(&self) -> String {
        match (&self.cause, &self.slowed_by) {
            _ if self.exempt => "exempt".to_owned(),
            (Some(Cause::Nothing | Cause::Share(_) | Cause::Neighbour(_)), Some(SlowedBy { app, part })) => {
                format!("behind {} {}", plain(app), percent(*part))
            }
            (Some(cause), _) => cause.short(),
            (None, _) if self.queued > 0 => "none ended".to_owned(),
            (None, _) if self.outstanding > 0 => "in the storage".to_owned(),
            (None, _) => "idle".to_owned(),
        }
    }
}

impl Glance {
    /// At the server called `server`, or at all. A server whose proxy started in between is left out, as its counters
    /// began anew.
    pub(super) fn of(before: &[Status], after: &[Status], server: Option<&str>) -> Self {
        let mut span = Span::of_all(before, after);
        span.servers.retain(|found| server.is_none_or(|name| name == found.name));
        let mut by_name = BTreeMap::<&str, Vec<&App>>::new();
        for app in span.servers.iter().flat_map(|server| &server.apps) {
            by_name.entry(&app.app).or_default().push(app);
        }
        let all: Vec<&App> = by_name.values().flatten().copied().collect();
        let scale = Scale::of(&span, &all);
        let total = Row { weight: None, ..scale.row("total", &all) };
        let mut apps: Vec<Row> = by_name.iter().map(|(name, apps)| scale.row(name, apps)).collect();
        let explained = explained(&span, &by_name);
        for row in &mut apps {
            if let Some(found) = explained.get(row.app.as_str()) {
                row.below_entitled = found.is_below_entitled();
                row.cause = (found.requests > 0).then(|| Cause::of(found));
                row.slowed_by = found.slowed_most_by().map(|(app, part)| SlowedBy { app: app.to_owned(), part });
            }
        }
        let verdict = Verdict::of(total.used, explained.values());
        apps.iter_mut().for_each(|row| row.app = plain(&row.app));
        Self { verdict, total, apps, span }
    }
}

fn explained(span: &Span, by_name: &BTreeMap<&str, Vec<&App>>) -> BTreeMap<String, Breakdown> {
    let seconds = |apps: &[&App]| apps.iter().map(|app| app.work().seconds()).sum::<f64>();
    let active = by_name.iter().filter(|(_, apps)| apps.iter().any(|app| app.is_active()));
    let mut longest: Vec<(f64, &str)> = active.map(|(name, apps)| (seconds(apps), *name)).collect();
    longest.sort_by(|one, other| other.0.total_cmp(&one.0));
    let longest = longest.into_iter().take(EXPLAINED);
    longest.filter_map(|(_, app)| Some((app.to_owned(), Breakdown::of(span, app)?))).collect()
}

/// What makes parts and rates of sums.
struct Scale {
    seconds: f64,
    server_seconds: f64,
    entitled_seconds: f64,
}

impl Scale {
    fn of(span: &Span, all: &[&App]) -> Self {
        let seconds = span.servers.iter().map(|server| server.seconds);
        let entitled_seconds: f64 = all.iter().map(|app| app.entitled_seconds).sum();
        Self {
            seconds: seconds.clone().fold(f64::MIN_POSITIVE, f64::max),
            server_seconds: seconds.sum::<f64>().max(f64::MIN_POSITIVE),
            entitled_seconds: entitled_seconds.max(f64::MIN_POSITIVE),
        }
    }

    /// Of an application at several servers.
    fn row(&self, name: &str, apps: &[&App]) -> Row {
        let sum = |of: fn(&App) -> f64| apps.iter().map(|app| of(app)).sum::<f64>();
        let mut work = Work::default();
        apps.iter().for_each(|app| work.add(&app.work()));
        Row {
            app: name.to_owned(),
            weight: apps.last().map(|app| app.weight),
            bytes_per_second: work.bytes as f64 / self.seconds,
            requests_per_second: work.requests as f64 / self.seconds,
            used: sum(|app| app.used_seconds) / self.server_seconds,
            entitled: sum(|app| app.entitled_seconds) / self.entitled_seconds,
            below_entitled: false,
            wait_seconds: work.mean(work.wait_seconds),
            storage_seconds: work.mean(work.storage_seconds),
            queued: work.queued,
            outstanding: work.outstanding,
            exempt: apps.iter().any(|app| app.exempt),
            cause: None,
            slowed_by: None,
        }
    }
}

/// What to know first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Verdict {
    pub(super) level: Level,
    /// One each for the three questions.
    pub(super) sentences: Vec<String>,
}

/// How well applications fare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// None waits for another for long.
    #[default]
    Good,
    /// Some do, and get what they are entitled to.
    Slowed,
    /// Some get less.
    Below,
}

impl Level {
    /// A sign for people who do not see colours, and a word.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Good => "OK",
            Self::Slowed => "~ slowed",
            Self::Below => "! below",
        }
    }
}

impl Verdict {
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.level.sign(), self.sentences.join(" "))
    }

    pub(super) fn of<'a>(utilisation: f64, apps: impl Iterator<Item = &'a Breakdown> + Clone) -> Self {
        let mut slowed: Vec<(&Breakdown, &str, f64)> =
            apps.clone().filter_map(|app| app.slowed_most_by().map(|(by, part)| (app, by, part))).collect();
        slowed.sort_by(|one, other| other.2.total_cmp(&one.2));
        let mut below: Vec<&Breakdown> = apps.clone().filter(|app| app.is_below_entitled()).collect();
        below.sort_by(|one, other| (one.used - one.entitled).total_cmp(&(other.used - other.entitled)));
        let level = match (slowed.is_empty(), below.is_empty()) {
            (_, false) => Level::Below,
            (false, true) => Level::Slowed,
            (true, true) => Level::Good,
        };
        let mut sentences = vec![busy(utilisation, apps.count() == 0)];
        sentences.push(slowed.first().map_or_else(
            || "No application waits long for another.".to_owned(),
            |(app, by, part)| {
                let (app, more) = (plain(&app.app), more(slowed.len()));
                format!(
                    "{by} slows {app}: {part} of the time of its requests{more}.",
                    by = plain(by),
                    part = percent(*part)
                )
            },
        ));
        sentences.push(below.first().map_or_else(
            || "All get what they are entitled to.".to_owned(),
            |app| {
                let [used, entitled] = [app.used, app.entitled].map(percent);
                format!("{} used {used} of the {entitled} it is entitled to{}.", plain(&app.app), more(below.len()))
            },
        ));
        Self { level, sentences }
    }
}

fn busy(utilisation: f64, is_idle: bool) -> String {
    let word = match utilisation {
        _ if is_idle => return "The storage is idle.".to_owned(),
        0.8.. => "busy",
        0.3.. => "in use",
        _ => "lightly used",
    };
    format!("The storage is {word} ({}).", percent(utilisation))
}

fn more(count: usize) -> String {
    if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() }
}

#[cfg(test)]
pub(super) mod tests {
    use vpfs_proxy::admin::api::{Server, Usage, Waits};

    use super::*;
    use crate::cmd::why::{example, example_span};

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

    /// A proxy for a server after some time, in which *climate* had a request a second, used half of the storage's time
    /// and alone asked for it, and *idle* had nothing.
    pub(crate) fn status(server: &str, up: u32) -> Status {
        let nothing = Work { queued: 0, outstanding: 0, ..work(0) };
        let app = |app: &str, work, seconds| App {
            app: app.to_owned(),
            automatic: false,
            shares: Vec::new(),
            weight: 2,
            exempt: false,
            bulk: true,
            used_seconds: seconds,
            entitled_seconds: 2.0 * seconds,
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
            pace_bytes_per_second: None,
            tried_rates: Vec::new(),
            refused_connections: 0,
            apps: vec![app("climate", work(up.into()), f64::from(up) / 2.0), app("idle", nothing, 0.0)],
        };
        let up_seconds = up.into();
        let (version, holders, servers) = ("1".into(), Vec::new(), vec![server]);
        let (memory_bytes, connections, configuration) = (usage, usage, String::new());
        Status { version, configuration, up_seconds, memory_bytes, connections, unstored_bytes: 0, holders, servers }
    }

    fn rows(before: &[Status], after: &[Status], server: Option<&str>) -> Vec<Row> {
        Glance::of(before, after, server).apps
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let rows = rows(&[status("s1", 10)], &[status("s1", 14)], None);
        let climate = Row {
            app: "climate".into(),
            weight: Some(2),
            bytes_per_second: f64::from(1 << 20),
            requests_per_second: 1.0,
            used: 0.5,
            entitled: 1.0,
            below_entitled: false,
            wait_seconds: Some(0.5),
            storage_seconds: Some(0.25),
            queued: 1,
            outstanding: 2,
            exempt: false,
            cause: Some(Cause::Nothing),
            slowed_by: None,
        };
        assert_eq!(rows[0], climate);
        let idle = &rows[1];
        assert_eq!((idle.app.as_str(), idle.wait_seconds, idle.used), ("idle", None, 0.0));
        assert_eq!((idle.why().as_str(), idle.entitled().as_str()), ("idle", "-"));
    }

    #[test]
    fn a_row_says_who_slows_it_even_if_that_is_not_the_most() {
        let row = |part: f64, below_entitled, cause| Row {
            below_entitled,
            cause: Some(cause),
            slowed_by: (part > 0.0).then(|| SlowedBy { app: "large".to_owned(), part }),
            ..Row::default()
        };
        let seen = |row: Row| (row.sign(), row.why());
        assert_eq!(seen(row(0.0, false, Cause::Nothing)), (' ', "-".to_owned()));
        assert_eq!(seen(row(0.3, false, Cause::Nothing)), ('~', "behind large 30%".to_owned()));
        assert_eq!(seen(row(0.9, true, Cause::Neighbour("large".into()))), ('!', "behind large 90%".to_owned()));
        assert_eq!(seen(row(0.2, false, Cause::Cap)), ('~', "its cap".to_owned()));
        assert_eq!(seen(row(0.0, false, Cause::Pace)), ('~', "pace of bulk".to_owned()));
    }

    /// Symptom: a column of parts summed to 321 %, as each was what an application would be due if it came.
    #[test]
    fn columns_add_up() {
        let mut after = [status("s1", 14), status("s2", 14)];
        for status in &mut after {
            let server = &mut status.servers[0];
            server.apps[1].entitled_seconds = 12.0;
            server.apps[1].used_seconds = 1.0;
            server.apps.push(App { app: "third".into(), used_seconds: 0.2, ..server.apps[1].clone() });
        }
        let before = [status("s1", 10), status("s2", 10)];
        for server in [None, Some("s1")] {
            let Glance { total, apps, .. } = Glance::of(&before, &after, server);
            let sums = apps.iter().fold((0.0, 0.0), |sums, row| (sums.0 + row.used, sums.1 + row.entitled));
            assert!((sums.0 - total.used).abs() < 1e-9 && (sums.1 - 1.0).abs() < 1e-9, "{sums:?}");
            assert!((total.used - 0.8).abs() < 1e-9 && total.entitled == 1.0, "{total:?}");
        }
    }

    #[test]
    fn servers_are_added_and_one_that_started_anew_is_left_out() {
        let before = [status("s1", 10), status("s2", 10), status("s3", 10)];
        let after = [status("s1", 14), status("s2", 14), status("s3", 2)];
        let all = rows(&before, &after, None);
        assert_eq!((all[0].requests_per_second, all[0].used), (2.0, 0.5));
        assert_eq!(rows(&before, &after, Some("s2"))[0].requests_per_second, 1.0);
        assert_eq!(rows(&before, &after, Some("s3")), []);
        assert_eq!(rows(&[], &after, None), []);
    }

    #[test]
    fn a_name_does_not_control_the_terminal() {
        let hostile = |up| {
            let mut status = status("s1", up);
            status.servers[0].apps[0].app = "a\u{1b}[2J".to_owned();
            [status]
        };
        let Glance { apps, verdict, .. } = Glance::of(&hostile(10), &hostile(14), None);
        assert!(apps.iter().any(|row| row.app == "a?[2J") && !format!("{verdict:?}").contains('\u{1b}'));
    }

    fn verdict(times: [f64; 3], used: f64) -> Verdict {
        let mut apps = vec![example("small", times, "large"), example("large", [0.0, 1.0, 1.0], "large")];
        apps[0].used_seconds = used;
        let span = example_span(apps);
        let all: Vec<Breakdown> = ["small", "large"].iter().filter_map(|app| Breakdown::of(&span, app)).collect();
        Verdict::of(0.93, all.iter())
    }

    #[test]
    fn the_three_questions_are_answered() {
        let below = verdict([0.0, 20.0, 1.0], 1.0);
        let expected = [
            "The storage is busy (93%).",
            "large slows small: 95% of the time of its requests.",
            "small used 10% of the 50% it is entitled to.",
        ];
        assert_eq!((below.level, &below.sentences[..]), (Level::Below, &expected.map(str::to_owned)[..]));
        let slowed = verdict([0.0, 20.0, 1.0], 5.0);
        assert_eq!((slowed.level, slowed.sentences[2].as_str()), (Level::Slowed, "All get what they are entitled to."));
        let good = verdict([0.0, 1.0, 1.0], 1.0);
        assert_eq!((good.level, good.sentences[1].as_str()), (Level::Good, "No application waits long for another."));
        let idle = Verdict::of(0.0, [].iter());
        assert_eq!((idle.level, idle.sentences[0].as_str()), (Level::Good, "The storage is idle."));
    }
}

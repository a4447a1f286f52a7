//! What applications did and waited for, kept over restarts: by ten seconds for an hour, by minutes for a day, by ten
//! minutes for thirty days (docs/decisions/0010-watching.md).
//!
//! One task writes, in threads for blocking work, from the same [`Status`](crate::Status) as metrics. Whatever
//! fails costs history and is logged once.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rusqlite::{Connection, OpenFlags, Row, Transaction, named_params};
use tokio::time::MissedTickBehavior;

use crate::Observer;
use crate::admin::api::{App, AtServer, History, OTHERS, Sample, Span, Status};

/// Keeps history in the file at `path`, for ever. The time since the last sample is lost if this is dropped.
pub fn keep(path: PathBuf, observer: Observer) -> BoxFuture<'static, ()> {
    Box::pin(async move {
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
    })
}

/// What a process, which need not run any more, kept in the file at `path` of the latest `since` seconds: all samples
/// of `app`, or sums of all applications. Blocks.
///
/// # Errors
/// If the file cannot be read, or is no history.
pub fn kept(path: &Path, app: Option<&str>, since: u64) -> io::Result<History> {
    read_rows(path, &Query { app: app.map(str::to_owned), since }, now()).map_err(io::Error::other)
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
pub(crate) fn write(path: &Path, at: u64, span: &Span) -> rusqlite::Result<()> {
    Store::open(path)?.add(at, span)
}

struct Keeper {
    path: PathBuf,
    store: Option<Store>,
    before: Option<Status>,
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

/// What applications did, by [`crate::admin::api::History`]; see [`route`].
pub const HISTORY: &str = "/v1/history";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// All samples of this application; of all applications, only sums.
    pub(crate) app: Option<String>,
    pub(crate) since: u64,
}

impl Query {
    const SINCE: u64 = 3600;

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut query = Self { app: None, since: Self::SINCE };
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (key, value.parse()) {
                ("app", _) => query.app = Some(percent_decode_str(value).decode_utf8_lossy().into_owned()),
                ("since", Ok(since)) => query.since = since,
                ("since", Err(_)) => return Err(format!("since={value} is no number of seconds, such as 7200")),
                _ => return Err(format!("there is no {key}; there are app and since")),
            }
        }
        Ok(query)
    }
}

/// The route to ask for the history of the latest `since` seconds: all samples of `app`, or sums of all applications.
pub fn route(app: Option<&str>, since: u64) -> String {
    let app = app.map(|app| format!("&app={}", utf8_percent_encode(app, NON_ALPHANUMERIC)));
    format!("{HISTORY}?since={since}{}", app.unwrap_or_default())
}

struct Level {
    seconds: u64,
    kept: u64,
}

const LEVELS: [Level; 3] =
    [Level { seconds: 10, kept: 3600 }, Level { seconds: 60, kept: 86_400 }, Level { seconds: 600, kept: 30 * 86_400 }];

/// Changes when an older program could not read the file; it begins anew then.
const FORMAT: i64 = 1;

/// The largest size of the file. Beyond, the oldest samples of the level that has most give way.
const LARGEST: i64 = 256 << 20;

/// So many applications have samples of their own at each server, those whose requests took longest.
const APPS: usize = 100;

/// How long another process may keep the file locked: a predecessor that hands over.
const PATIENCE: Duration = Duration::from_secs(2);

const MOST: u32 = 50_000;

#[derive(Debug)]
struct Store {
    connection: Connection,
}

impl Store {
    fn open(path: &Path) -> rusqlite::Result<Self> {
        create(path);
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(PATIENCE)?;
        // Not a log of writes (WAL), which maps a file into memory: a disk that cannot be read would end the process.
        connection.pragma_update(None, "journal_mode", "truncate")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        let transaction = connection.transaction()?;
        let format: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if format != FORMAT {
            transaction.execute_batch(
                "DROP TABLE IF EXISTS sample;
                 CREATE TABLE sample (
                     level INTEGER NOT NULL, at INTEGER NOT NULL, server TEXT NOT NULL, app TEXT NOT NULL,
                     policy TEXT NOT NULL, seconds REAL NOT NULL, did TEXT NOT NULL,
                     PRIMARY KEY (level, at, server, app)
                 ) WITHOUT ROWID;",
            )?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
        }
        transaction.commit()?;
        Ok(Self { connection })
    }

    /// Adds what happened until `at`, in seconds since 1970, makes longer samples of what is complete, and removes what
    /// is too old.
    fn add(&mut self, at: u64, span: &Span) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for server in &span.servers {
            let AtServer { name: server, policy, seconds, apps, .. } = server;
            for app in kept_rows(apps) {
                let sample = Sample { at, seconds: *seconds, server: server.clone(), policy: policy.clone(), app };
                insert(&transaction, 0, &sample)?;
            }
        }
        for level in 1..LEVELS.len() {
            roll_up(&transaction, level, at)?;
        }
        for (level, Level { kept, .. }) in LEVELS.iter().enumerate() {
            transaction
                .execute("DELETE FROM sample WHERE level = ?1 AND at <= ?2", (level, at.saturating_sub(*kept)))?;
        }
        limit(&transaction, LARGEST)?;
        transaction.commit()
    }
}

/// For its owner alone, as who may not use the socket must not learn what applications do. Whatever fails here fails
/// again where it is opened.
fn create(path: &Path) {
    drop(OpenOptions::new().create(true).append(true).mode(0o600).open(path));
}

/// Those whose requests took longest, without what is zero, and the sum of all others.
fn kept_rows(apps: &[App]) -> Vec<App> {
    let mut apps: Vec<App> = apps.to_vec();
    apps.sort_by(|one, other| other.work().seconds().total_cmp(&one.work().seconds()));
    let mut others = apps.split_off(apps.len().min(APPS)).into_iter();
    if let Some(mut sum) = others.next() {
        OTHERS.clone_into(&mut sum.app);
        others.for_each(|app| sum.add(&app));
        apps.push(sum);
    }
    apps.iter_mut().for_each(App::shorten);
    apps
}

fn insert(transaction: &Transaction<'_>, level: usize, sample: &Sample) -> rusqlite::Result<()> {
    let Sample { at, seconds, server, policy, app } = sample;
    let did = serde_json::to_string(app).expect("these types have text for keys, and nothing else fails");
    let sql = "INSERT OR REPLACE INTO sample (level, at, server, app, policy, seconds, did) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    transaction.prepare(sql)?.execute((level, at, server, &app.app, policy, seconds, did)).map(drop)
}

/// Makes samples of `level` of the shorter ones, for all periods that are over at `now`.
fn roll_up(transaction: &Transaction<'_>, level: usize, now: u64) -> rusqlite::Result<()> {
    let period = LEVELS[level].seconds;
    let done = latest(transaction, level)?;
    let complete = now / period * period;
    if done >= complete {
        return Ok(());
    }
    let sql = "SELECT at, seconds, server, policy, app, did FROM sample \
               WHERE level = ?1 AND at > ?2 AND at <= ?3 ORDER BY at DESC";
    let mut sums = BTreeMap::<(u64, String, String), Sample>::new();
    let mut statement = transaction.prepare(sql)?;
    let mut rows = statement.query((level - 1, done, complete))?;
    while let Some(row) = rows.next()? {
        let Some(sample) = sample(row)? else { continue };
        add_to(&mut sums, sample.at.div_ceil(period) * period, sample);
    }
    sums.values().try_for_each(|sample| insert(transaction, level, sample))
}

fn add_to(sums: &mut BTreeMap<(u64, String, String), Sample>, at: u64, sample: Sample) {
    let key = (at, sample.server.clone(), sample.app.app.clone());
    match sums.get_mut(&key) {
        Some(sum) => {
            sum.seconds += sample.seconds;
            sum.app.add_earlier(&sample.app);
        }
        None => drop(sums.insert(key, Sample { at, ..sample })),
    }
}

/// The end of the latest sample of a level; zero if there is none.
fn latest(connection: &Connection, level: usize) -> rusqlite::Result<u64> {
    let sql = "SELECT coalesce(max(at), 0) FROM sample WHERE level = ?1";
    connection.query_row(sql, [level], |row| row.get(0))
}

/// `None` for one that another version wrote in another way.
fn sample(row: &Row<'_>) -> rusqlite::Result<Option<Sample>> {
    let did: String = row.get("did")?;
    let Ok(app) = serde_json::from_str::<App>(&did) else { return Ok(None) };
    let (at, seconds) = (row.get("at")?, row.get("seconds")?);
    Ok(Some(Sample { at, seconds, server: row.get("server")?, policy: row.get("policy")?, app }))
}

/// Removes samples until what is used is no more than `largest` bytes; freed pages are used again.
fn limit(transaction: &Transaction<'_>, largest: i64) -> rusqlite::Result<()> {
    let value = |name| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    while (value("page_count")? - value("freelist_count")?) * value("page_size")? > largest {
        let most = "SELECT level, count(*) FROM sample GROUP BY level ORDER BY count(*) DESC LIMIT 1";
        let (level, count): (i64, i64) = transaction.query_row(most, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let oldest = "DELETE FROM sample WHERE level = ?1 AND at <= \
                      (SELECT at FROM sample WHERE level = ?1 ORDER BY at LIMIT 1 OFFSET ?2)";
        transaction.execute(oldest, (level, count / 10))?;
    }
    Ok(())
}

/// What the file at `path` has of the time before `now`: of each time in the longest samples that go back far enough,
/// and the rest in shorter ones. Blocks.
pub(crate) fn read_rows(path: &Path, query: &Query, now: u64) -> rusqlite::Result<History> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(PATIENCE)?;
    let longest = LEVELS.iter().position(|level| level.kept >= query.since).unwrap_or(LEVELS.len() - 1);
    let mut from = [now.saturating_sub(query.since); LEVELS.len()];
    for level in (0..longest).rev() {
        from[level] = latest(&connection, level + 1)?.max(from[level + 1]);
    }
    let mut samples = Vec::new();
    let mut sums = BTreeMap::new();
    for (level, from) in from.iter().enumerate().take(longest + 1) {
        let sql = "SELECT at, seconds, server, policy, app, did FROM sample WHERE level = :level AND at > :from \
                   AND at <= :now AND (:app IS NULL OR app = :app) ORDER BY at DESC, server LIMIT :most";
        let mut statement = connection.prepare(sql)?;
        let values = named_params! {":level": level, ":from": from, ":now": now, ":app": query.app, ":most": MOST};
        let mut rows = statement.query(values)?;
        while let Some(row) = rows.next()? {
            let Some(sample) = sample(row)? else { continue };
            match query.app {
                Some(_) => samples.push(sample),
                None => add_to(&mut sums, now, sample),
            }
        }
    }
    samples.reverse();
    samples.extend(sums.into_values());
    Ok(History { servers: Vec::new(), begins: begins(&connection, longest)?, samples })
}

fn begins(connection: &Connection, longest: usize) -> rusqlite::Result<Option<u64>> {
    let mut begins = None::<u64>;
    for (level, Level { seconds, .. }) in LEVELS.iter().enumerate().take(longest + 1) {
        let sql = "SELECT min(at) FROM sample WHERE level = ?1";
        let first: Option<u64> = connection.query_row(sql, [level], |row| row.get(0))?;
        let first = first.map(|at| at.saturating_sub(*seconds));
        begins = begins.into_iter().chain(first).min();
    }
    Ok(begins)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::admin::api::Status;
    use crate::admin::testing;

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
        read_rows(path, &query, at).map_or(0, |history| history.samples.len())
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

    #[test]
    fn a_route_is_understood() {
        for app in [None, Some("uid:7"), Some("a b&c=ü%")] {
            let route = route(app, 7200);
            let query = route.strip_prefix("/v1/history?").unwrap();
            assert_eq!(Query::parse(query), Ok(Query { app: app.map(str::to_owned), since: 7200 }), "{route}");
        }
        assert_eq!(Query::parse(""), Ok(Query { app: None, since: 3600 }));
        assert!(Query::parse("since=2h").is_err_and(|error| error.contains("7200")));
        assert!(Query::parse("user=7").is_err_and(|error| error.contains("app and since")));
    }

    fn store_in(folder: &tempfile::TempDir) -> Store {
        Store::open(&folder.path().join("h.sqlite")).unwrap()
    }

    /// Ten seconds in which each application had two reads of 3 MiB at one server.
    fn span(apps: usize) -> Span {
        let names: Vec<String> = (0..apps).map(|app| format!("a{app}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut status = Status::from(&testing::status(&names));
        let mut server = status.servers.remove(0);
        server.apps.iter_mut().for_each(|app| app.behind.clear());
        let server = AtServer {
            name: server.server,
            policy: server.policy,
            seconds: 10.0,
            tried_rates: Vec::new(),
            apps: server.apps,
        };
        Span { seconds: 10.0, servers: vec![server], unstored_bytes: 0 }
    }

    fn count(store: &Store, level: usize) -> u64 {
        store.connection.query_row("SELECT count(*) FROM sample WHERE level = ?1", [level], |row| row.get(0)).unwrap()
    }

    fn ask(folder: &tempfile::TempDir, app: Option<&str>, since: u64, now: u64) -> History {
        let query = Query { app: app.map(str::to_owned), since };
        read_rows(&folder.path().join("h.sqlite"), &query, now).unwrap()
    }

    const START: u64 = 1_800_000_000;

    const DAY: u64 = 86_400;

    #[test]
    fn samples_become_longer_and_no_request_is_lost_or_counted_twice() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, span) = (store_in(&folder), span(1));
        let now = START + 2 * 3600 + 30;
        (1..=2 * 360 + 3).for_each(|tick| store.add(START + 10 * tick, &span).unwrap());
        assert_eq!([0, 1, 2].map(|level| count(&store, level)), [360, 120, 12]);
        let requests = |since| ask(&folder, None, since, now).samples[0].app.read.requests;
        assert_eq!(requests(3600), 2 * 360);
        assert_eq!(requests(DAY), 2 * 723, "minutes, and the last 30 s");
        assert_eq!(requests(30 * DAY), 2 * 723, "tens of minutes, and the last 30 s");
        let all = ask(&folder, Some("a0"), DAY, now);
        assert_eq!((all.samples.len(), all.begins), (120 + 3, Some(START)));
        assert_eq!(all.samples.iter().map(|sample| sample.seconds).sum::<f64>(), 7230.0);
        assert!(all.samples.is_sorted_by_key(|sample| sample.at), "oldest first");
        assert!(ask(&folder, Some("a1"), DAY, now).samples.is_empty());
    }

    #[test]
    fn what_is_too_old_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, span) = (store_in(&folder), span(1));
        for at in [START, START + 60, START + 660, START + 2 * DAY, START + 40 * DAY] {
            store.add(at, &span).unwrap();
        }
        assert_eq!([0, 1, 2].map(|level| count(&store, level)), [1, 1, 1]);
        assert_eq!(ask(&folder, None, 30 * DAY, START + 40 * DAY).samples[0].app.read.requests, 2);
    }

    #[test]
    fn size_is_bounded_by_applications_and_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store_in(&folder);
        store.add(START, &span(APPS + 20)).unwrap();
        assert_eq!(count(&store, 0), APPS as u64 + 1);
        let others = &ask(&folder, Some(OTHERS), 60, START).samples[0].app;
        assert_eq!(others.read.requests, 20 * 2, "nothing of them is lost");
        (1..20).for_each(|tick| store.add(START + 10 * tick, &span(APPS)).unwrap());
        let transaction = store.connection.transaction().unwrap();
        limit(&transaction, 1 << 20).unwrap();
        transaction.commit().unwrap();
        let now = START + 190;
        assert!(count(&store, 0) < 1500, "{}", count(&store, 0));
        assert_eq!(ask(&folder, Some("a0"), 10, now).samples.len(), 1, "the latest stay");
    }

    #[test]
    fn only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store_in(&folder);
        store.add(START, &span(1)).unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let mode = file.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_file_of_another_version_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store_in(&folder);
        store.add(START, &span(1)).unwrap();
        store.connection.pragma_update(None, "user_version", 99).unwrap();
        drop(store);
        let mut store = store_in(&folder);
        assert_eq!(count(&store, 0), 0);
        store.add(START, &span(1)).unwrap();
        assert_eq!(count(&store_in(&folder), 0), 1, "and the same version goes on");
    }
}

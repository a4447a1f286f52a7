//! The JSON of `/v1/status`. openapi.json says the same for programs in other languages; a test compares both.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval};
use vpfs_core::{AppId, OpKind, PolicyKind, Rule, Time, pace};
use vpfs_node::{Activity, AppSnapshot, Situation, StorageTimes, WaitedFor};

use crate::{AppStatus, HolderReport, Observer, ServerStatus, Used};

/// Stands for applications that have no place of their own: no name has parentheses.
pub const OTHERS: &str = "(others)";

/// Follows the name of a policy that holds nothing, as `mode` is "observe".
pub const OBSERVED: &str = " (observed)";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    pub(crate) allow: &'static str,
}

impl Answer {
    pub(crate) fn ok(content_type: &'static str, body: String) -> Self {
        Self { status: StatusCode::OK, content_type, body, allow: "GET, HEAD" }
    }

    pub(crate) fn refusal(status: StatusCode, reason: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{reason}\n"), allow: "GET, HEAD" }
    }
}

pub(crate) fn json(value: &impl Serialize) -> Answer {
    let body = serde_json::to_string(value).expect("these types have text for keys, and nothing else fails");
    Answer::ok("application/json", body)
}

/// A daemon at one moment. Counters begin with its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its version.
    pub version: String,
    /// The same in all daemons of a version that have the same configuration in force.
    #[serde(default)]
    pub configuration: String,
    /// How long it has run, in seconds.
    pub up_seconds: f64,
    /// Bytes that connections hold, of `limits.memory`.
    pub memory_bytes: Usage,
    /// Connections of clients, of `limits.connections`.
    pub connections: Usage,
    /// Bytes of files that its host has in memory and on no disk yet.
    #[serde(default)]
    pub unstored_bytes: u64,
    /// Hosts with at least half of the connections that one may have at a port, at most four of each port.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// The servers that it serves.
    pub servers: Vec<Server>,
}

/// A host that holds many connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// What the port is for: `clients`, `peers`, `api` (with the key of peers), `metrics`, `page` or `socket`.
    pub port: String,
    /// Its address; at the socket a user.
    pub holder: String,
    /// Its connections, of those that one may have there.
    pub connections: Usage,
}

/// How much is used of something that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Now.
    pub now: u64,
    /// At most.
    pub limit: u64,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Its name.
    pub server: String,
    /// The policy in force; of one that is only observed, while requests pass as with `fifo`, "isolation (observed)".
    pub policy: String,
    /// Requests that wait.
    pub queued: u64,
    /// Requests in the storage, without those that wait for their clients.
    pub outstanding: u64,
    /// What all applications used of the storage's time, in seconds: its rate is the utilisation.
    pub busy_seconds: f64,
    /// The rate of bulk, of which each access takes 64 KiB and its bytes; `null` if it is not limited now.
    pub pace_bytes_per_second: Option<u64>,
    /// What rates of bulk were recently worth, in order. Of several servers with one rate, the one that decides has
    /// them.
    #[serde(default)]
    pub tried_rates: Vec<TriedRate>,
    /// Connections that were closed because their host had too many.
    pub refused_connections: u64,
    /// All applications that it knows.
    pub apps: Vec<App>,
}

/// What a rate of bulk was recently worth, relative to the best one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedRate {
    /// The rate at each server, of which each access takes 64 KiB and its bytes.
    pub bytes_per_second: u64,
    /// What bulk was served.
    pub bulk: f64,
    /// How fast each of the others went.
    pub speeds: Vec<Speed>,
}

/// How fast an application went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Its name.
    pub app: String,
    /// Relative to another time.
    pub speed: f64,
}

/// An application at one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct App {
    /// Its name.
    pub app: String,
    /// No table of the configuration has it.
    pub automatic: bool,
    /// The shares that it is in, the one at the top first.
    #[serde(default)]
    pub shares: Vec<InShare>,
    /// Its weight among those in the same share.
    pub weight: u32,
    /// Its requests pass at once.
    #[serde(default)]
    pub exempt: bool,
    /// It takes all that it can get, so that others are protected from it.
    pub bulk: bool,
    /// The storage's time that it used, in seconds: by when its requests left. That of all is `busy_seconds`.
    #[serde(alias = "got_seconds")]
    pub used_seconds: f64,
    /// The storage's time to which its weight entitled it while it had requests, among those that had some, in
    /// seconds. That of all is the time in which any had.
    #[serde(alias = "due_seconds")]
    pub entitled_seconds: f64,
    /// Its rate is limited.
    pub has_cap: bool,
    /// To this, in bytes per second; `null` if it is not.
    pub cap_bytes_per_second: Option<u64>,
    /// Its requests whose clients kept the storage waiting, and that lost their slots.
    pub released_requests: u64,
    /// How long its requests waited behind nobody: for a cap, or while nothing was in the storage for a pace.
    pub held_seconds: f64,
    /// How long its requests waited in vpfs, by the rule that held them.
    pub waits: Waits,
    /// Behind whose requests they waited in vpfs; "(others)" are those beyond eight.
    pub behind: Vec<Behind>,
    /// For whose requests the storage worked while they were there and until these left.
    pub behind_in_storage: Vec<Behind>,
    /// How requests that are alike fared in the storage, at most twelve kinds.
    pub in_storage: Vec<Storage>,
    /// What it reads,
    pub read: Work,
    /// writes,
    pub write: Work,
    /// and does with metadata.
    pub metadata: Work,
}

/// A share that an application is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InShare {
    /// Its name, after those of the shares that it is in.
    pub share: String,
    /// Its weight among those in the same share.
    pub weight: u32,
}

/// How long requests waited in vpfs for which rule, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// The share of their application: it was the turn of others, or of earlier requests of its own.
    pub share_seconds: f64,
    /// Its cap.
    pub cap_seconds: f64,
    /// The pace of bulk, and the bound on it.
    pub pace_seconds: f64,
    /// The minimum of another application.
    pub minimum_seconds: f64,
}

/// What applications did, as far as it was kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The servers of the process.
    pub servers: Vec<String>,
    /// When the earliest sample that it has of this kind began, in seconds since 1970; `null` if it has none.
    pub begins: Option<u64>,
    /// Oldest first.
    pub samples: Vec<Sample>,
}

/// What an application did in some time at a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The end of that time, in seconds since 1970.
    pub at: u64,
    /// How much of it was seen.
    pub seconds: f64,
    /// The server.
    pub server: String,
    /// Its policy at the end.
    pub policy: String,
    /// Counters of that time, and everything else as at its end.
    pub app: App,
}

/// Waiting behind an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Behind {
    /// Its name.
    pub app: String,
    /// How long.
    pub seconds: f64,
}

/// Requests of an application that do the same and have similar sizes, in the storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Storage {
    /// `read`, `write` or `metadata`.
    pub op: String,
    /// The least size in bytes, a power of two; all are below twice that. Zero for metadata.
    pub size_bytes: u64,
    /// Which others were in the storage: `alone` if others were there for at most a tenth of their time and of the
    /// second before, `beside` if for longer, or `pieces` if they were sent in pieces, of which the time between them
    /// does not count.
    pub situation: String,
    /// Those that were served.
    pub requests: u64,
    /// The sum of their times from dispatch to the end.
    pub seconds: f64,
    /// What of it was their own: without the time in which the storage worked for those that left it before.
    pub own_seconds: f64,
    /// What of it they waited for a processor of the proxy's host, as far as the best is known.
    #[serde(default)]
    pub lost_to_processor_seconds: f64,
    /// What of it is because the storage has become slower, which only requests that are `alone` can tell.
    #[serde(default)]
    pub lost_to_storage_seconds: f64,
    /// The least mean time that a window of them ever took while they were `alone`; `null` while that is not known.
    pub quiet_seconds: Option<f64>,
    /// For how long the storage has taken two and a half times as long for them; `null` if it does not.
    pub slower_seconds: Option<f64>,
}

/// The requests of an application of one kind, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Those that wait now.
    pub queued: u64,
    /// Those in the storage now.
    pub outstanding: u64,
    /// Those that ended.
    pub requests: u64,
    /// Those of them that ended in time-out or disconnection.
    pub failed: u64,
    /// Those of them that took longer than the application is promised, its deadline or its latency.
    pub late: u64,
    /// Data bytes that they moved.
    pub bytes: u64,
    /// The sum of their times from arrival to dispatch, in seconds.
    pub wait_seconds: f64,
    /// The sum of their times from dispatch to the end, in seconds.
    pub storage_seconds: f64,
}

impl From<&crate::Status> for Status {
    fn from(status: &crate::Status) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: fingerprint(status.fingerprint),
            up_seconds: status.uptime.as_secs_f64(),
            memory_bytes: status.memory.into(),
            connections: status.connections.into(),
            unstored_bytes: status.unstored,
            holders: status.holders.iter().map(Holder::from).collect(),
            servers: status.servers.iter().map(|server| Server::new(server, status)).collect(),
        }
    }
}

impl From<&HolderReport> for Holder {
    fn from(HolderReport { port, holder, connections }: &HolderReport) -> Self {
        Self { port: (*port).to_owned(), holder: holder.clone(), connections: (*connections).into() }
    }
}

impl From<Used> for Usage {
    fn from(Used { now, limit }: Used) -> Self {
        Self { now: now as u64, limit: limit as u64 }
    }
}

impl Server {
    fn new(server: &ServerStatus, status: &crate::Status) -> Self {
        let ServerStatus { name, refused_connections, snapshot } = server;
        // An application that is newer than the names appears next time.
        let app = |app: &AppSnapshot| App::new(&status.apps, snapshot.at, app, snapshot.bulk.contains(&app.app));
        let policy = status.observed.map_or_else(|| snapshot.policy.name().to_owned(), observed);
        Self {
            server: name.clone(),
            policy,
            queued: snapshot.queued as u64,
            outstanding: snapshot.outstanding as u64,
            busy_seconds: snapshot.busy.as_secs_f64(),
            pace_bytes_per_second: snapshot.limits.pace,
            tried_rates: snapshot.tried_rates.iter().map(|tried| TriedRate::new(&status.apps, tried)).collect(),
            refused_connections: *refused_connections,
            apps: snapshot.apps.iter().filter_map(app).collect(),
        }
    }
}

impl TriedRate {
    fn new(names: &[AppStatus], tried: &pace::TriedRate<AppId>) -> Self {
        let speed =
            |(app, speed): &(AppId, f64)| Some(Speed { app: names.get(app.index())?.name.clone(), speed: *speed });
        let speeds = tried.speeds.iter().filter_map(speed);
        #[expect(clippy::cast_possible_truncation, reason = "a rate")]
        let bytes_per_second = tried.rate as u64;
        Self { bytes_per_second, bulk: tried.bulk, speeds: speeds.collect() }
    }

    /// How fast an application went at it, if it was seen there.
    pub fn speed_of(&self, app: &str) -> Option<f64> {
        self.speeds.iter().find(|of| of.app == app).map(|of| of.speed)
    }

    /// The applications that were seen at these rates, those first that went slowest at one.
    pub fn slowest(rates: &[Self]) -> Vec<&str> {
        let mut least = BTreeMap::<&str, f64>::new();
        for Speed { app, speed } in rates.iter().flat_map(|rate| &rate.speeds) {
            least.entry(app).and_modify(|least| *least = least.min(*speed)).or_insert(*speed);
        }
        let mut apps: Vec<&str> = least.keys().copied().collect();
        apps.sort_by(|one, other| least[one].total_cmp(&least[other]));
        apps
    }
}

/// A fingerprint of a configuration, [`vpfs_config::Config::fingerprint`], as daemons tell theirs.
pub fn fingerprint(fingerprint: u64) -> String {
    format!("{fingerprint:016x}")
}

fn observed(kind: PolicyKind) -> String {
    format!("{}{OBSERVED}", kind.name())
}

pub(crate) fn op_name(op: OpKind) -> &'static str {
    match op {
        OpKind::Read => "read",
        OpKind::Write => "write",
        OpKind::Metadata => "metadata",
    }
}

impl App {
    /// `None` if it is newer than the names.
    fn new(names: &[AppStatus], now: Time, seen: &AppSnapshot, bulk: bool) -> Option<Self> {
        let AppSnapshot { app, shares, account, entitled, used, .. } = seen;
        let name = names.get(app.index())?;
        let cap = account.policy.cap;
        Some(Self {
            app: name.name.clone(),
            automatic: name.is_automatic,
            shares: shares.iter().map(|of| InShare { share: of.path.to_string(), weight: of.weight.get() }).collect(),
            weight: account.policy.weight.get(),
            exempt: account.policy.exempt,
            bulk,
            used_seconds: used.as_secs_f64(),
            entitled_seconds: entitled.as_secs_f64(),
            has_cap: cap.is_some(),
            cap_bytes_per_second: cap.map(|cap| cap.bytes_per_second()),
            released_requests: account.released,
            held_seconds: account.held.as_secs_f64(),
            waits: account.waits.into(),
            behind: behind(names, &account.behind),
            behind_in_storage: behind(names, &account.behind_in_storage),
            in_storage: account.in_storage.iter().map(|times| Storage::new(now, times)).collect(),
            read: (&account.read).into(),
            write: (&account.write).into(),
            metadata: (&account.metadata).into(),
        })
    }

    /// What it did since `before`, when its counters were those, or since their beginning.
    #[must_use]
    pub fn since(&self, before: Option<&Self>) -> Self {
        let mut since = self.clone();
        if let Some(before) = before {
            since.count(before, -1.0);
        }
        since
    }

    /// Adds what it did at another server, or before.
    pub fn add(&mut self, other: &Self) {
        self.count(other, 1.0);
        self.read.add_present(&other.read);
        self.write.add_present(&other.write);
        self.metadata.add_present(&other.metadata);
    }

    /// Adds what it did earlier at the same server. Of the best that requests saw in the storage, the better remains.
    pub fn add_earlier(&mut self, earlier: &Self) {
        self.count(earlier, 1.0);
        for found in &mut self.in_storage {
            let before = earlier.in_storage.iter().find(|before| found.is_like(before));
            let best = before.filter(|before| before.quiet_seconds.is_some_and(|best| !found.is_better(best)));
            if let Some(best) = best {
                found.quiet_seconds = best.quiet_seconds;
            }
        }
    }

    /// Leaves out what is zero, and of requests in the storage all kinds that are of no use for those that were there.
    pub fn shorten(&mut self) {
        self.behind.retain(|behind| behind.seconds > 0.0);
        self.behind_in_storage.retain(|behind| behind.seconds > 0.0);
        let seen: Vec<(String, u64)> = (self.in_storage.iter().filter(|kind| kind.requests > 0))
            .map(|kind| (kind.op.clone(), kind.size_bytes))
            .collect();
        self.in_storage.retain(|kind| seen.iter().any(|(op, size)| (op, *size) == (&kind.op, kind.size_bytes)));
    }

    /// Whether it had requests.
    pub fn is_active(&self) -> bool {
        let Work { requests, queued, outstanding, .. } = self.work();
        requests + queued + outstanding > 0
    }

    /// Its reads, writes and metadata requests together.
    pub fn work(&self) -> Work {
        let mut work = self.read;
        work.add(&self.write);
        work.add(&self.metadata);
        work
    }

    fn count(&mut self, other: &Self, sign: f64) {
        self.used_seconds += sign * other.used_seconds;
        self.entitled_seconds += sign * other.entitled_seconds;
        self.released_requests = counted(self.released_requests, other.released_requests, sign);
        self.held_seconds += sign * other.held_seconds;
        self.waits.count(&other.waits, sign);
        count_behind(&mut self.behind, &other.behind, sign);
        count_behind(&mut self.behind_in_storage, &other.behind_in_storage, sign);
        count_storage(&mut self.in_storage, &other.in_storage, sign);
        self.read.count(&other.read, sign);
        self.write.count(&other.write, sign);
        self.metadata.count(&other.metadata, sign);
    }
}

fn behind(names: &[AppStatus], waited: &WaitedFor) -> Vec<Behind> {
    let named = waited.apps.iter().filter_map(|(app, time)| {
        let app = names.get(app.index())?.name.clone();
        Some(Behind { app, seconds: time.as_secs_f64() })
    });
    let others = Behind { app: OTHERS.to_owned(), seconds: waited.others.as_secs_f64() };
    named.chain((!waited.others.is_zero()).then_some(others)).collect()
}

impl From<[Duration; Rule::ALL.len()]> for Waits {
    fn from(waits: [Duration; Rule::ALL.len()]) -> Self {
        let of = |rule: Rule| waits[rule as usize].as_secs_f64();
        Self {
            share_seconds: of(Rule::Share),
            cap_seconds: of(Rule::Cap),
            pace_seconds: of(Rule::Pace),
            minimum_seconds: of(Rule::Minimum),
        }
    }
}

impl Storage {
    fn new(now: Time, times: &StorageTimes) -> Self {
        let situation = match times.situation {
            Situation::Alone => "alone",
            Situation::Beside => "beside",
            Situation::InPieces => "pieces",
        };
        Self {
            op: op_name(times.op).to_owned(),
            size_bytes: times.size.0,
            situation: situation.to_owned(),
            requests: times.requests,
            seconds: times.time.as_secs_f64(),
            own_seconds: times.time.saturating_sub(times.behind).as_secs_f64(),
            lost_to_processor_seconds: times.processor.as_secs_f64(),
            lost_to_storage_seconds: times.slower.as_secs_f64(),
            quiet_seconds: times.quiet.map(|quiet| quiet.time.as_secs_f64()),
            slower_seconds: times.slower_since.map(|since| now.since(since).as_secs_f64()),
        }
    }

    fn is_better(&self, best: f64) -> bool {
        self.quiet_seconds.is_some_and(|found| found <= best)
    }

    fn is_like(&self, other: &Self) -> bool {
        (&self.op, self.size_bytes, &self.situation) == (&other.op, other.size_bytes, &other.situation)
    }

    /// The situation of requests whose application had the storage to itself, or nearly.
    pub const ALONE: &str = "alone";
}

impl From<&Activity> for Work {
    fn from(activity: &Activity) -> Self {
        Self {
            queued: activity.queued.into(),
            outstanding: activity.outstanding.into(),
            requests: activity.requests,
            failed: activity.failed,
            late: activity.late,
            bytes: activity.bytes,
            wait_seconds: activity.waited.sum.as_secs_f64(),
            storage_seconds: activity.served.sum.as_secs_f64(),
        }
    }
}

fn counted(count: u64, other: u64, sign: f64) -> u64 {
    if sign < 0.0 { count.saturating_sub(other) } else { count + other }
}

impl Work {
    /// Adds that of others.
    pub fn add(&mut self, other: &Self) {
        self.count(other, 1.0);
        self.add_present(other);
    }

    /// The sum of their times from arrival to the end.
    pub fn seconds(&self) -> f64 {
        self.wait_seconds + self.storage_seconds
    }

    /// The mean of a sum of times, over those that ended; `None` if none did.
    pub fn mean(&self, seconds: f64) -> Option<f64> {
        (self.requests > 0).then(|| seconds / self.requests as f64)
    }

    fn add_present(&mut self, other: &Self) {
        self.queued += other.queued;
        self.outstanding += other.outstanding;
    }

    fn count(&mut self, other: &Self, sign: f64) {
        self.requests = counted(self.requests, other.requests, sign);
        self.failed = counted(self.failed, other.failed, sign);
        self.late = counted(self.late, other.late, sign);
        self.bytes = counted(self.bytes, other.bytes, sign);
        self.wait_seconds += sign * other.wait_seconds;
        self.storage_seconds += sign * other.storage_seconds;
    }
}

impl Waits {
    fn count(&mut self, other: &Self, sign: f64) {
        self.share_seconds += sign * other.share_seconds;
        self.cap_seconds += sign * other.cap_seconds;
        self.pace_seconds += sign * other.pace_seconds;
        self.minimum_seconds += sign * other.minimum_seconds;
    }
}

/// An application that lost its place meanwhile is among the others; so no difference is below zero.
fn count_behind(behind: &mut Vec<Behind>, others: &[Behind], sign: f64) {
    for other in others {
        match behind.iter_mut().find(|found| found.app == other.app) {
            Some(found) => found.seconds = (found.seconds + sign * other.seconds).max(0.0),
            None if sign > 0.0 => behind.push(other.clone()),
            None => {}
        }
    }
}

fn count_storage(storage: &mut Vec<Storage>, others: &[Storage], sign: f64) {
    for other in others {
        let alike = |found: &&mut Storage| found.is_like(other);
        match storage.iter_mut().find(alike) {
            // It lost its place and came back: its counters began anew.
            Some(found) if sign < 0.0 && found.requests < other.requests => {}
            Some(found) => {
                found.requests = counted(found.requests, other.requests, sign);
                found.seconds += sign * other.seconds;
                found.own_seconds += sign * other.own_seconds;
                found.lost_to_processor_seconds += sign * other.lost_to_processor_seconds;
                found.lost_to_storage_seconds += sign * other.lost_to_storage_seconds;
            }
            None if sign > 0.0 => storage.push(other.clone()),
            None => {}
        }
    }
}

/// Some time at some servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// How long it is.
    pub seconds: f64,
    /// Those servers, at most one of each name.
    pub servers: Vec<AtServer>,
    /// Bytes of files that a host had in memory and on no disk at its end; of several hosts, the most.
    pub unstored_bytes: u64,
}

/// What applications did at a server: counters count only that.
#[derive(Clone, Debug, PartialEq)]
pub struct AtServer {
    /// Its name.
    pub name: String,
    /// Its policy at the end.
    pub policy: String,
    /// How long it was seen.
    pub seconds: f64,
    /// What rates of bulk were worth at the end, as [`Server::tried_rates`].
    pub tried_rates: Vec<TriedRate>,
    /// Applications, once each.
    pub apps: Vec<App>,
}

impl Span {
    /// Between two looks, over the servers that both saw. A server whose proxy started in between is left out, as its
    /// counters began anew.
    pub fn between(before: &[Status], after: &[Status]) -> Self {
        let mut span = Self::of_all(before, after);
        span.servers.iter_mut().for_each(|server| server.apps.retain(App::is_active));
        span
    }

    /// The same with applications that had no requests.
    pub fn of_all(before: &[Status], after: &[Status]) -> Self {
        let servers = after.iter().flat_map(|status| {
            status.servers.iter().filter_map(|now| {
                let (up, then) = before.iter().find_map(|status| {
                    let then = status.servers.iter().find(|then| then.server == now.server)?;
                    Some((status.up_seconds, then))
                })?;
                let seconds = Some(status.up_seconds - up).filter(|seconds| *seconds > 0.0)?;
                let before: HashMap<&str, &App> = then.apps.iter().map(|app| (app.app.as_str(), app)).collect();
                let since = now.apps.iter().map(|app| app.since(before.get(app.app.as_str()).copied()));
                let (name, policy) = (now.server.clone(), now.policy.clone());
                Some(AtServer { name, policy, seconds, tried_rates: now.tried_rates.clone(), apps: since.collect() })
            })
        });
        let servers: Vec<AtServer> = servers.collect();
        let seconds = servers.iter().map(|server| server.seconds).fold(0.0, f64::max);
        let unstored_bytes = after.iter().map(|status| status.unstored_bytes).max().unwrap_or(0);
        Self { seconds, servers, unstored_bytes }
    }

    /// The names of those that had requests.
    pub fn apps(&self) -> BTreeSet<&str> {
        let all = self.servers.iter().flat_map(|server| &server.apps);
        all.map(|app| app.app.as_str()).collect()
    }
}

/// How much slower the storage is than at best, for all that had it to themselves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slower {
    /// Requests take so many times as long.
    pub factor: f64,
    /// For how long, if that is known.
    pub for_seconds: Option<f64>,
}

impl AtServer {
    /// Storage is slower than at best from this factor on; nodes speak of it from two and a half on, and had no reason
    /// to for a part of the time.
    pub const SLOWER: f64 = 2.0;

    /// Whether the storage is slower than at best.
    pub fn slower(&self) -> Option<Slower> {
        self.slowness().filter(|slower| slower.factor > Self::SLOWER)
    }

    /// How many times as long as at best the storage takes for requests whose application has it to itself; `None` if
    /// there were none, or their best is not known. Requests with company never tell.
    pub fn slowness(&self) -> Option<Slower> {
        let (mut took, mut usual, mut longest) = (0.0, 0.0, (0.0, None));
        for alike in self.apps.iter().flat_map(|app| &app.in_storage) {
            if alike.situation != Storage::ALONE || alike.requests == 0 || alike.quiet_seconds.is_none() {
                continue;
            }
            took += alike.seconds;
            usual += alike.seconds - alike.lost_to_storage_seconds;
            if alike.slower_seconds.is_some() && alike.seconds > longest.0 {
                longest = (alike.seconds, alike.slower_seconds);
            }
        }
        (usual > 0.0).then(|| Slower { factor: took / usual, for_seconds: longest.1 })
    }
}

/// Between two looks of [`watch_storage`].
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Says in the log, once, that the storage of a server is slower than it was, and once that it is not any more; for
/// ever.
pub fn watch_storage(observer: Observer) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let (mut before, mut servers) = (None::<Status>, HashMap::<String, Slowness>::new());
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = Status::from(&observer.status().await);
            let span = Span::between(before.as_slice(), std::slice::from_ref(&now));
            for server in &span.servers {
                let Some(slower) = server.slowness() else { continue };
                let change = servers.entry(server.name.clone()).or_default().look(slower.factor);
                tell(&server.name, change);
            }
            before = Some(now);
        }
    })
}

fn tell(server: &str, change: Option<Change>) {
    match change {
        Some(Change::Slower(factor)) => tracing::warn!(
            server,
            factor = format!("{factor:.1}"),
            "the storage is slower than it was: requests of applications that have it to themselves take longer; look for \
             a failing disk, a rebuild, a full cache, the network to it"
        ),
        Some(Change::Back) => tracing::info!(server, "the storage is as fast as it was"),
        None => {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Slower(f64),
    Back,
}

/// Whether a server's storage is slower than it was, by the rule of `vpfs why`, but not by a single look.
#[derive(Debug, Default)]
struct Slowness {
    is_slow: bool,
    against: u32,
}

impl Slowness {
    /// Half a minute: what is over sooner is no news for an administrator.
    const LOOKS: u32 = 3;
    const BACK: f64 = 1.5;

    /// Requests took `factor` times as long as at best since the last look in which there were any.
    fn look(&mut self, factor: f64) -> Option<Change> {
        let is_against = if self.is_slow { factor < Self::BACK } else { factor > AtServer::SLOWER };
        self.against = if is_against { self.against + 1 } else { 0 };
        if self.against < Self::LOOKS {
            return None;
        }
        *self = Self { is_slow: !self.is_slow, against: 0 };
        Some(if self.is_slow { Change::Slower(factor) } else { Change::Back })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::testing;

    #[test]
    fn a_difference_and_what_was_before_are_the_whole() {
        let status = Status::from(&testing::status(&["climate", "uid:7"]));
        let before = &status.servers[0].apps[0];
        let mut now = before.clone();
        now.add(before);
        let since = now.since(Some(before));
        let gauges = before.since(Some(before));
        assert_eq!((since.read.requests, since.read.queued), (before.read.requests, 2 * before.read.queued));
        assert_eq!((&since.behind, &since.in_storage, since.waits), (&before.behind, &before.in_storage, before.waits));
        assert_eq!((gauges.read.bytes, gauges.entitled_seconds, gauges.weight), (0, 0.0, before.weight));
        assert_eq!(gauges.in_storage[0].quiet_seconds, before.in_storage[0].quiet_seconds, "it is as at the end");
        assert_eq!(now.since(None), now);
    }

    fn changes(factors: &[f64]) -> Vec<(usize, Change)> {
        let mut slowness = Slowness::default();
        let looks = factors.iter().enumerate();
        looks.filter_map(|(look, factor)| Some((look, slowness.look(*factor)?))).collect()
    }

    #[test]
    fn each_change_is_said_once() {
        let factors = [1.0, 3.0, 3.1, 3.2, 4.0, 5.0, 3.0, 1.2, 1.1, 1.0, 1.0, 1.0];
        assert_eq!(changes(&factors), [(3, Change::Slower(3.2)), (9, Change::Back)]);
    }

    #[test]
    fn what_is_short_or_in_between_changes_nothing() {
        assert_eq!(changes(&[3.0, 3.0, 1.0, 3.0, 3.0, 1.9, 3.0, 9.0]), []);
        let flapping = [3.0, 3.0, 3.0, 1.9, 2.1, 1.6, 1.4, 1.4, 1.7, 1.4, 2.1];
        assert_eq!(changes(&flapping), [(2, Change::Slower(3.0))]);
    }
}

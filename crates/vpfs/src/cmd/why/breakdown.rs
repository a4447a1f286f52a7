//! The time of an application's requests, divided by what it was for.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use vpfs_config::units::Rate;
use vpfs_proxy::admin::api::{App, AtServer, OBSERVED, Slower, Span, Storage, Waits};

use crate::print::{percent, plain};

/// As in the API.
pub(super) const OTHERS: &str = "(others)";

/// What counts as having got all of something.
const NEARLY: f64 = 0.9;

/// Less of an application's time is not said to have slowed it.
const WORTH_A_WORD: f64 = 0.1;

/// Sums over servers, in seconds. Parts of `request_seconds` are `waits`, `quiet_seconds`, `behind_in_storage`,
/// `storage_itself_seconds` and `processor_seconds`; `behind` says the same as `waits` in another way.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(in super::super) struct Breakdown {
    pub(in super::super) app: String,
    pub(super) servers: Vec<String>,
    pub(super) policy: String,
    /// Those that ended.
    pub(in super::super) requests: u64,
    /// Those that wait in vpfs at the end,
    pub(super) queued: u64,
    /// and that are in the storage then.
    pub(super) outstanding: u64,
    pub(super) data_requests: u64,
    pub(super) bytes: u64,
    /// From arrival to the end, of all requests.
    pub(super) request_seconds: f64,
    /// In vpfs, by the rule that held them.
    pub(super) waits: Waits,
    /// In vpfs, by the application that was preferred.
    pub(super) behind: BTreeMap<String, f64>,
    /// In the storage, as long as at best.
    pub(super) quiet_seconds: f64,
    /// In the storage for longer than that, by the application for which it worked meanwhile.
    pub(super) behind_in_storage: BTreeMap<String, f64>,
    /// In the storage for longer than that, because it was slow itself.
    pub(super) storage_itself_seconds: f64,
    /// On the way to it or back, waiting for a processor of the proxy's host.
    pub(super) processor_seconds: f64,
    /// The best is known for most requests.
    pub(super) is_best_known: bool,
    /// The storage is slower than at best.
    pub(super) slower: Option<Slower>,
    /// The part of the storage's time that it used, ...
    pub(in super::super) used: f64,
    /// ... and that its weight entitled it to while anyone asked; of all applications, these are 1.
    pub(in super::super) entitled: f64,
    /// The part of the time in which anyone asked.
    #[serde(skip)]
    asked: f64,
    /// What its cap allowed.
    #[serde(skip)]
    allowed_bytes: f64,
    /// Its weight's part of the weights of those that had requests.
    pub(super) share: f64,
    pub(super) weight: u32,
    /// Others are protected from it.
    pub(super) bulk: bool,
    pub(super) cap_bytes_per_second: Option<u64>,
}

impl Breakdown {
    /// `None` if no server knows the application, or it had no requests.
    pub(in super::super) fn of(span: &Span, app: &str) -> Option<Self> {
        let mut sum = Self { app: app.to_owned(), is_best_known: true, ..Self::default() };
        let (mut seconds, mut unknown) = (0.0, 0.0);
        for server in &span.servers {
            let Some(found) = server.apps.iter().find(|found| found.app == app) else { continue };
            seconds += server.seconds;
            sum.servers.push(server.name.clone());
            sum.policy.clone_from(&server.policy);
            sum.share += share(server, found) * server.seconds;
            sum.asked += server.apps.iter().map(|app| app.entitled_seconds).sum::<f64>();
            let cap = found.cap_bytes_per_second.map_or(f64::INFINITY, |cap| cap as f64);
            sum.allowed_bytes += cap * server.seconds;
            sum.add(found);
            unknown += sum.add_storage(server, found);
        }
        if sum.servers.is_empty() {
            return None;
        }
        sum.entitled /= sum.asked.max(f64::MIN_POSITIVE);
        for part in [&mut sum.used, &mut sum.asked, &mut sum.share] {
            *part /= seconds;
        }
        // Failed requests, those in pieces, and rounding.
        let known = sum.vpfs_seconds() + sum.storage_seconds();
        sum.quiet_seconds += (sum.request_seconds - known).max(0.0);
        sum.request_seconds = sum.vpfs_seconds() + sum.storage_seconds();
        sum.is_best_known = unknown * 2.0 < sum.storage_seconds();
        Some(sum)
    }

    /// What of its time was in vpfs.
    pub(super) fn vpfs_seconds(&self) -> f64 {
        let Waits { share_seconds, cap_seconds, pace_seconds, minimum_seconds } = self.waits;
        share_seconds + cap_seconds + pace_seconds + minimum_seconds
    }

    /// What of its time was in the storage.
    pub(super) fn storage_seconds(&self) -> f64 {
        let behind = self.behind_in_storage.values().sum::<f64>();
        self.quiet_seconds + behind + self.storage_itself_seconds + self.processor_seconds
    }

    /// Seconds as a part of the time of its requests.
    pub(super) fn part(&self, seconds: f64) -> f64 {
        if self.request_seconds > 0.0 { seconds / self.request_seconds } else { 0.0 }
    }

    /// It used less of the storage than it is entitled to, although it waited for others and its cap allowed more, and
    /// its requests went slower than with that part alone. Waiting for the pace of bulk does not count: what that
    /// leaves unused is what the policy pays for the others' short waits, and no fault to look for.
    pub(in super::super) fn is_below_entitled(&self) -> bool {
        let is_quick = self.is_best_known && self.part(self.quiet_seconds) >= NEARLY * self.share;
        let is_held_up = self.part(self.held_up_seconds()) >= WORTH_A_WORD;
        let is_stuck = self.requests + self.outstanding == 0 && self.queued > 0 && self.cap_bytes_per_second.is_none();
        let may_have_more = (self.bytes as f64) < NEARLY * self.allowed_bytes;
        self.has_less_than_entitled() && may_have_more && (is_held_up && !is_quick || is_stuck)
    }

    pub(super) fn has_less_than_entitled(&self) -> bool {
        self.used < NEARLY * self.entitled * self.asked
    }

    /// What of its time it waited for others.
    fn held_up_seconds(&self) -> f64 {
        let own = |list: &BTreeMap<String, f64>| list.get(&self.app).copied().unwrap_or(0.0);
        let in_storage: f64 = self.behind_in_storage.values().sum();
        let Waits { cap_seconds, pace_seconds, .. } = self.waits;
        self.vpfs_seconds() - cap_seconds - pace_seconds - own(&self.behind) + in_storage - own(&self.behind_in_storage)
    }

    /// For whom it waited, in vpfs and in the storage.
    pub(super) fn waited_for(&self) -> BTreeMap<&str, f64> {
        let mut sums = BTreeMap::<&str, f64>::new();
        for (name, seconds) in self.behind.iter().chain(&self.behind_in_storage) {
            *sums.entry(name).or_default() += seconds;
        }
        sums
    }

    /// The other applications, those with a name, for which it waited for a part of its time that is worth a word.
    pub(super) fn slowed_by(&self) -> impl Iterator<Item = (&str, f64)> {
        let others = self.waited_for().into_iter().filter(move |(name, _)| *name != self.app && *name != OTHERS);
        others.filter(move |(_, seconds)| self.part(*seconds) >= WORTH_A_WORD)
    }

    /// The one of them for which it waited longest, and for which part of its time.
    pub(in super::super) fn slowed_most_by(&self) -> Option<(&str, f64)> {
        let (app, seconds) = self.slowed_by().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((app, self.part(seconds)))
    }

    fn add(&mut self, app: &App) {
        let work = app.work();
        self.requests += work.requests;
        self.queued += work.queued;
        self.outstanding += work.outstanding;
        self.bytes += work.bytes;
        self.request_seconds += work.seconds();
        self.data_requests += app.read.requests + app.write.requests;
        self.waits.share_seconds += app.waits.share_seconds;
        self.waits.cap_seconds += app.waits.cap_seconds;
        self.waits.pace_seconds += app.waits.pace_seconds;
        self.waits.minimum_seconds += app.waits.minimum_seconds;
        for behind in &app.behind {
            *self.behind.entry(behind.app.clone()).or_default() += behind.seconds;
        }
        self.used += app.used_seconds;
        self.entitled += app.entitled_seconds;
        self.weight = app.weight;
        self.bulk |= app.bulk;
        self.cap_bytes_per_second = app.cap_bytes_per_second;
    }

    /// Divides its time in the storage; returns that of which the best is not known.
    fn add_storage(&mut self, server: &AtServer, app: &App) -> f64 {
        let (mut behind, mut unknown) = (0.0, 0.0);
        for alike in app.in_storage.iter().filter(|alike| alike.requests > 0) {
            let best = quiet(app, alike).map(|best| best * alike.requests as f64);
            if best.is_none() {
                unknown += alike.seconds;
            }
            // Without a best, what the storage did not work for others meanwhile.
            let excess = (alike.seconds - best.unwrap_or(alike.own_seconds)).max(0.0);
            let processor = alike.lost_to_processor_seconds.min(excess);
            let storage = alike.lost_to_storage_seconds.min(excess - processor);
            let mut others = excess - processor - storage;
            if alike.situation == Storage::ALONE {
                // Nobody else was there; the rest comes and goes.
                others = others.min(alike.seconds - alike.own_seconds);
            }
            self.quiet_seconds += alike.seconds - processor - storage - others;
            self.processor_seconds += processor;
            self.storage_itself_seconds += storage;
            behind += others;
        }
        self.divide(behind, server, app);
        let slower = server.slower();
        let is_more = |slower: &Slower| self.slower.is_none_or(|known| known.factor < slower.factor);
        self.slower = slower.filter(is_more).or(self.slower);
        unknown
    }

    /// Divides what was for others in the storage in proportion to the work for each.
    fn divide(&mut self, seconds: f64, server: &AtServer, app: &App) {
        if seconds <= 0.0 {
            return;
        }
        let known = app.behind_in_storage.iter().map(|behind| (&*behind.app, behind.seconds));
        let mut parts: Vec<(&str, f64)> = known.filter(|(_, seconds)| *seconds > 0.0).collect();
        if parts.is_empty() {
            // No other's left while its own were there: those that had some there were served alongside them.
            let others = server.apps.iter().filter(|other| other.app != app.app && other.used_seconds > 0.0);
            parts.extend(others.map(|other| (&*other.app, other.used_seconds)));
        }
        if parts.is_empty() {
            parts.push((OTHERS, 1.0));
        }
        let whole: f64 = parts.iter().map(|(_, part)| part).sum();
        for (name, part) in parts {
            *self.behind_in_storage.entry(name.to_owned()).or_default() += seconds * part / whole;
        }
    }
}

/// What a request like these takes while nobody else is in the storage, if that is known.
fn quiet(app: &App, alike: &Storage) -> Option<f64> {
    let same = |other: &&Storage| (&other.op, other.size_bytes) == (&alike.op, alike.size_bytes);
    app.in_storage.iter().filter(same).find_map(|other| other.quiet_seconds)
}

/// Its weight's part of the weights beside it for which somebody had requests, of that of its share, and so on.
fn share(server: &AtServer, app: &App) -> f64 {
    let parts = (0..=app.shares.len()).map(|level| {
        let inside = server.apps.iter().filter(|other| other.shares.starts_with(&app.shares[..level]));
        // Each application that is not in a further share, and each share once.
        let beside: BTreeSet<_> = inside.map(|other| at(other, level)).collect();
        let whole: f64 = beside.iter().map(|(_, weight)| f64::from(*weight)).sum();
        f64::from(at(app, level).1) / whole
    });
    parts.product()
}

/// What an application is, or belongs to, so many shares below the top, and the weight of that.
fn at(app: &App, level: usize) -> (Result<&str, &str>, u32) {
    app.shares.get(level).map_or((Ok(&app.app), app.weight), |share| (Err(&share.share), share.weight))
}

/// What most of the time was for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "app")]
pub(in super::super) enum Cause {
    /// Its cap.
    Cap,
    /// The pace of bulk.
    Pace,
    /// The minimum of another application.
    Minimum,
    /// The turns of others in vpfs, of which this one took most.
    Share(Option<String>),
    /// Requests of others in the storage, of which this one had most.
    Neighbour(String),
    /// Its own requests.
    Itself,
    /// The storage, which is slower than at best.
    Storage,
    /// The processors of the proxy's host.
    Processor,
    /// The storage, which takes as long at best.
    Nothing,
}

impl Cause {
    pub(in super::super) fn of(breakdown: &Breakdown) -> Self {
        let Breakdown { app, waits, behind, behind_in_storage, .. } = breakdown;
        let whole: f64 = behind.values().sum();
        let own = if whole > 0.0 { behind.get(app).copied().unwrap_or(0.0) / whole } else { 0.0 };
        let others = |list: &std::collections::BTreeMap<String, f64>| {
            let others = list.iter().filter(|(name, _)| *name != app);
            others.clone().max_by(|one, other| one.1.total_cmp(other.1)).map(|(name, _)| name.clone())
        };
        let own_in_storage = behind_in_storage.get(app).copied().unwrap_or(0.0);
        let in_storage = behind_in_storage.values().sum::<f64>() - own_in_storage;
        let causes = [
            (Some(Self::Nothing), breakdown.quiet_seconds),
            (Some(Self::Cap), waits.cap_seconds),
            (Some(Self::Pace), waits.pace_seconds),
            (Some(Self::Minimum), waits.minimum_seconds),
            (Some(Self::Share(others(behind))), waits.share_seconds * (1.0 - own)),
            (Some(Self::Itself), waits.share_seconds * own + own_in_storage),
            (others(behind_in_storage).map(Self::Neighbour), in_storage),
            (Some(Self::Storage), breakdown.storage_itself_seconds),
            (Some(Self::Processor), breakdown.processor_seconds),
        ];
        let known = causes.into_iter().filter_map(|(cause, seconds)| Some((cause?, seconds)));
        known.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(Self::Nothing, |(cause, _)| cause)
    }

    /// In three words, for a column.
    pub(in super::super) fn short(&self) -> String {
        match self {
            Self::Cap => "its cap".to_owned(),
            Self::Pace => "pace of bulk".to_owned(),
            Self::Minimum => "another's minimum".to_owned(),
            Self::Share(None) => "turns of others".to_owned(),
            Self::Share(Some(app)) | Self::Neighbour(app) => format!("behind {}", plain(app)),
            Self::Itself => "its own requests".to_owned(),
            Self::Storage => "slow storage".to_owned(),
            Self::Processor => "processors".to_owned(),
            Self::Nothing => "-".to_owned(),
        }
    }

    /// A sentence for the cause, and one for what would change it.
    pub(super) fn sentences(&self, breakdown: &Breakdown) -> [String; 2] {
        let Breakdown { policy, .. } = breakdown;
        let said = |cause: &str, change: &str| [cause.to_owned(), change.to_owned()];
        match self {
            Self::Cap => {
                let rate = Rate(breakdown.cap_bytes_per_second.unwrap_or(0));
                let cause = format!("Its own cap of {rate} holds it.");
                [cause, "A higher cap, or none; neither its weight nor more requests in flight.".to_owned()]
            }
            Self::Pace => said(
                "It takes all that it can get, and is held so that others, who ask for less than their share, have a \
                 short way to the storage.",
                "A larger weight; or those others end.",
            ),
            Self::Minimum => said(
                "The minimum of another application comes first.",
                "A smaller min_rate for that one, or a min_rate for this one.",
            ),
            Self::Share(other) => {
                let other = other.as_deref().unwrap_or("others");
                let has_less = breakdown.has_less_than_entitled();
                let cause = match has_less {
                    false => format!("It asks for more than its share; it is mostly the turn of {other}."),
                    true => format!("It is mostly the turn of {other}, although its own share is larger than it used."),
                };
                let change = match has_less {
                    false => "A larger weight. More requests in flight only wait longer.",
                    true => "More requests in flight, so that one waits whenever it is its turn; or larger ones.",
                };
                [cause, change.to_owned()]
            }
            Self::Neighbour(other) => {
                let cause = format!("Its requests wait in the storage behind those of {other}.");
                let change = match (policy.strip_suffix(OBSERVED), policy.as_str()) {
                    (Some(observed), _) => format!(
                        "mode = \"manage\" in [scheduler] (now: \"observe\"), with which \"{observed}\" holds back what \
                         {other} has in the storage."
                    ),
                    (None, "isolation") => {
                        "A larger weight, or a `latency` for it; `isolation` bounds what others have \
                                            there as far as throughput allows."
                            .to_owned()
                    }
                    (None, _) => format!(
                        "policy = \"isolation\" bounds what others have in the storage (now: \"{policy}\"); or a cap \
                         for {other}."
                    ),
                };
                [cause, change]
            }
            Self::Itself => said(
                "Its requests wait behind its own: it has more in flight than the storage serves at a time.",
                "Fewer in flight take less time each; more do not make it faster.",
            ),
            Self::Storage => said(
                "The storage itself is slow.",
                "Nothing in vpfs: look for a failing disk, a rebuild, a full cache, the network to it, or load that \
                 bypasses vpfs.",
            ),
            Self::Processor => said(
                "Messages wait for a processor of the proxy's host, and not for the storage.",
                "Less other work on that host, more processors, or a proxy on another host (`top` there shows what is \
                 busy).",
            ),
            Self::Nothing => {
                let cause = match breakdown.slowed_most_by() {
                    Some((app, part)) => format!(
                        "No cause is larger than the time that the storage takes at best; the largest is {}, with {} of \
                         its time.",
                        plain(app),
                        percent(part)
                    ),
                    None => "Nobody makes it wait for longer than the storage takes at best.".to_owned(),
                };
                [cause, faster_alone(breakdown)]
            }
        }
    }
}

/// What makes an application faster that waits for nobody.
fn faster_alone(breakdown: &Breakdown) -> String {
    const SMALL: u64 = 256 << 10;
    let size = breakdown.bytes / breakdown.data_requests.max(1);
    match breakdown.data_requests > 0 && size < SMALL {
        true => format!("More requests in flight, or larger ones (now {:.0} KiB each).", size as f64 / 1024.0),
        false => "More requests in flight.".to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use vpfs_proxy::admin::api::{Behind, InShare, Work};

    use super::*;

    fn work(requests: u64, wait: f64, storage: f64) -> Work {
        Work {
            queued: 0,
            outstanding: 0,
            requests,
            failed: 0,
            late: 0,
            bytes: requests << 12,
            wait_seconds: wait,
            storage_seconds: storage,
        }
    }

    fn behind(list: &[(&str, f64)]) -> Vec<Behind> {
        list.iter().map(|(app, seconds)| Behind { app: (*app).to_owned(), seconds: *seconds }).collect()
    }

    /// 1000 reads of 4 KiB in ten seconds that took `seconds` in the storage, `own` of it their own; at best 1 s.
    pub(in super::super::super) fn app(name: &str, [wait, seconds, own]: [f64; 3], other: &str) -> App {
        let alike = Storage {
            op: "read".into(),
            size_bytes: 4096,
            situation: if other == name { "alone".into() } else { "beside".into() },
            requests: 1000,
            seconds,
            own_seconds: own,
            lost_to_processor_seconds: 0.0,
            lost_to_storage_seconds: if other == name { (own - 1.0).max(0.0) } else { 0.0 },
            quiet_seconds: Some(0.001),
            slower_seconds: (other == name && own > 2.5).then_some(60.0),
        };
        App {
            app: name.to_owned(),
            automatic: false,
            shares: Vec::new(),
            weight: 1,
            exempt: false,
            bulk: false,
            used_seconds: 1.0,
            entitled_seconds: 5.0,
            has_cap: false,
            cap_bytes_per_second: None,
            released_requests: 0,
            held_seconds: 0.0,
            waits: Waits { share_seconds: wait, ..Waits::default() },
            behind: behind(&[(other, wait)]),
            behind_in_storage: behind(&[(other, seconds - own)]),
            in_storage: vec![alike],
            read: work(1000, wait, seconds),
            write: work(0, 0.0, 0.0),
            metadata: work(0, 0.0, 0.0),
        }
    }

    pub(in super::super::super) fn span(apps: Vec<App>) -> Span {
        let server =
            AtServer { name: "s1".into(), policy: "fifo".into(), seconds: 10.0, tried_rates: Vec::new(), apps };
        Span { seconds: 10.0, servers: vec![server], unstored_bytes: 0 }
    }

    #[test]
    fn time_in_the_storage_beyond_the_best_is_for_those_in_front() {
        let span = span(vec![app("small", [0.0, 20.0, 1.0], "large"), app("large", [0.0, 1.0, 1.0], "large")]);
        let small = Breakdown::of(&span, "small").unwrap();
        assert_eq!((small.quiet_seconds, small.behind_in_storage["large"]), (1.0, 19.0));
        assert_eq!((small.storage_itself_seconds, small.slower, small.is_below_entitled()), (0.0, None, true));
        assert_eq!((small.vpfs_seconds(), small.share, small.entitled, small.used), (0.0, 0.5, 0.5, 0.1));
        assert_eq!(Breakdown::of(&span, "other"), None);
        // 1000 reads of 4 KiB are all that its cap allows in these ten seconds.
        let mut capped = span.clone();
        capped.servers[0].apps[0].cap_bytes_per_second = Some(400 << 10);
        assert!(!Breakdown::of(&capped, "small").unwrap().is_below_entitled(), "more would be above its cap");
    }

    /// Symptom: after a change from manage to observe, an application that its neighbour slowed down sixteen times was
    /// told that the storage is slow. Requests that have company say nothing about that, however long they take.
    #[test]
    fn slow_storage_is_only_what_is_slow_for_one_that_has_it_to_itself() {
        let alone = Breakdown::of(&span(vec![app("small", [0.0, 3.0, 3.0], "small")]), "small").unwrap();
        assert_eq!((alone.storage_itself_seconds, alone.quiet_seconds), (2.0, 1.0));
        assert_eq!(alone.slower, Some(Slower { factor: 3.0, for_seconds: Some(60.0) }));
        let both = Breakdown::of(&span(vec![app("small", [0.0, 21.0, 9.0], "large")]), "small").unwrap();
        assert_eq!((both.behind_in_storage["large"], both.storage_itself_seconds, both.slower), (20.0, 0.0, None));
    }

    #[test]
    fn what_a_processor_explains_is_nobodys() {
        let mut small = app("small", [0.0, 21.0, 1.0], "large");
        small.in_storage[0].lost_to_processor_seconds = 15.0;
        let small = Breakdown::of(&span(vec![small]), "small").unwrap();
        assert_eq!((small.processor_seconds, small.behind_in_storage["large"], small.quiet_seconds), (15.0, 5.0, 1.0));
    }

    #[test]
    fn without_a_best_what_the_storage_worked_for_others_is_theirs() {
        let mut unknown = app("small", [1.0, 20.0, 1.0], "large");
        unknown.in_storage[0].quiet_seconds = None;
        let known = Breakdown::of(&span(vec![unknown.clone()]), "small").unwrap();
        assert_eq!((known.quiet_seconds, known.behind_in_storage["large"], known.is_best_known), (1.0, 19.0, false));
        // None of the large ones left meanwhile.
        (unknown.in_storage[0].quiet_seconds, unknown.behind_in_storage) = (Some(0.001), Vec::new());
        let both = span(vec![unknown, app("large", [0.0, 1.0, 1.0], "large")]);
        assert_eq!(Breakdown::of(&both, "small").unwrap().behind_in_storage["large"], 19.0);
    }

    /// Symptom: under management, the report said of every application that it was below its share: of small ones that
    /// have few requests in the storage, and of large ones that are paced, or whose own wait for each other.
    #[test]
    fn an_application_that_asks_for_less_or_waits_for_itself_is_not_below() {
        let got = |wait: f64, storage: f64, other: &str| {
            let span = span(vec![app("it", [wait, storage, 1.0], other), app("large", [0.0, 1.0, 1.0], "large")]);
            !Breakdown::of(&span, "it").unwrap().is_below_entitled()
        };
        assert!(got(0.0, 2.0, "large"), "it is half as fast as alone, and its share is a half");
        assert!(got(50.0, 20.0, "it"), "nobody else made it wait");
        assert!(!got(0.0, 4.0, "large") && !got(4.0, 1.0, "large"));
        let mut paced = app("it", [4.0, 1.0, 1.0], "large");
        paced.waits = Waits { pace_seconds: 4.0, ..Waits::default() };
        paced.behind.clear();
        let span = span(vec![paced, app("large", [0.0, 1.0, 1.0], "large")]);
        assert!(!Breakdown::of(&span, "it").unwrap().is_below_entitled(), "that is what protects the others");
    }

    /// Symptom: with `auto_share = "each"`, automatic applications were told a part of one weight as their share.
    #[test]
    fn those_in_a_share_divide_its_weight_and_others_have_their_own() {
        let mut apps = ["named", "uid:1", "uid:2"].map(|name| app(name, [0.0, 1.0, 1.0], name));
        let shares = |apps: &[App; 3]| {
            let span = span(apps.to_vec());
            ["named", "uid:1"].map(|name| Breakdown::of(&span, name).unwrap().share)
        };
        apps[1..].iter_mut().for_each(|app| (app.automatic, app.weight) = (true, 2));
        assert_eq!(shares(&apps), [0.2, 0.4]);
        let within = |path: &str| InShare { share: path.to_owned(), weight: 3 };
        apps[1..].iter_mut().for_each(|app| app.shares = vec![within("auto")]);
        assert_eq!(shares(&apps), [1.0 / 4.0, 3.0 / 8.0]);
        apps[1].shares.push(within("auto/one"));
        assert_eq!(shares(&apps), [1.0 / 4.0, 9.0 / 20.0], "3 beside the other one's 2");
    }

    fn cause(times: [f64; 3], other: &str) -> Cause {
        Cause::of(&Breakdown::of(&span(vec![app("small", times, other)]), "small").unwrap())
    }

    #[test]
    fn the_largest_part_is_the_cause() {
        assert_eq!(cause([0.0, 1.0, 1.0], "large"), Cause::Nothing);
        assert_eq!(cause([0.0, 20.0, 1.0], "large"), Cause::Neighbour("large".into()));
        assert_eq!(cause([0.0, 20.0, 1.0], "small"), Cause::Itself);
        assert_eq!(cause([20.0, 1.0, 1.0], "large"), Cause::Share(Some("large".into())));
        assert_eq!(cause([20.0, 1.0, 1.0], "small"), Cause::Itself);
        assert_eq!(cause([0.0, 4.0, 4.0], "small"), Cause::Storage);
        assert_eq!(cause([0.0, 4.0, 3.0], "large"), Cause::Neighbour("large".into()), "it is not alone");
    }

    /// Symptom: in front of real servers, "nobody makes it wait" stood below "behind genomics 33%".
    #[test]
    fn a_smaller_cause_is_named_as_such() {
        let breakdown = Breakdown::of(&span(vec![app("small", [0.0, 1.8, 1.0], "large")]), "small").unwrap();
        assert_eq!(Cause::of(&breakdown), Cause::Nothing);
        let [said, _] = Cause::Nothing.sentences(&breakdown);
        assert!(said.ends_with("the largest is large, with 44% of its time."), "{said}");
    }

    #[test]
    fn advice_fits_the_configuration() {
        let change = |policy: &str| {
            let mut span = span(vec![app("small", [0.0, 20.0, 1.0], "large")]);
            policy.clone_into(&mut span.servers[0].policy);
            let breakdown = Breakdown::of(&span, "small").unwrap();
            Cause::of(&breakdown).sentences(&breakdown)[1].clone()
        };
        assert!(change("fifo").starts_with("policy = \"isolation\""), "{}", change("fifo"));
        assert!(change("isolation (observed)").starts_with("mode = \"manage\""), "{}", change("isolation (observed)"));
        assert!(change("isolation").starts_with("A larger weight"), "{}", change("isolation"));
    }

    #[test]
    fn a_cap_is_named_with_its_rate() {
        let mut capped = app("small", [0.0, 1.0, 1.0], "large");
        (capped.waits.cap_seconds, capped.cap_bytes_per_second) = (9.0, Some(2_000_000));
        let breakdown = Breakdown::of(&span(vec![capped]), "small").unwrap();
        assert_eq!(Cause::of(&breakdown), Cause::Cap);
        assert!(Cause::Cap.sentences(&breakdown)[0].contains("cap of 2MB/s"));
    }
}

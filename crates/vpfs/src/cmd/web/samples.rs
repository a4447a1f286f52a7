//! What the proxies said in the last hour.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vpfs_admin::api::{App, History, Sample, Span, Status, Work};
use vpfs_admin::events::{Event, EventsReport};
use vpfs_admin::{EVENTS, PEERS, STATUS, route_of_history};
use vpfs_proxy::{PeerReport, PeersReport};

use super::source::Source;
use crate::cmd::rows::Glance;
use crate::cmd::why::Matrix;
use crate::exit::Exit;
use crate::print::now;

/// What applications did in some time, over all servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Moment {
    /// The end of that time, in seconds since 1970.
    pub(super) at: u64,
    /// How long it is.
    pub(super) seconds: f64,
    /// By name.
    pub(super) did: BTreeMap<String, Work>,
}

/// At most an hour, and what was said last.
#[derive(Clone, Default)]
pub(super) struct Samples {
    pub(super) list: VecDeque<Moment>,
    /// What applications do now, those first that move most,
    pub(super) glance: Glance,
    /// and who waits for whom.
    pub(super) matrix: Matrix,
    pub(super) statuses: Vec<Status>,
    pub(super) peers: Vec<PeerReport>,
    pub(super) events: Vec<Event>,
}

impl Samples {
    const KEPT_FOR: Duration = Duration::from_secs(3600);
    /// Of more applications, those whose requests took longest.
    const APPS: usize = 32;
    const EVENTS: usize = 30;

    /// What the proxies have kept of the last hour, if they keep anything.
    pub(super) async fn of_history(source: &Source<'_>) -> Self {
        let mut moments = BTreeMap::new();
        let sums = histories(None, source).await;
        for app in most(sums.iter().map(|sample| &sample.app)).keys() {
            let samples = histories(Some(app), source).await;
            samples.iter().for_each(|sample| add_sample(&mut moments, sample));
        }
        Self { list: moments.into_values().collect(), ..Self::default() }
    }

    /// Asks the proxies.
    pub(super) async fn look(&mut self, source: &Source<'_>) -> Result<(), Exit> {
        let (statuses, peers, events) = tokio::try_join!(
            source.answers::<Status>(STATUS),
            source.answers::<PeersReport>(PEERS),
            source.answers::<EventsReport>(EVENTS)
        )?;
        self.add(now(), statuses);
        self.peers = peers.into_iter().flat_map(|report| report.peers).collect();
        self.peers.sort_by(|one, other| one.server.cmp(&other.server));
        self.peers.dedup_by(|one, other| one.server == other.server);
        self.events = events.into_iter().flat_map(|report| report.events).collect();
        self.events.sort_by(|one, other| other.time.cmp(&one.time));
        self.events.truncate(Self::EVENTS);
        Ok(())
    }

    pub(super) fn add(&mut self, at: u64, statuses: Vec<Status>) {
        let before = std::mem::replace(&mut self.statuses, statuses);
        if before.is_empty() {
            return;
        }
        self.glance = Glance::of(&before, &self.statuses, None);
        self.glance.apps.sort_by(|one, other| other.bytes_per_second.total_cmp(&one.bytes_per_second));
        self.glance.apps.truncate(Self::APPS);
        let span = Span::between(&before, &self.statuses);
        self.matrix = Matrix::of(&span, Self::APPS);
        self.list.push_back(Moment {
            at,
            seconds: span.seconds,
            did: most(span.servers.iter().flat_map(|server| &server.apps)),
        });
        while self.list.front().is_some_and(|oldest| oldest.at + Self::KEPT_FOR.as_secs() < at) {
            self.list.pop_front();
        }
    }
}

async fn histories(app: Option<&str>, source: &Source<'_>) -> Vec<Sample> {
    // Without a history the hour begins now.
    let answers = source.answers::<History>(&route_of_history(app, Samples::KEPT_FOR.as_secs())).await;
    answers.into_iter().flatten().flat_map(|history| history.samples).collect()
}

/// Those of an hour are ten seconds long; processes take them at moments of their own.
fn add_sample(moments: &mut BTreeMap<u64, Moment>, sample: &Sample) {
    let moment = moments.entry(sample.at.div_ceil(10)).or_default();
    moment.at = moment.at.max(sample.at);
    moment.seconds = moment.seconds.max(sample.seconds);
    moment.did.entry(sample.app.app.clone()).or_default().add(&sample.app.work());
}

/// The sums of those whose requests took longest.
fn most<'a>(apps: impl Iterator<Item = &'a App>) -> BTreeMap<String, Work> {
    let mut sums = BTreeMap::<&str, Work>::new();
    apps.for_each(|app| sums.entry(&app.app).or_default().add(&app.work()));
    let mut list: Vec<(&str, Work)> = sums.into_iter().collect();
    list.sort_by(|(_, one), (_, other)| other.seconds().total_cmp(&one.seconds()));
    list.truncate(Samples::APPS);
    list.into_iter().map(|(app, work)| (app.to_owned(), work)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::rows::tests::status;

    fn sample(at: u64, server: &str) -> Sample {
        let status = status(server, 10);
        let app = status.servers[0].apps[0].clone();
        Sample { at, seconds: 10.0, server: server.into(), policy: "isolation".into(), app }
    }

    #[test]
    fn samples_of_all_servers_are_one_moment() {
        let mut moments = BTreeMap::new();
        [(107, "s1"), (109, "s2"), (117, "s1")].iter().for_each(|(at, s)| add_sample(&mut moments, &sample(*at, s)));
        let seen: Vec<_> = moments.values().map(|m| (m.at, m.seconds, m.did["climate"].requests)).collect();
        assert_eq!(seen, [(109, 10.0, 20), (117, 10.0, 10)]);
    }

    #[test]
    fn an_hour_is_kept() {
        let mut samples = Samples::default();
        (0..1000).for_each(|round| samples.add(u64::from(5 * round), vec![status("s1", 1 + round)]));
        assert_eq!(samples.list.len(), 721);
    }

    #[test]
    fn memory_is_bounded() {
        let app = |number: u32| {
            let app = sample(1, "s1").app;
            App { app: format!("a{number}"), read: Work { wait_seconds: number.into(), ..app.read }, ..app }
        };
        let apps: Vec<App> = (0..100).map(app).collect();
        let kept = most(apps.iter());
        assert_eq!((kept.len(), kept.contains_key("a99"), kept.contains_key("a67")), (Samples::APPS, true, false));
    }
}

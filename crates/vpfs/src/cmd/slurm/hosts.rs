//! The addresses from which a node's requests come.
//!
//! Look-ups run alongside the agent's rounds: a round uses what is known, and [`Hosts::changed`] reports more answers.
//! So a name that no server answers for delays only the jobs of its node. An answer that was found stays while a name
//! server fails.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use vpfs_proxy::Resolver;
use vpfs_slurm::Settings;

use super::query;

/// After this time a name may stand for other addresses.
const REFRESH: Duration = Duration::from_secs(600);
/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(30);
/// Names that are looked up at a time for the first time, each in a thread: the nodes of a partition that boots.
const NEW: usize = 256;
/// Names that are looked up at a time once more, so that those which fail again and again keep no new one waiting.
const AGAIN: usize = 32;
/// A name without an answer for so long is said to be missing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Answers within this time are one change.
const TOGETHER: Duration = Duration::from_millis(100);

/// The address of each node in slurm.conf.
type Addresses = Result<HashMap<String, String>, String>;
/// Asks Slurm for them; takes the given time at most.
type Slurm = Arc<dyn Fn(Duration) -> BoxFuture<'static, Addresses> + Send + Sync>;

/// What is known about nodes.
pub(in crate::cmd) struct Hosts {
    settings: Settings,
    slurm: Slurm,
    resolver: Resolver,
    /// The nodes of jobs.
    nodes: BTreeSet<String>,
    /// What slurm.conf says.
    listed: HashMap<String, String>,
    /// Nodes that it does not have, or whose address was not told.
    unlisted: BTreeSet<String>,
    /// When to ask Slurm again; `None` while that runs.
    ask: Option<Instant>,
    failure: Option<String>,
    /// The names of client hosts: those of nodes now, and earlier ones until their next look-up would be due.
    names: HashMap<String, Name>,
    /// When to look which name up, by [`Kind`].
    queues: [BTreeSet<(Instant, String)>; 2],
    running: JoinSet<Answer>,
    /// How many look-ups of each kind run.
    looking: [usize; 2],
    /// When something became known that [`Hosts::changed`] has not told.
    news: Option<Instant>,
}

/// The name of a client host.
struct Name {
    is_wanted: bool,
    since: Instant,
    /// It was looked up, with success or without.
    is_done: bool,
    addresses: Vec<IpAddr>,
    /// Where it stands in which queue; `None` while it is looked up.
    due: Option<(Kind, Instant)>,
}

/// Look-ups of names that were never looked up, and of others.
#[derive(Clone, Copy)]
enum Kind {
    New,
    Again,
}

enum Answer {
    Slurm(Addresses),
    Name(Kind, String, Vec<IpAddr>),
}

impl Hosts {
    pub(in crate::cmd) fn new(settings: Settings) -> Self {
        let ask = |patience: Duration| -> BoxFuture<'static, Addresses> {
            Box::pin(async move {
                let asked = tokio::task::spawn_blocking(move || query::addresses(patience)).await;
                asked.map_err(|error| error.to_string()).flatten()
            })
        };
        Self::with(settings, Arc::new(ask), Resolver::default())
    }

    fn with(settings: Settings, slurm: Slurm, resolver: Resolver) -> Self {
        Self {
            settings,
            slurm,
            resolver,
            nodes: BTreeSet::new(),
            listed: HashMap::new(),
            unlisted: BTreeSet::new(),
            ask: Some(Instant::now()),
            failure: None,
            names: HashMap::new(),
            queues: [BTreeSet::new(), BTreeSet::new()],
            running: JoinSet::new(),
            looking: [0; 2],
            news: None,
        }
    }

    /// Takes other settings, and looks all nodes up again. What is known stays until there is an answer.
    pub(super) fn look_again(&mut self, settings: Settings) {
        self.settings = settings;
        self.ask = self.ask.map(|_| Instant::now());
        let known: Vec<String> = self.names.keys().cloned().collect();
        known.iter().for_each(|host| self.hurry(host));
        self.find_names();
    }

    /// These are the nodes of jobs from now on. Starts look-ups, and waits for none.
    pub(in crate::cmd) fn want(&mut self, nodes: BTreeSet<String>) {
        self.nodes = nodes;
        let is_known = |node: &String| self.listed.contains_key(node) || self.unlisted.contains(node);
        if !self.nodes.iter().all(is_known) {
            self.ask = self.ask.map(|_| Instant::now());
        }
        self.find_names();
        self.start();
    }

    /// What is known now of a node: none, if nothing is.
    pub(in crate::cmd) fn addresses(&self, node: &str) -> Vec<IpAddr> {
        let Some(host) = self.host_of(node) else { return Vec::new() };
        match host.parse::<IpAddr>() {
            Ok(ip) => vec![ip.to_canonical()],
            Err(_) => self.names.get(&host).map(|name| name.addresses.clone()).unwrap_or_default(),
        }
    }

    /// Whether it was tried in vain to find the addresses of a node, and not only begun.
    pub(super) fn is_missing(&self, node: &str) -> bool {
        let name = self.host_of(node).and_then(|host| self.names.get(&host));
        name.is_some_and(|name| name.addresses.is_empty() && (name.is_done || name.since.elapsed() >= PATIENCE))
    }

    /// Runs look-ups, until what is known has changed. Nothing is lost if this is dropped before.
    pub(super) async fn changed(&mut self) {
        loop {
            self.start();
            let told = self.news.map(|since| since + TOGETHER);
            if told.is_some_and(|told| told <= Instant::now()) {
                self.news = None;
                return;
            }
            let next = [told, self.due()].into_iter().flatten().min();
            tokio::select! {
                Some(answer) = self.running.join_next() => match answer {
                    Ok(answer) => self.take(answer),
                    Err(error) => tracing::error!(%error, "a bug in vpfs"),
                },
                () = async { sleep_until(next.expect("checked")).await }, if next.is_some() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Waits until all look-ups have an answer, at most [`PATIENCE`].
    pub(in crate::cmd) async fn settle(&mut self) {
        let until = Instant::now() + PATIENCE;
        let is_open = |name: &Name| name.is_wanted && !name.is_done;
        while self.is_asking() || self.names.values().any(is_open) {
            if tokio::time::timeout_at(until, self.changed()).await.is_err() {
                return;
            }
        }
    }

    /// The host that a node's requests come from; `None` before Slurm has told its address.
    fn host_of(&self, node: &str) -> Option<String> {
        let address = match self.listed.get(node) {
            Some(address) => address,
            None if self.unlisted.contains(node) || !self.needs_slurm() => node,
            None => return None,
        };
        Some(self.settings.client_of(node, address))
    }

    fn needs_slurm(&self) -> bool {
        self.settings.clients.contains("{address}")
    }

    fn is_asking(&self) -> bool {
        self.needs_slurm() && !self.nodes.is_empty() && self.ask.is_none_or(|at| at <= Instant::now())
    }

    /// Wants the names of the nodes' hosts, and no others.
    fn find_names(&mut self) {
        let hosts: HashSet<String> = self.nodes.iter().filter_map(|node| self.host_of(node)).collect();
        let now = Instant::now();
        self.names.iter_mut().for_each(|(host, name)| name.is_wanted &= hosts.contains(host));
        for host in hosts.into_iter().filter(|host| host.parse::<IpAddr>().is_err()) {
            match self.names.get_mut(&host) {
                Some(name) if name.is_wanted => {}
                Some(name) => {
                    (name.is_wanted, name.since) = (true, now);
                    self.hurry(&host);
                }
                None => {
                    let name = Name { is_wanted: true, since: now, is_done: false, addresses: Vec::new(), due: None };
                    self.names.insert(host.clone(), name);
                    self.enqueue(host, Kind::New, now);
                }
            }
        }
    }

    /// Lets a name be looked up as soon as possible.
    fn hurry(&mut self, host: &str) {
        let Some((kind, at)) = self.names.get(host).and_then(|name| name.due) else { return };
        self.queues[kind as usize].remove(&(at, host.to_owned()));
        self.enqueue(host.to_owned(), kind, at.min(Instant::now()));
    }

    fn enqueue(&mut self, host: String, kind: Kind, at: Instant) {
        if let Some(name) = self.names.get_mut(&host) {
            name.due = Some((kind, at));
            self.queues[kind as usize].insert((at, host));
        }
    }

    /// The next look-up of a kind, if one more may run.
    fn next(&self, kind: Kind) -> Option<&(Instant, String)> {
        let most = [NEW, AGAIN][kind as usize];
        self.queues[kind as usize].first().filter(|_| self.looking[kind as usize] < most)
    }

    /// When [`Hosts::start`] has something to do, if no answer comes before.
    fn due(&self) -> Option<Instant> {
        let ask = self.ask.filter(|_| self.needs_slurm() && !self.nodes.is_empty());
        let names = [Kind::New, Kind::Again].into_iter().filter_map(|kind| self.next(kind));
        names.map(|(at, _)| *at).chain(ask).min()
    }

    /// Starts what is due.
    fn start(&mut self) {
        let now = Instant::now();
        if self.is_asking() && self.ask.take().is_some() {
            let asked = (self.slurm)(self.settings.timeout);
            self.running.spawn(async move { Answer::Slurm(asked.await) });
        }
        for kind in [Kind::New, Kind::Again] {
            while let Some((at, host)) = self.next(kind).filter(|(at, _)| *at <= now).cloned() {
                self.queues[kind as usize].remove(&(at, host.clone()));
                self.look_up(kind, host);
            }
        }
    }

    fn look_up(&mut self, kind: Kind, host: String) {
        let Some(name) = self.names.get_mut(&host) else { return };
        if !name.is_wanted {
            self.names.remove(&host);
            return;
        }
        name.due = None;
        self.looking[kind as usize] += 1;
        let looking = self.resolver.look_up(host.clone());
        self.running.spawn(async move { Answer::Name(kind, host, looking.await.unwrap_or_default()) });
    }

    fn take(&mut self, answer: Answer) {
        let is_news = match answer {
            Answer::Slurm(answer) => self.take_addresses(answer),
            Answer::Name(kind, host, addresses) => {
                self.looking[kind as usize] -= 1;
                self.take_name(host, addresses)
            }
        };
        if is_news {
            self.news.get_or_insert_with(Instant::now);
        }
    }

    fn take_addresses(&mut self, answer: Addresses) -> bool {
        self.ask = Some(Instant::now() + self.settings.interval);
        let before = (self.listed.clone(), self.unlisted.clone());
        match answer {
            Ok(listed) => (self.listed, self.failure) = (listed, None),
            Err(error) => {
                if self.failure.as_ref() != Some(&error) {
                    tracing::warn!(error, "addresses of nodes cannot be read; of new nodes, their names are used");
                }
                self.failure = Some(error);
            }
        }
        self.unlisted = self.nodes.iter().filter(|node| !self.listed.contains_key(*node)).cloned().collect();
        self.find_names();
        before != (self.listed.clone(), self.unlisted.clone())
    }

    fn take_name(&mut self, host: String, addresses: Vec<IpAddr>) -> bool {
        let Some(name) = self.names.get_mut(&host) else { return false };
        let is_first = !std::mem::replace(&mut name.is_done, true);
        let pause = if addresses.is_empty() { RETRY } else { REFRESH };
        let mut addresses: Vec<IpAddr> = addresses.into_iter().map(|ip| ip.to_canonical()).collect();
        addresses.sort_unstable();
        let is_other = !addresses.is_empty() && name.addresses != addresses;
        if is_other {
            name.addresses = addresses;
        }
        self.enqueue(host, Kind::Again, Instant::now() + pause);
        is_first || is_other
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;

    /// What slurm.conf and name servers say, and how often names were asked for.
    #[derive(Default)]
    struct Site {
        listed: HashMap<String, String>,
        hosts: HashMap<String, Option<Vec<IpAddr>>>,
        asked: HashMap<String, usize>,
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn nodes<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    /// Names without an answer are waited for; those that are not there fail after ten seconds.
    fn hosts(site: &Arc<Mutex<Site>>) -> Hosts {
        let settings = Settings::parse("slurm.toml", "[agent]\ntoken = \"t\"\n", Path::new("/")).unwrap();
        let (of_slurm, of_names) = (Arc::clone(site), Arc::clone(site));
        let slurm = move |_| -> BoxFuture<'static, Addresses> {
            let listed = of_slurm.lock().unwrap().listed.clone();
            Box::pin(async move { Ok(listed) })
        };
        let resolver = Resolver::new(move |host: String| {
            let mut site = of_names.lock().unwrap();
            *site.asked.entry(host.clone()).or_default() += 1;
            let answer = site.hosts.get(&host).cloned();
            async move {
                match answer {
                    Some(Some(addresses)) => Ok(addresses),
                    Some(None) => std::future::pending().await,
                    None => {
                        tokio::time::sleep(Duration::from_secs(10)).await;
                        Err(std::io::Error::other("no answer"))
                    }
                }
            }
        });
        Hosts::with(settings, Arc::new(slurm), resolver)
    }

    /// Runs look-ups for this time; how long it took until `node` had these addresses.
    async fn run(hosts: &mut Hosts, time: Duration, node: &str, addresses: &[IpAddr]) -> Option<Duration> {
        let (began, mut found) = (Instant::now(), None);
        let running = async {
            loop {
                if found.is_none() && hosts.addresses(node) == addresses {
                    found = Some(began.elapsed());
                }
                hosts.changed().await;
            }
        };
        let _ = tokio::time::timeout(time, running).await;
        found
    }

    const MINUTE: Duration = Duration::from_secs(60);

    /// Symptom: one node whose name nobody answers for delayed the shares of all jobs by 6 to 11 s, 200 by 12 to 17 s.
    /// Cause: each round of the agent waited for all look-ups, and asked again for those that had not ended. Proof: the
    /// other nodes are known at once, however many names fail or hang, and also if these are asked again.
    #[tokio::test(start_paused = true)]
    async fn names_without_an_answer_delay_no_other_node() {
        for dead in [1, 200, 1000] {
            let site = Arc::new(Mutex::new(Site::default()));
            let cloud: Vec<String> = (0..dead).map(|number| format!("cloud{number}")).collect();
            {
                let mut site = site.lock().unwrap();
                site.listed.extend(cloud.iter().map(|name| (name.clone(), name.clone())));
                site.listed.extend([("c1".into(), "10.0.0.1".into()), ("c2".into(), "c2-ib".into())]);
                site.hosts.extend([("c2-ib".to_owned(), Some(vec![ip(2)])), ("cloud0".to_owned(), None)]);
            }
            let mut hosts = hosts(&site);
            let soon = TOGETHER + TOGETHER;
            hosts.want(nodes(cloud.iter().map(String::as_str).chain(["c1"])));
            assert!(run(&mut hosts, MINUTE, "c1", &[ip(1)]).await.unwrap() <= soon);
            let began = Instant::now();
            hosts.settle().await;
            assert!(began.elapsed() <= PATIENCE);
            for round in 0..100 {
                // A new job on a node of which nothing is known yet, while all of the others fail again.
                hosts.want(nodes(cloud.iter().map(String::as_str).chain(["c1"])));
                hosts.want(nodes(cloud.iter().map(String::as_str).chain(["c1", "c2"])));
                assert!(run(&mut hosts, Duration::from_secs(5), "c2", &[ip(2)]).await.unwrap() <= soon, "{round}");
            }
            assert!(cloud.iter().all(|node| hosts.is_missing(node)) && !hosts.is_missing("c2"));
            assert_eq!(site.lock().unwrap().asked["cloud0"], 1, "it has not ended");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_stays_until_there_is_another_one() {
        let site = Arc::new(Mutex::new(Site::default()));
        let set = |host: Option<Vec<IpAddr>>| {
            let mut site = site.lock().unwrap();
            match host {
                Some(addresses) => site.hosts.insert("c1".into(), Some(addresses)),
                None => site.hosts.remove("c1"),
            }
        };
        let mut hosts = hosts(&site);
        set(Some(vec![ip(1)]));
        hosts.want(nodes(["c1"]));
        assert!(run(&mut hosts, MINUTE, "c1", &[ip(1)]).await.is_some(), "slurm.conf does not have it");
        set(None);
        run(&mut hosts, 20 * MINUTE, "c1", &[]).await;
        assert_eq!((hosts.addresses("c1"), hosts.is_missing("c1")), (vec![ip(1)], false));
        // Also for the next job there.
        hosts.want(nodes([]));
        hosts.want(nodes(["c1"]));
        assert_eq!(hosts.addresses("c1"), [ip(1)]);
        set(Some(vec![ip(2)]));
        assert!(run(&mut hosts, MINUTE, "c1", &[ip(2)]).await.is_some());
        hosts.want(nodes([]));
        run(&mut hosts, 20 * MINUTE, "c1", &[]).await;
        assert!(hosts.names.is_empty(), "nothing is kept for ever");
    }

    /// Symptom: after `scontrol update NodeName=c1 NodeAddr=...` a node was at its old address for up to ten minutes,
    /// also after SIGHUP. Cause: addresses were read again after that time only. Proof: within an interval, or at once.
    #[tokio::test(start_paused = true)]
    async fn an_address_that_changes_is_seen_within_an_interval() {
        let site = Arc::new(Mutex::new(Site::default()));
        let set = |address: u8| site.lock().unwrap().listed.insert("c1".into(), ip(address).to_string());
        let mut hosts = hosts(&site);
        let interval = hosts.settings.interval;
        set(1);
        hosts.want(nodes(["c1"]));
        run(&mut hosts, MINUTE + interval / 2, "c1", &[ip(1)]).await;
        set(2);
        assert!(run(&mut hosts, MINUTE, "c1", &[ip(2)]).await.unwrap() <= interval + TOGETHER);
        set(3);
        hosts.look_again(hosts.settings.clone());
        assert!(run(&mut hosts, MINUTE, "c1", &[ip(3)]).await.unwrap() <= TOGETHER);
    }
}

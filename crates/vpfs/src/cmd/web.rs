//! `vpfs web`: a live page about the proxies of this host.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use vpfs_config::Config;
use vpfs_proxy::admin::api::{App, History, Sample, Span, Status, TriedRate, Work};
use vpfs_proxy::admin::events::{Event, EventsReport};
use vpfs_proxy::admin::{EVENTS, Kept, PEERS, PageKey, STATUS, get_here, route_of_history, serve_page};
use vpfs_proxy::{Observer, PeerReport, PeersReport};
use vpfs_report::{Axis, Bar, Bars, Plot, Report, Section, Series, Table, Tone};

use super::asking::{Answer, Asking};
use super::rows::{Glance, Level, Row};
use super::why::Matrix;
use super::{random_hex, runtime};
use crate::print::{Exit, clock_time, mean_time, now, percent, plain, print};
use crate::service::Stop;

/// How often the proxies are asked, and the page is loaded again.
const EVERY: Duration = Duration::from_secs(5);

/// Show a live page for a browser: throughput, who waits for whom, shares due and got, servers, peers and events
///
/// Asks the proxies on this host at their sockets every five seconds, begins with the hour of their history, and
/// serves one page on the loopback interface, at an address with a key that only its output says. The page needs no
/// scripts and no other host; `still` at the end of its address stays as it is. From another host: ssh -L
/// 8080:127.0.0.1:8080 HOST.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs web                   print the address of the page, and serve it until interrupted\n  \
    vpfs web --port 8080       at this port")]
pub(crate) struct Web {
    #[command(flatten)]
    asking: Asking,

    /// The port on the loopback interface [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

impl Web {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let config = self.asking.config()?;
        runtime()?.block_on(async {
            let failed = |error: std::io::Error| Exit::Failed(format!("cannot serve at port {}: {error}", self.port));
            let mut stop = Stop::new().map_err(failed)?;
            let source = Source::Host(&self.asking, &config);
            let mut samples = Samples::of_history(&source).await;
            samples.look(&source).await?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await.map_err(failed)?;
            // Other users of this host can connect to the port, but cannot guess this.
            let (address, key) = (listener.local_addr().map_err(failed)?, random_hex::<16>()?);
            print(url(address, &key))?;
            tokio::select! {
                () = serve(listener, PageKey::Text(key), samples, &source) => Ok(()),
                () = stop.asked() => Ok(()),
            }
        })
    }
}

/// Serves the page of a proxy at `listener`, for ever.
pub(super) async fn serve_own(listener: TcpListener, key: PathBuf, observer: Observer, kept: Kept) {
    let source = Source::Itself(observer, kept);
    let mut samples = Samples::of_history(&source).await;
    // It always has answers of its own.
    let _ = samples.look(&source).await;
    serve(listener, PageKey::File(key), samples, &source).await;
}

async fn serve(listener: TcpListener, key: PageKey, samples: Samples, source: &Source<'_>) {
    let samples = Arc::new(Mutex::new(samples));
    let shown = Arc::clone(&samples);
    let html = move || page_html(&shown.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let observer = match source {
        Source::Itself(observer, _) => Some(observer),
        Source::Host(..) => None,
    };
    tokio::select! {
        () = serve_page(listener, key, EVERY, observer, html) => {}
        () = watch(source, &samples) => {}
    }
}

/// Looks again and again.
async fn watch(source: &Source<'_>, samples: &Mutex<Samples>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let mut next = samples.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // While none answers, the page shows what was.
        let _ = next.look(source).await;
        *samples.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }
}

fn url(address: SocketAddr, key: &str) -> String {
    format!("http://{address}/{key}/")
}

/// Where a page has what it shows from.
pub(super) enum Source<'a> {
    /// The proxies of this host, at their sockets.
    Host(&'a Asking, &'a Config),
    Itself(Observer, Kept),
}

impl Source<'_> {
    /// The answers to GET `route`.
    async fn answers<A: Answer>(&self, route: &str) -> Result<Vec<A>, Exit> {
        match self {
            Self::Host(asking, config) => Ok(asking.answers_to(route, config).await?.list),
            Self::Itself(observer, kept) => {
                let body = get_here(observer, kept, route).await.map_err(Exit::Failed)?;
                let answer = serde_json::from_str(&body).map_err(|error| Exit::Failed(error.to_string()))?;
                Ok(vec![answer])
            }
        }
    }
}

/// More lines in a picture cannot be told apart.
const LINES: usize = 8;

/// The page, complete in itself.
fn page_html(samples: &Samples) -> String {
    let servers: Vec<&str> =
        samples.statuses.iter().flat_map(|status| &status.servers).map(|server| &*server.server).collect();
    let report = Report::new(format!("vpfs: {}", servers.join(", ")));
    let report = match samples.list.back() {
        None => report.introduction("The first five seconds are being measured."),
        Some(latest) => {
            let verdict = &samples.glance.verdict;
            let seconds = latest.seconds;
            report
                .headline(tone(verdict.level), verdict.text())
                .introduction(format!("At {} UTC, over the {seconds:.0} s before.", clock_time(latest.at)))
                .section(now_section(&samples.glance))
                .section(waits(&samples.matrix))
        }
    };
    report.section(over_time(samples)).section(storage(samples)).section(peers(samples)).section(events(samples)).html()
}

const fn tone(level: Level) -> Tone {
    match level {
        Level::Good => Tone::Good,
        Level::Slowed => Tone::Fair,
        Level::Below => Tone::Bad,
    }
}

/// What each application gets now.
fn now_section(glance: &Glance) -> Section {
    let headings = ["application", "note", "weight", "MB/s", "ops/s", "used", "entitled", "wait", "storage", "why"];
    let cells = |row: &Row, why: String| {
        let [wait, storage] = [row.wait_seconds, row.storage_seconds].map(mean_time);
        [
            row.app.clone(),
            sign(row).to_owned(),
            row.weight.map_or_else(String::new, |weight| weight.to_string()),
            format!("{:.1}", row.bytes_per_second / 1e6),
            format!("{:.0}", row.requests_per_second),
            percent(row.used),
            row.entitled(),
            wait,
            storage,
            why,
        ]
    };
    let Glance { total, apps, .. } = glance;
    let table = apps.iter().fold(Table::new(headings), |table, row| table.row(cells(row, row.why())));
    let active = || apps.iter().filter(|row| row.used + row.entitled > 0.0).take(LINES);
    let bars =
        Bars::new("Share of the storage's time", Axis::linear("share", "%"), active().map(|row| row.app.clone()))
            .series("used", active().map(|row| Bar::new((row.used * 100.0).round())))
            .series("entitled", active().map(|row| Bar::new((row.entitled * 100.0).round())));
    Section::new("Applications now").table(table.row(cells(total, String::new()))).figure(
        bars,
        "Used: the part of the storage's time that it used; the total is the utilisation. Entitled: what its weight gives \
         it among those that ask now. Wait: in vpfs, storage: in the storage, means for each request.",
    )
}

fn sign(row: &Row) -> &'static str {
    match row.sign() {
        '!' => "! below",
        '~' => "~ slowed",
        _ => "",
    }
}

/// For whom each application waits now.
fn waits(matrix: &Matrix) -> Section {
    let section = Section::new("Who waits for whom");
    if matrix.rows.is_empty() {
        return section.text("No application has requests.");
    }
    let table = matrix.rows.iter().fold(Table::new(matrix.header.clone()), |table, row| table.row(row.clone()));
    section.table(table).text(
        "Of the time of a row's requests: the part in which they waited, in vpfs or in the storage, behind the \
         application of the column; were held by rules alone (a cap, a pace); were in storage that is slower than at \
         best; waited for a processor of the proxy's host; and were in the storage as at best. vpfs why says the same of one application in words.",
    )
}

/// Sums and lines of the applications that moved most.
fn over_time(samples: &Samples) -> Section {
    let sums = sums(samples);
    let picture = |title: &str, axis: Axis, value: fn(&Work, f64) -> Option<f64>| {
        let plot = Plot::new(title, Axis::linear("time before now", "min"), axis.include(0.0));
        let end = samples.list.back().map_or(0, |moment| moment.at);
        largest(&sums).into_iter().fold(plot, |plot, app| {
            let points = samples.list.iter().filter_map(|moment| {
                let did = moment.did.get(app).copied().unwrap_or_default();
                Some((-(end.saturating_sub(moment.at) as f64) / 60.0, value(&did, moment.seconds)?))
            });
            plot.series(Series::line(plain(app), points))
        })
    };
    Section::new("The last hour")
        .table(hour(&sums))
        .figure(
            picture("Throughput", Axis::linear("throughput", "MB/s"), |did, seconds| {
                (seconds > 0.0).then(|| did.bytes as f64 / 1e6 / seconds)
            }),
            "",
        )
        .figure(
            picture("Wait in vpfs", Axis::linear("mean wait", "ms"), |did, _| Some(did.mean(did.wait_seconds)? * 1e3)),
            "For others that have a right to the storage, or for its own cap.",
        )
        .figure(
            picture("Time in the storage", Axis::linear("mean time", "ms"), |did, _| {
                Some(did.mean(did.storage_seconds)? * 1e3)
            }),
            "Longer than usual: the storage is slow, or others fill it.",
        )
}

/// The same as numbers, over all of that time.
fn hour(sums: &BTreeMap<&str, Work>) -> Table {
    let table = Table::new(["application", "moved [MB]", "requests", "mean wait", "mean time in the storage"]);
    sums.iter().fold(table, |table, (app, sum)| {
        table.row([
            plain(app),
            format!("{:.1}", sum.bytes as f64 / 1e6),
            sum.requests.to_string(),
            mean_time(sum.mean(sum.wait_seconds)),
            mean_time(sum.mean(sum.storage_seconds)),
        ])
    })
}

fn sums(samples: &Samples) -> BTreeMap<&str, Work> {
    let mut sums = BTreeMap::<&str, Work>::new();
    let all = samples.list.iter().flat_map(|moment| &moment.did);
    all.for_each(|(app, did)| sums.entry(app).or_default().add(did));
    sums
}

/// The names of the applications that moved most, in the order of their names.
fn largest<'a>(sums: &BTreeMap<&'a str, Work>) -> Vec<&'a str> {
    let mut names: Vec<&str> = sums.keys().copied().collect();
    names.sort_by_key(|name| Reverse(sums[name].bytes + sums[name].requests));
    names.truncate(LINES);
    names.sort_unstable();
    names
}

fn storage(samples: &Samples) -> Section {
    let headings = ["server", "policy", "waiting", "in the storage", "pace of bulk", "refused connections"];
    let table =
        samples.statuses.iter().flat_map(|status| &status.servers).fold(Table::new(headings), |table, server| {
            table.row([
                server.server.clone(),
                server.policy.clone(),
                server.queued.to_string(),
                server.outstanding.to_string(),
                server.pace_bytes_per_second.map_or_else(String::new, |pace| format!("{:.1} MB/s", pace as f64 / 1e6)),
                server.refused_connections.to_string(),
            ])
        });
    let servers = samples.statuses.iter().flat_map(|status| &status.servers);
    let rates = servers.map(|server| &server.tried_rates).find(|rates| !rates.is_empty());
    let section = Section::new("Servers").table(table);
    rates.into_iter().fold(section, |section, rates| {
        section.figure(
            curve(rates),
            "At each server. As long as one percent more for bulk costs the others less than one percent, weighted, its \
             rate rises.",
        )
    })
}

/// What rates of bulk were recently worth to it and to those that lose most.
fn curve(rates: &[TriedRate]) -> Plot {
    let line = |name: &str, of: &dyn Fn(&TriedRate) -> Option<f64>| {
        let points = rates.iter().filter_map(|rate| Some((rate.bytes_per_second as f64 / 1e6, of(rate)? * 100.0)));
        Series::line(name, points).with_markers()
    };
    let (rate, part) = (Axis::linear("rate of bulk", "MB/s"), Axis::linear("of that at the best rate", "%"));
    let bulk = line("bulk gets", &|rate| Some(rate.bulk));
    let plot = Plot::new("What rates of bulk are worth", rate, part).series(bulk);
    let apps = TriedRate::slowest(rates).into_iter().take(LINES);
    apps.fold(plot, |plot, app| plot.series(line(&format!("speed of {}", plain(app)), &|rate| rate.speed_of(app))))
}

fn peers(samples: &Samples) -> Section {
    let section = Section::new("Peers");
    if samples.peers.is_empty() {
        return section.text("No process of this host has peers.");
    }
    let table = samples.peers.iter().fold(Table::new(["server", "state", "latest report"]), |table, peer| {
        let age = peer.news_age_seconds.map_or_else(|| "none yet".to_owned(), |age| format!("{age:.1} s ago"));
        table.row([peer.server.clone(), (if peer.connected { "up" } else { "absent" }).to_owned(), age])
    });
    section.table(table)
}

fn events(samples: &Samples) -> Section {
    let table = samples.events.iter().fold(Table::new(["time", "level", "what happened"]), |table, event| {
        let fields: String = event.fields.iter().map(|field| format!(" {}={}", field.name, field.value)).collect();
        table.row([event.time.clone(), event.level.clone(), format!("{}{fields}", event.message)])
    });
    Section::new("Events").table(table)
}

/// What applications did in some time, over all servers.
#[derive(Clone, Debug, Default, PartialEq)]
struct Moment {
    /// The end of that time, in seconds since 1970.
    at: u64,
    seconds: f64,
    did: BTreeMap<String, Work>,
}

/// At most an hour, and what was said last.
#[derive(Clone, Default)]
struct Samples {
    list: VecDeque<Moment>,
    /// What applications do now, those first that move most,
    glance: Glance,
    /// and who waits for whom.
    matrix: Matrix,
    statuses: Vec<Status>,
    peers: Vec<PeerReport>,
    events: Vec<Event>,
}

impl Samples {
    const KEPT_FOR: Duration = Duration::from_secs(3600);
    /// Of more applications, those whose requests took longest.
    const APPS: usize = 32;
    const EVENTS: usize = 30;

    /// What the proxies have kept of the last hour, if they keep anything.
    async fn of_history(source: &Source<'_>) -> Self {
        let mut moments = BTreeMap::new();
        let sums = histories(None, source).await;
        for app in most(sums.iter().map(|sample| &sample.app)).keys() {
            let samples = histories(Some(app), source).await;
            samples.iter().for_each(|sample| add_sample(&mut moments, sample));
        }
        Self { list: moments.into_values().collect(), ..Self::default() }
    }

    async fn look(&mut self, source: &Source<'_>) -> Result<(), Exit> {
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

    fn add(&mut self, at: u64, statuses: Vec<Status>) {
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
    use vpfs_proxy::admin::api::Speed;

    use super::*;
    use crate::cmd::rows::tests::status;
    use crate::cmd::why::bare_cells;

    #[test]
    fn the_page_has_what_top_has_and_escapes_it() {
        let mut samples = Samples::default();
        for round in 1..4 {
            let mut status = status("s1", 10 * round);
            status.servers[0].apps[0].app = "<b>climate</b>".to_owned();
            samples.add(u64::from(10 * round), vec![status]);
        }
        assert_eq!(samples.list.len(), 2, "a rate needs two looks");
        let html = page_html(&samples);
        let first =
            "<p class=\"headline good\">OK: The storage is in use (50%). No application waits long for another. ";
        assert!(html.contains(first) && html.contains("At 1970-01-01 00:00:30 UTC, over the 10 s before."), "{html}");
        let html = bare_cells(&html);
        let climate =
            "<td>&lt;b&gt;climate&lt;/b&gt;</td><td></td><td>2</td><td>1.0</td><td>1</td><td>50%</td><td>100%</td>";
        let total = "<td>total</td><td></td><td></td><td>1.0</td><td>1</td><td>50%</td><td>100%</td>";
        assert!(html.contains(climate) && html.contains(total), "{html}");
        // Twenty requests in twenty seconds, which the storage served as at best for all that is known.
        let hour = "<td>&lt;b&gt;climate&lt;/b&gt;</td><td>21.0</td><td>20</td><td>500ms</td><td>250ms</td>";
        let waits = "<td>&lt;b&gt;climate&lt;/b&gt;</td><td>0%</td><td>0%</td><td>0%</td><td>0%</td><td>100%</td>";
        assert!(html.contains(hour) && html.contains(waits), "{html}");
        assert!(!html.contains("<b>climate") && !html.contains("<script"));
    }

    fn sample(at: u64, server: &str) -> Sample {
        let status = status(server, 10);
        let app = status.servers[0].apps[0].clone();
        Sample { at, seconds: 10.0, server: server.into(), policy: "isolation".into(), app }
    }

    #[test]
    fn the_page_draws_what_rates_of_bulk_are_worth() {
        let mut status = status("s1", 10);
        let page = |status: &Status| {
            let mut samples = Samples::default();
            samples.add(10, vec![status.clone()]);
            page_html(&samples)
        };
        assert!(!page(&status).contains("What rates of bulk are worth"));
        let rate = |megabytes: u64, bulk, speed| TriedRate {
            bytes_per_second: megabytes * 1_000_000,
            bulk,
            speeds: vec![Speed { app: "climate".to_owned(), speed }],
        };
        status.servers[0].tried_rates = vec![rate(14, 1.0, 1.0), rate(15, 1.09, 0.76)];
        let html = page(&status);
        assert!(html.contains("What rates of bulk are worth") && html.contains("speed of climate"), "{html}");
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

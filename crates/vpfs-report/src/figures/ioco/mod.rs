//! Figures of [IOCO].

pub(crate) mod formulas;

use std::time::Duration;

use vpfs_core::Depth;
use vpfs_core::ioco::order_of;
use vpfs_sim::model::plan::{Ior, MpiTileIo, Noncontig, Phase, PioBench};
use vpfs_sim::{App, CallTrace, Results, Scenario, ServerGroup, SimError, Workload, parallel};

use crate::figures::Figure;
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};
use crate::{Axis, Bar, Bars, Measured, Plot, Section, Series, Table, number};

pub(crate) const FIGURES: &[Figure] = &[
    Figure::new("ioco-3", "IOCO Fig. 3 and 5: when servers are done with each application", finish::run),
    Figure::new("ioco-6", "IOCO Fig. 6: completion time by number of applications", apps::run),
    Figure::new("ioco-7", "IOCO Fig. 7: completion time by number of servers", servers::run),
    Figure::new("ioco-8", "IOCO Fig. 8: completion time and bandwidth by window", windows::run),
    Figure::new("ioco-formulas", "IOCO §3.2: formulas against simulation", formulas::run),
];

/// The environments of [IOCO §5.1]. The scenario files state the assumptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    /// Gigabit Ethernet and disks.
    Hdd,
    /// InfiniBand and flash.
    Ssd,
}

impl Medium {
    const ALL: [Self; 2] = [Self::Hdd, Self::Ssd];

    /// In names of values.
    fn short(self) -> &'static str {
        if self == Self::Hdd { "hdd" } else { "ssd" }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Hdd => "HDD",
            Self::Ssd => "SSD",
        }
    }

    fn best_window(self) -> u64 {
        if self == Self::Hdd { 1000 } else { 250 }
    }

    fn most(self) -> u32 {
        if self == Self::Hdd { 64 } else { 16 }
    }

    fn servers(self, count: u32) -> ServerGroup {
        match self {
            Self::Hdd => scenario::ioco_disks(count),
            Self::Ssd => scenario::ioco_flash(count),
        }
    }

    fn depth(self) -> Depth {
        Depth::new(if self == Self::Hdd { 1 } else { 2 }).expect("not zero")
    }

    fn on(self, base: &Scenario, servers: u32) -> Scenario {
        let mut scenario = base.clone();
        scenario.servers = vec![self.servers(servers)];
        scenario.jitter = if self == Self::Hdd { scenario::ETHERNET_JITTER } else { scenario::INFINIBAND_JITTER };
        scenario.skew = scenario.jitter;
        self.set_depth(&mut scenario);
        scenario
    }

    fn set_depth(self, scenario: &mut Scenario) {
        for policy in &mut scenario.policies {
            policy.settings.depth = self.depth();
        }
    }
}

/// Of each application, in [IOCO Fig. 6 to 8].
const PROCESSES: [u32; 3] = [8, 16, 32];

const POLICIES: [&str; 2] = ["original", "coordinated"];

#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Mean over all calls of the time from issue to the last server's reply, in seconds.
    completion: f64,
    /// Sum of the throughput that each application sees over its own run time, in bytes per second, as reported by
    /// benchmarks.
    reported: f64,
    /// All bytes divided by the time of the whole run, in bytes per second.
    bandwidth: f64,
}

impl Outcome {
    fn of(results: &Results) -> Self {
        let latencies = || results.apps.iter().flat_map(|app| [&app.read, &app.write]);
        let calls = latencies().map(|calls| calls.count).sum::<u64>().max(1) as f64;
        let sum: f64 = latencies().map(|calls| calls.mean_seconds * calls.count as f64).sum();
        let seconds = |app: &vpfs_sim::AppResults| app.run_time().unwrap_or(Duration::MAX).as_secs_f64();
        let reported = results.apps.iter().map(|app| app.bytes() as f64 / seconds(app)).sum();
        Self { completion: sum / calls, reported, bandwidth: results.throughput() }
    }

    fn midpoint(&self, other: &Self) -> Self {
        Self {
            completion: f64::midpoint(self.completion, other.completion),
            reported: f64::midpoint(self.reported, other.reported),
            bandwidth: f64::midpoint(self.bandwidth, other.bandwidth),
        }
    }
}

/// The scenario with a different seed, which also determines the applications' order in windows, as in the paper, where
/// each run draws a new order.
fn seeded(scenario: &Scenario, seed: u64) -> Scenario {
    let mut scenario = scenario::seeded(scenario, seed);
    for app in &mut scenario.apps {
        app.order = Some(order_of(&format!("{} in run {seed}", app.name)));
    }
    scenario
}

fn repeat(scenario: &Scenario, policy: &str, seeds: &[u64]) -> Result<Vec<Outcome>, SimError> {
    seeds.iter().map(|&seed| Ok(Outcome::of(&scenario::run(&seeded(scenario, seed), policy)?))).collect()
}

/// Both policies with the same seeds.
#[derive(Clone, Debug)]
struct Pair {
    original: Vec<Outcome>,
    coordinated: Vec<Outcome>,
}

impl Pair {
    fn of(scenario: &Scenario, seeds: &[u64]) -> Result<Self, SimError> {
        let [original, coordinated] = POLICIES.map(|policy| repeat(scenario, policy, seeds));
        Ok(Self { original: original?, coordinated: coordinated? })
    }

    /// The mean of two experiments with the same seeds.
    fn midpoint(&self, other: &Self) -> Self {
        let of = |one: &[Outcome], other: &[Outcome]| {
            one.iter().zip(other).map(|(one, other)| one.midpoint(other)).collect()
        };
        Self { original: of(&self.original, &other.original), coordinated: of(&self.coordinated, &other.coordinated) }
    }

    /// By how many % coordination lowers the mean completion time, seed by seed.
    fn reductions(&self) -> Vec<f64> {
        let of = |(original, coordinated): (&Outcome, &Outcome)| {
            (1.0 - coordinated.completion / original.completion) * 100.0
        };
        self.original.iter().zip(&self.coordinated).map(of).collect()
    }
}

/// With a number of applications, or of servers.
struct Point {
    medium: Medium,
    processes: u32,
    count: u32,
    pair: Pair,
}

fn of(points: &[Point], medium: Medium, processes: u32) -> impl Iterator<Item = &Point> {
    points.iter().filter(move |point| point.medium == medium && point.processes == processes)
}

fn completion_axis() -> Axis {
    Axis::linear("mean completion time", "ms").include(0.0)
}

fn curves(plot: Plot, medium: Medium, points: &[Point]) -> Plot {
    PROCESSES.into_iter().fold(plot, |plot, processes| {
        let line = |suffix, value: fn(&Pair) -> &[Outcome]| {
            let ms = |pair: &Pair| median(value(pair), |outcome| outcome.completion) * 1e3;
            let points = of(points, medium, processes).map(|point| (f64::from(point.count), ms(&point.pair)));
            Series::line(format!("{processes}C-{suffix}"), points).with_markers()
        };
        plot.series(line("ori", |pair| &pair.original)).series(line("cio", |pair| &pair.coordinated))
    })
}

fn reductions(medium: Medium, points: &[Point], what: &str) -> Table {
    let counts = of(points, medium, PROCESSES[0]).map(|point| format!("{} {what}", point.count));
    let heading = [format!("{}: lower by [%]", medium.name())].into_iter().chain(counts);
    PROCESSES.into_iter().fold(Table::new(heading), |table, processes| {
        let cells =
            of(points, medium, processes).map(|point| number(Measured::of(point.pair.reductions()).median().round()));
        table.row([format!("{processes} processes")].into_iter().chain(cells))
    })
}

/// The mean of some lists, place by place.
fn means(lists: &[Vec<f64>]) -> Vec<f64> {
    let shortest = lists.iter().map(Vec::len).min().unwrap_or(0);
    (0..shortest).map(|at| lists.iter().map(|list| list[at]).sum::<f64>() / lists.len() as f64).collect()
}

fn median(runs: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    Measured::of(runs.iter().map(of)).median()
}

pub(crate) mod finish {
    //! [IOCO Fig. 3 and 5]: when each of eight servers finishes its part of ten applications' requests.
    //!
    //! As in the paper: one process each, one read of 4 MB, 64 KB strips. [IOCO §2] has InfiniBand for the disks too.
    //! Charts show the first run.

    use super::*;

    const TEXT: &str = include_str!("../../../../../scenarios/figures/ioco-3.toml");
    const SERVERS: u32 = 8;
    /// The paper's two, and coordination without the clients' times.
    const WAYS: [&str; 3] = [POLICIES[0], POLICIES[1], "by arrival"];

    struct Runs {
        medium: Medium,
        policy: &'static str,
        all: Vec<Results>,
    }

    pub(super) fn run() -> Result<(Section, Values), SimError> {
        let runs = runs(&scenario::parse("ioco-3.toml", TEXT)?, WAYS, &SEEDS)?;
        let section = Section::new("IOCO Fig. 3 and 5: when servers are done with each application").text(
            "Each application reads 4 MB, of which every server has 512 KB, and continues when the last server is done. \
             With the original order the points of an application are spread over the whole time: nearly all applications \
             wait for the slowest server. With coordination they are close together and applications finish one after the \
             other. The few outliers are requests that found an idle server before those with a smaller number had \
             arrived.",
        );
        let of_paper = || runs.iter().filter(|runs| POLICIES.contains(&runs.policy));
        let section = of_paper().fold(section, |section, runs| section.figure(runs.chart(), runs.caption()));
        let section = section.table(table(&runs)).text(
            "The paper's clients send the time of each request along; clients of OrangeFS and NFS do not, so that the proxy \
             goes by the time of arrival.",
        );
        Ok((scenario::assumptions(section, TEXT), values(&runs)))
    }

    fn runs(base: &Scenario, ways: [&'static str; 3], seeds: &[u64]) -> Result<Vec<Runs>, SimError> {
        let places: Vec<_> = Medium::ALL.into_iter().flat_map(|medium| ways.map(|policy| (medium, policy))).collect();
        let runs = parallel::map(&places, |&(medium, policy)| Runs::new(base, medium, policy, seeds));
        runs.into_iter().collect()
    }

    fn servers(medium: Medium) -> ServerGroup {
        match medium {
            Medium::Hdd => scenario::ioco_disks_on_infiniband(),
            Medium::Ssd => scenario::ioco_flash(SERVERS),
        }
    }

    fn finished(call: &CallTrace) -> impl Iterator<Item = (u32, f64)> {
        call.parts.iter().map(|part| (part.server, (part.finished - call.issued).as_secs_f64() * 1e3))
    }

    /// When the first and the last server finish a call, in ms.
    fn extent(call: &CallTrace) -> (f64, f64) {
        let times = || finished(call).map(|(_, time)| time);
        (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max))
    }

    fn spread(call: &CallTrace) -> f64 {
        extent(call).1 / extent(call).0
    }

    impl Runs {
        fn new(base: &Scenario, medium: Medium, policy: &'static str, seeds: &[u64]) -> Result<Self, SimError> {
            let mut scenario = Scenario { servers: vec![servers(medium)], ..base.clone() };
            medium.set_depth(&mut scenario);
            let run = |&seed: &u64| scenario::run(&super::seeded(&scenario, seed), policy);
            Ok(Self { medium, policy, all: seeds.iter().map(run).collect::<Result<_, _>>()? })
        }

        /// The mean over all applications, run by run.
        fn means(&self, value: fn(&CallTrace) -> f64) -> impl Iterator<Item = f64> {
            self.all
                .iter()
                .map(move |results| results.trace.iter().map(value).sum::<f64>() / results.trace.len() as f64)
        }

        /// Largest by smallest finish time: of the median application, run by run.
        fn spreads(&self) -> Vec<f64> {
            let of = |results: &Results| Measured::of(results.trace.iter().map(spread)).median();
            self.all.iter().map(of).collect()
        }

        fn completions(&self) -> impl Iterator<Item = f64> {
            self.means(|call| extent(call).1)
        }

        fn caption(&self) -> String {
            let (figure, shown) =
                if self.policy == POLICIES[0] { ("Fig. 3", "original") } else { ("Fig. 5", "coordinated") };
            format!(
                "{figure}, {}, {shown}: one series of points for each server, and the slowest of them.",
                self.medium.name()
            )
        }

        fn chart(&self) -> Plot {
            let calls = &self.all[0].trace;
            let y = Axis::linear("finish time", "ms").include(0.0);
            let plot =
                Plot::new(format!("{}, {}", self.medium.name(), self.policy), Axis::linear("application", ""), y);
            let plot = (0..SERVERS).fold(plot, |plot, server| {
                let of = |call: &CallTrace| {
                    finished(call).find(|(at, _)| *at == server).map(|(_, time)| (call.app.into(), time))
                };
                plot.series(Series::scatter(format!("FS{server}"), calls.iter().filter_map(of)))
            });
            let mut last: Vec<(f64, f64)> = calls.iter().map(|call| (call.app.into(), extent(call).1)).collect();
            last.sort_by(|a, b| a.0.total_cmp(&b.0));
            plot.series(Series::line("MAX", last))
        }
    }

    fn table(runs: &[Runs]) -> Table {
        let heading =
            ["environment", "order", "max/min finish time, median application", "mean", "mean completion [ms]"];
        runs.iter().fold(Table::new(heading), |table, runs| {
            let values = [runs.spreads(), runs.means(spread).collect(), runs.completions().collect()];
            let numbers = values.map(|value| number(Measured::of(value).median()));
            table.row([vec![runs.medium.name().to_owned(), runs.policy.to_owned()], numbers.to_vec()].concat())
        })
    }

    /// Largest by smallest finish time in each order, of the median application (`hdd.original`) and on average
    /// (`hdd.original mean`), and by how many % coordination lowers the mean completion time.
    fn values(runs: &[Runs]) -> Values {
        let mut values = Values::default();
        for runs in runs.chunks(WAYS.len()) {
            let medium = runs[0].medium.short();
            for (runs, order) in runs.iter().zip(WAYS) {
                values.set(format!("{medium}.{order}"), runs.spreads());
                values.set(format!("{medium}.{order} mean"), runs.means(spread));
            }
            let both = runs[0].completions().zip(runs[1].completions());
            values.set(format!("{medium}.reduction"), both.map(|(before, after)| (1.0 - after / before) * 100.0));
        }
        values
    }

    /// One seed. `together`: the original order is the coordinated one.
    #[cfg(test)]
    pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
        let base = scenario::changes::apply(&scenario::parse("ioco-3.toml", TEXT)?, change);
        let ways = if change == "together" { [POLICIES[1]; 3] } else { WAYS };
        Ok(values(&runs(&base, ways, &SEEDS[..1])?))
    }
}

pub(crate) mod apps {
    //! [IOCO Fig. 6]: mean completion time with 2 to 16 IOR instances of 8, 16 and 32 processes on 16 servers.
    //!
    //! As in the paper: requests of 128 KiB, strips of 4 KiB, windows of 1 s, a barrier between requests.

    use super::*;

    const TEXT: &str = include_str!("../../../../../scenarios/figures/ioco-6.toml");
    const APPS: [u32; 5] = [2, 4, 8, 12, 16];

    pub(super) fn run() -> Result<(Section, Values), SimError> {
        let points = sweep(&scenario::parse("ioco-6.toml", TEXT)?, &SEEDS)?;
        let section = Section::new("IOCO Fig. 6: completion time by number of applications").text(
            "Every process reads 128 KiB, a part from each of 16 servers, eight times, and all applications start together. \
             With the original order each application waits for the server that serves it last; with coordination the first \
             ones finish early. The more applications share the servers, the more of them gain.",
        );
        let section = Medium::ALL.into_iter().fold(section, |section, medium| {
            let caption =
                format!("Fig. 6, {}: 8C, 16C and 32C are the numbers of processes of each application.", medium.name());
            let plot = Plot::new(medium.name(), Axis::linear("applications", "").include(0.0), completion_axis());
            section.figure(curves(plot, medium, &points), caption).table(reductions(medium, &points, "apps"))
        });
        Ok((scenario::assumptions(section, TEXT), values(&points)?))
    }

    fn sweep(base: &Scenario, seeds: &[u64]) -> Result<Vec<Point>, SimError> {
        let of =
            |medium| PROCESSES.into_iter().flat_map(move |processes| APPS.map(move |apps| (medium, processes, apps)));
        let places: Vec<_> = Medium::ALL.into_iter().flat_map(of).collect();
        let point = |&(medium, processes, apps): &(Medium, u32, u32)| {
            let mut scenario = medium.on(base, 16);
            let first = scenario.apps[0].clone();
            scenario.apps = (1..=apps).map(|number| app(&first, number, processes)).collect();
            Ok(Point { medium, processes, count: apps, pair: Pair::of(&scenario, seeds)? })
        };
        parallel::map(&places, point).into_iter().collect()
    }

    fn app(base: &App, number: u32, processes: u32) -> App {
        let workload = match &base.workload {
            Workload::Ior(ior) => Ior { processes, ..ior.clone() }.into(),
            other => other.clone(),
        };
        App { name: format!("app-{number}"), workload, nodes: processes, ..base.clone() }
    }

    /// By how many % coordination lowers the mean completion time: `hdd.8C.2` with 8 processes and 2 applications,
    /// `hdd.2` on average over the numbers of processes, `hdd.least` with any number of both.
    fn values(points: &[Point]) -> Result<Values, SimError> {
        let mut values = Values::default();
        for medium in Medium::ALL {
            let short = medium.short();
            let own = || points.iter().filter(move |point| point.medium == medium);
            let name = |point: &Point| format!("{short}.{}C.{}", point.processes, point.count);
            own().for_each(|point| values.set(name(point), point.pair.reductions()));
            for apps in APPS {
                let with: Vec<_> =
                    own().filter(|point| point.count == apps).map(|point| point.pair.reductions()).collect();
                values.set(format!("{short}.{apps}"), super::means(&with));
            }
            let least = values.least(own().map(name))?;
            values.set(format!("{short}.least"), least);
        }
        Ok(values)
    }

    /// One seed.
    #[cfg(test)]
    pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
        let base = scenario::changes::apply(&scenario::parse("ioco-6.toml", TEXT)?, change);
        values(&sweep(&base, &SEEDS[..1])?)
    }
}

pub(crate) mod servers {
    //! [IOCO Fig. 7]: mean completion time of ten PIO-Bench instances with 8, 16 and 32 processes on 2 to 64 servers.
    //!
    //! As in the paper: each request has 8 KB at each server, and reads and writes were measured. Values are the mean
    //! of both.

    use super::*;

    const TEXT: &str = include_str!("../../../../../scenarios/figures/ioco-7.toml");
    const SERVERS: [u32; 4] = [2, 8, 16, 64];
    const BYTES_AT_SERVER: u32 = 8 << 10;

    pub(super) fn run() -> Result<(Section, Values), SimError> {
        let points = sweep(&scenario::parse("ioco-7.toml", TEXT)?, &PROCESSES, &SEEDS)?;
        let section = Section::new("IOCO Fig. 7: completion time by number of servers").text(
            "Each request has 8 KB at every server. With the original order, more servers mean a higher chance of being \
             last at one of them, so the completion time grows although no server has more to do; with coordination it \
             should stay constant.",
        );
        let section = Medium::ALL.into_iter().fold(section, |section, medium| {
            let plot = Plot::new(medium.name(), Axis::log2("servers", ""), completion_axis());
            let section = section.figure(curves(plot, medium, &points), format!("Fig. 7, {}", medium.name()));
            section.table(reductions(medium, &points, "servers"))
        });
        Ok((scenario::assumptions(section, TEXT), values(&points)))
    }

    fn sweep(base: &Scenario, processes: &[u32], seeds: &[u64]) -> Result<Vec<Point>, SimError> {
        let sizes = |medium: Medium| SERVERS.into_iter().filter(move |&servers| servers <= medium.most());
        let of = |medium| {
            processes.iter().flat_map(move |&processes| sizes(medium).map(move |size| (medium, processes, size)))
        };
        let places: Vec<_> = Medium::ALL.into_iter().flat_map(of).collect();
        let point = |&(medium, processes, servers): &(Medium, u32, u32)| {
            let mut scenario = medium.on(base, servers);
            scenario.apps = scenario.apps.iter().map(|base| app(base, processes, servers)).collect();
            let of = |phase| Pair::of(&with_phase(&scenario, phase), seeds);
            Ok(Point { medium, processes, count: servers, pair: of(Phase::Read)?.midpoint(&of(Phase::Write)?) })
        };
        parallel::map(&places, point).into_iter().collect()
    }

    /// Only reads or only writes: memory is flushed before each run [IOCO §5.1].
    fn with_phase(scenario: &Scenario, phase: Phase) -> Scenario {
        let apps = scenario.apps.iter().map(|app| App { phases: vec![phase], ..app.clone() }).collect();
        Scenario { apps, ..scenario.clone() }
    }

    fn app(base: &App, processes: u32, servers: u32) -> App {
        let workload = match &base.workload {
            Workload::Pio(pio) => {
                let request_bytes = BYTES_AT_SERVER * servers;
                PioBench { processes, request_bytes, ..pio.clone() }.into()
            }
            other => other.clone(),
        };
        App { workload, nodes: processes, ..base.clone() }
    }

    /// On average over the numbers of processes: by how many % coordination lowers the mean completion time (`hdd.2`
    /// with 2 servers), and by how many % that grows from 2 servers to the most, coordinated and in the original order.
    fn values(points: &[Point]) -> Values {
        let mut values = Values::default();
        for medium in Medium::ALL {
            let short = medium.short();
            let with =
                |servers: u32| points.iter().filter(move |point| (point.medium, point.count) == (medium, servers));
            let sizes = SERVERS.into_iter().filter(|&servers| servers <= medium.most());
            for servers in sizes {
                let reductions: Vec<_> = with(servers).map(|point| point.pair.reductions()).collect();
                values.set(format!("{short}.{servers}"), super::means(&reductions));
            }
            let mut growth = |name: &str, runs: fn(&Pair) -> &[Outcome]| {
                let of = |few: &Point| {
                    let many = with(medium.most()).find(|point| point.processes == few.processes)?;
                    let both = runs(&few.pair).iter().zip(runs(&many.pair));
                    Some(both.map(|(few, many)| (many.completion / few.completion - 1.0) * 100.0).collect())
                };
                let all: Vec<Vec<f64>> = with(SERVERS[0]).filter_map(of).collect();
                values.set(format!("{short}.{name}"), super::means(&all));
            };
            growth("coordinated growth", |pair| &pair.coordinated);
            growth("original growth", |pair| &pair.original);
        }
        values
    }

    /// One seed and eight processes.
    #[cfg(test)]
    pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
        let base = scenario::changes::apply(&scenario::parse("ioco-7.toml", TEXT)?, change);
        Ok(values(&sweep(&base, &PROCESSES[..1], &SEEDS[..1])?))
    }
}

pub(crate) mod windows {
    //! [IOCO Fig. 8]: mean completion time and aggregate bandwidth of three IOR, three PIO-Bench, two MPI-TILE-IO and
    //! two Noncontig instances on 16 servers, by the width of the window.
    //!
    //! As in the paper: requests of 128 KB, strips of 4 KB, 8, 16 and 32 processes each. Assumed: 64 requests by each
    //! process, a barrier after each, and where the pieces of a request are, see [`vpfs_sim::model::plan`]. Bandwidth
    //! is the sum of the values that ten concurrent benchmarks report, each over its own run time; the table also has
    //! all bytes divided by the time of the whole run.

    use super::*;

    const TEXT: &str = include_str!("../../../../../scenarios/figures/ioco-8.toml");
    /// Window in milliseconds; `None`: the original order.
    const WINDOWS: [Option<u64>; 5] = [None, Some(250), Some(500), Some(1000), Some(2000)];
    const REQUESTS: u64 = 64;

    struct Point {
        medium: Medium,
        processes: u32,
        window: Option<u64>,
        /// With each seed.
        runs: Vec<Outcome>,
    }

    pub(super) fn run() -> Result<(Section, Values), SimError> {
        let points = sweep(&scenario::parse("ioco-8.toml", TEXT)?, &PROCESSES, &SEEDS)?;
        let section = Section::new("IOCO Fig. 8: completion time and bandwidth by window").text(
            "Ten applications of four kinds read back to back, and wait for their own processes after each request. \
             Within a window the application with the smallest number is always served first, so a wide window lets it \
             finish early and keeps the others waiting once per window; a narrow one is fairer and gains less. With every \
             window, requests complete sooner on average than with the original order, except for the narrowest one on \
             disks with many processes.",
        );
        let section = Medium::ALL.into_iter().fold(section, |section, medium| {
            let completion = chart(medium, &points, "mean completion time", "ms", |outcome| outcome.completion * 1e3);
            let bandwidth = chart(medium, &points, "aggregate bandwidth", "MB/s", |outcome| outcome.reported / 1e6);
            section
                .figure(completion, format!("Fig. 8, {}: ORI is the original order.", medium.name()))
                .figure(bandwidth, format!("Fig. 8, {}", medium.name()))
                .table(table(medium, &points))
        });
        Ok((scenario::assumptions(section, TEXT), values(&points, &PROCESSES)?))
    }

    fn sweep(base: &Scenario, processes: &[u32], seeds: &[u64]) -> Result<Vec<Point>, SimError> {
        let of = |medium| {
            processes.iter().flat_map(move |&processes| WINDOWS.map(move |window| (medium, processes, window)))
        };
        let places: Vec<_> = Medium::ALL.into_iter().flat_map(of).collect();
        let point = |&(medium, processes, window): &(Medium, u32, Option<u64>)| {
            let mut scenario = medium.on(base, 16);
            scenario.apps = scenario.apps.iter().map(|base| app(base, processes)).collect();
            for policy in &mut scenario.policies {
                policy.settings.ioco.window = Duration::from_millis(window.unwrap_or(1));
            }
            let runs = super::repeat(&scenario, POLICIES[usize::from(window.is_some())], seeds)?;
            Ok(Point { medium, processes, window, runs })
        };
        parallel::map(&places, point).into_iter().collect()
    }

    fn app(base: &App, processes: u32) -> App {
        let workload = match &base.workload {
            Workload::Ior(ior) => Ior { processes, segments: REQUESTS, ..ior.clone() }.into(),
            Workload::Pio(pio) => PioBench { processes, requests: REQUESTS, ..pio.clone() }.into(),
            Workload::Tile(tile) => {
                MpiTileIo { tiles_y: processes / tile.tiles_x, requests: REQUESTS, ..tile.clone() }.into()
            }
            Workload::Noncontig(plan) => Noncontig { processes, requests: REQUESTS, ..plan.clone() }.into(),
            other => other.clone(),
        };
        App { workload, nodes: processes, ..base.clone() }
    }

    fn name(window: Option<u64>) -> String {
        window.map_or_else(|| "ORI".into(), |window| format!("{window} ms"))
    }

    fn find(points: &[Point], medium: Medium, processes: u32, window: Option<u64>) -> &[Outcome] {
        let wanted = |point: &&Point| (point.medium, point.processes, point.window) == (medium, processes, window);
        points.iter().find(wanted).map_or(&[], |point| &point.runs)
    }

    fn chart(medium: Medium, points: &[Point], what: &str, unit: &str, value: fn(&Outcome) -> f64) -> Bars {
        let groups = PROCESSES.map(|processes| format!("{processes}C"));
        let bars = Bars::new(medium.name(), Axis::linear(what, unit).include(0.0), groups);
        WINDOWS.into_iter().fold(bars, |bars, window| {
            bars.series(
                name(window),
                PROCESSES.map(|processes| Bar::new(median(find(points, medium, processes, window), value))),
            )
        })
    }

    fn table(medium: Medium, points: &[Point]) -> Table {
        let heading =
            ["window", "processes", "completion [ms]", "bandwidth, programs [MB/s]", "bandwidth, whole run [MB/s]"];
        let heading = heading.map(|title| format!("{}: {title}", medium.name()));
        points.iter().filter(|point| point.medium == medium).fold(Table::new(heading), |table, point| {
            let values: [fn(&Outcome) -> f64; 3] =
                [|one| one.completion * 1e3, |one| one.reported / 1e6, |one| one.bandwidth / 1e6];
            let numbers = values.map(|value| number(median(&point.runs, value)));
            table.row([name(point.window), point.processes.to_string()].into_iter().chain(numbers))
        })
    }

    /// Of each medium: by how many % each window lowers the mean completion time on average over the numbers of
    /// processes (`hdd.250`), the least of these, the window with the most, and by how many % the paper's best window
    /// raises the bandwidth that programs report, with each number of processes (`hdd.bandwidth 8`) and the least of
    /// these.
    fn values(points: &[Point], processes: &[u32]) -> Result<Values, SimError> {
        let mut values = Values::default();
        for medium in Medium::ALL {
            let short = medium.short();
            let change = |processes: u32, window: u64, value: fn(&Outcome) -> f64| -> Vec<f64> {
                let [before, after] = [None, Some(window)].map(|window| find(points, medium, processes, window));
                before.iter().zip(after).map(|(before, after)| (value(after) / value(before) - 1.0) * 100.0).collect()
            };
            for window in WINDOWS.into_iter().flatten() {
                let lower = |&processes: &u32| -> Vec<f64> {
                    change(processes, window, |one| one.completion).iter().map(|change| -change).collect()
                };
                let all: Vec<Vec<f64>> = processes.iter().map(lower).collect();
                values.set(format!("{short}.{window}"), super::means(&all));
            }
            let names = || WINDOWS.into_iter().flatten().map(|window| format!("{short}.{window}"));
            let least = values.least(names())?;
            let best = (0..least.len()).map(|seed| {
                let gain =
                    |window: &u64| values.get(&format!("{short}.{window}")).map_or(f64::NAN, |seeds| seeds[seed]);
                let best = WINDOWS.into_iter().flatten().max_by(|one, other| gain(one).total_cmp(&gain(other)));
                best.unwrap_or_default() as f64
            });
            let best: Vec<f64> = best.collect();
            values.set(format!("{short}.least"), least);
            values.set(format!("{short}.best window"), best);
            let bandwidth = |processes: &u32| format!("{short}.bandwidth {processes}");
            for count in processes {
                values.set(bandwidth(count), change(*count, medium.best_window(), |one| one.reported));
            }
            let least = values.least(processes.iter().map(bandwidth))?;
            values.set(format!("{short}.bandwidth least"), least);
        }
        Ok(values)
    }

    /// One seed and eight processes.
    #[cfg(test)]
    pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
        let base = scenario::changes::apply(&scenario::parse("ioco-8.toml", TEXT)?, change);
        let mut values = values(&sweep(&base, &PROCESSES[..1], &SEEDS[..1])?, &PROCESSES[..1])?;
        for medium in ["hdd", "ssd"] {
            let eight = values.get(&format!("{medium}.bandwidth 8"))?.to_vec();
            values.set(format!("{medium}.bandwidth 32"), eight);
        }
        Ok(values)
    }
}

//! [vPFS+ Fig. 9]: metadata throughput of two multi-md-test with weights 2 to 1 at one server, and Jain's index over
//! time. The scenario file states the assumptions.

use vpfs_core::fairness::jain_index;
use vpfs_core::{Bytes, Weight};
use vpfs_sim::{AppResults, Results, Scenario, SimError, parallel};

use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};
use crate::{Axis, Plot, Section, Series, Table, number};

const BASE: &str = include_str!("../../../../../scenarios/figures/vpfs-plus-9.toml");

/// The server that is shown, as in the paper one of eight.
const SERVER: usize = 0;
/// Intervals of one second that form one value of the series.
const WINDOW: usize = 10;

/// The same placement of directories on servers, which the seed selects, with one queue for data and metadata, and with
/// a queue for each, of which the paper says nothing, so that the first placement will do.
struct Placement {
    seed: u64,
    one: Results,
    two: Option<Results>,
}

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let placements = placements(&scenario::parse("vpfs-plus-9.toml", BASE)?, &SEEDS)?;
    let shown = &placements[0].one;
    let section = Section::new("vPFS+ Fig. 9: metadata of two applications at 2:1")
        .text(
            "Two applications create directories and files, write, list, read and remove, each as fast as it can. \
             Metadata requests go through the same scheduler as data, at 10 KiB each. While both are busy with \
             metadata, the first one gets two thirds of the operations: exactly if metadata has a queue and a depth \
             of its own, roughly in one queue with data. While one moves data it requests little or no metadata, so \
             the other gets all the capacity and the index falls towards 0.5: sharing is work-conserving. Where both \
             move data, data is shared 2:1 as well.",
        )
        .figure(operations(shown), "Metadata operations of both applications at one server, and Jain's index.")
        .figure(data(shown), "Data of both applications at all servers.")
        .text(
            "Dips of the index while both do metadata are ends of phases: an application waits for the process whose \
             directory is on its busiest server, and requests less than its share from the others. They count. Their \
             length depends on the placement of directories, which each seed draws anew.",
        )
        .table(table(&placements));
    Ok((scenario::assumptions(section, BASE), values(&placements)))
}

fn placements(base: &Scenario, seeds: &[u64]) -> Result<Vec<Placement>, SimError> {
    let runs: Vec<_> = seeds.iter().map(|&seed| (seed, "one queue")).chain([(seeds[0], "two queues")]).collect();
    let run = |&(seed, queues): &(u64, &str)| {
        let scenario = Scenario { seed, ..base.clone() };
        scenario::run(&scenario, queues)
    };
    let mut results = parallel::map(&runs, run).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut two = results.pop();
    Ok(seeds.iter().zip(results).map(|(&seed, one)| Placement { seed, one, two: two.take() }).collect())
}

#[derive(Clone, Copy, Debug)]
struct Window {
    /// Seconds from the start to its middle.
    at: f64,
    /// Metadata operations at the server.
    operations: [u64; 2],
    /// The same at all servers.
    total: [u64; 2],
    /// Data at all servers.
    bytes: [u64; 2],
    jain: f64,
}

impl Window {
    /// Both do metadata, and none writes.
    fn is_metadata(&self) -> bool {
        self.bytes == [0, 0] && self.operations.iter().all(|&operations| operations > 0)
    }

    /// One moves data and requests hardly any metadata, the other does metadata only.
    fn is_lopsided(&self) -> bool {
        let one = |writer: usize, other: usize| {
            self.bytes[writer] > 0 && self.bytes[other] == 0 && self.operations[writer] * 20 < self.operations[other]
        };
        one(0, 1) || one(1, 0)
    }
}

fn windows(results: &Results) -> Vec<Window> {
    let count = results.apps[0].metadata_series.len() / WINDOW;
    (0..count).map(|number| window(results, number)).collect()
}

fn window(results: &Results, number: usize) -> Window {
    let range = number * WINDOW..(number + 1) * WINDOW;
    let sum = |series: &[u64]| series[range.clone()].iter().sum::<u64>();
    let apps: [&AppResults; 2] = [&results.apps[0], &results.apps[1]];
    let operations = apps.map(|app| sum(&app.by_server[SERVER].metadata_series));
    let weighted = [0, 1].map(|app| {
        let weight = Weight::new(apps[app].weight).unwrap_or(Weight::ONE);
        (Bytes(operations[app]), weight)
    });
    let at = (range.start as f64 + WINDOW as f64 / 2.0) * results.interval.as_secs_f64();
    let (total, bytes) = (apps.map(|app| sum(&app.metadata_series)), apps.map(|app| sum(&app.bytes_series)));
    Window { at, operations, total, bytes, jain: jain_index(&weighted) }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Mean of Jain's index while both do metadata.
fn jain(windows: &[Window]) -> f64 {
    mean(windows.iter().filter(|window| window.is_metadata()).map(|window| window.jain))
}

/// Ratio of operations of the first application to those of the second at all servers while both do metadata.
fn ratio(windows: &[Window]) -> f64 {
    let sum = |app: usize| -> u64 { windows.iter().filter(|one| one.is_metadata()).map(|one| one.total[app]).sum() };
    sum(0) as f64 / sum(1) as f64
}

/// The same from the end of the second one's writing to that of the first one.
fn late_ratio(results: &Results) -> f64 {
    let [begin, end] = [writing(results, 1)[1], ended(results)];
    let windows = windows(results).into_iter().filter(|one| one.at > begin && one.at < end);
    let [first, second] = windows.fold([0, 0], |[first, second], one| [first + one.total[0], second + one.total[1]]);
    first as f64 / second as f64
}

/// When the first one ends, in seconds.
fn ended(results: &Results) -> f64 {
    results.apps[0].finish.map_or(f64::NAN, |finish| finish.as_secs_f64())
}

/// Mean of Jain's index while only one of them does metadata.
fn lopsided(windows: &[Window]) -> f64 {
    mean(windows.iter().filter(|window| window.is_lopsided()).map(|window| window.jain))
}

/// Ratio of bytes of the first application to those of the second while both move data.
fn data_ratio(windows: &[Window]) -> f64 {
    let both = || windows.iter().filter(|window| window.bytes.iter().all(|&bytes| bytes > 0));
    let sum = |app: usize| -> u64 { both().map(|window| window.bytes[app]).sum() };
    sum(0) as f64 / sum(1) as f64
}

fn operations(results: &Results) -> Plot {
    let windows = windows(results);
    let rate = |app: usize| windows.iter().map(move |one| (one.at, one.operations[app] as f64 / WINDOW as f64));
    let busy = windows.iter().filter(|one| one.operations != [0, 0]);
    let plot = Plot::new("Metadata at one server", Axis::linear("time", "s"), Axis::linear("metadata", "operations/s"));
    plot.series(Series::line("app 1 (weight 2)", rate(0))).series(Series::line("app 2 (weight 1)", rate(1))).right(
        Axis::linear("Jain's index", "").include(0.0),
        [Series::scatter("index", busy.map(|one| (one.at, one.jain)))],
    )
}

fn data(results: &Results) -> Plot {
    let windows = windows(results);
    let rate = |app: usize| windows.iter().map(move |one| (one.at, one.bytes[app] as f64 / 1e6 / WINDOW as f64));
    Plot::new("Data at all servers", Axis::linear("time", "s"), Axis::linear("throughput", "MB/s"))
        .series(Series::line("app 1 (weight 2)", rate(0)))
        .series(Series::line("app 2 (weight 1)", rate(1)))
}

fn table(placements: &[Placement]) -> Table {
    let heading = Table::new(["seed", "queues", "ratio of operations", "Jain's index, mean", "app 1 [s]", "app 2 [s]"]);
    let one = |run: &'_ Placement| (run.seed, "one", run.one.clone());
    let two = |run: &'_ Placement| Some((run.seed, "two", run.two.clone()?));
    placements.iter().map(one).chain(placements.iter().filter_map(two)).fold(
        heading,
        |table, (seed, queues, results)| {
            let windows = windows(&results);
            let seconds = [0, 1].map(|app| results.apps[app].run_time().unwrap_or_default().as_secs_f64());
            let numbers = [ratio(&windows), jain(&windows), seconds[0], seconds[1]].map(number);
            table.row([vec![seed.to_string(), queues.to_owned()], numbers.to_vec()].concat())
        },
    )
}

/// Seconds at which an application begins to write, and at which it stops.
fn writing(results: &Results, app: usize) -> [f64; 2] {
    let series = &results.apps[app].bytes_series;
    let begin = series.iter().position(|&bytes| bytes > 0);
    let length = begin.map(|begin| series[begin..].iter().take_while(|&&bytes| bytes > 0).count());
    let seconds = |at: Option<usize>| at.map_or(f64::NAN, |at| at as f64 * results.interval.as_secs_f64());
    [seconds(begin), seconds(begin.zip(length).map(|(begin, length)| begin + length))]
}

fn values(placements: &[Placement]) -> Values {
    let mut values = Values::default();
    let mut set = |name: &str, of: &dyn Fn(&Results, &[Window]) -> f64| {
        values.set(name, placements.iter().map(|run| of(&run.one, &windows(&run.one))));
        values.set(
            format!("{name}, own queue"),
            placements.iter().filter_map(|run| run.two.as_ref()).map(|two| of(two, &windows(two))),
        );
    };
    set("jain", &|_, windows| jain(windows));
    set("ratio", &|_, windows| ratio(windows));
    set("late ratio", &|results, _| late_ratio(results));
    set("lopsided", &|_, windows| lopsided(windows));
    set("data ratio", &|_, windows| data_ratio(windows));
    set("end", &|results, _| ended(results));
    for app in [0, 1] {
        set(&format!("writing {}", app + 1), &move |results, _| writing(results, app)[0]);
        set(&format!("written {}", app + 1), &move |results, _| writing(results, app)[1] - writing(results, app)[0]);
    }
    values
}

/// One placement, until all files exist.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    use vpfs_sim::model::plan::Phase;

    let mut base = scenario::changes::apply(&scenario::parse("vpfs-plus-9.toml", BASE)?, change);
    for app in &mut base.apps {
        app.phases = vec![Phase::Setup, Phase::MakeDir, Phase::Create];
    }
    Ok(values(&placements(&base, &SEEDS[..1])?))
}

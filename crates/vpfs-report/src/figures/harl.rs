//! Figures of [HARL].

use std::sync::Arc;
use std::time::Duration;

use vpfs_core::Time;
use vpfs_core::hash::mix;
use vpfs_harl::{
    Access, BUDGET, Cluster, ClusterError, Demand, Model, Op, Question, Request, Run, STEP, ServerClass, Trace,
    TraceError, advise, compare,
};
use vpfs_sim::model::device::{DeviceProfile, Io, IoKind, UniformAccess, UniformProfile};
use vpfs_sim::model::plan::{Btio, BtioClass, Call, Extent, Ior, Phase, Plan, Step, Steps, Subtype};
use vpfs_sim::{Region, Results, Scenario, SimError, Workload, parallel};

use crate::figures::Figure;
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};
use crate::{Axis, Bar, Bars, Measured, Section, Table, number};

pub(crate) const FIGURES: &[Figure] = &[
    Figure::new("harl-1a", "HARL Fig. 1a: I/O time of each server", balance::run),
    Figure::new("harl-7", "HARL Fig. 7: IOR with different layouts", ior::layouts),
    Figure::new("harl-8", "HARL Fig. 8: IOR by number of processes", ior::processes),
    Figure::new("harl-9", "HARL Fig. 9: IOR by size of requests", ior::requests),
    Figure::new("harl-10", "HARL Fig. 10: IOR by numbers of disk and flash servers", ior::servers),
    Figure::new("harl-11", "HARL Fig. 11: a file of four regions", regions::run),
    Figure::new("harl-12", "HARL Fig. 12: BTIO", btio::run),
];

const TEXT: &str = include_str!("../../../../scenarios/figures/harl.toml");

/// Files and memory are simulated at this part of their size: what fills a cache, and what is written through it,
/// shrink alike.
const SCALE: u64 = 16;

/// The stripes of disk and flash servers in bytes.
type Stripes = [u64; 2];

/// What the servers store in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// Devices with the start-up times and rates of the paper's cost model, without a cache: its premise.
    Bare,
    /// Disks and flash behind the write-back cache of their kernel.
    Cached,
}

impl Storage {
    const ALL: [Self; 2] = [Self::Bare, Self::Cached];

    /// In names of values.
    fn name(self) -> &'static str {
        if self == Self::Bare { "bare" } else { "cached" }
    }
}

/// Start-up times and rates of disk and flash servers that the paper's cost model has.
const MODELS: [UniformProfile; 2] = [UniformProfile::HARL_DISK, UniformProfile::HARL_FLASH];

/// An application on the cluster of [HARL §IV-A], as the simulator and as the cost model see it. The scenario file
/// states the assumptions.
#[derive(Clone)]
struct Job {
    storage: Storage,
    servers: [u32; 2],
    /// What is simulated, [`SCALE`] times smaller than the paper's.
    plan: Arc<dyn Plan>,
    /// The paper's requests as a trace has them, each place once.
    pass: Arc<dyn Plan>,
    phases: Vec<Phase>,
}

/// The IOR of the scenario file: 16 processes, 512 KiB, random offsets, at its scale.
fn ior() -> Result<Ior, SimError> {
    match scenario::parse("harl.toml", TEXT)?.apps.swap_remove(0).workload {
        Workload::Ior(ior) => Ok(ior),
        other => Err(SimError::Scenario(format!("harl.toml: the application is not IOR but {other:?}"))),
    }
}

impl Job {
    fn scenario(&self, regions: Vec<Region>) -> Result<Scenario, SimError> {
        let mut scenario = scenario::parse("harl.toml", TEXT)?;
        for ((group, count), model) in scenario.servers.iter_mut().zip(self.servers).zip(MODELS) {
            group.count = count;
            if self.storage == Storage::Bare {
                group.device = DeviceProfile::Uniform(model);
            }
        }
        let app = &mut scenario.apps[0];
        app.layout.regions = regions;
        app.phases.clone_from(&self.phases);
        app.workload = Workload::Plan(Arc::clone(&self.plan));
        Ok(scenario)
    }

    fn run(&self, layout: &[(u64, Stripes)], seed: u64) -> Result<Results, SimError> {
        let region = |&(start, stripes): &(u64, Stripes)| Region { start: start / SCALE, stripes: self.round(stripes) };
        let scenario = self.scenario(layout.iter().map(region).collect())?;
        scenario::run(&scenario::seeded(&scenario, seed), "fifo")
    }

    fn round(&self, [disk, flash]: Stripes) -> Vec<(u32, u64)> {
        let [disks, flashes] = self.servers;
        let disks_round = (0..disks).map(|server| (server, disk));
        let flash_round = (disks..disks + flashes).map(|server| (server, flash));
        disks_round.chain(flash_round).filter(|(_, bytes)| *bytes > 0).collect()
    }

    fn of_paper(&self) -> Result<Cluster, SimError> {
        let access = |UniformAccess { startup_min, startup_max, bytes_per_second }| {
            Access::new(startup_min, startup_max, bytes_per_second)
        };
        self.cluster(MODELS.map(|UniformProfile { read, write }| [access(read), access(write)]))
    }

    /// The servers as they are measured under load, cache included.
    fn measured(&self) -> Result<Cluster, SimError> {
        let groups = self.scenario(Vec::new())?.servers;
        let of = |class: usize| [IoKind::Read, IoKind::Write].map(|kind| under_load(&groups[class].device, kind));
        self.cluster([of(0), of(1)])
    }

    fn cluster(&self, accesses: [[Result<Access, ClusterError>; 2]; 2]) -> Result<Cluster, SimError> {
        let link = self.scenario(Vec::new())?.servers[0].link.bytes_per_second;
        let class = |((name, servers), [read, write]): ((&str, u32), [Result<Access, ClusterError>; 2])| {
            Ok::<_, ClusterError>(ServerClass { name: name.into(), servers, read: read?, write: write?, free: None })
        };
        let classes = ["disk", "flash"].into_iter().zip(self.servers).zip(accesses).map(class);
        let cluster = classes.collect::<Result<_, _>>().and_then(|classes| Cluster::new(classes, link));
        cluster.map_err(|error| SimError::Scenario(format!("harl.toml: {error}")))
    }

    /// The requests of one pass. Their times are the numbers of a process's requests, so that they tell an order, and
    /// no durations.
    fn trace(&self) -> Result<Trace, SimError> {
        let of_rank = |rank| {
            let steps = self.phases.iter().flat_map(move |phase| self.pass.steps(*phase, rank));
            (0..).zip(steps).filter_map(move |(number, step)| request(rank, number, step))
        };
        let requests = (0..self.pass.processes()).flat_map(of_rank).collect();
        Trace::new(requests).map_err(|error: TraceError| SimError::Scenario(error.to_string()))
    }
}

fn request(rank: u32, number: u64, step: Step) -> Option<Request> {
    let request = |op, extent: Extent| {
        let (offset, size) = (extent.offset, extent.bytes.into());
        Some(Request { rank, op, offset, size, start: number, end: number })
    };
    match step {
        Step::Call(Call::Read(extent)) => request(Op::Read, extent),
        Step::Call(Call::Write(extent)) => request(Op::Write, extent),
        _ => None,
    }
}

/// A server's part of the file in the paper, 2 GiB, at [`SCALE`].
const FILE: u64 = (2 << 30) / SCALE;
const SIZES: [u64; 2] = [64 << 10, 512 << 10];
const OUTSTANDING: usize = 16;

/// The start-up time and the rate of a device under load: the times in which it serves a file, each place once in
/// random order with many accesses outstanding, in small and in large accesses, and the line through both.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole nanoseconds and bytes, not negative"
)]
fn under_load(device: &DeviceProfile, kind: IoKind) -> Result<Access, ClusterError> {
    let [small, large] = SIZES.map(|size| {
        let (mut device, mut now, mut outstanding) = (device.build(), Time::ZERO, 0);
        let mut places: Vec<u64> = (0..FILE / size).collect();
        places.sort_unstable_by_key(|&place| mix(place));
        let mut left = places.iter();
        loop {
            while outstanding < OUTSTANDING
                && let Some(place) = left.next()
            {
                device.submit(now, Io { kind, object: 1, offset: place * size, len: size });
                outstanding += 1;
            }
            if outstanding == 0 {
                return now.as_nanos() as f64 / places.len() as f64;
            }
            now = device.poll_timeout().map_or(now, |next| next.max(now));
            while device.poll_completed(now).is_some() {
                outstanding -= 1;
            }
        }
    });
    let per_byte = ((large - small) / (SIZES[1] - SIZES[0]) as f64).max(0.01);
    let startup = (small - per_byte * SIZES[0] as f64).max(0.0);
    // Where small accesses cost hardly more for each byte than large ones, a cache gathers them.
    let startup = if startup * 10.0 < small { 0.0 } else { startup };
    let startup = Duration::from_nanos(startup as u64);
    Access::new(startup, startup, (1e9 / per_byte) as u64)
}

const DEFAULT: u64 = 64 << 10;
const FIXED: [u64; 8] = [16 << 10, 32 << 10, DEFAULT, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
/// Random pairs; the paper does not say how many, nor from which range.
const RANDOM: usize = 8;
/// For Algorithm 2, which prices a sample of the requests with all pairs and the best of these with all requests.
const LETTER_BUDGET: u64 = 1_000_000;
/// The ways to choose stripes, as names of values have them.
const ADVISERS: [&str; 2] = ["letter", "vpfs"];

type Regions = Vec<(u64, Stripes)>;

/// An experiment of a figure, on both kinds of storage.
struct Panel {
    /// In names of values, such as `read`.
    name: String,
    job: Job,
}

/// A layout, and the throughput with it in MB/s, seed by seed.
struct Layout {
    regions: Regions,
    rates: Vec<f64>,
}

/// All layouts in one panel on one kind of storage: equal and random ones, then those of [`ADVISERS`].
struct Comparison {
    storage: Storage,
    tried: Vec<Layout>,
    advised: Vec<Layout>,
}

/// A figure: its panels measured with the layouts that [HARL §IV] compares, and drawn.
fn figure(intro: Section, panels: &[Panel]) -> Result<(Section, Values), SimError> {
    let comparisons = compared(panels, &SEEDS, advised)?;
    let section = comparisons.iter().fold(intro, |section, (name, comparison)| {
        let title = format!("{name}, {} servers", comparison.storage.name());
        section.figure(chart(&title, comparison), "").table(table(&title, comparison))
    });
    Ok((scenario::assumptions(section, TEXT), values(&comparisons)?))
}

/// The figure's values with one seed where all advice is the same layout: `equal`, 64 KiB everywhere, or `slowest`, the
/// slowest of those tried.
#[cfg(test)]
fn changed(panels: &[Panel], change: &str) -> Result<Values, SimError> {
    let mut comparisons = compared(panels, &SEEDS[..1], |_| Ok(vec![whole([DEFAULT; 2]); 2]))?;
    if change == "slowest" {
        for (_, Comparison { tried, advised, .. }) in &mut comparisons {
            let slowest = tried.iter().map(|layout| layout.rates[0]).fold(f64::INFINITY, f64::min);
            advised.iter_mut().for_each(|layout| layout.rates = vec![slowest]);
        }
    }
    values(&comparisons)
}

fn compared(
    panels: &[Panel],
    seeds: &[u64],
    advice: fn(&Job) -> Result<Vec<Regions>, SimError>,
) -> Result<Vec<(String, Comparison)>, SimError> {
    let places: Vec<_> = panels.iter().flat_map(|panel| Storage::ALL.map(|storage| (panel, storage))).collect();
    let compared = places.into_iter().map(|(panel, storage)| -> Result<_, SimError> {
        let job = Job { storage, ..panel.job.clone() };
        let fixed = FIXED.into_iter().map(|stripe| whole([stripe; 2]));
        let random = (0..RANDOM as u64).map(|lot| whole([random_stripe(2 * lot), random_stripe(2 * lot + 1)]));
        let mut tried = measured(&job, fixed.chain(random).chain(advice(&job)?).collect(), seeds)?;
        let advised = tried.split_off(FIXED.len() + RANDOM);
        Ok((panel.name.clone(), Comparison { storage, tried, advised }))
    });
    compared.collect()
}

fn whole(stripes: Stripes) -> Regions {
    vec![(0, stripes)]
}

/// A multiple of 4 KiB up to 512 KiB.
fn random_stripe(lot: u64) -> u64 {
    (mix(lot) % 128 + 1) * STEP
}

fn measured(job: &Job, layouts: Vec<Regions>, seeds: &[u64]) -> Result<Vec<Layout>, SimError> {
    let runs: Vec<_> = layouts.iter().flat_map(|regions| seeds.iter().map(move |&seed| (regions, seed))).collect();
    let rates = parallel::map(&runs, |&(regions, seed)| Ok(job.run(regions, seed)?.throughput() / 1e6));
    let rates: Vec<f64> = rates.into_iter().collect::<Result<_, SimError>>()?;
    let rates: Vec<_> = rates.chunks(seeds.len()).map(<[f64]>::to_vec).collect();
    Ok(layouts.into_iter().zip(rates).map(|(regions, rates)| Layout { regions, rates }).collect())
}

/// What [`ADVISERS`] choose.
fn advised(job: &Job) -> Result<Vec<Regions>, SimError> {
    Ok(vec![to_the_letter(job)?, by_vpfs(job)?])
}

/// By Algorithm 2 to the letter: flash has the larger stripe, none of the two is larger than the mean request, and the
/// cost is that of each request alone, with the paper's parameters.
fn to_the_letter(job: &Job) -> Result<Regions, SimError> {
    let (cluster, trace) = (job.of_paper()?, job.trace()?);
    let mut regions = Vec::new();
    for region in vpfs_harl::divide(&trace, vpfs_harl::CHUNK) {
        let requests = &trace.requests()[region.requests.clone()];
        let demand = Demand::new(vec![Run::new(requests, region.bytes.start, 1, 1000)]);
        let steps = region.mean_size / STEP;
        let pairs = (0..=steps).flat_map(|disk| (disk + 1..=steps).map(move |flash| vec![disk * STEP, flash * STEP]));
        let best = compare(&cluster, &demand, &pairs.collect::<Vec<_>>(), LETTER_BUDGET).into_iter().next();
        let none = || SimError::Scenario("harl.toml: no request is as large as a step of the search".into());
        let stripes = best.ok_or_else(none)?.stripes;
        regions.push((region.bytes.start, [stripes[0], stripes[1]]));
    }
    regions.dedup_by_key(|(_, stripes)| *stripes);
    Ok(regions)
}

/// By `vpfs layout advise` for a new file, with the servers measured under load.
fn by_vpfs(job: &Job) -> Result<Regions, SimError> {
    let question = Question { now: DEFAULT, gain_percent: 0, ..Question::new(Model::Concurrent, BUDGET) };
    let advice = advise(&job.measured()?, &[(job.trace()?, 1)], &question);
    let advice = advice.map_err(|error| SimError::Scenario(error.to_string()))?;
    Ok(advice.table.rows().iter().map(|row| (row.bytes.start, [row.stripes[0], row.stripes[1]])).collect())
}

/// For each storage, panel and adviser, such as `bare.read.letter`: the gain over 64 KiB and over the slowest equal
/// stripes in %, the rate in % of the best of all tried, and the stripes of the first region in KiB. The least `gain`
/// and `best` of all panels without their name, such as `bare.vpfs.best`.
fn values(comparisons: &[(String, Comparison)]) -> Result<Values, SimError> {
    let mut values = Values::default();
    for (panel, Comparison { storage, tried, advised }) in comparisons {
        let (fixed, storage) = (&tried[..FIXED.len()], storage.name());
        for (layout, who) in advised.iter().zip(ADVISERS) {
            let mut set = |what: &str, of: &dyn Fn(usize, f64) -> f64| {
                let name = format!("{storage}.{panel}.{who}.{what}");
                values.set(name, layout.rates.iter().enumerate().map(|(seed, rate)| of(seed, *rate)));
            };
            let default = fixed.iter().find(|layout| layout.regions == whole([DEFAULT; 2])).expect("one of them");
            let slowest = |seed: usize| fixed.iter().map(|layout| layout.rates[seed]).fold(f64::INFINITY, f64::min);
            let best = |seed: usize| tried.iter().map(|layout| layout.rates[seed]).fold(0.0, f64::max);
            set("gain", &|seed, rate| (rate / default.rates[seed] - 1.0) * 100.0);
            set("over slowest", &|seed, rate| (rate / slowest(seed) - 1.0) * 100.0);
            set("best", &|seed, rate| rate / best(seed) * 100.0);
            for (class, name) in ["disk", "flash"].into_iter().enumerate() {
                let stripe = layout.regions.first().map_or(f64::NAN, |(_, stripes)| (stripes[class] >> 10) as f64);
                values.set(format!("{storage}.{panel}.{who}.{name}"), [stripe]);
            }
        }
    }
    for storage in Storage::ALL.map(Storage::name) {
        for (who, what) in ADVISERS.into_iter().flat_map(|who| [(who, "gain"), (who, "best")]) {
            let own = comparisons.iter().filter(|(_, comparison)| comparison.storage.name() == storage);
            let least = values.least(own.map(|(panel, _)| format!("{storage}.{panel}.{who}.{what}")))?;
            values.set(format!("{storage}.{who}.{what}"), least);
        }
    }
    Ok(values)
}

/// As in the paper: `36K-148K`.
fn name(regions: &[(u64, Stripes)]) -> String {
    let name = |&(_, [disk, flash]): &(u64, Stripes)| match [disk >> 10, flash >> 10] {
        [disk, flash] if disk == flash => format!("{disk}K"),
        [disk, flash] => format!("{disk}K-{flash}K"),
    };
    regions.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// All equal stripes, a few of the random ones, and the advised ones.
fn chart(title: &str, Comparison { tried, advised, .. }: &Comparison) -> Bars {
    let shown: Vec<&Layout> = tried.iter().take(FIXED.len() + 4).chain(advised).collect();
    let rates = |layout: &&Layout| Bar::from(Measured::of(layout.rates.iter().copied()));
    Bars::new(title, Axis::linear("throughput", "MB/s"), shown.iter().map(|layout| name(&layout.regions)))
        .series("simulated", shown.iter().map(rates))
}

fn table(title: &str, Comparison { tried, advised, .. }: &Comparison) -> Table {
    let rate = |layout: &Layout| Measured::of(layout.rates.iter().copied()).median();
    let best = tried.iter().map(rate).fold(0.0, f64::max);
    let names = ["HARL to the letter", "as vpfs advises"];
    names.into_iter().zip(advised).fold(
        Table::new([title, "stripes", "MB/s", "of the best tried"]),
        |table, (who, layout)| {
            table.row([who.to_owned(), name(&layout.regions), number(rate(layout)), number(rate(layout) / best)])
        },
    )
}

pub(crate) mod balance {
    //! [HARL Fig. 1a]: with equal stripes, disk servers are busy for longer than flash servers.

    use super::ior::Case;
    use super::*;

    pub(super) fn run() -> Result<(Section, Values), SimError> {
        let times = times([64 << 10; 2])?;
        let chart =
            Bars::new("I/O time", Axis::linear("of the least busy server", "%"), (1..=8).map(|n| n.to_string()))
                .series("64K", times.iter().copied().map(Bar::new));
        let section = Section::new("HARL Fig. 1a: I/O time of each server")
            .text(
                "Sixteen processes read 512 KiB at random offsets, 64 KiB from each of six disk and two flash servers. The \
                 I/O time of a server is that of its device and of its link together.",
            )
            .figure(chart, "Servers 1 to 6 have disks, 7 and 8 flash.");
        Ok((section, values(&times)))
    }

    /// The I/O time of each server in % of the least, with these stripes.
    fn times(stripes: [u64; 2]) -> Result<Vec<f64>, SimError> {
        let results = Case::default(Op::Read).job()?.run(&[(0, stripes)], 1)?;
        // A request occupies a server while its device reads and while its link sends.
        let busy = |server: &vpfs_sim::ServerResults| server.device_utilisation + server.outward_utilisation;
        let busy: Vec<f64> = results.servers.iter().map(busy).collect();
        let least = busy.iter().copied().fold(f64::INFINITY, f64::min);
        Ok(busy.iter().map(|busy| busy / least * 100.0).collect())
    }

    fn values(times: &[f64]) -> Values {
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let (disks, flash) = times.split_at(6);
        let mut values = Values::default();
        values.set("disks", [mean(disks) / mean(flash) * 100.0]);
        values
    }

    /// Stripes that give flash what it is faster by.
    #[cfg(test)]
    pub(crate) fn changed(_: &str) -> Result<Values, SimError> {
        Ok(values(&times([32 << 10, 160 << 10])?))
    }
}

pub(crate) mod ior {
    //! [HARL Fig. 7 to 10]: IOR with fixed, random and HARL's stripes.

    use super::*;

    pub(super) const OPS: [Op; 2] = [Op::Read, Op::Write];

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Case {
        pub(super) op: Op,
        pub(super) servers: [u32; 2],
        pub(super) processes: u32,
        pub(super) request: u32,
    }

    impl Case {
        /// Sixteen processes, 512 KiB, six disk and two flash servers.
        pub(super) const fn default(op: Op) -> Self {
            Self { op, servers: [6, 2], processes: 16, request: 512 << 10 }
        }

        pub(super) fn job(&self) -> Result<Job, SimError> {
            let base = super::ior()?;
            let ior = Ior {
                processes: self.processes,
                block_bytes: base.block_bytes * u64::from(base.processes) / u64::from(self.processes),
                transfer_bytes: self.request,
                read: self.op == Op::Read,
                write: self.op == Op::Write,
                ..base
            };
            let pass = Arc::new(Ior { block_bytes: ior.block_bytes * SCALE, ..ior.clone() });
            let phases = vec![phase(self.op)];
            Ok(Job { storage: Storage::Cached, servers: self.servers, plan: Arc::new(ior), pass, phases })
        }

        fn panel(&self, what: &str) -> Result<Panel, SimError> {
            Ok(Panel { name: format!("{}{what}", op_name(self.op)), job: self.job()? })
        }
    }

    pub(super) fn op_name(op: Op) -> &'static str {
        match op {
            Op::Read => "read",
            Op::Write => "write",
        }
    }

    pub(super) fn phase(op: Op) -> Phase {
        match op {
            Op::Read => Phase::Read,
            Op::Write => Phase::Write,
        }
    }

    /// The panels of a figure: each of some cases with reads and with writes, and what its name adds to that.
    type Cases = Vec<(Case, String)>;

    fn panels(cases: Cases) -> Result<Vec<Panel>, SimError> {
        let both = cases.into_iter().flat_map(|(case, what)| OPS.map(|op| Case { op, ..case }.panel(&what)));
        both.collect()
    }

    fn cases(figure: &str) -> Cases {
        const DEFAULT: Case = Case::default(Op::Read);
        match figure {
            "7" => vec![(DEFAULT, String::new())],
            "8" => [8, 32, 128, 256].map(|processes| (Case { processes, ..DEFAULT }, format!(" {processes}"))).into(),
            "9" => [128, 1024].map(|kib| (Case { request: kib << 10, ..DEFAULT }, format!(" {kib}K"))).into(),
            _ => [[7, 1], [2, 6]]
                .map(|servers| (Case { servers, ..DEFAULT }, format!(" {}:{}", servers[0], servers[1])))
                .into(),
        }
    }

    pub(super) fn layouts() -> Result<(Section, Values), SimError> {
        super::figure(introduced("HARL Fig. 7: IOR with different layouts"), &panels(cases("7"))?)
    }

    pub(super) fn processes() -> Result<(Section, Values), SimError> {
        super::figure(introduced("HARL Fig. 8: IOR by number of processes"), &panels(cases("8"))?)
    }

    pub(super) fn requests() -> Result<(Section, Values), SimError> {
        let text = "The paper states one gain over 64K for both sizes of requests; it is compared at 128 KiB.";
        super::figure(introduced("HARL Fig. 9: IOR by size of requests").text(text), &panels(cases("9"))?)
    }

    pub(super) fn servers() -> Result<(Section, Values), SimError> {
        let text = "The paper states one gain over 64K for both ratios; it is compared at 2:6, where it is largest.";
        let section = introduced("HARL Fig. 10: IOR by numbers of disk and flash servers").text(text);
        super::figure(section, &panels(cases("10"))?)
    }

    #[cfg(test)]
    pub(crate) fn changed(figure: &str, change: &str) -> Result<Values, SimError> {
        super::changed(&panels(cases(figure))?, change)
    }

    fn introduced(heading: &str) -> Section {
        Section::new(heading).text(
            "Throughput with equal stripes on all servers, with random ones, with those that HARL finds by the paper's \
                 cost (each request alone), and with those that vpfs advises (requests priced with the others that are \
                 outstanding). Requests have random offsets; each process has its own part of a shared file of 16 GiB.",
        )
    }
}

pub(crate) mod regions {
    //! [HARL Fig. 11]: a file of four regions with requests of their own sizes.
    //!
    //! Assumed: the sizes of requests, which the paper does not print, and that all processes use the regions one after
    //! the other, each its own part of each.

    use super::ior::{OPS, op_name, phase};
    use super::*;

    /// Bytes of each region [HARL §IV-B5], and of a request in it.
    const REGIONS: [(u64, u32); 4] =
        [(256 << 20, 128 << 10), (1024 << 20, 256 << 10), (2048 << 20, 512 << 10), (4096 << 20, 1024 << 10)];

    /// Runs of IOR to parts of one file, one after the other.
    #[derive(Debug)]
    struct Parts(Vec<Ior>);

    impl Plan for Parts {
        fn processes(&self) -> u32 {
            self.0.first().map_or(1, Plan::processes)
        }

        fn phases(&self) -> Vec<Phase> {
            self.0.first().map_or_else(Vec::new, Plan::phases)
        }

        fn steps(&self, phase: Phase, process: u32) -> Steps {
            let steps: Vec<Steps> = self.0.iter().map(|part| part.steps(phase, process)).collect();
            Box::new(steps.into_iter().flatten())
        }
    }

    pub(super) fn run() -> Result<(Section, Values), SimError> {
        let intro = Section::new("HARL Fig. 11: a file of four regions")
            .text(
                "IOR with 16 processes reads or writes four regions of 256, 1024, 2048 and 4096 MiB at random offsets, with \
                 requests of 128, 256, 512 and 1024 KiB. The paper does not print its sizes of requests. Fixed and random \
                 stripes are the same in the whole file; HARL finds the regions in the trace, and stripes for each.",
            )
            .text("Hardware and advice are those of Fig. 7.");
        super::figure(intro, &panels()?)
    }

    fn panels() -> Result<Vec<Panel>, SimError> {
        let panel = |op| -> Result<Panel, SimError> { Ok(Panel { name: op_name(op).to_owned(), job: job(op)? }) };
        OPS.into_iter().map(panel).collect()
    }

    #[cfg(test)]
    pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
        super::changed(&panels()?, change)
    }

    fn job(op: Op) -> Result<Job, SimError> {
        let (plan, pass) = (parts(op, SCALE)?, parts(op, 1)?);
        Ok(Job {
            storage: Storage::Cached,
            servers: [6, 2],
            plan: Arc::new(plan),
            pass: Arc::new(pass),
            phases: vec![phase(op)],
        })
    }

    /// The regions at a part of their size.
    fn parts(op: Op, scale: u64) -> Result<Parts, SimError> {
        let base = super::ior()?;
        let mut start = 0;
        let parts = REGIONS.map(|(bytes, transfer_bytes)| {
            let bytes = bytes / scale;
            start += bytes;
            Ior {
                transfer_bytes,
                block_bytes: bytes / u64::from(base.processes),
                start_offset_bytes: start - bytes,
                read: op == Op::Read,
                write: op == Op::Write,
                ..base.clone()
            }
        });
        Ok(Parts(parts.into()))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn regions_are_found_at_their_places() {
            for op in OPS {
                let regions = vpfs_harl::divide(&job(op).unwrap().trace().unwrap(), vpfs_harl::CHUNK);
                let starts = REGIONS.iter().scan(0, |start, (bytes, _)| Some(std::mem::replace(start, *start + bytes)));
                assert!(starts.into_iter().all(|start| regions.iter().any(|region| region.bytes.start == start)));
            }
        }
    }
}

pub(crate) mod btio {
    //! [HARL Fig. 12]: BTIO with 4, 16 and 64 processes.
    //!
    //! Assumed:
    //! - Of the 1.69 GB, all are written and then read back. The paper calls this class A, which writes 0.42 GB in the
    //!   NAS benchmarks; class B writes 1.70 GB.
    //! - Collective buffering: one process on each of the eight client nodes (four, with four processes) writes its
    //!   part of a dump in calls of 4 MiB, ROMIO's default buffer. 40 dumps, as in the NAS benchmarks.
    //! - Throughput is that of I/O alone, so there is no computation between dumps.

    use super::*;

    const PROCESSES: [u32; 3] = [4, 16, 64];
    const NODES: u32 = 8;

    pub(super) fn run() -> Result<(Section, Values), SimError> {
        let intro = Section::new("HARL Fig. 12: BTIO").text(
            "BTIO, full subtype, writes 1.69 GB in 40 dumps and reads them back. One process on each of eight client nodes \
             does the I/O for the others, in calls of 4 MiB, and all wait for each other after each dump; so 16 and 64 \
             processes have equal requests, unlike in the paper. Hardware and advice are those of Fig. 7.",
        );
        super::figure(intro, &panels())
    }

    fn panels() -> [Panel; 3] {
        PROCESSES.map(|processes| Panel { name: processes.to_string(), job: job(processes) })
    }

    #[cfg(test)]
    pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
        super::changed(&panels(), change)
    }

    fn job(processes: u32) -> Job {
        let whole = Btio {
            processes,
            nodes: NODES.min(processes),
            subtype: Subtype::Full,
            total_bytes: 1_690_000_000,
            transfer_min_bytes: 4 << 20,
            transfer_max_bytes: 4 << 20,
            think_write: Duration::ZERO,
            think_read: Duration::ZERO,
            ..Btio::class(BtioClass::A)
        };
        let part = Btio {
            total_bytes: whole.total_bytes / SCALE,
            iterations: u32::try_from(u64::from(whole.iterations) / SCALE).unwrap_or(1),
            ..whole.clone()
        };
        let phases = vec![Phase::Write, Phase::Read];
        Job { storage: Storage::Cached, servers: [6, 2], plan: Arc::new(part), pass: Arc::new(whole), phases }
    }
}

//! `cargo xtask bench isolation --random N --seed S`: a policy in random cases, simulated with the daemon's own nodes,
//! and scored against the best constant of each case.
//!
//! **Score.** U is the mean of ln(kept) over the applications, by weight, where *kept* is what an application does next
//! to the others relative to what it does alone, in the same time on the same storage, the first seconds included. The
//! score is exp(n (U - best U)) for n applications: of two with equal weights, the product of what both keep relative
//! to the same product with the best constant. That is found by a search in that case: no policy at all, a cap
//! on bulk at each server, or a window, which is fewer processes of bulk. It is not the best that is possible: a policy
//! can score more than 1, most of all where storage changes or an application comes late.

use std::sync::Arc;
use std::time::Duration;

use vpfs_core::hash::mix;
use vpfs_core::{Bytes, Cap, Constants, Depth, PolicyKind, Settings, SlotCostTable, Weight};
use vpfs_sim::model::device::{
    ChangeProfile, DeviceProfile, HddProfile, MetadataProfile, PageCacheProfile, SsdProfile, StallProfile,
    VolumeProfile,
};
use vpfs_sim::model::plan::{Call, Dir, Extent, FileId, Phase, Plan, Step, Steps};
use vpfs_sim::{App, Layout, LinkProfile, PolicySpec, Results, Scenario, ServerGroup, Simulation, parallel};

/// How long a case lasts.
const TIME: Duration = Duration::from_secs(30);

/// How many of the worst cases are listed.
const WORST: usize = 10;

/// Random cases, and the best constant of each.
struct Gym {
    policy: PolicyKind,
    seed: u64,
    cases: Vec<(Case, Reference)>,
}

/// Prints how `policy` does in `cases` cases, of which the first has `seed` and each next one the next number; or what
/// each constant of the law does there if it is halved and doubled, but only those whose names begin with `constants`.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(policy: PolicyKind, cases: u32, seed: u64, constants: Option<&str>) -> Result<(), String> {
    let gym = Gym::new(policy, cases, seed, TIME)?;
    let Some(constants) = constants else {
        println!("{}", gym.report()?);
        return Ok(());
    };
    let at = |all: Constants| {
        let scores = sorted(&gym.score(all)?, |_| true);
        Ok::<_, String>(format!("{:.3}, {:.3}", percentile(&scores, 50), percentile(&scores, 5)))
    };
    println!("median and p5 with the constants in use: {}\n", at(Constants::DEFAULT)?);
    println!("| constant | value | halved | doubled |\n|---|---|---|---|");
    for (name, place) in Constants::NAMES.iter().filter(|(name, _)| name.starts_with(constants)) {
        let with = |factor: f64| {
            let mut all = Constants::DEFAULT;
            *place(&mut all) *= factor;
            at(all)
        };
        println!("| {name} | {} | {} | {} |", place(&mut Constants::DEFAULT.clone()), with(0.5)?, with(2.0)?);
    }
    Ok(())
}

impl Gym {
    fn new(policy: PolicyKind, cases: u32, seed: u64, time: Duration) -> Result<Self, String> {
        let seeds: Vec<u64> = (0..u64::from(cases)).map(|number| seed.wrapping_add(number)).collect();
        let cases = parallel::map(&seeds, |seed| {
            let case = Case::draw(*seed, time);
            reference(&case).map(|reference| (case, reference))
        });
        Ok(Self { policy, seed, cases: cases.into_iter().collect::<Result<_, _>>()? })
    }

    fn score(&self, constants: Constants) -> Result<Vec<Scored>, String> {
        let depth = Depth::new(14).expect("not zero");
        let settings = Settings { constants, ..Settings::new(self.policy, depth, SlotCostTable::default()) };
        let scored = parallel::map(&self.cases, |(case, reference)| score(case, reference, &settings));
        scored.into_iter().collect()
    }

    fn report(&self) -> Result<String, String> {
        let Self { policy, seed, ref cases } = *self;
        let mut scored = self.score(Constants::DEFAULT)?;
        let mut lines = vec![
            format!(
                "{} in {} random cases from seed {seed}, relative to the best constant of each case",
                policy.name(),
                cases.len()
            ),
            String::new(),
            "| cases | number | median | p25 | p5 | least |".to_owned(),
            "|---|---|---|---|---|---|".to_owned(),
            row("all", &scored, |_| true),
        ];
        let kinds = STORAGE.into_iter().chain(WEIGHTS.map(|(name, ..)| name));
        for name in kinds.filter(|name| scored.iter().any(|scored| scored.is(name))) {
            lines.push(row(name, &scored, |scored| scored.is(name)));
        }
        scored.sort_by(|a, b| a.score.total_cmp(&b.score));
        lines.push(String::new());
        lines.push("The worst; `cargo xtask bench isolation --random 1 --seed SEED` replays one:".to_owned());
        lines.extend(scored.iter().take(WORST).map(|scored| scored.text.clone()));
        Ok(lines.join("\n"))
    }
}

/// The scores of the cases that `counts` counts.
fn sorted(scored: &[Scored], counts: impl Fn(&Scored) -> bool) -> Vec<f64> {
    let mut scores: Vec<f64> = scored.iter().filter(|scored| counts(scored)).map(|scored| scored.score).collect();
    scores.sort_by(f64::total_cmp);
    scores
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN)
}

/// A row of the table: the cases that `counts` counts.
fn row(name: &str, scored: &[Scored], counts: impl Fn(&Scored) -> bool) -> String {
    let scores = sorted(scored, counts);
    let at = |percent| percentile(&scores, percent);
    format!("| {name} | {} | {:.3} | {:.3} | {:.3} | {:.3} |", scores.len(), at(50), at(25), at(5), at(0))
}

/// The kinds of storage.
const STORAGE: [&str; 6] =
    ["throttled volumes", "one head", "flash", "write-back cache", "processors", "one device under all servers"];

/// Weights of the interactive applications and of bulk.
const WEIGHTS: [(&str, u32, u32); 3] = [("weights 1:1", 1, 1), ("weights 4:1", 4, 1), ("weights 1:4", 1, 4)];

/// A case: storage, and interactive applications beside bulk.
#[derive(Debug)]
struct Case {
    seed: u64,
    /// One of [`STORAGE`].
    storage: &'static str,
    /// The name of one of [`WEIGHTS`].
    weights: &'static str,
    /// In words.
    text: String,
    /// With all applications; bulk is the last one.
    scenario: Scenario,
    bulk: Load,
}

impl Case {
    /// The case of this seed, which lasts for `time`.
    fn draw(seed: u64, time: Duration) -> Self {
        let random = &mut Draw(mix(seed));
        let storage = *random.of(&STORAGE);
        let (weights, small_weight, bulk_weight) = *random.of(&WEIGHTS);
        let is_metadata = storage == "processors";
        let servers = match storage {
            "write-back cache" => *random.of(&[1, 1, 2, 4]),
            "one device under all servers" => *random.of(&[2, 4]),
            _ => *random.of(&[1, 2, 4, 8, 16]),
        };
        let (mut group, mut words) = group(random, storage, servers);
        changes(random, is_metadata, time, &mut group, &mut words);
        let bulk = bulk(random, is_metadata, servers);
        let mut apps = Vec::new();
        let number = *random.of(&[1, 1, 1, 2]);
        for index in 0..number {
            let load = small(random, storage, number);
            let (start, end) = times(random, time);
            let mut text = format!("small {}", load.text());
            if !start.is_zero() {
                text += &format!(" later ({:.0} s)", start.as_secs_f64());
            }
            if let Some(end) = end {
                text += &format!(" until {:.0} s", end.as_secs_f64());
            }
            words.push(text);
            let app = app(&format!("small{index}"), &load, small_weight);
            apps.push(App { start, end, ..app });
        }
        words.push(format!("bulk {}", bulk.text()));
        apps.push(app("bulk", &bulk, bulk_weight));
        let scenario = Scenario {
            name: "gym".to_owned(),
            seed,
            duration: Some(time),
            servers: vec![group],
            apps,
            ..Scenario::default()
        };
        Self { seed, storage, weights, text: format!("{weights}, {}", words.join(", ")), scenario, bulk }
    }
}

fn app(name: &str, load: &Load, weight: u32) -> App {
    let weight = Weight::new(weight).unwrap_or(Weight::ONE);
    let nodes = load.processes.min(4);
    App { weight, nodes, layout: Layout::striped(64 << 10), ..App::new(name, workload(load, load.processes)) }
}

/// Servers with this kind of storage, and what it is in words.
fn group(random: &mut Draw, storage: &'static str, servers: u32) -> (ServerGroup, Vec<String>) {
    let speed = random.between(0.4, 2.5);
    let volume = |random: &mut Draw, bytes: (f64, f64), ios: (f64, f64)| {
        let (bytes, ios) = (random.between(bytes.0, bytes.1), random.between(ios.0, ios.1));
        let text = format!("{:.0} MB/s and {ios:.0} I/Os per second", bytes / 1e6);
        (
            VolumeProfile {
                bytes_per_second: whole(bytes),
                ios_per_second: whole(ios),
                ..VolumeProfile::THROTTLED_DISK
            },
            text,
        )
    };
    let head = HddProfile {
        seek_min: Duration::from_millis(5).div_f64(speed),
        bytes_per_second: whole(60e6 * speed),
        ..HddProfile::ONE_HEAD
    };
    let mut metadata = MetadataProfile::PVFS2_BDB;
    let (device, text) = match storage {
        "throttled volumes" => {
            let (volume, text) = volume(random, (8e6, 150e6), (150.0, 3_000.0));
            (DeviceProfile::Volume(volume), text)
        }
        "one head" => (DeviceProfile::Hdd(head), format!("speed {speed:.2}")),
        "flash" => {
            let flash = SsdProfile::PCIE_X4;
            let rate = |rate: u64| whole(rate as f64 * speed / 2.0);
            let flash = SsdProfile {
                read_bytes_per_second: rate(flash.read_bytes_per_second),
                write_bytes_per_second: rate(flash.write_bytes_per_second),
                ..flash
            };
            (DeviceProfile::Ssd(flash), format!("speed {speed:.2}"))
        }
        "write-back cache" => {
            let (volume, text) = volume(random, (30e6, 200e6), (300.0, 3_000.0));
            // What vpfs leaves to a cache on the storage's host is an eighth of a second of the device.
            let limit = *random.of(&[volume.bytes_per_second / 8, volume.bytes_per_second / 8, 64 << 20]);
            let cache = PageCacheProfile {
                limit_bytes: limit,
                background_bytes: limit / 2,
                resume_bytes: limit - limit / 8,
                flush_depth: 64,
                read_ahead_bytes: 0,
                ..PageCacheProfile::LINUX_8_GB
            };
            (
                DeviceProfile::PageCache(cache, Box::new(DeviceProfile::Volume(volume))),
                format!("{} MiB, {text}", limit >> 20),
            )
        }
        "processors" => {
            let each = Duration::from_millis(2).div_f64(speed);
            metadata = MetadataProfile { parallel: *random.of(&[1, 2, 4]), look_up: each, get_attr: each, ..metadata };
            (DeviceProfile::None, format!("{} workers, {:.1} ms each", metadata.parallel, each.as_secs_f64() * 1e3))
        }
        _ => match *random.of(&[false, true]) {
            false => (DeviceProfile::Hdd(head), format!("a head, speed {speed:.2}")),
            true => {
                let (volume, text) = volume(random, (15e6, 200e6), (300.0, 3_000.0));
                (DeviceProfile::Volume(volume), text)
            }
        },
    };
    let link = LinkProfile { bytes_per_second: 1_250_000_000, latency: Duration::from_micros(20) };
    let shared_device = storage == "one device under all servers";
    let words = vec![format!("{storage} x {servers}: {text}")];
    (ServerGroup { link, metadata, shared_device, ..ServerGroup::new(servers, device) }, words)
}

/// Moments in which devices stand still, and a speed that changes.
fn changes(random: &mut Draw, is_metadata: bool, time: Duration, group: &mut ServerGroup, words: &mut Vec<String>) {
    if is_metadata {
        return;
    }
    let heavy = *random.of(&[false, false, true]);
    let every = Duration::from_secs_f64(random.between(0.5, 4.0));
    let length = Duration::from_secs_f64(random.between(0.003, 0.03));
    group.stalls = Some(StallProfile { every, length, heavy });
    if heavy {
        words.push(format!("heavy pauses of {:.0} ms each {:.1} s", length.as_secs_f64() * 1e3, every.as_secs_f64()));
    }
    if *random.of(&[false, false, false, false, true]) {
        let profile = ChangeProfile { at: time / 2, percent: *random.of(&[50, 200]) };
        group.device = DeviceProfile::Changing(profile, Box::new(group.device.clone()));
        words.push(format!("{} % of the speed from half the time on", profile.percent));
    }
}

/// Bulk for so many servers.
fn bulk(random: &mut Draw, is_metadata: bool, servers: u32) -> Load {
    let seed = random.next();
    if is_metadata {
        return Load {
            processes: random.whole(8.0, 48.0),
            what: What::Metadata,
            think: Duration::ZERO,
            bursts: None,
            seed,
        };
    }
    let bytes = servers * *random.of(&[256_u32 << 10, 512 << 10, 1 << 20, 2 << 20]);
    let read = *random.of(&[false, false, true]);
    let bursts =
        random.of(&[false, false, false, true]).then(|| (seconds(random, 2.0, 6.0), seconds(random, 2.0, 6.0)));
    Load {
        processes: random.whole(4.0, 24.0),
        what: What::Sequential { bytes, read },
        think: Duration::ZERO,
        bursts,
        seed,
    }
}

/// An interactive application, one of `number`, with at most 1,000 calls a second of all.
fn small(random: &mut Draw, storage: &'static str, number: u32) -> Load {
    let seed = random.next();
    let processes = random.whole(1.0, 12.0);
    let think = random.between(0.5, 20.0).max(f64::from(processes * number)) / 1e3;
    // A cache takes writes at once; who waits for a disk there is who reads.
    let read = storage == "write-back cache" || *random.of(&[false, true]);
    let what = match storage {
        "processors" => What::Metadata,
        _ => What::Random { bytes: *random.of(&[4 << 10, 8 << 10, 16 << 10, 64 << 10]), read },
    };
    let bursts =
        random.of(&[false, false, false, true]).then(|| (seconds(random, 1.0, 4.0), seconds(random, 0.5, 4.0)));
    Load { processes, what, think: Duration::from_secs_f64(think), bursts, seed }
}

/// When an application comes, and when it goes.
fn times(random: &mut Draw, time: Duration) -> (Duration, Option<Duration>) {
    match random.whole(0.0, 8.0) {
        0 | 1 => (time.mul_f64(random.between(0.15, 0.4)), None),
        2 => (Duration::ZERO, Some(time.mul_f64(random.between(0.5, 0.8)))),
        _ => (Duration::ZERO, None),
    }
}

fn seconds(random: &mut Draw, from: f64, to: f64) -> Duration {
    Duration::from_secs_f64(random.between(from, to))
}

#[expect(clippy::cast_possible_truncation, reason = "rates are far below")]
fn whole(value: f64) -> u64 {
    value as u64
}

/// A sequence of random numbers.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    /// From zero to one.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = self.next() % all.len() as u64;
        &all[usize::try_from(index).unwrap_or(0)]
    }

    /// Each factor is as likely anywhere, as far as `from` is positive.
    fn between(&mut self, from: f64, to: f64) -> f64 {
        from * (to / from).powf(self.part())
    }

    /// A whole number below `to`.
    #[expect(clippy::cast_possible_truncation, reason = "small numbers")]
    fn whole(&mut self, from: f64, to: f64) -> u32 {
        if from > 0.0 { self.between(from, to) as u32 } else { (self.part() * to) as u32 }
    }
}

/// Calls without end, each after think time that is drawn evenly from half to one and a half of its mean.
#[derive(Clone, Debug)]
struct Load {
    processes: u32,
    what: What,
    think: Duration,
    /// Calls for so long, then nothing for as long as the second says; `None`: always.
    bursts: Option<(Duration, Duration)>,
    seed: u64,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Anywhere in a file of the process.
    Random { bytes: u32, read: bool },
    /// The next bytes of a file of the process.
    Sequential { bytes: u32, read: bool },
    /// Attributes of a file.
    Metadata,
}

/// Places in a file; larger than any cache.
const PLACES: u64 = 1 << 20;

impl Load {
    /// The only phase that it has.
    const PHASE: Phase = Phase::Mixed;

    /// In words.
    fn text(&self) -> String {
        let kib = |bytes: u32, read: bool| format!("{} of {} KiB", if read { "reads" } else { "writes" }, bytes >> 10);
        let what = match self.what {
            What::Random { bytes, read } => format!("random {}", kib(bytes, read)),
            What::Sequential { bytes, read } => kib(bytes, read),
            What::Metadata => "metadata".to_owned(),
        };
        let think = match self.think.as_secs_f64() * 1e3 {
            0.0 => String::new(),
            think => format!(" with {think:.1} ms to think"),
        };
        let bursts = self.bursts.map_or(String::new(), |(on, off)| {
            format!(" in bursts of {:.1} s each {:.1} s", on.as_secs_f64(), (on + off).as_secs_f64())
        });
        format!("{} x {what}{think}{bursts}", self.processes)
    }
}

impl What {
    fn call(self, process: u32, number: u64, random: u64) -> Call {
        let file = FileId { dir: Dir::Base, number: process };
        let extent = |bytes: u32, place: u64| Extent { file, offset: place * u64::from(bytes), bytes };
        match self {
            Self::Random { bytes, read: true } => Call::Read(extent(bytes, random % PLACES)),
            Self::Random { bytes, read: false } => Call::Write(extent(bytes, random % PLACES)),
            Self::Sequential { bytes, read: true } => Call::Read(extent(bytes, number)),
            Self::Sequential { bytes, read: false } => Call::Write(extent(bytes, number)),
            // Files of many directories, so that all servers have some.
            Self::Metadata => {
                let random = u32::try_from(random % (1 << 20)).unwrap_or(0);
                Call::Stat(FileId { dir: Dir::Sub(random % 64), number: random / 64 })
            }
        }
    }
}

impl Plan for Load {
    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        vec![Self::PHASE]
    }

    fn steps(&self, _phase: Phase, process: u32) -> Steps {
        let Self { what, think, bursts, .. } = *self;
        let mut random = mix(self.seed ^ mix(process.into()));
        let mut draw = move || {
            random = mix(random);
            random >> 8
        };
        let step = move |number: u64| {
            let thought =
                (!think.is_zero()).then(|| Step::Think(think / 2 + think.mul_f64((draw() % 1024) as f64 / 1024.0)));
            [thought, Some(Step::Call(what.call(process, number, draw())))]
        };
        let steps = (0..).flat_map(step).flatten();
        match bursts {
            None => Box::new(steps),
            Some((on, off)) => Box::new(Bursts { steps, on, off, calls: 0, burst: 0, each: calls_of(on, think) }),
        }
    }
}

/// Calls of a burst, by the time that each takes at least.
fn calls_of(on: Duration, think: Duration) -> u64 {
    let each = think.max(Duration::from_millis(20));
    u64::try_from(on.as_nanos() / each.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Steps with a pause after so many calls: the next burst begins at its time, or at once if that has passed.
struct Bursts<S> {
    steps: S,
    on: Duration,
    off: Duration,
    calls: u64,
    burst: u32,
    each: u64,
}

impl<S: Iterator<Item = Step>> Iterator for Bursts<S> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.calls == self.each {
            self.calls = 0;
            self.burst += 1;
            return Some(Step::Until((self.on + self.off) * self.burst));
        }
        let step = self.steps.next()?;
        self.calls += u64::from(matches!(step, Step::Call(_)));
        Some(step)
    }
}

/// As a workload of the simulator, with `processes` processes.
fn workload(load: &Load, processes: u32) -> vpfs_sim::Workload {
    vpfs_sim::Workload::Plan(Arc::new(Load { processes, ..load.clone() }))
}

/// A policy in a case.
#[derive(Debug)]
struct Scored {
    storage: &'static str,
    weights: &'static str,
    /// Relative to the best constant.
    score: f64,
    /// The seed, the case, what was best and what came of it, in words.
    text: String,
}

impl Scored {
    /// Whether it is of this kind of storage, or of these weights.
    fn is(&self, name: &str) -> bool {
        self.storage == name || self.weights == name
    }
}

/// What is set by hand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Constant {
    Nothing,
    /// Bulk's rate at each server, as a part of what it does alone.
    Cap(f64),
    /// Processes of bulk.
    Window(u32),
}

/// What is tried first; neighbours of the best cap follow.
const CAPS: [f64; 7] = [0.95, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1];
const WINDOWS: [u32; 5] = [1, 2, 3, 5, 8];

impl Constant {
    fn text(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Cap(part) => format!("a cap of {part:.2}"),
            Self::Window(processes) => format!("a window of {processes}"),
        }
    }
}

/// What each application keeps, and what that is worth.
#[derive(Clone, Debug)]
struct Kept {
    of: Vec<f64>,
    utility: f64,
}

impl Kept {
    fn text(&self) -> String {
        self.of.iter().map(|kept| format!("{kept:.2}")).collect::<Vec<_>>().join("/")
    }
}

/// What each application does alone in a case, and the best constant.
#[derive(Debug)]
struct Reference {
    alone: Vec<f64>,
    constant: Constant,
    reached: Kept,
}

/// Searches for the best constant.
fn reference(case: &Case) -> Result<Reference, String> {
    let fifo = PolicySpec::fifo();
    let alone = (0..case.scenario.apps.len()).map(|index| {
        let apps = vec![case.scenario.apps[index].clone()];
        Ok::<_, String>(done(&simulate(case, &Scenario { apps, ..case.scenario.clone() }, &fifo)?)[0])
    });
    let alone = alone.collect::<Result<Vec<f64>, String>>()?;
    let kept = |scenario: &Scenario, policy: &PolicySpec| {
        Ok::<_, String>(kept(scenario, &alone, &done(&simulate(case, scenario, policy)?)))
    };
    let with = |constant: Constant| kept(&by_hand(case, constant, alone[alone.len() - 1]), &fifo);
    let mut tried = vec![(Constant::Nothing, with(Constant::Nothing)?)];
    // Bursts ask for more than they do in the mean.
    let burst = case.bulk.bursts.map_or(1.0, |(on, off)| (on + off).as_secs_f64() / on.as_secs_f64());
    for cap in CAPS.map(|cap| cap * burst) {
        tried.push((Constant::Cap(cap), with(Constant::Cap(cap))?));
    }
    for window in WINDOWS.into_iter().filter(|window| *window < case.bulk.processes) {
        tried.push((Constant::Window(window), with(Constant::Window(window))?));
    }
    if let Constant::Cap(part) = best(&tried).0 {
        for near in [part * 1.1, part * 0.9] {
            tried.push((Constant::Cap(near), with(Constant::Cap(near))?));
        }
    }
    let (constant, reached) = best(&tried).clone();
    Ok(Reference { alone, constant, reached })
}

/// Runs a policy.
fn score(case: &Case, reference: &Reference, settings: &Settings) -> Result<Scored, String> {
    let Reference { alone, constant, reached } = reference;
    let policy = PolicySpec::new(settings.kind.name(), settings.clone());
    let ours = kept(&case.scenario, alone, &done(&simulate(case, &case.scenario, &policy)?));
    let score = ((ours.utility - reached.utility) * alone.len() as f64).exp();
    let (seed, text) = (case.seed, &case.text);
    let (constant, reached, ours) = (constant.text(), reached.text(), ours.text());
    let text = format!("seed {seed}: {score:.3}: {ours}, by {constant} {reached}: {text}");
    Ok(Scored { storage: case.storage, weights: case.weights, score, text })
}

fn best(tried: &[(Constant, Kept)]) -> &(Constant, Kept) {
    let order = |a: &&(Constant, Kept), b: &&(Constant, Kept)| a.1.utility.total_cmp(&b.1.utility);
    tried.iter().max_by(order).expect("something was tried")
}

/// The case with a constant for bulk, which does `alone` a second alone.
fn by_hand(case: &Case, constant: Constant, alone: f64) -> Scenario {
    let mut scenario = case.scenario.clone();
    let servers = f64::from(scenario.servers[0].count);
    let bulk = scenario.apps.last_mut().expect("bulk is there");
    match constant {
        Constant::Nothing => {}
        Constant::Cap(part) => {
            let rate = alone / scenario.duration.unwrap_or_default().as_secs_f64() * part / servers;
            #[expect(clippy::cast_possible_truncation, reason = "a rate")]
            let rate = (rate as u64).max(1);
            bulk.cap = Cap::new(rate, Bytes((rate / 100).max(64 << 10)));
        }
        Constant::Window(processes) => {
            *bulk = App { workload: workload(&case.bulk, processes), nodes: bulk.nodes.min(processes), ..bulk.clone() };
        }
    }
    scenario
}

fn simulate(case: &Case, scenario: &Scenario, policy: &PolicySpec) -> Result<Results, String> {
    let run = || Simulation::new(scenario, policy)?.run();
    run().map_err(|error| format!("seed {}: {error}", case.seed))
}

/// What each application did: bytes, and for each metadata request as many as it costs.
fn done(results: &Results) -> Vec<f64> {
    let cost = PolicySpec::fifo().metadata_cost.0;
    results.apps.iter().map(|app| (app.bytes() + app.metadata_requests * cost) as f64).collect()
}

fn kept(scenario: &Scenario, alone: &[f64], done: &[f64]) -> Kept {
    let of: Vec<f64> = done.iter().zip(alone).map(|(done, alone)| done / alone.max(1.0)).collect();
    let weights = scenario.apps.iter().map(|app| f64::from(app.weight.get()));
    let all: f64 = weights.clone().sum();
    let utility = weights.zip(&of).map(|(weight, kept)| weight * kept.max(1e-4).ln()).sum::<f64>() / all;
    Kept { of, utility }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of threads and the order in which they finish change nothing.
    #[test]
    fn equal_seeds_give_equal_reports() {
        let report = || {
            Gym::new(PolicyKind::Isolation, 2, 3, Duration::from_millis(500))
                .and_then(|gym| gym.report())
                .expect("no invariant is broken")
        };
        assert_eq!(report(), report());
    }

    #[test]
    fn cases_of_all_kinds_are_drawn() {
        let cases: Vec<Case> = (0..200).map(|seed| Case::draw(seed, TIME)).collect();
        for name in STORAGE {
            assert!(cases.iter().any(|case| case.storage == name), "{name}");
        }
        for (name, ..) in WEIGHTS {
            assert!(cases.iter().any(|case| case.weights == name), "{name}");
        }
        for word in ["reads", "writes", "bursts", "metadata", "later", "until", "speed", "heavy"] {
            assert!(cases.iter().any(|case| case.text.contains(word)), "{word}");
        }
    }
}

//! `cargo xtask bench isolation`: what a small application and a large one keep of what each does alone, on servers as
//! they are installed, whose memory takes writes before their disks do (docs/decisions/0004-write-back.md).

mod disk;
mod load;
mod site;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use serde_json::json;
use vpfs_core::PolicyKind;
use vpfs_testbed::load::run::SyncMode;

use self::load::{Done, Order, Small};
use self::site::{Kind, Lines, Proxy, Site};
use super::target;
use crate::gym;

/// Measure isolation on servers as they are installed, on disks of which the kernel limits everything; needs root and
/// control groups v1. With --random: in simulated cases, which need neither
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only these servers
    #[arg(long, value_enum)]
    servers: Option<Kind>,

    /// Only cases whose name ends with this
    #[arg(long, value_name = "TEXT", default_value = "")]
    case: String,

    /// Only settings of these names, as in the tables; of caps, "best cap" finds the one at which the product of what
    /// both keep is highest
    #[arg(long, value_name = "NAME;...", value_delimiter = ';')]
    setting: Vec<String>,

    /// Other values of limits.write_back that are tried as well
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    write_back: Vec<String>,

    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..))]
    seconds: u64,

    /// Where images of the disks and logs are; some 10 GB
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    dir: PathBuf,

    /// Write all results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Measure this vpfs; by default it is built from this source
    #[arg(long, value_name = "PROGRAM")]
    vpfs: Option<PathBuf>,

    /// Instead of servers: simulate so many random cases, and score a policy against the best cap or window of each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    random: Option<u32>,

    /// The first random case; each next one has the next number
    #[arg(long, value_name = "N", default_value_t = 1, requires = "random")]
    seed: u64,

    /// The policy of the random cases
    #[arg(long, value_name = "NAME", default_value = "isolation", requires = "random", value_parser = policy)]
    policy: PolicyKind,

    /// Of the random cases, print what halving and doubling each constant of the law does; with a NAME only those whose
    /// names begin with it
    #[arg(long, value_name = "NAME", requires = "random", num_args = 0..=1, default_missing_value = "")]
    constants: Option<String>,
}

fn policy(name: &str) -> Result<PolicyKind, String> {
    let known = PolicyKind::ALL.into_iter().find(|policy| policy.name() == name);
    known.ok_or_else(|| format!("allowed are {}", PolicyKind::NAMES.join(", ")))
}

const SMALL: [Small; 5] = [
    Small { name: "4 KiB stable", bytes: 4 << 10, reads: false, sync: SyncMode::Stable },
    Small { name: "4 KiB and fsync", bytes: 4 << 10, reads: false, sync: SyncMode::Each },
    Small { name: "64 KiB and fsync", bytes: 64 << 10, reads: false, sync: SyncMode::Each },
    Small { name: "4 KiB unstable", bytes: 4 << 10, reads: false, sync: SyncMode::Unstable },
    Small { name: "4 KiB reads", bytes: 4 << 10, reads: true, sync: SyncMode::Stable },
];

/// Caps that are tried by hand, in percent of what the large application does alone.
const CAPS: [u32; 2] = [40, 100];
/// Of these, the best one for both is found to this many percent.
const CAP_STEP: u32 = 8;

/// How vpfs is set up.
#[derive(Clone, Debug)]
struct Setting {
    name: String,
    /// `None`: no vpfs.
    config: Option<Lines>,
}

impl Setting {
    /// All but caps.
    fn all(write_back: &[String]) -> Vec<Self> {
        let with = |name: &str, lines: Lines| Self { name: name.to_owned(), config: Some(lines) };
        let ending = |rest: &str| Lines { rest: rest.to_owned(), ..Lines::default() };
        let mut all = vec![Self { name: "no vpfs".to_owned(), config: None }, with("isolation", Lines::default())];
        // No disk is behind it, so that only the proxy is left to limit anything.
        all.push(with("isolation, filer", Lines { server: "data = \"/proc\"", ..Lines::default() }));
        all.extend(write_back.iter().map(String::as_str).chain(["off"]).map(|value| {
            let rest = format!("[limits]\nwrite_back = \"{value}\"\n");
            with(&format!("isolation, write_back {value}"), ending(&rest))
        }));
        all
    }

    fn cap(large_alone: f64, percent: u32) -> Self {
        let large = format!("cap = \"{:.1}MB/s\"", large_alone * f64::from(percent) / 1e8);
        let rest = "[scheduler]\npolicy = \"fifo\"\n".to_owned();
        Self { name: format!("cap of {percent} %"), config: Some(Lines { large, rest, ..Lines::default() }) }
    }
}

/// The whole number between two others at which a function with one peak is highest, to `step`: golden-section search.
fn peak<E>([mut low, mut high]: [u32; 2], step: u32, mut of: impl FnMut(u32) -> Result<f64, E>) -> Result<u32, E> {
    const GOLDEN: f64 = 0.618;
    #[expect(clippy::cast_possible_truncation, reason = "at most 100 percent")]
    let within = |low: u32, high: u32| (f64::from(high - low) * GOLDEN).round() as u32;
    let (mut first, mut second) = (high - within(low, high), low + within(low, high));
    let (mut at_first, mut at_second) = (of(first)?, of(second)?);
    while high - low > step {
        if at_first > at_second {
            (high, second, at_second) = (second, first, at_first);
            first = high - within(low, high);
            at_first = of(first)?;
        } else {
            (low, first, at_first) = (first, second, at_second);
            second = low + within(low, high);
            at_second = of(second)?;
        }
    }
    Ok(if at_first > at_second { first } else { second })
}

#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if let Some(cases) = options.random {
        return gym::run(options.policy, cases, options.seed, options.constants.as_deref());
    }
    let program = target::program(options.vpfs.as_deref())?;
    let mut results = Vec::new();
    let kinds = [Kind::Nfs, Kind::Orangefs].into_iter().filter(|kind| options.servers.is_none_or(|only| only == *kind));
    for kind in kinds {
        let dir = tempfile::tempdir_in(&options.dir).map_err(|error| format!("{}: {error}", options.dir.display()))?;
        let Some(site) = Site::start(kind, dir.path())? else { continue };
        let bench = Bench { options, program: &program, site: &site };
        for small in SMALL {
            for (order, name) in Order::ALL {
                let case = format!("{}, {}, {name}", if kind == Kind::Nfs { "NFS" } else { "OrangeFS" }, small.name);
                // OrangeFS has no writes that ask for stable storage.
                let is_there = kind == Kind::Nfs || small.reads || small.sync != SyncMode::Stable;
                if is_there && case.ends_with(&options.case) {
                    let (table, measured) = bench.case(&case, small, order)?;
                    println!("{table}\n");
                    results.extend(measured);
                }
            }
        }
    }
    match &options.json {
        Some(file) => super::write(file, &format!("{:#}\n", serde_json::Value::from(results))),
        None => Ok(()),
    }
}

struct Bench<'a> {
    options: &'a Options,
    program: &'a std::path::Path,
    site: &'a Site,
}

impl Bench<'_> {
    /// Runs with nothing in the kernel's memory.
    fn within<T>(&self, run: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        self.site.disks.iter().try_for_each(disk::Disk::settle)?;
        self.run(run)
    }

    /// Runs on threads of its own: nothing is left of what it started.
    fn run<T>(&self, run: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
        let result = runtime.block_on(run);
        runtime.shutdown_background();
        result
    }

    /// Measures a case; a table, and the same as JSON.
    fn case(&self, name: &str, small: Small, order: Order) -> Result<(Table, Vec<serde_json::Value>), String> {
        let (site, time) = (self.site, std::time::Duration::from_secs(self.options.seconds));
        let direct = site.url();
        eprintln!("{name}: writing the files");
        site.disks.iter().try_for_each(|disk| disk.limit(false))?;
        self.run(load::fill(site.kind, &direct))?;
        eprintln!("{name}: each alone");
        let small_alone = self.within(load::small_alone(site.kind, &direct, small, time))?;
        let large_alone = self.within(load::large_alone(site.kind, &direct, order, time))?;
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN).set_header([
            name,
            "small kept",
            "calls/s",
            "mean ms",
            "p99 ms",
            "large kept",
            "MB/s",
            "stored MB/s",
            "large alone kept",
        ]);
        table.add_row(row("alone", [small_alone, large_alone], [small_alone, large_alone], 0.0));
        let alone = [small_alone, large_alone];
        let mut results = Vec::new();
        let is_wanted =
            |name: &str| self.options.setting.is_empty() || self.options.setting.iter().any(|one| one == name);
        for setting in Setting::all(&self.options.write_back).into_iter().filter(|setting| is_wanted(&setting.name)) {
            let measured = self.measure(name, &setting, small, order, alone)?;
            table.add_row(measured.row);
            results.push(measured.json);
        }
        if is_wanted("best cap") {
            let mut tried = BTreeMap::new();
            let best = peak(CAPS, CAP_STEP, |percent| {
                let setting = Setting::cap(large_alone.bytes_per_second, percent);
                let measured = self.measure(name, &setting, small, order, alone)?;
                let kept = measured.kept;
                tried.insert(percent, measured);
                Ok::<_, String>(kept)
            })?;
            table.add_row(tried[&best].row.clone());
            results.extend(tried.into_values().map(|measured| measured.json));
        }
        Ok((table, results))
    }

    /// Runs both applications with one setting.
    fn measure(
        &self,
        case: &str,
        setting: &Setting,
        small: Small,
        order: Order,
        alone: [Done; 2],
    ) -> Result<Measured, String> {
        let (site, time) = (self.site, std::time::Duration::from_secs(self.options.seconds));
        eprintln!("{case}: {}", setting.name);
        let start = |lines: &Lines| Proxy::start(site, self.program, lines);
        let proxy = setting.config.as_ref().map(start).transpose()?;
        let urls = proxy.as_ref().map_or_else(|| [site.url(), site.url()], |proxy| proxy.urls.clone());
        let stored = || site.disks.iter().map(disk::Disk::stored).sum::<u64>();
        let (done, stored) = self.within(async {
            let before = stored();
            let began = std::time::Instant::now();
            let done = load::both(site.kind, &urls, small, order, time).await?;
            Ok((done, (stored() - before) as f64 / began.elapsed().as_secs_f64()))
        })?;
        // What the large one loses by vpfs when nobody is there; afterwards, so that the proxy knows nothing of either
        // before.
        let large = match proxy {
            Some(_) if setting.name.starts_with("isolation") => {
                Some(self.within(load::large_alone(site.kind, &urls[1], order, time))?)
            }
            _ => None,
        };
        let mut row = row(&setting.name, done, alone, stored).to_vec();
        row.extend(large.map(|large| format!("{:.2}", large.bytes_per_second / alone[1].bytes_per_second)));
        let json = json!({
            "origin": super::origin::Origin::here(),
            "case": case, "setting": setting.name, "small": done[0], "large": done[1], "large_alone": large,
            "stored_bytes_per_second": stored, "alone": { "small": alone[0], "large": alone[1] },
        });
        let kept =
            done[0].calls_per_second / alone[0].calls_per_second * done[1].bytes_per_second / alone[1].bytes_per_second;
        Ok(Measured { row, json, kept })
    }
}

/// What a setting achieved.
struct Measured {
    row: Vec<String>,
    json: serde_json::Value,
    /// The product of what both keep.
    kept: f64,
}

fn row(name: &str, done: [Done; 2], alone: [Done; 2], stored: f64) -> [String; 8] {
    let [small, large] = done;
    [
        name.to_owned(),
        format!("{:.2}", small.calls_per_second / alone[0].calls_per_second),
        format!("{:.0}", small.calls_per_second),
        small.mean_seconds.map_or("-".to_owned(), |mean| format!("{:.1}", mean * 1e3)),
        small.p99_seconds.map_or("-".to_owned(), |p99| format!("{:.0}", p99 * 1e3)),
        format!("{:.2}", large.bytes_per_second / alone[1].bytes_per_second),
        format!("{:.1}", large.bytes_per_second / 1e6),
        format!("{:.1}", stored / 1e6),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_cap_is_found_with_few_measurements() {
        for best in [40, 47, 61, 78, 99] {
            let mut tried = 0;
            let found = peak(CAPS, CAP_STEP, |percent| {
                tried += 1;
                Ok::<_, ()>(-f64::from(percent.abs_diff(best)))
            });
            assert!(found.is_ok_and(|found| found.abs_diff(best) <= CAP_STEP) && tried <= 7, "{found:?} {tried}");
        }
        assert_eq!(peak(CAPS, CAP_STEP, |_| Err("no disk")), Err("no disk"));
    }
}

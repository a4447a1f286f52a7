//! `cargo xtask bench isolation`: what a small application and a large one keep of what each does alone, on servers as
//! they are installed, whose memory takes writes before their disks do (docs/decisions/0004-write-back.md).

mod disk;
mod load;
mod site;

use std::path::PathBuf;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use serde_json::json;
use vpfs_core::PolicyKind;
use vpfs_testbed::load::run::SyncMode;

use self::load::{Done, Order, Small};
use self::site::{Kind, Proxy, Site};
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

    /// Only settings of these names, as in the tables
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
const CAPS: [u64; 4] = [90, 80, 70, 60];

/// How vpfs is set up.
#[derive(Clone, Debug)]
struct Setting {
    name: String,
    /// Lines of the large application's table, and the end of the file; `None`: no vpfs.
    config: Option<(String, String)>,
}

impl Setting {
    fn all(large_alone: f64, write_back: &[String]) -> Vec<Self> {
        let with = |name: &str, large: String, rest: &str| Self {
            name: name.to_owned(),
            config: Some((large, rest.to_owned())),
        };
        let mut all = vec![Self { name: "no vpfs".to_owned(), config: None }, with("isolation", String::new(), "")];
        all.push(with("proportional", String::new(), "[scheduler]\npolicy = \"proportional\"\n"));
        all.extend(write_back.iter().map(String::as_str).chain(["off"]).map(|value| {
            let rest = format!("[limits]\nwrite_back = \"{value}\"\n");
            with(&format!("isolation, write_back {value}"), String::new(), &rest)
        }));
        let fifo = "[scheduler]\npolicy = \"fifo\"\n";
        all.extend(CAPS.map(|percent| {
            let cap = format!("cap = \"{:.1}MB/s\"", large_alone * percent as f64 / 1e8);
            with(&format!("cap of {percent} %"), cap, fifo)
        }));
        all
    }
}

#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if let Some(cases) = options.random {
        return gym::run(options.policy, cases, options.seed);
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
        let mut results = Vec::new();
        for setting in Setting::all(large_alone.bytes_per_second, &self.options.write_back) {
            if !self.options.setting.is_empty() && !self.options.setting.contains(&setting.name) {
                continue;
            }
            eprintln!("{name}: {}", setting.name);
            let start = |(large, rest): &(String, String)| Proxy::start(site, self.program, large, rest);
            let proxy = setting.config.as_ref().map(start).transpose()?;
            let urls = proxy.as_ref().map_or_else(|| [direct.clone(), direct.clone()], |proxy| proxy.urls.clone());
            let stored = || site.disks.iter().map(disk::Disk::stored).sum::<u64>();
            let (done, stored) = self.within(async {
                let before = stored();
                let began = std::time::Instant::now();
                let done = load::both(site.kind, &urls, small, order, time).await?;
                Ok((done, (stored() - before) as f64 / began.elapsed().as_secs_f64()))
            })?;
            // What the large one loses by vpfs when nobody is there; afterwards, so that the proxy knows
            // nothing of either before.
            let large = match proxy {
                Some(_) if setting.name.starts_with("isolation") => {
                    let url = &urls[1];
                    Some(self.within(load::large_alone(site.kind, url, order, time))?)
                }
                _ => None,
            };
            let mut row = row(&setting.name, done, [small_alone, large_alone], stored).to_vec();
            row.extend(large.map(|large| format!("{:.2}", large.bytes_per_second / large_alone.bytes_per_second)));
            table.add_row(row);
            results.push(json!({
                "origin": super::origin::Origin::here(),
                "case": name, "setting": setting.name, "small": done[0], "large": done[1], "large_alone": large, "stored_bytes_per_second": stored,
                "alone": { "small": small_alone, "large": large_alone },
            }));
        }
        Ok((table, results))
    }
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

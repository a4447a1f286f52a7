//! The experiments: files, variants and rows.

use std::collections::BTreeMap;
use std::ops::Range;

use vpfs_core::fairness::{jain_index, unfairness};
use vpfs_core::{Bytes, Weight};

use super::outcome::{AppOutcome, Outcome};
use super::trial::{self, NO_PROXY, Trial};

/// An experiment of a paper.
#[derive(Debug)]
pub(super) struct Experiment {
    /// Its scenario is `scenarios/papers/NAME.toml`.
    pub(super) name: &'static str,
    text: &'static str,
    pub(super) title: &'static str,
    /// What is scaled, and why.
    pub(super) scaled: &'static str,
    /// Other servers than those of the page, which have to be started before: it runs only by name.
    pub(super) servers: Option<&'static str>,
    /// Whether the simulator models what is measured.
    pub(super) is_simulated: bool,
    variants: &'static [Variant],
    pub(super) rows: &'static [Row],
}

/// A variant of a scenario: its name, and keys with other values.
type Variant = (&'static str, &'static [(&'static str, &'static str)]);

/// The scenario as it is.
const PLAIN: &[Variant] = &[("", &[])];

/// A value that a paper has, or that explains one.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) paper: Option<f64>,
    pub(super) value: fn(&Cases<'_>) -> Option<f64>,
}

impl Row {
    pub(super) fn number(&self, value: f64) -> String {
        if value.abs() >= 20.0 { format!("{value:.0}") } else { format!("{value:.2}") }
    }
}

/// The outcomes of one run of an experiment's cases.
#[derive(Debug)]
pub(super) struct Cases<'a> {
    pub(super) name: &'a str,
    pub(super) outcomes: &'a BTreeMap<&'a str, &'a Outcome>,
}

impl Cases<'_> {
    /// The outcome of a case.
    fn of(&self, variant: &str, policy: &str) -> Option<&Outcome> {
        self.outcomes.get(format!("{}, {policy}", prefix(self.name, variant)).as_str()).copied()
    }

    /// A value of the only application with one policy, relative to that without a proxy.
    fn of_native(&self, policy: &str, value: fn(&AppOutcome) -> Option<f64>) -> Option<f64> {
        let of = |policy| value(self.of("", policy)?.apps.first()?);
        Some(of(policy)? / of(NO_PROXY)?)
    }

    /// The bytes of the second application relative to those of the first, in seconds in which both always have
    /// requests pending.
    fn shares(&self, variant: &str, policy: &str, seconds: Range<usize>) -> Option<f64> {
        let outcome = self.of(variant, policy)?;
        let series = |app| outcome.app(app)?.bytes_series.get(seconds.clone());
        let bytes = |app| series(app).map(|series| series.iter().sum::<u64>() as f64);
        Some(bytes("app2")? / bytes("app1")?)
    }

    /// The largest unfairness of these windows, in %, among the applications that are there. Each window is as long as
    /// the time between two arrivals, and each application has its number as weight.
    fn unfairness(&self, policy: &str, mut windows: Range<usize>) -> Option<f64> {
        const WINDOW: usize = 15;
        let outcome = self.of("", policy)?;
        let largest = |largest: f64, window: usize| {
            let service = |number: u32| {
                let series = outcome.app(&format!("app{number}"))?.bytes_series.iter();
                Some((Bytes(series.skip(window * WINDOW).take(WINDOW).sum()), Weight::new(number)?))
            };
            let there: Option<Vec<_>> = (1..=8).take(window + 1).map(service).collect();
            Some(largest.max(unfairness(&there?) * 100.0))
        };
        windows.try_fold(0.0, largest)
    }

    /// How long BTIO of a class takes relative to alone.
    fn btio(&self, class: &str, policy: &str) -> Option<f64> {
        let seconds = |variant: &str, policy| Some(self.of(variant, policy)?.app("btio")?.seconds);
        Some(seconds(class, policy)? / seconds(&format!("{class} alone"), NO_PROXY)?)
    }

    /// The same of class A while IOR has a cap.
    fn capped(&self) -> Option<f64> {
        let seconds = |variant, policy| Some(self.of(variant, policy)?.app("btio")?.seconds);
        Some(seconds("class A capped", "SFQ(D)")? / seconds("class A alone", NO_PROXY)?)
    }

    /// What IOR gets beside BTIO with one policy, relative to what it gets without a proxy.
    fn ior(&self, variant: &str, policy: &str) -> Option<f64> {
        let rate = |policy| self.of(variant, policy)?.app("ior").map(|app| app.bytes as f64 / app.seconds);
        Some(rate(policy)? / rate(NO_PROXY)?)
    }

    /// How long WRF takes relative to alone.
    fn wrf(&self, variant: &str, policy: &str) -> Option<f64> {
        let seconds = |variant, policy| Some(self.of(variant, policy)?.app("wrf")?.seconds);
        Some(seconds(variant, policy)? / seconds("alone", NO_PROXY)?)
    }

    /// The throughput of applications beside each other under SFQ(D)+, relative to that with five slots for a large
    /// request.
    fn of_l5(&self, variant: &str, apps: &[&str]) -> Option<f64> {
        let rate = |variant| {
            let outcome = self.of(variant, "SFQ(D)+")?;
            apps.iter().map(|app| outcome.app(app).map(|app| app.bytes as f64 / app.seconds)).sum::<Option<f64>>()
        };
        Some(rate(variant)? / rate("1:1")?)
    }

    /// The latency that 95 % of an application's calls keep.
    fn p95_ms(&self, policy: &str, app: &str) -> Option<f64> {
        Some(self.of("", policy)?.app(app)?.p95_latency_seconds? * 1e3)
    }

    /// The mean of the depth in these seconds.
    fn depth(&self, policy: &str, seconds: Range<usize>) -> Option<f64> {
        let depths = self.of("", policy)?.depth_series.get(seconds)?;
        Some(depths.iter().sum::<f64>() / depths.len() as f64)
    }

    /// The calls of the application with a deadline, relative to alone.
    fn small(&self, variant: &str, policy: &str) -> Option<f64> {
        let rate = |variant, policy| operations(self.of(variant, policy)?.app("small")?);
        Some(rate(variant, policy)? / rate("alone", NO_PROXY)?)
    }

    /// What the copies beside it get, relative to what a cap by hand gives them.
    fn large(&self, policy: &str) -> Option<f64> {
        let rate = |variant, policy| self.of(variant, policy)?.app("large").map(|app| app.bytes as f64 / app.seconds);
        Some(rate("", policy)? / rate("capped", "fifo")?)
    }

    /// The service of the first of two applications that do the same work, relative to the second's, for as long as
    /// both run: from the times at which they end, if all service in a unit of time is the same.
    fn service(&self, variant: &str, policy: &str) -> Option<f64> {
        let outcome = self.of(variant, policy)?;
        let seconds = |app| outcome.app(app).map(|app| app.seconds);
        Some(1.0 / (2.0 * seconds("app1")? / seconds("app2")? - 1.0))
    }

    /// The mean of Jain's index of metadata requests over ten seconds each, as long as both have some, with twice the
    /// weight for the first one.
    fn jain(&self, policy: &str) -> Option<f64> {
        let outcome = self.of("2:1", policy)?;
        let sums =
            |app| Some(outcome.app(app)?.requests_series.chunks_exact(10).map(|times| times.iter().sum::<u64>()));
        let [two, one] = [2, 1].map(|weight| Weight::new(weight).unwrap_or(Weight::ONE));
        let both = sums("app1")?.zip(sums("app2")?).filter(|(first, second)| *first > 0 && *second > 0);
        let indices: Vec<f64> =
            both.map(|(first, second)| jain_index(&[(Bytes(first), two), (Bytes(second), one)])).collect();
        (!indices.is_empty()).then(|| indices.iter().sum::<f64>() / indices.len() as f64)
    }

    /// How much more throughput the only application has with some stripes than with others, in %.
    fn more(&self, variant: &str, other: &str) -> Option<f64> {
        let rate = |variant| self.of(variant, NO_PROXY)?.app("ior").map(|app| app.bytes as f64 / app.seconds);
        Some((rate(variant)? / rate(other)? - 1.0) * 100.0)
    }

    /// How much sooner calls of the applications complete on average than with another policy, in %.
    fn sooner(&self, variant: &str, other: &str) -> Option<f64> {
        let mean = |policy| {
            let apps = &self.of(variant, policy)?.apps;
            Some(apps.iter().map(|app| app.seconds).sum::<f64>() / apps.len() as f64)
        };
        Some((1.0 - mean("IOCO")? / mean(other)?) * 100.0)
    }
}

fn prefix(name: &str, variant: &str) -> String {
    if variant.is_empty() { name.to_owned() } else { format!("{name}, {variant}") }
}

impl Experiment {
    /// All cases.
    pub(super) fn trials(&self) -> Result<Vec<Trial>, String> {
        let file = format!("{}.toml", self.name);
        let of = |(variant, edits): &Variant| trial::trials(&prefix(self.name, variant), &file, self.text, edits);
        let all: Result<Vec<_>, String> = self.variants.iter().map(of).collect();
        Ok(all?.into_iter().flatten().collect())
    }
}

/// The experiments with these names; all if there are none.
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>, String> {
    if let Some(unknown) = names.iter().find(|name| ALL.iter().all(|one| one.name != name.as_str())) {
        let known: Vec<_> = ALL.iter().map(|one| one.name).collect();
        return Err(format!("there is no experiment {unknown:?}, only {}", known.join(", ")));
    }
    Ok(ALL.iter().filter(|one| names.is_empty() || names.iter().any(|name| name == one.name)).collect())
}

fn writes(app: &AppOutcome) -> Option<f64> {
    app.phase("write").map(|rate| rate.bytes_per_second)
}

fn reads(app: &AppOutcome) -> Option<f64> {
    app.phase("read").map(|rate| rate.bytes_per_second)
}

fn operations(app: &AppOutcome) -> Option<f64> {
    Some(app.operations as f64 / app.seconds)
}

/// Operations a second in a phase.
macro_rules! in_phase {
    ($phase:literal) => {
        |app| app.phase($phase).map(|rate| rate.operations_per_second)
    };
}

macro_rules! scenario {
    ($name:literal) => {
        include_str!(concat!("../../../../scenarios/papers/", $name, ".toml"))
    };
}

/// A row of the page: what it is, the paper's value, and ours.
const fn row(what: &'static str, paper: Option<f64>, value: fn(&Cases<'_>) -> Option<f64>) -> Row {
    Row { what, paper, value }
}

const ALL: &[Experiment] = &[
    Experiment {
        name: "vpfs-3",
        text: scenario!("vpfs-3"),
        title: "vPFS Fig. 3: throughput through a proxy, of direct",
        scaled: "16 processes instead of 256, with the disks as the limit instead of a warm cache.",
        servers: None,
        is_simulated: false,
        variants: PLAIN,
        rows: &[
            row("writes, fifo", None, |cases| cases.of_native("fifo", writes)),
            row("writes, DSFQ", Some(0.97), |cases| cases.of_native("DSFQ", writes)),
            row("reads, fifo", None, |cases| cases.of_native("fifo", reads)),
            row("reads, DSFQ", Some(0.99), |cases| cases.of_native("DSFQ", reads)),
        ],
    },
    Experiment {
        name: "vpfs-4",
        text: scenario!("vpfs-4"),
        title: "vPFS Fig. 4: what a proxy uses with eight applications of 32 flows",
        scaled: "all 256 flows, in front of slower disks; the paper's text gives no numbers.",
        servers: None,
        is_simulated: false,
        variants: PLAIN,
        rows: &[
            row("processor, % of one, for each proxy", None, |cases| {
                let used = cases.of("", "DSFQ")?.proxies?;
                Some(used.processor_seconds / used.seconds * 100.0 / super::SERVERS as f64)
            }),
            row("memory at most, MB, for each proxy", None, |cases| {
                Some(cases.of("", "DSFQ")?.proxies?.memory_bytes as f64 / 1e6 / super::SERVERS as f64)
            }),
        ],
    },
    Experiment {
        name: "vpfs-5",
        text: scenario!("vpfs-5"),
        title: "vPFS Fig. 5a: service of an application on all servers, of one on half of them",
        scaled: "32 processes each instead of 128, four servers instead of eight, seconds 5 to 25 (32:1: 25 \
                 to 65) instead of four minutes. The first application always writes; the second one writes, or reads \
                 or does both at random places of files that were written before.",
        servers: None,
        is_simulated: true,
        variants: &[
            ("2:1", &[("app.1.weight", "2")]),
            ("8:1", &[("app.1.weight", "8"), ("policy.0", "")]),
            ("32:1", &[("app.1.weight", "32"), ("policy.0", ""), LONG[0], LONG[1]]),
            ("reads 2:1", &[READS[0], READS[1], ONE_POLICY[0], ONE_POLICY[1]]),
            ("reads 8:1", &[READS[0], READS[1], ("app.1.weight", "8"), ONE_POLICY[0], ONE_POLICY[1]]),
            (
                "reads 32:1",
                &[READS[0], READS[1], ("app.1.weight", "32"), LONG[0], LONG[1], ONE_POLICY[0], ONE_POLICY[1]],
            ),
            ("random 2:1", &[RANDOM[0], RANDOM[1], ONE_POLICY[0], ONE_POLICY[1]]),
            ("random 8:1", &[RANDOM[0], RANDOM[1], ("app.1.weight", "8"), ONE_POLICY[0], ONE_POLICY[1]]),
            (
                "random 32:1",
                &[RANDOM[0], RANDOM[1], ("app.1.weight", "32"), LONG[0], LONG[1], ONE_POLICY[0], ONE_POLICY[1]],
            ),
        ],
        rows: &[
            row("no proxy", Some(2.0), |cases| cases.shares("2:1", NO_PROXY, 5..25)),
            row("2:1, 10 MB", Some(2.0), |cases| cases.shares("2:1", "10 MB", 5..25)),
            row("8:1, 10 MB", Some(8.0), |cases| cases.shares("8:1", "10 MB", 5..25)),
            row("32:1, 10 MB", Some(32.0), |cases| cases.shares("32:1", "10 MB", 25..65)),
            row("2:1, 512 KB", Some(2.0), |cases| cases.shares("2:1", "512 KB", 5..25)),
            row("8:1, 512 KB", Some(8.0), |cases| cases.shares("8:1", "512 KB", 5..25)),
            row("32:1, 512 KB", Some(32.0), |cases| cases.shares("32:1", "512 KB", 25..65)),
            row("reads, 2:1, 10 MB", Some(2.0), |cases| cases.shares("reads 2:1", "10 MB", 5..25)),
            row("reads, 8:1, 10 MB", Some(8.0), |cases| cases.shares("reads 8:1", "10 MB", 5..25)),
            row("reads, 32:1, 10 MB", Some(32.0), |cases| cases.shares("reads 32:1", "10 MB", 25..65)),
            row("random, 2:1, 10 MB", Some(2.0), |cases| cases.shares("random 2:1", "10 MB", 5..25)),
            row("random, 8:1, 10 MB", Some(8.0), |cases| cases.shares("random 8:1", "10 MB", 5..25)),
            row("random, 32:1, 10 MB", Some(32.0), |cases| cases.shares("random 32:1", "10 MB", 25..65)),
        ],
    },
    Experiment {
        name: "vpfs-6",
        text: scenario!("vpfs-6"),
        title: "vPFS Fig. 6: largest unfairness while eight applications arrive, %",
        scaled: "15 s between arrivals, and windows of that length, instead of 60; four servers instead of eight. The \
                 paper's values are those that it stays below.",
        servers: None,
        is_simulated: true,
        variants: PLAIN,
        rows: &[
            row("all 16 windows", Some(9.0), |cases| cases.unfairness("layout", 0..16)),
            row("the nine with all eight", Some(4.0), |cases| cases.unfairness("layout", 7..16)),
            row("all, each server for itself", None, |cases| cases.unfairness("local", 0..16)),
            row("the nine, each server for itself", None, |cases| cases.unfairness("local", 7..16)),
        ],
    },
    Experiment {
        name: "vpfs-plus-5",
        text: scenario!("vpfs-plus-5"),
        title: "vPFS+ Fig. 6 and vPFS Fig. 7: run time of BTIO beside IOR, of alone",
        scaled: "16 processes each instead of 64, four servers instead of eight, 12 bursts instead of 80. Class A in \
                 calls of 16 KiB; class C in calls of 1 MiB, one process on each of four nodes. Capped: IOR at a 33rd.",
        servers: None,
        is_simulated: true,
        variants: &[
            ("class A alone", &[("app.1", ""), ("policy.3", ""), ("policy.2", ""), ("policy.1", "")]),
            ("class A", &[]),
            ("class A capped", &[("app.1.cap", "\"1.8MB/s\""), ("policy.3", ""), ("policy.2", ""), ("policy.0", "")]),
            (
                "class C alone",
                &[
                    CLASS_C,
                    CALLS_C,
                    NODES_C,
                    TOTAL_C,
                    ("app.1", ""),
                    ("policy.3", ""),
                    ("policy.2", ""),
                    ("policy.1", ""),
                ],
            ),
            ("class C", &[CLASS_C, CALLS_C, NODES_C, TOTAL_C]),
        ],
        rows: &[
            row("A, no proxy", Some(3.288), |cases| cases.btio("class A", NO_PROXY)),
            row("A, SFQ(D)", Some(2.533), |cases| cases.btio("class A", "SFQ(D)")),
            row("A, SFQ(D)+", Some(1.2), |cases| cases.btio("class A", "SFQ(D)+")),
            row("A, SFQ(D), IOR capped", Some(1.019), |cases| cases.capped()),
            row("A, `isolation`", None, |cases| cases.btio("class A", "isolation")),
            row("IOR, SFQ(D)+, of no proxy", None, |cases| cases.ior("class A", "SFQ(D)+")),
            row("IOR, `isolation`, of no proxy", None, |cases| cases.ior("class A", "isolation")),
            row("C, no proxy", Some(1.75), |cases| cases.btio("class C", NO_PROXY)),
            row("C, SFQ(D)", Some(1.203), |cases| cases.btio("class C", "SFQ(D)")),
            row("C, SFQ(D)+", Some(1.203), |cases| cases.btio("class C", "SFQ(D)+")),
            row("C, `isolation`", None, |cases| cases.btio("class C", "isolation")),
        ],
    },
    Experiment {
        name: "vpfs-plus-7",
        text: scenario!("vpfs-plus-7"),
        title: "vPFS+ Fig. 7 and 8: run time of WRF beside IOR, of alone; throughput of both against L",
        scaled: "16 processes each instead of 64, four servers instead of eight, 5 minutes of forecast with 20 MB each \
                 instead of 60 with 1.3 GB. Throughputs are relative to L = 5.",
        servers: None,
        is_simulated: true,
        variants: &[
            ("alone", &[("app.1", ""), ("policy.3", ""), ("policy.2", ""), ("policy.1", "")]),
            ("1:1", &[("policy.1", "")]),
            ("16:1", &[("app.0.weight", "16"), ("policy.3", ""), ("policy.2", ""), ("policy.0", "")]),
            ("L = 1", &[("policy.2.scheduler.slot_cost.0.slots", "1"), PLUS[0], PLUS[1], PLUS[2]]),
            ("L = 3", &[("policy.2.scheduler.slot_cost.0.slots", "3"), PLUS[0], PLUS[1], PLUS[2]]),
            ("L = 9", &[("policy.2.scheduler.slot_cost.0.slots", "9"), PLUS[0], PLUS[1], PLUS[2]]),
        ],
        rows: &[
            row("no proxy", Some(6.82), |cases| cases.wrf("1:1", NO_PROXY)),
            row("SFQ(D), 16:1", Some(2.80), |cases| cases.wrf("16:1", "SFQ(D)")),
            row("SFQ(D)+, 1:1", Some(1.79), |cases| cases.wrf("1:1", "SFQ(D)+")),
            row("`isolation`, 1:1", None, |cases| cases.wrf("1:1", "isolation")),
            row("WRF, L = 1", None, |cases| cases.of_l5("L = 1", &["wrf"])),
            row("WRF, L = 3", None, |cases| cases.of_l5("L = 3", &["wrf"])),
            row("WRF, L = 9", None, |cases| cases.of_l5("L = 9", &["wrf"])),
            row("IOR, L = 1", None, |cases| cases.of_l5("L = 1", &["ior"])),
            row("IOR, L = 3", None, |cases| cases.of_l5("L = 3", &["ior"])),
            row("IOR, L = 9", None, |cases| cases.of_l5("L = 9", &["ior"])),
            row("both, L = 1", Some(0.8), |cases| cases.of_l5("L = 1", &["wrf", "ior"])),
            row("both, L = 9", None, |cases| cases.of_l5("L = 9", &["wrf", "ior"])),
        ],
    },
    Experiment {
        name: "vpfs-plus-9",
        text: scenario!("vpfs-plus-9"),
        title: "vPFS+ Fig. 9: service of the first of two metadata applications, of the second",
        scaled: "32 processes each instead of 64, four servers instead of eight, 50 items instead of 1000, no data. \
                 From the times at which the two end, which do the same. Jain's index is of requests over ten seconds \
                 each.",
        servers: None,
        is_simulated: true,
        variants: &[("1:1", &[("app.0.weight", "1")]), ("2:1", &[])],
        rows: SHARES_OF_METADATA,
    },
    Experiment {
        name: "vpfs-plus-10",
        text: scenario!("vpfs-plus-10"),
        title: "vPFS+ Fig. 10: metadata operations through a proxy, of direct",
        scaled: "16 processes instead of 128, four servers instead of eight, all on the same processors.",
        servers: None,
        is_simulated: false,
        variants: PLAIN,
        rows: OVERHEAD_OF_METADATA,
    },
    Experiment {
        name: "vpfs-plus-9-synced",
        text: scenario!("vpfs-plus-9"),
        title: "vPFS+ Fig. 9 where the storage is the limit, as in the paper",
        scaled: "as vpfs-plus-9, with 96 processes each, so that requests wait in front of 14 slots, and 5 items.",
        servers: Some("OrangeFS built with Berkeley DB, which syncs metadata to the disks"),
        is_simulated: true,
        variants: &[
            ("1:1", &[("app.0.weight", "1"), MANY[0], MANY[1], MANY[2], MANY[3]]),
            ("2:1", &[MANY[0], MANY[1], MANY[2], MANY[3]]),
        ],
        rows: SHARES_OF_METADATA,
    },
    Experiment {
        name: "vpfs-plus-10-synced",
        text: scenario!("vpfs-plus-10"),
        title: "vPFS+ Fig. 10 where the storage is the limit",
        scaled: "as vpfs-plus-10, with 20 items.",
        servers: Some("OrangeFS built with Berkeley DB, which syncs metadata to the disks"),
        is_simulated: false,
        variants: &[("", &[("app.0.md.items", "20")])],
        rows: OVERHEAD_OF_METADATA,
    },
    Experiment {
        name: "two-level",
        text: scenario!("two-level"),
        title: "Two-level: what 95 % of the calls keep, ms, of 100 and 300 ms",
        scaled: "four servers instead of one; 40 s instead of some minutes. The second one leaves its rate after 15 s, \
                 so its deadline is not promised from then on.",
        servers: None,
        is_simulated: true,
        variants: PLAIN,
        rows: &[
            row("app1, no proxy", None, |cases| cases.p95_ms(NO_PROXY, "app1")),
            row("app1, as on the slides", Some(100.0), |cases| cases.p95_ms("slides", "app1")),
            row("app1, `two-level`", Some(100.0), |cases| cases.p95_ms("two-level", "app1")),
            row("app2, no proxy", None, |cases| cases.p95_ms(NO_PROXY, "app2")),
            row("app2, as on the slides", None, |cases| cases.p95_ms("slides", "app2")),
            row("app2, `two-level`", None, |cases| cases.p95_ms("two-level", "app2")),
            row("Lo, slides, while both ask", None, |cases| cases.depth("slides", 0..9)),
            row("Lo, slides, app2 alone", None, |cases| cases.depth("slides", 10..19)),
            row("Lo, slides, both ask for more", None, |cases| cases.depth("slides", 20..29)),
        ],
    },
    Experiment {
        name: "two-level-beside",
        text: scenario!("two-level-beside"),
        title: "Two-level: 8 KiB calls with 10 MB/s in 20 ms beside copies with calls of 4 MiB",
        scaled: "not in the paper; what the best cap by hand gives stands beside it.",
        servers: None,
        is_simulated: true,
        variants: &[
            ("alone", &[("app.1", ""), ("policy.3", ""), ("policy.2", ""), ("policy.1", "")]),
            ("", &[("policy.1", "")]),
            ("capped", &[("app.1.cap", "\"48MB/s\""), ("policy.3", ""), ("policy.2", ""), ("policy.0", "")]),
        ],
        rows: &[
            row("small, of alone, no proxy", None, |cases| cases.small("", NO_PROXY)),
            row("small, of alone, as on the slides", None, |cases| cases.small("", "slides")),
            row("small, of alone, `two-level`", None, |cases| cases.small("", "two-level")),
            row("small, of alone, capped by hand", None, |cases| cases.small("capped", "fifo")),
            row("95 % within, ms, no proxy", None, |cases| cases.p95_ms(NO_PROXY, "small")),
            row("95 % within, ms, as on the slides", None, |cases| cases.p95_ms("slides", "small")),
            row("95 % within, ms, `two-level`", None, |cases| cases.p95_ms("two-level", "small")),
            row("large, of capped, `two-level`", None, |cases| cases.large("two-level")),
        ],
    },
    Experiment {
        name: "ioco-6",
        text: scenario!("ioco-6"),
        title: "IOCO Fig. 6: mean completion time, % sooner than without coordination",
        scaled: "four processes for each application instead of 8 to 32, four servers instead of sixteen, writes \
                 instead of reads. From the creation of the file on. A queue of its own for metadata.",
        servers: None,
        is_simulated: true,
        variants: &[("2", &[]), ("8", &[("app.0.copies", "8")]), ("16", &[("app.0.copies", "16")])],
        rows: &[
            row("2 applications", Some(8.0), |cases| cases.sooner("2", NO_PROXY)),
            row("8 applications", None, |cases| cases.sooner("8", NO_PROXY)),
            row("16 applications", Some(42.0), |cases| cases.sooner("16", NO_PROXY)),
            row("2, than SFQ(D), D = 1", None, |cases| cases.sooner("2", "SFQ(D)")),
            row("8, than SFQ(D), D = 1", None, |cases| cases.sooner("8", "SFQ(D)")),
            row("16, than SFQ(D), D = 1", None, |cases| cases.sooner("16", "SFQ(D)")),
        ],
    },
    Experiment {
        name: "harl-7",
        text: scenario!("harl-7"),
        title: "HARL Fig. 7 to 9 and 12: throughput with stripes by the speed of disks, % more than with 64 KiB on all \
                servers",
        scaled: "two slow and two fast servers instead of six and two; 16 processes with calls of 512 KiB at random \
                 places, if not said otherwise. BTIO: four processes, each with a call of 4 MiB in a burst, 20 bursts \
                 written and read.",
        servers: Some("the last two with disks of 45 MB/s and 900 I/Os a second"),
        is_simulated: true,
        variants: &[
            ("writes", &[]),
            ("writes, 256 KiB", &[EQUAL_256K]),
            ("writes, by speed", &[BY_SPEED]),
            ("reads", &[READ]),
            ("reads, by speed", &[READ, BY_SPEED]),
            ("64 processes", &[PROCESSES_64]),
            ("64 processes, by speed", &[PROCESSES_64, BY_SPEED]),
            ("128 KiB", &[CALLS_128K]),
            ("128 KiB, by speed", &[CALLS_128K, FAST_ONLY[0], FAST_ONLY[1]]),
            ("BTIO", &BTIO),
            ("BTIO, by speed", &[BTIO[0], BTIO[1], BTIO[2], BTIO[3], BY_SPEED]),
        ],
        rows: &[
            row("reads", Some(73.4), |cases| cases.more("reads, by speed", "reads")),
            row("writes", Some(176.7), |cases| cases.more("writes, by speed", "writes")),
            row("writes, than 256 KiB on all", None, |cases| cases.more("writes, by speed", "writes, 256 KiB")),
            row("writes of 64 processes", None, |cases| cases.more("64 processes, by speed", "64 processes")),
            row("writes of 128 KiB", None, |cases| cases.more("128 KiB, by speed", "128 KiB")),
            row("BTIO", Some(163.5), |cases| cases.more("BTIO, by speed", "BTIO")),
        ],
    },
    Experiment {
        name: "harl-10-3-1",
        text: scenario!("harl-7"),
        title: "HARL Fig. 10: the same with three slow servers and a fast one",
        scaled: "as harl-7, with other numbers of servers.",
        servers: Some("the last one with a disk of 45 MB/s and 900 I/Os a second"),
        is_simulated: true,
        variants: &[
            ("writes", &[FAST_1[0], FAST_1[1]]),
            ("writes, by speed", &[FAST_1[0], FAST_1[1], BY_SPEED_3_1]),
            ("writes, fast only", &[FAST_1[0], FAST_1[1], FAST_ONLY_3_1[0], FAST_ONLY_3_1[1]]),
            ("reads", &[FAST_1[0], FAST_1[1], READ]),
            ("reads, by speed", &[FAST_1[0], FAST_1[1], READ, BY_SPEED_3_1]),
            ("reads, fast only", &[FAST_1[0], FAST_1[1], READ, FAST_ONLY_3_1[0], FAST_ONLY_3_1[1]]),
        ],
        rows: NUMBERS_OF_SERVERS,
    },
    Experiment {
        name: "harl-10-1-3",
        text: scenario!("harl-7"),
        title: "HARL Fig. 10: the same with one slow server and three fast ones",
        scaled: "as harl-7, with other numbers of servers.",
        servers: Some("the last three with disks of 45 MB/s and 900 I/Os a second"),
        is_simulated: true,
        variants: &[
            ("writes", &[FAST_3[0], FAST_3[1]]),
            ("writes, by speed", &[FAST_3[0], FAST_3[1], BY_SPEED_1_3]),
            ("writes, fast only", &[FAST_3[0], FAST_3[1], FAST_ONLY_1_3[0], FAST_ONLY_1_3[1]]),
            ("reads", &[FAST_3[0], FAST_3[1], READ]),
            ("reads, by speed", &[FAST_3[0], FAST_3[1], READ, BY_SPEED_1_3]),
            ("reads, fast only", &[FAST_3[0], FAST_3[1], READ, FAST_ONLY_1_3[0], FAST_ONLY_1_3[1]]),
        ],
        rows: NUMBERS_OF_SERVERS,
    },
];

/// HARL Fig. 10. The paper has one gain for 7:1 and 2:6 together, and in text what a class of servers is used for.
const NUMBERS_OF_SERVERS: &[Row] = &[
    row("reads", None, |cases| cases.more("reads, by speed", "reads")),
    row("reads, on the fast ones only", None, |cases| cases.more("reads, fast only", "reads")),
    row("writes", None, |cases| cases.more("writes, by speed", "writes")),
    row("writes, on the fast ones only", None, |cases| cases.more("writes, fast only", "writes")),
];

/// Fig. 9.
const SHARES_OF_METADATA: &[Row] = &[
    row("2:1, no proxy", None, |cases| cases.service("2:1", NO_PROXY)),
    row("1:1, SFQ(D)+", Some(1.0), |cases| cases.service("1:1", "SFQ(D)+")),
    row("2:1, SFQ(D)+", Some(2.0), |cases| cases.service("2:1", "SFQ(D)+")),
    row("2:1, SFQ(D)+, D = 4", None, |cases| cases.service("2:1", "SFQ(D)+, D = 4")),
    row("Jain's index, SFQ(D)+", Some(0.95), |cases| cases.jain("SFQ(D)+")),
    row("Jain's index, SFQ(D)+, D = 4", None, |cases| cases.jain("SFQ(D)+, D = 4")),
];

/// Fig. 10.
const OVERHEAD_OF_METADATA: &[Row] = &[
    row("all, fifo", None, |cases| cases.of_native("fifo", operations)),
    row("all, SFQ(D)+", Some(0.97), |cases| cases.of_native("SFQ(D)+", operations)),
    row("all, `isolation`", None, |cases| cases.of_native("isolation", operations)),
    row("mkdir, fifo", None, |cases| cases.of_native("fifo", in_phase!("mkdir"))),
    row("create, fifo", None, |cases| cases.of_native("fifo", in_phase!("create"))),
    row("stat, fifo", None, |cases| cases.of_native("fifo", in_phase!("stat"))),
    row("utime, fifo", None, |cases| cases.of_native("fifo", in_phase!("utime"))),
    row("readdir, fifo", None, |cases| cases.of_native("fifo", in_phase!("readdir"))),
    row("unlink, fifo", None, |cases| cases.of_native("fifo", in_phase!("unlink"))),
    row("rmdir, fifo", None, |cases| cases.of_native("fifo", in_phase!("rmdir"))),
];

/// At 32:1 one of the two gets a call for each of its processes only in a minute.
const LONG: [(&str, &str); 2] = [("app.0.ior.time_limit", "\"66s\""), ("app.1.ior.time_limit", "\"66s\"")];
const READS: [(&str, &str); 2] = [("app.1.phases", "[\"read\"]"), ("app.1.ior.read", "\"on\"")];
const RANDOM: [(&str, &str); 2] = [("app.1.phases", "[\"mixed\"]"), ("app.1.ior.mixed", "\"on\"")];
/// Leaves the second policy of three.
const ONE_POLICY: [(&str, &str); 2] = [("policy.2", ""), ("policy.0", "")];
/// Leaves SFQ(D)+ of the four policies of WRF.
const PLUS: [(&str, &str); 3] = [("policy.3", ""), ("policy.1", ""), ("policy.0", "")];
const MANY: [(&str, &str); 4] = [
    ("app.0.md", "{ processes = 96, items = 5 }"),
    ("app.1.md", "{ processes = 96, items = 5 }"),
    ("app.0.nodes", "96"),
    ("app.1.nodes", "96"),
];
const READ: (&str, &str) = ("app.0.phases", "[\"read\"]");
const PROCESSES_64: (&str, &str) = ("app.0.ior.processes", "64");
const CALLS_128K: (&str, &str) = ("app.0.ior.transfer", "\"128KiB\"");
const EQUAL_256K: (&str, &str) = ("app.0.strips", "\"0:256K;1:256K;2:256K;3:256K\"");
const BY_SPEED: (&str, &str) = ("app.0.strips", "\"0:64K;1:64K;2:192K;3:192K\"");
/// What the paper finds for calls of 128 KiB.
const FAST_ONLY: [(&str, &str); 2] = [("app.0.servers", "[\"2-3\"]"), ("app.0.strips", "\"0:64K;1:64K\"")];
const FAST_1: [(&str, &str); 2] = [("servers.0.count", "3"), ("servers.1.count", "1")];
const FAST_3: [(&str, &str); 2] = [("servers.0.count", "1"), ("servers.1.count", "3")];
const BY_SPEED_3_1: (&str, &str) = ("app.0.strips", "\"0:64K;1:64K;2:64K;3:192K\"");
const BY_SPEED_1_3: (&str, &str) = ("app.0.strips", "\"0:64K;1:192K;2:192K;3:192K\"");
const FAST_ONLY_3_1: [(&str, &str); 2] = [("app.0.servers", "[\"3\"]"), ("app.0.strips", "\"0:64K\"")];
const FAST_ONLY_1_3: [(&str, &str); 2] = [("app.0.servers", "[\"1-3\"]"), ("app.0.strips", "\"0:64K;1:64K;2:64K\"")];
const BTIO: [(&str, &str); 4] = [
    ("app.0.ior", ""),
    ("app.0.phases", ""),
    ("app.0.nodes", "4"),
    (
        "app.0.btio",
        "{ class = \"c\", processes = 4, iterations = 20, total = \"320MiB\", transfer = \"4MiB\", \
         think_write = \"0s\", think_read = \"0s\" }",
    ),
];
const CLASS_C: (&str, &str) = ("app.0.btio.class", "\"c\"");
const CALLS_C: (&str, &str) = ("app.0.btio.transfer", "\"1MiB\"");
const NODES_C: (&str, &str) = ("app.0.nodes", "4");
const TOTAL_C: (&str, &str) = ("app.0.btio.total", "\"72MiB\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_scenarios_are_valid_and_each_row_refers_to_cases() {
        for experiment in ALL {
            let trials = experiment.trials().unwrap();
            let apps = |trial: &Trial| trial.scenario.apps.iter().map(|app| outcome(&app.name)).collect();
            let used = super::super::outcome::Used { processor_seconds: 1.0, seconds: 1.0, memory_bytes: 1 };
            let outcomes: Vec<_> = trials
                .iter()
                .map(|trial| {
                    (trial.key.clone(), Outcome { apps: apps(trial), proxies: Some(used), depth_series: vec![1.0; 29] })
                })
                .collect();
            let outcomes = outcomes.iter().map(|(key, outcome)| (key.as_str(), outcome)).collect();
            let cases = Cases { name: experiment.name, outcomes: &outcomes };
            for row in experiment.rows {
                assert!((row.value)(&cases).is_some(), "{}: {}", experiment.name, row.what);
            }
        }
    }

    fn outcome(name: &str) -> AppOutcome {
        let phases = ["write", "read", "mkdir", "create", "stat", "utime", "readdir", "unlink", "rmdir"];
        let rate = |phase: &str| super::super::outcome::PhaseRate {
            phase: phase.to_owned(),
            operations_per_second: 1.0,
            bytes_per_second: 1.0,
        };
        AppOutcome {
            name: name.to_owned(),
            seconds: 1.0,
            io_seconds: 1.0,
            bytes: 1,
            bytes_series: vec![1; 65],
            requests_series: vec![1; 19],
            operations: 1,
            mean_latency_seconds: 1.0,
            p95_latency_seconds: Some(1.0),
            phases: phases.map(rate).to_vec(),
        }
    }
}

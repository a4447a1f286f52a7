//! [HARL Fig. 7 to 10]: IOR with fixed, random and HARL's stripes.

use vpfs_harl::Op;
use vpfs_report::{Axis, Bar, Bars, Check, Section, Table, Verdict, number};
use vpfs_sim::SimError;

use super::cluster::Case;
use super::layouts::{Comparison, Layout, slowest};

const OPS: [Op; 2] = [Op::Read, Op::Write];
const WHY: &str = "the paper prints no hardware parameters; with those that give its stripes, assumed for all figures, \
                   disks read and write at one speed, so the gain is that of the busiest disk";

/// What the paper states of one experiment: its name, gains in %, and stripes in KiB.
struct Stated {
    case: Case,
    what: String,
    over_default: Option<f64>,
    over_fixed: Option<f64>,
    over_random: Option<f64>,
    stripes: Option<[f64; 2]>,
}

impl Stated {
    fn new(case: Case, what: impl Into<String>) -> Self {
        let what = format!("{}, {}", what.into(), case.op_name());
        Self { case, what, over_default: None, over_fixed: None, over_random: None, stripes: None }
    }
}

pub(super) fn layouts() -> Result<Section, SimError> {
    let stated = OPS.map(|op| {
        let (gains, stripes) = match op {
            Op::Read => ([73.4, 138.6, 154.5], [32.0, 160.0]),
            Op::Write => ([176.7, 177.6, 215.4], [36.0, 148.0]),
        };
        let [default, fixed, random] = gains.map(Some);
        Stated {
            over_default: default,
            over_fixed: fixed,
            over_random: random,
            stripes: Some(stripes),
            ..Stated::new(Case::default(op), "16 processes")
        }
    });
    section("HARL Fig. 7: IOR with different layouts", "Fig. 7", stated.into())
}

pub(super) fn processes() -> Result<Section, SimError> {
    let gains = [
        (8, [144.1, 104.8], [144.1, 116.4]),
        (32, [138.1, 182.2], [141.8, 182.7]),
        (128, [182.3, 168.5], [202.7, 192.8]),
        (256, [120.2, 235.1], [274.1, 268.3]),
    ];
    let stated = gains.into_iter().flat_map(|(processes, default, fixed)| {
        (0..2).map(move |op| Stated {
            over_default: Some(default[op]),
            over_fixed: Some(fixed[op]),
            ..Stated::new(Case { processes, ..Case::default(OPS[op]) }, format!("{processes} processes"))
        })
    });
    section("HARL Fig. 8: IOR by number of processes", "Fig. 8", stated.collect())
}

pub(super) fn requests() -> Result<Section, SimError> {
    let stated = OPS.into_iter().flat_map(|op| {
        let small = Stated {
            over_default: Some(if op == Op::Read { 80.1 } else { 147.1 }),
            stripes: Some([0.0, 64.0]),
            ..Stated::new(Case { request: 128 << 10, ..Case::default(op) }, "128 KiB")
        };
        [small, Stated::new(Case { request: 1 << 20, ..Case::default(op) }, "1024 KiB")]
    });
    section("HARL Fig. 9: IOR by size of requests", "Fig. 9", stated.collect())
}

pub(super) fn servers() -> Result<Section, SimError> {
    let stated = OPS.into_iter().flat_map(|op| {
        let many = Stated::new(Case { disks: 7, flash: 1, ..Case::default(op) }, "7 disk and 1 flash servers");
        let few = Stated {
            over_default: Some(if op == Op::Read { 474.9 } else { 180.3 }),
            ..Stated::new(Case { disks: 2, flash: 6, ..Case::default(op) }, "2 disk and 6 flash servers")
        };
        [many, few]
    });
    section("HARL Fig. 10: IOR by numbers of disk and flash servers", "Fig. 10", stated.collect())
}

fn section(heading: &str, figure: &str, stated: Vec<Stated>) -> Result<Section, SimError> {
    let mut section = Section::new(heading).text(
        "Throughput with equal stripes on all servers, with random ones, with those that HARL finds by the paper's \
         cost (each request alone), and with those that it finds when requests are priced together. Requests have random \
         offsets; each process has its own part of a shared file of 16 GiB.",
    );
    let mut checks = Vec::new();
    for stated in stated {
        let comparison = Comparison::of(stated.case)?;
        section = section.figure(chart(&stated.what, &comparison), "").table(table(&stated.what, &comparison));
        checks.extend(checks_of(figure, &stated, &comparison));
    }
    Ok(checks.into_iter().fold(section, Section::check))
}

fn chart(what: &str, comparison: &Comparison) -> Bars {
    let bars = Bars::new(what, Axis::linear("throughput", "MB/s"), comparison.all().map(|layout| layout.name()));
    bars.series("simulated", comparison.all().map(|layout| Bar::new(layout.rate)))
}

fn table(what: &str, comparison: &Comparison) -> Table {
    let row = |name: &str, layout: Layout, predicted: f64| {
        let gain = layout.rate / comparison.default_rate();
        [name.to_owned(), layout.name(), number(layout.rate), number(gain), number(predicted)]
    };
    Table::new([what, "stripes", "MB/s", "over 64K, simulated", "predicted"])
        .row(row("HARL, each request alone", comparison.paper.layout, comparison.paper.predicted))
        .row(row("HARL, requests together", comparison.concurrent.layout, comparison.concurrent.predicted))
}

fn checks_of(figure: &str, stated: &Stated, comparison: &Comparison) -> Vec<Check> {
    let what = |text: &str| format!("{}: {text}", stated.what);
    let gain = |text: &str, paper: Option<f64>, rate: f64| {
        let check = Check::of(figure, what(text)).within(paper?, comparison.gain_over(rate), 50.0).unit("%");
        Some(if check.verdict() == Verdict::Differs { check.because(WHY) } else { check })
    };
    let gains = [
        gain("gain over 64K", stated.over_default, comparison.default_rate()),
        gain("largest gain over fixed stripes", stated.over_fixed, slowest(&comparison.fixed)),
        gain("largest gain over random stripes", stated.over_random, slowest(&comparison.random)),
    ];
    let stripes = stated.stripes.into_iter().flat_map(|paper| {
        let ours = comparison.paper.layout.stripes.map(|stripe| (stripe >> 10) as f64);
        ["disks", "flash"].into_iter().zip(paper.into_iter().zip(ours)).map(|(class, (paper, ours))| {
            Check::of(figure, what(&format!("stripe of {class}, each request alone")))
                .between(ours, paper, paper)
                .paper(paper)
                .unit("KiB")
        })
    });
    let advised = comparison.concurrent;
    let over_default = advised.layout.rate / comparison.default_rate();
    let ours = [
        Check::of(figure, what("requests together, of 64K")).at_least(over_default * 100.0, 100.0).unit("%"),
        Check::of(figure, what("requests together: predicted gain, of the simulated one"))
            .between(advised.predicted / over_default * 100.0, 85.0, 115.0)
            .unit("%"),
    ];
    gains.into_iter().flatten().chain(stripes).chain(ours).collect()
}

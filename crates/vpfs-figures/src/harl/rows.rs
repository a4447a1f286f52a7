//! From what the paper states of its experiments to charts, tables and rows.

use vpfs_harl::Op;
use vpfs_report::{Axis, Bar, Bars, Check, Section, Table, Verdict, number};
use vpfs_sim::SimError;

use super::cluster::Job;
use super::layouts::{Advised, Comparison, Layout};

/// What HARL's layout is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Against {
    Default,
    Fixed,
    Random,
    /// Fixed and random stripes.
    Others,
}

/// An experiment and what the paper states of it.
pub(super) struct Stated {
    pub(super) what: String,
    pub(super) job: Job,
    /// The largest gains over other layouts, in %.
    pub(super) gains: Vec<(Against, f64)>,
    /// Stripes of disk and flash servers, in KiB.
    pub(super) stripes: Option<[u64; 2]>,
    /// Which classes hold the file, where no stripes are stated.
    pub(super) uses: Option<Uses>,
}

/// The servers on which the paper's file is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uses {
    Both,
    FlashOnly,
}

/// The smallest and the largest gain in several experiments, in %.
pub(super) struct Range {
    pub(super) op: Op,
    pub(super) against: Against,
    pub(super) least: f64,
    pub(super) largest: f64,
}

impl Against {
    fn name(self) -> &'static str {
        match self {
            Self::Default => "64K",
            Self::Fixed => "fixed stripes",
            Self::Random => "random stripes",
            Self::Others => "other layouts",
        }
    }

    fn layouts(self, comparison: &Comparison) -> Vec<&Layout> {
        match self {
            Self::Default => vec![comparison.default_layout()],
            Self::Fixed => comparison.fixed.iter().collect(),
            Self::Random => comparison.random.iter().collect(),
            Self::Others => comparison.fixed.iter().chain(&comparison.random).collect(),
        }
    }

    /// The smallest and the largest gain over these layouts in some experiments, in %.
    fn gains(self, comparisons: &[&Comparison]) -> [f64; 2] {
        let of = |comparison: &&Comparison| {
            self.layouts(comparison).into_iter().map(|layout| comparison.gain_over(layout)).collect::<Vec<_>>()
        };
        comparisons
            .iter()
            .flat_map(of)
            .fold([f64::INFINITY, f64::NEG_INFINITY], |[least, largest], gain| [least.min(gain), largest.max(gain)])
    }
}

impl Stated {
    pub(super) fn new(what: impl Into<String>, job: Job) -> Self {
        Self { what: what.into(), job, gains: Vec::new(), stripes: None, uses: None }
    }

    fn op_is(&self, op: Op) -> bool {
        self.what.ends_with(op_name(op))
    }
}

pub(super) fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
    }
}

/// The section of a figure with its experiments and what is stated of several together.
pub(super) fn section(
    section: Section,
    figure: &str,
    stated: &[Stated],
    ranges: &[Range],
) -> Result<Section, SimError> {
    let comparisons: Vec<Comparison> =
        stated.iter().map(|stated| Comparison::of(&stated.job)).collect::<Result<_, _>>()?;
    let both = || stated.iter().zip(&comparisons);
    let section = both().fold(section, |section, (stated, comparison)| {
        section.figure(chart(&stated.what, comparison), "").table(table(&stated.what, comparison))
    });
    let of_ranges = ranges.iter().flat_map(|range| {
        let own: Vec<&Comparison> =
            both().filter(|(stated, _)| stated.op_is(range.op)).map(|(_, comparison)| comparison).collect();
        range_checks(figure, range, &own)
    });
    let of_each = both().flat_map(|(stated, comparison)| checks(figure, stated, comparison));
    Ok(of_each.chain(of_ranges).fold(section, Section::check))
}

fn chart(what: &str, comparison: &Comparison) -> Bars {
    let bars = Bars::new(what, Axis::linear("throughput", "MB/s"), comparison.all().map(Layout::name));
    bars.series("simulated", comparison.all().map(|layout| Bar::new(layout.rate)))
}

fn table(what: &str, comparison: &Comparison) -> Table {
    let row = |name: &str, Advised { layout, predicted }: &Advised| {
        let gain = layout.rate / comparison.default_layout().rate;
        [name.to_owned(), layout.name(), number(layout.rate), number(gain), number(*predicted)]
    };
    Table::new([what, "stripes", "MB/s", "of 64K, simulated", "predicted"])
        .row(row("HARL as in the paper", &comparison.paper))
        .row(row("as vpfs advises", &comparison.concurrent))
}

fn checks(figure: &str, stated: &Stated, comparison: &Comparison) -> Vec<Check> {
    let what = |text: String| format!("{}: {text}", stated.what);
    let gain = |&(against, paper): &(Against, f64)| {
        let [_, largest] = against.gains(&[comparison]);
        let text = if against == Against::Default { "gain over" } else { "largest gain over" };
        let check = Check::of(figure, what(format!("{text} {}", against.name())));
        explained(check.within(paper, largest, 50.0).unit("%"), || why(against, paper, Some(comparison)))
    };
    let advised = &comparison.concurrent;
    let over_default = advised.layout.rate / comparison.default_layout().rate;
    let ours = [
        Check::of(figure, what("as vpfs advises, of 64K".into())).at_least(over_default * 100.0, 100.0).unit("%"),
        Check::of(figure, what("as vpfs advises, predicted gain of the simulated one".into()))
            .between(advised.predicted / over_default * 100.0, 85.0, 115.0)
            .unit("%"),
    ];
    stated.gains.iter().map(gain).chain(stripe_checks(figure, stated, comparison)).chain(ours).collect()
}

fn stripe_checks(figure: &str, stated: &Stated, comparison: &Comparison) -> Vec<Check> {
    let Some((_, ours)) = comparison.paper.layout.regions.first() else { return Vec::new() };
    let check = |class: &str| Check::of(figure, format!("{}: stripe of {class}", stated.what));
    let kib = |stripe: u64| (stripe >> 10) as f64;
    let of_class = |(index, class): (usize, &str)| {
        let ours = kib(ours[index]);
        let check = match (stated.stripes.map(|stripes| stripes[index] as f64), stated.uses) {
            (Some(paper), _) => check(class).between(ours, paper, paper).paper(paper),
            (None, Some(Uses::FlashOnly)) if class == "disks" => check(class).between(ours, 0.0, 0.0).paper(0.0),
            (None, Some(_)) => check(class).at_least(ours, 4.0),
            (None, None) => return None,
        };
        Some(check.unit("KiB").because("hardware assumed so that the paper's cost gives its stripes"))
    };
    ["disks", "flash"].into_iter().enumerate().filter_map(of_class).collect()
}

fn range_checks(figure: &str, range: &Range, comparisons: &[&Comparison]) -> [Check; 2] {
    let [least, largest] = range.against.gains(comparisons);
    [("smallest", range.least, least), ("largest", range.largest, largest)].map(|(name, paper, ours)| {
        let what = format!("{name} gain over {}, {}", range.against.name(), op_name(range.op));
        let check = Check::of(figure, what).within(paper, ours, 50.0).unit("%");
        explained(check, || why(range.against, paper, None))
    })
}

fn explained(check: Check, why: impl FnOnce() -> String) -> Check {
    if check.verdict() == Verdict::Differs { check.because(why()) } else { check }
}

/// Why a gain may differ from the paper's.
fn why(against: Against, paper: f64, comparison: Option<&Comparison>) -> String {
    if let (Against::Default, Some(most)) = (against, comparison.and_then(largest_possible))
        && paper > most
    {
        let part = 100.0 / (1.0 + most / 100.0);
        return format!(
            "with those stripes a disk serves {part:.0} % of what it serves with 64K: a start-up and a rate, the paper's \
             model, allow +{most:.0} % at most"
        );
    }
    match against {
        Against::Default => "the paper prints no hardware parameters".into(),
        Against::Fixed => "equal stripes of any size leave the same bytes to each disk; what made some of them slower \
                           than others in the paper is not stated"
            .into(),
        Against::Random | Against::Others => "the paper does not state which random stripes it tried".into(),
    }
}

/// The largest gain over the default, in %, that follows from the part of the bytes that a disk gets; `None` if disks
/// are not used, or if there is more than one region.
fn largest_possible(comparison: &Comparison) -> Option<f64> {
    let [(_, [disk, flash])] = comparison.paper.layout.regions[..] else { return None };
    let [disks, flashes] = comparison.servers;
    let round = disk * u64::from(disks) + flash * u64::from(flashes);
    let before = f64::from(disks + flashes);
    (disk > 0).then(|| (round as f64 / disk as f64 / before - 1.0) * 100.0)
}

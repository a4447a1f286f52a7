//! From what the paper states of its experiments to charts, tables and rows.

use vpfs_harl::Op;
use vpfs_report::{Axis, Bar, Bars, Check, Kind, Measured, Section, Table, number};
use vpfs_sim::SimError;

use super::cluster::{Job, TEXT};
use super::layouts::{Advised, Comparison, Layout};
use crate::scenario;

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

    /// Whether the paper does not say which layouts it compared with.
    fn is_unknown(self) -> bool {
        matches!(self, Self::Random | Self::Others)
    }

    /// The gain over the slowest of these layouts.
    fn largest(self, comparison: &Comparison) -> Measured {
        let gains = self.layouts(comparison).into_iter().map(|layout| Measured::of(comparison.gains_over(layout)));
        gains.max_by(|a, b| a.median().total_cmp(&b.median())).unwrap_or_else(|| Measured::of([]))
    }

    /// All gains over these layouts in some experiments.
    fn all(self, comparisons: &[&Comparison]) -> Measured {
        let of = |comparison: &&Comparison| {
            let layouts = self.layouts(comparison).into_iter();
            layouts.map(|layout| Measured::of(comparison.gains_over(layout)).median()).collect::<Vec<_>>()
        };
        Measured::of(comparisons.iter().flat_map(of))
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
    let with_random = |stated: &Stated| {
        let of_it = |range: &&Range| stated.op_is(range.op);
        let of_ranges = ranges.iter().filter(of_it).map(|range| range.against);
        stated.gains.iter().map(|(against, _)| *against).chain(of_ranges).any(Against::is_unknown)
    };
    let comparisons: Vec<Comparison> =
        stated.iter().map(|stated| Comparison::of(&stated.job, with_random(stated))).collect::<Result<_, _>>()?;
    let both = || stated.iter().zip(&comparisons);
    let section = both().fold(section, |section, (stated, comparison)| {
        section.figure(chart(&stated.what, comparison), caption(stated)).table(table(&stated.what, comparison))
    });
    let of_ranges = ranges.iter().flat_map(|range| {
        let own: Vec<&Comparison> =
            both().filter(|(stated, _)| stated.op_is(range.op)).map(|(_, comparison)| comparison).collect();
        range_checks(figure, range, &own)
    });
    let of_each = both().flat_map(|(stated, comparison)| checks(figure, stated, comparison));
    Ok(of_each.chain(of_ranges).fold(scenario::assumptions(section, TEXT), Section::check))
}

fn chart(what: &str, comparison: &Comparison) -> Bars {
    let bars = Bars::new(what, Axis::linear("throughput", "MB/s"), comparison.all().map(Layout::name));
    bars.series("simulated", comparison.all().map(|layout| Bar::from(layout.rate())))
}

/// The paper prints gains, no rates.
fn caption(stated: &Stated) -> String {
    let gains = stated.gains.iter().map(|(against, gain)| format!("+{} % over {}", number(*gain), against.name()));
    let gains: Vec<_> = gains.collect();
    if gains.is_empty() { String::new() } else { format!("HARL in the paper: {} at most.", gains.join(", ")) }
}

fn table(what: &str, comparison: &Comparison) -> Table {
    let row = |name: &str, Advised { layout, predicted }: &Advised| {
        let rate = layout.rate().median();
        let gain = rate / comparison.default_layout().rate().median();
        [name.to_owned(), layout.name(), number(rate), number(gain), number(*predicted)]
    };
    Table::new([what, "stripes", "MB/s", "of 64K, simulated", "predicted"])
        .row(row("HARL as in the paper", &comparison.paper))
        .row(row("as vpfs advises", &comparison.concurrent))
}

fn checks(figure: &str, stated: &Stated, comparison: &Comparison) -> Vec<Check> {
    let what = |text: String| format!("{}: {text}", stated.what);
    let default = stated.gains.iter().find(|(against, _)| *against == Against::Default).map(|(_, gain)| *gain);
    let gain = |&(against, paper): &(Against, f64)| {
        let text = if against == Against::Default { "gain over" } else { "largest gain over" };
        let row = Check::of(figure, what(format!("{text} {}", against.name())));
        let row = match against.is_unknown() {
            true => row.covers(paper, against.all(&[comparison])),
            false => row.within(paper, against.largest(comparison), 25.0),
        };
        let row = row.unit("%").because(why(against));
        let repeats = against == Against::Fixed && default == Some(paper);
        if repeats { row.is(Kind::Derived, "64K is the slowest of them in the paper") } else { row }
    };
    stated.gains.iter().map(gain).chain(stripe_checks(figure, stated, comparison)).collect()
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
        let chosen = "the cost model's parameters were chosen so that it gives the paper's stripes";
        Some(check.unit("KiB").is(Kind::Calibrated, chosen))
    };
    ["disks", "flash"].into_iter().enumerate().filter_map(of_class).collect()
}

fn range_checks(figure: &str, range: &Range, comparisons: &[&Comparison]) -> [Check; 2] {
    let all = range.against.all(comparisons);
    let [least, largest] = all.spread();
    [("smallest", range.least, least), ("largest", range.largest, largest)].map(|(name, paper, ours)| {
        let row = Check::of(figure, format!("{name} gain over {}, {}", range.against.name(), op_name(range.op)));
        let row = if range.against.is_unknown() { row.covers(paper, all) } else { row.within(paper, ours, 25.0) };
        row.unit("%").because(why(range.against))
    })
}

/// Why a gain may differ from the paper's.
fn why(against: Against) -> &'static str {
    match against {
        Against::Default => {
            "a disk reads chunks of 256 KiB, of which later requests find the rest in memory, so that its time goes by the \
             bytes that it has; what fits in memory is as fast as the links, which equal stripes use evenly"
        }
        Against::Fixed => {
            "equal stripes of any size leave the same bytes to each disk; what made some of them slower than others in \
             the paper is not stated"
        }
        Against::Random | Against::Others => {
            "the paper does not state which random stripes it tried: its value should lie among those of 100 pairs"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harl::ior::Case;
    use crate::scenario::perturbed::must_differ;

    /// With 64 KiB everywhere there is nothing gained.
    #[test]
    fn gains_need_the_advised_stripes() {
        let gains = vec![(Against::Default, 73.4)];
        let stated = Stated { gains, ..Stated::new("16 processes, read", Case::default(Op::Read).job().unwrap()) };
        let mut comparison = Comparison::of(&stated.job, false).unwrap();
        comparison.paper.layout = comparison.default_layout().clone();
        must_differ(&checks("Fig. 7", &stated, &comparison), |what| what.contains("gain"));
    }
}

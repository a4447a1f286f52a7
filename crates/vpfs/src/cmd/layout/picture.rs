//! A page with the requests, the regions and what their stripes gain.

use vpfs_harl::{Op, Request};
use vpfs_report::{Axis, Bar, Bars, Plot, Report, Section, Series, Table};

use super::advised::{Advised, shown};
use super::answer::Group;
use super::classes::Classes;
use super::show::{bytes_per_second, stripes};
use super::size::size;

/// The most requests that are drawn of a file; of more, an even sample.
const POINTS_MAX: usize = 4000;
/// The most regions that are drawn as bars.
const BARS_MAX: usize = 40;
const MB: f64 = 1e6;
const SECOND: f64 = 1e9;

/// A section for each file that is shown, and what is to be said of the others.
pub(super) fn report(classes: &Classes, shown: &[Group<'_>], rest: &[String]) -> Report {
    let report = Report::new("Layout advice").introduction(
        "Requests of the logs, the regions of similar requests that each file divides into, and the predicted throughput \
         of each region with its present and with the advised stripes.",
    );
    let report = shown.iter().map(|group| section(classes, group)).fold(report, Report::section);
    match rest {
        [] => report,
        lines => report.section(lines.iter().fold(Section::new("Other files"), Section::text)),
    }
}

fn section(classes: &Classes, group: &Group<'_>) -> Section {
    let advised = group.first;
    let section = group.others().into_iter().fold(Section::new(shown(&advised.name)), Section::text);
    let section = section
        .figure(requests(advised), "Each point is a request; vertical lines are borders of regions.")
        .table(table(classes, advised));
    let regions = &advised.advice.regions;
    if regions.len() > BARS_MAX {
        return section;
    }
    let names = regions.iter().map(|region| size(region.bytes.start));
    let throughput = |name: &str, time: fn(&vpfs_harl::RegionAdvice) -> u128| {
        let bars = regions.iter().map(|region| Bar::new(bytes_per_second(region, time(region)) / MB));
        (name.to_owned(), bars.collect::<Vec<_>>())
    };
    let all = [throughput("now", |region| region.time_now), throughput("advised", |region| region.advised.time)];
    let bars = Bars::new("Predicted throughput by region", Axis::linear("throughput", "MB/s"), names);
    let bars = all.into_iter().fold(bars, |bars, (name, values)| bars.series(name, values));
    section.figure(bars, "Regions by their first byte.")
}

fn requests(advised: &Advised) -> Plot {
    let all: Vec<&Request> = advised.runs.iter().flat_map(|(trace, _)| trace.requests()).collect();
    let every = all.len().div_ceil(POINTS_MAX).max(1);
    let of = |op| {
        let drawn = all.iter().step_by(every).filter(move |request| request.op == op);
        drawn.map(|request| (request.offset as f64 / MB, request.start as f64 / SECOND)).collect::<Vec<_>>()
    };
    let plot = Plot::new("Requests", Axis::linear("offset", "MB"), Axis::linear("time", "s"));
    let plot = [("reads", of(Op::Read)), ("writes", of(Op::Write))]
        .into_iter()
        .filter(|(_, points)| !points.is_empty())
        .fold(plot, |plot, (name, points)| plot.series(Series::scatter(name, points)));
    let borders = advised.advice.regions.iter().skip(1).take(BARS_MAX);
    borders.fold(plot, |plot, region| plot.reference_when(region.bytes.start as f64 / MB, ""))
}

fn table(classes: &Classes, advised: &Advised) -> Table {
    let heading = Table::new(["bytes", "requests", "mean size", "stripes", "now [MB/s]", "advised [MB/s]"]);
    advised.advice.regions.iter().fold(heading, |table, region| {
        table.row([
            format!("{} - {}", size(region.bytes.start), size(region.bytes.end)),
            region.requests.to_string(),
            size(region.mean_size),
            stripes(classes, &region.advised.stripes),
            format!("{:.1}", bytes_per_second(region, region.time_now) / MB),
            format!("{:.1}", bytes_per_second(region, region.advised.time) / MB),
        ])
    })
}

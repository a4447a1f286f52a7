//! Which files of the logs an answer is about: a run of an application reads hundreds of small files, and what is worth
//! doing must not drown in them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::str::FromStr;

use vpfs_config::units::parse_size;
use vpfs_core::Bytes;
use vpfs_harl::{Op, Request, Trace};
use vpfs_report::{Axis, Bar, Bars, Plot, Report, Section, Series, Table};
use vpfs_testbed::CreateOptions;
use vpfs_testbed::fsconfig::FsConfig;

use super::logs::Classes;
use super::{Advised, bytes_per_second, shown, size, stripes};
use crate::cmd::workload::variable_strips;
use crate::exit::Exit;

/// The most files that are shown.
const SHOWN_MAX: usize = 20;

/// The most names of files that get the same stripes.
const NAMES_MAX: usize = 3;

/// The rest of the files is not shown as soon as it gains less than this together, in percent of what all gain: no
/// prediction is more accurate.
const REST_PERCENT: u128 = 10;

/// All files of the logs.
pub(super) struct Answer {
    /// Those for which stripes were searched, what gains most time first.
    pub(super) files: Vec<Advised>,
    /// Those that one stripe of the layout now holds: they lie on one server, whatever the stripes are.
    pub(super) small: Vec<Small>,
    /// Whether the user named the file.
    is_named: bool,
}

/// A file that stripes make no difference to.
pub(super) struct Small {
    pub(super) name: String,
    pub(super) moved: u128,
}

/// Files that get the same stripes, as those of each process usually do; what gains most time first.
pub(super) struct Group<'a> {
    pub(super) first: &'a Advised,
    others: Vec<&'a Advised>,
    gained: u128,
}

/// Files that are not shown.
#[derive(Default)]
struct Rest {
    files: usize,
    moved: u128,
}

impl Answer {
    pub(super) fn new(mut files: Vec<Advised>, small: Vec<Small>, is_named: bool) -> Self {
        files.sort_by(|one, other| {
            let order = |file: &Advised| (Reverse(gained(file)), Reverse(file.moved()));
            order(one).cmp(&order(other)).then_with(|| one.name.cmp(&other.name))
        });
        Self { files, small, is_named }
    }

    /// What is shown: files that gain, or the only one there is.
    pub(super) fn shown(&self) -> Vec<Group<'_>> {
        if self.is_named || self.files.len() + self.small.len() == 1 {
            return self.files.iter().map(Group::new).collect();
        }
        let mut groups = self.groups();
        let all: u128 = groups.iter().map(|group| group.gained).sum();
        let mut rest = all;
        groups.retain(|group| {
            let is_shown = rest.saturating_mul(100) > all.saturating_mul(REST_PERCENT);
            rest -= group.gained;
            is_shown
        });
        groups.truncate(SHOWN_MAX);
        groups
    }

    /// Files that are worth another layout, those with the same stripes together; what gains most first.
    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        let mut places: HashMap<Vec<(u64, &[u64])>, usize> = HashMap::new();
        for file in self.files.iter().filter(|file| file.advice.is_worth_it()) {
            let rows = file.advice.table.rows().iter();
            let own: Vec<_> = rows.map(|row| (row.bytes.start, row.stripes.as_slice())).collect();
            match places.get(&own) {
                Some(&place) => groups[place].add(file),
                None => {
                    places.insert(own, groups.len());
                    groups.push(Group::new(file));
                }
            }
        }
        groups.sort_by_key(|group| Reverse(group.gained));
        groups
    }

    /// What is to be said of the files that are not shown; `stripe` is that of the layout now.
    pub(super) fn rest(&self, stripe: u64) -> Vec<String> {
        let shown = self.shown();
        let (mut kept, mut gaining) = (Rest::default(), Rest::default());
        self.small.iter().for_each(|file| kept.add(1, file.moved));
        self.groups().iter().skip(shown.len()).for_each(|group| gaining.add(group.others.len() + 1, group.moved()));
        let is_shown = |file: &Advised| shown.iter().any(|group| group.first.name == file.name);
        let others = self.files.iter().filter(|file| !file.advice.is_worth_it() && !is_shown(file));
        others.for_each(|file| kept.add(1, file.moved()));
        let mut lines = Vec::new();
        if shown.len() == SHOWN_MAX && gaining.files > 0 {
            let what = gaining.in_words("more ");
            lines.push(format!("{what}, would gain as well: --file shows one of them, --json all."));
        } else {
            kept.add(gaining.files, gaining.moved);
        }
        match (kept.files, shown.is_empty()) {
            (0, _) => {}
            (_, false) => lines.push(format!("{}: {}", kept.in_words("more "), kept.leave())),
            (files, true) if files == self.small.len() => {
                let (what, stripe) = (kept.in_words(""), size(stripe));
                let each = if files == 1 { "holds it" } else { "holds each of them" };
                lines.push(format!("Nothing is to be gained: {what}, and one stripe of {stripe} {each}."));
            }
            (_, true) => {
                lines.push(format!("Nothing is to be gained: {}; {}", kept.in_words(""), kept.leave()));
            }
        }
        lines
    }
}

impl<'a> Group<'a> {
    fn new(first: &'a Advised) -> Self {
        Self { first, others: Vec::new(), gained: gained(first) }
    }

    fn add(&mut self, file: &'a Advised) {
        self.others.push(file);
        self.gained += gained(file);
    }

    fn moved(&self) -> u128 {
        self.first.moved() + self.others.iter().map(|file| file.moved()).sum::<u128>()
    }

    /// `The same stripes for 39 more files, 54.6 MiB together: /a, /b, /c and others.`
    pub(super) fn others(&self) -> Option<String> {
        let mut rest = Rest::default();
        self.others.iter().for_each(|file| rest.add(1, file.moved()));
        let names: Vec<String> = self.others.iter().take(NAMES_MAX).map(|file| shown(&file.name)).collect();
        let more = if names.len() < self.others.len() { " and others" } else { "" };
        let (what, names) = (rest.in_words("more "), names.join(", "));
        (rest.files > 0).then(|| format!("The same stripes for {what}: {names}{more}."))
    }
}

impl Rest {
    fn add(&mut self, files: usize, moved: u128) {
        self.files += files;
        self.moved += moved;
    }

    fn leave(&self) -> &'static str {
        if self.files == 1 { "leave it as it is." } else { "leave them as they are." }
    }

    /// `146 more files, 1.2 GiB together`.
    fn in_words(&self, more: &str) -> String {
        let moved = size(u64::try_from(self.moved).unwrap_or(u64::MAX));
        match self.files {
            1 => format!("1 {more}file, {moved}"),
            files => format!("{files} {more}files, {moved} together"),
        }
    }
}

/// The predicted time that a file gains.
fn gained(file: &Advised) -> u128 {
    let (now, then) = file.advice.times();
    if file.advice.is_worth_it() { now.saturating_sub(then) } else { 0 }
}

impl Small {
    /// The file of these runs, if one stripe holds it.
    pub(super) fn of(name: &str, runs: &[(Trace, u32)], stripe: u64) -> Option<Self> {
        let is_small = runs.iter().all(|(trace, _)| trace.extent() <= stripe);
        let moved = |(trace, weight): &(Trace, u32)| {
            trace.requests().iter().map(|request| u128::from(request.size)).sum::<u128>() * u128::from(*weight)
        };
        is_small.then(|| Self { name: name.to_owned(), moved: runs.iter().map(moved).sum() })
    }
}

/// The most requests that are drawn of a file; of more, an even sample.
const POINTS_MAX: usize = 4000;

/// The most regions that are drawn as bars.
const BARS_MAX: usize = 40;

const MB: f64 = 1e6;

const SECOND: f64 = 1e9;

/// A section for each file that is shown, and what is to be said of the others.
pub(super) fn picture_report(classes: &Classes, shown: &[Group<'_>], rest: &[String]) -> Report {
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

/// The strip of a server: `36KiB`, or `tcp://oss1:3334=36KiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strip {
    address: Option<String>,
    size: Bytes,
}

impl FromStr for Strip {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, size) = match text.rsplit_once('=') {
            Some((address, size)) => (Some(address.to_owned()), size),
            None => (None, text),
        };
        let size = parse_size(size).map_err(|error| error.to_string())?;
        if size.0 > 1 << 30 { Err("a strip is at most 1GiB".to_owned()) } else { Ok(Self { address, size }) }
    }
}

impl Strip {
    /// The layout of a file with these strips: equal ones on all servers, or one for each server of the list.
    pub(super) fn layout(strips: &[Self], config: &FsConfig) -> Result<CreateOptions, Exit> {
        if let [Self { address: None, size }] = strips
            && size.0 > 0
        {
            return Ok(CreateOptions::simple_stripe(size.0));
        }
        let placed = strips.iter().enumerate().map(|(index, strip)| Ok((strip.server(index, config)?, strip.size)));
        let placed = placed.collect::<Result<Vec<_>, Exit>>()?;
        let mut servers: Vec<usize> = placed.iter().filter(|(_, size)| size.0 > 0).map(|(server, _)| *server).collect();
        servers.sort_unstable();
        if servers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Exit::Usage("--strip: a server has two strips; give each server one".to_owned()));
        }
        variable_strips(placed)
    }

    /// The index of its server in the configuration.
    fn server(&self, index: usize, config: &FsConfig) -> Result<usize, Exit> {
        let known = || config.servers.iter().map(|server| server.address.as_str()).collect::<Vec<_>>().join(", ");
        let found = match &self.address {
            Some(address) => config.servers.iter().position(|server| server.address == *address),
            None => Some(index).filter(|index| *index < config.servers.len()),
        };
        found.ok_or_else(|| {
            let which = self.address.clone().unwrap_or_else(|| format!("number {}", index + 1));
            Exit::Usage(format!("--strip: there is no server {which}; the servers are {}", known()))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vpfs_harl::{Access, Cluster, Model, Op, Question, RegionStripeTable, Request, Row, ServerClass, advise};

    use super::*;

    fn cluster() -> Cluster {
        let class = |name: &str, micros, rate| {
            let access = Access::new(Duration::from_micros(micros), Duration::from_micros(micros), rate).unwrap();
            ServerClass { name: name.into(), servers: 2, read: access, write: access, free: None }
        };
        Cluster::new(vec![class("disk", 5000, 100_000_000), class("flash", 50, 1_000_000_000)], 1_000_000_000).unwrap()
    }

    /// A file that is read in a number of requests of a size.
    fn file(name: &str, requests: u64, size: u64) -> Advised {
        let request = |at| Request { rank: 0, op: Op::Read, offset: at * size, size, start: 0, end: 0 };
        let runs = vec![(Trace::new((0..requests).map(request).collect()).unwrap(), 1)];
        let question = Question::new(Model::Concurrent, 100_000);
        let advice = advise(&cluster(), &runs, &question).unwrap();
        Advised { name: name.into(), runs, question, advice }
    }

    /// A file of 100 bytes.
    fn small(name: &str) -> Small {
        let request = Request { rank: 0, op: Op::Read, offset: 0, size: 100, start: 0, end: 0 };
        Small::of(name, &[(Trace::new(vec![request]).unwrap(), 1)], 64 << 10).unwrap()
    }

    fn names(answer: &Answer) -> Vec<(&str, usize)> {
        answer.shown().iter().map(|group| (group.first.name.as_str(), group.others.len())).collect()
    }

    #[test]
    fn what_gains_most_comes_first_and_the_rest_is_a_line() {
        let files = vec![file("a", 2, 64 << 10), file("b", 64, 1 << 20), file("c", 256, 2 << 20)];
        let answer = Answer::new(files, (0..143).map(|number| small(&number.to_string())).collect(), false);
        assert_eq!(names(&answer), [("c", 0), ("b", 0)]);
        assert_eq!(answer.rest(64 << 10), ["144 more files, 142.0 KiB together: leave them as they are."]);
    }

    #[test]
    fn the_files_of_each_process_are_one() {
        let files = (0..50).map(|number| file(&format!("rank.{number:02}"), 64, 1 << 20)).collect();
        let answer = Answer::new(files, Vec::new(), false);
        assert_eq!((names(&answer), answer.rest(64 << 10)), (vec![("rank.00", 49)], Vec::new()));
        let others = "The same stripes for 49 more files, 3.1 GiB together: rank.01, rank.02, rank.03 and others.";
        assert_eq!(answer.shown()[0].others().as_deref(), Some(others));
    }

    #[test]
    fn not_more_than_a_page_is_shown_but_what_gains_is_counted() {
        let other_stripes = |number: u64| {
            let mut file = file(&number.to_string(), 64, 1 << 20);
            file.advice.table =
                RegionStripeTable::new([Row { bytes: 0..64 << 20, stripes: vec![0, (1 + number) << 12] }]);
            file
        };
        let files = (0..30).map(other_stripes).collect();
        let answer = Answer::new(files, vec![small("small")], false);
        assert_eq!(answer.shown().len(), SHOWN_MAX);
        let rest = answer.rest(64 << 10);
        assert!(
            rest[0].starts_with("10 more files, ") && rest[0].contains("would gain as well: --file shows"),
            "{rest:?}"
        );
        assert_eq!(rest[1], "1 more file, 100 B: leave it as it is.");
    }

    #[test]
    fn a_named_or_only_file_is_shown_even_if_it_gains_nothing() {
        let kept = || {
            let mut file = file("a", 64, 1 << 20);
            file.advice.regions.iter_mut().for_each(|region| region.is_kept = true);
            file
        };
        let only = Answer::new(vec![kept()], Vec::new(), false);
        assert_eq!((names(&only), only.rest(65_536)), (vec![("a", 0)], Vec::new()));
        let named = Answer::new(vec![kept()], Vec::new(), true);
        assert_eq!(named.shown().len(), 1);
        let several = Answer::new(vec![kept()], vec![small("b")], false);
        assert_eq!(names(&several), []);
        assert_eq!(
            several.rest(65_536),
            ["Nothing is to be gained: 2 files, 64.0 MiB together; leave them as they are."]
        );
        let tiny = Answer::new(Vec::new(), vec![small("a"), small("b")], false);
        assert_eq!(
            tiny.rest(65_536),
            ["Nothing is to be gained: 2 files, 200 B together, and one stripe of 64 KiB holds each of them."]
        );
    }

    fn strips(list: &str) -> Result<Vec<Strip>, String> {
        list.split(',').map(str::parse).collect()
    }

    fn layout(list: &str) -> Result<CreateOptions, String> {
        let config = FsConfig::new("pfs", &["tcp://127.0.0.1:1".to_owned(), "tcp://127.0.0.1:2".to_owned()]);
        Strip::layout(&strips(list)?, &config).map_err(|exit| match exit {
            Exit::Usage(message) => message,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn servers_are_given_by_order_or_address() {
        let both = CreateOptions::variable_strips("0:36864;1:151552").on_servers(vec![0, 1]);
        assert_eq!(layout("36KiB,148KiB"), Ok(both.clone()));
        assert_eq!(layout("tcp://127.0.0.1:1=36KiB,tcp://127.0.0.1:2=148KiB"), Ok(both));
        let swapped = CreateOptions::variable_strips("0:151552;1:36864").on_servers(vec![1, 0]);
        assert_eq!(layout("tcp://127.0.0.1:2=148KiB,tcp://127.0.0.1:1=36KiB"), Ok(swapped));
        let one = CreateOptions::variable_strips("0:65536").on_servers(vec![1]);
        assert_eq!(layout("0B,64KiB"), Ok(one));
        assert_eq!(layout("64KiB"), Ok(CreateOptions::simple_stripe(65536)));
    }

    #[test]
    fn impossible_strips_say_what_would_help() {
        let problem = |list| layout(list).unwrap_err();
        assert!(problem("1KiB,1KiB,1KiB").contains("no server number 3; the servers are tcp://127.0.0.1:1"));
        assert!(problem("tcp://oss9:1=1KiB").contains("no server tcp://oss9:1"));
        assert!(problem("tcp://127.0.0.1:1=1KiB,tcp://127.0.0.1:1=1KiB").contains("two strips"));
        assert!(problem("0B").contains("at least one"));
        assert!(problem("2GiB").contains("at most 1GiB"));
        assert!(problem("tcp://127.0.0.1:1=").contains("write for example"), "{}", problem("tcp://127.0.0.1:1="));
    }
}

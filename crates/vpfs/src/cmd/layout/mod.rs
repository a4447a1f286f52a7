//! `vpfs layout`: how files are spread over servers that differ.

mod system;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Subcommand, ValueEnum};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table as TextTable};
use serde_json::{Value, json};
use system::System;
use vpfs_config::units::{Size, parse_size};
use vpfs_core::Bytes;
use vpfs_harl::{Advice, AdviceError, BUDGET, Model, NoSpace, Op, Question, RegionAdvice, Request, Row, Trace, advise};
use vpfs_report::{Axis, Bar, Bars, Plot, Report, Section, Series, Table};
use vpfs_testbed::fsconfig::FsConfig;
use vpfs_testbed::relayout::{Options, OrangefsRelayout, Progress, Relayout, RelayoutError, Summary};
use vpfs_testbed::{Client, ClientOptions, CreateOptions};

use crate::cmd::logs::{Classes, Logs, Runs, some_size};
use crate::cmd::mount::Regions;
use crate::cmd::workload;
use crate::cmd::workload::{ProgressLine, variable_strips};
use crate::print;
use crate::print::{Exit, plain, print};

/// Spread files better over servers that differ
#[derive(clap::Args)]
pub(crate) struct Layout {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Advise(Advise),
    Check(Check),
    Copy(CopyArgs),
    Join(Join),
}

impl Layout {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Command::Advise(advise) => advise.run(),
            Command::Check(check) => check.run(),
            Command::Copy(copy) => copy.run(),
            Command::Join(join) => join.run(),
        }
    }
}

/// The least of [`BUDGET`] for one file, so that the search is of use for each.
const BUDGET_MIN: u64 = 20_000;

/// Advise stripes for each region of a file and each class of server, from logs of its requests
///
/// TRACE is a Darshan log with DXT, the output of `darshan-dxt-parser`, an iolog of fio, or a table: CSV
/// (rank,op,offset,size,time,end,file; only op, offset and size must be there), or what other tracers write with such
/// columns. Each may be compressed with gzip, bzip2, zstd or xz. Several are runs of the same applications, and the
/// layout suits all of them. What gains most is shown first, and files that gain nothing worth it are only counted.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs layout advise run.csv --servers classes.toml\n  \
    vpfs layout advise run.csv --servers disk.toml --servers flash.toml --servers network.toml\n  \
    vpfs layout advise job.darshan --servers classes.toml --html layout.html\n  \
    vpfs layout advise msr.csv.gz --columns time=1,op=4,offset=5,size=6 --time-unit filetime --servers classes.toml\n  \
    vpfs layout advise night.csv day.csv --weights 1,5 --servers classes.toml --for orangefs\n  \
    vpfs layout advise run.csv --file /scratch/a.h5 --servers classes.toml --for lustre-yaml --script a.lyl")]
struct Advise {
    #[command(flatten)]
    logs: Logs,

    /// The classes of servers, as `vpfs profile class` and `vpfs profile network` write them; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    servers: Vec<PathBuf>,

    /// How often each run occurs, in the order of the logs [default: all equally often]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    weights: Vec<u32>,

    /// Only this file of the logs
    #[arg(long, value_name = "NAME")]
    file: Option<String>,

    /// The stripe of every server now
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = some_size)]
    now: Bytes,

    /// All stripes are multiples of this
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = some_size)]
    step: Bytes,

    /// How requests are priced: with those that are outstanding at the same time, or each alone, as in the paper
    #[arg(long, value_name = "MODEL", default_value = "concurrent")]
    model: ModelName,

    /// Requests outstanding at the same time [default: as in the logs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    outstanding: Option<u64>,

    /// Also print what an administrator sets in this file system, within its rules, and what those cost
    #[arg(long = "for", value_name = "SYSTEM")]
    system: Option<System>,

    /// Write what --for prints to this file instead
    #[arg(long, value_name = "FILE", requires = "system")]
    script: Option<PathBuf>,

    /// Replace the file of --script if it exists
    #[arg(long, requires = "script")]
    overwrite: bool,

    /// Write a picture of requests, regions and stripes to this file, an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the advice to this file; "-" for standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelName {
    Concurrent,
    Paper,
}

impl Advise {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let classes = Classes::read(&self.servers)?;
        if let Some(script) = &self.script {
            print::check_new_file(script, self.overwrite)?;
        }
        let files = self.logs.read(&self.weights()?, self.file.as_deref())?;
        let requests = |runs: &Runs| runs.iter().map(|(trace, _)| trace.requests().len() as u64).sum::<u64>();
        let all: u64 = files.values().map(requests).sum();
        let (mut advised, mut small) = (Vec::new(), Vec::new());
        for (name, runs) in files {
            if let Some(file) = Small::of(&name, &runs, self.now.0).filter(|_| self.file.is_none()) {
                small.push(file);
                continue;
            }
            let question = self.question(requests(&runs), all);
            let advice = advise(&classes.cluster, &runs, &question).map_err(|error| no_advice(&name, &error))?;
            advised.push(Advised { name, runs, question, advice });
        }
        self.show(&classes, &Answer::new(advised, small, self.file.is_some()))
    }

    fn weights(&self) -> Result<Vec<u32>, Exit> {
        match self.weights.len() {
            0 => Ok(vec![1; self.logs.traces.len()]),
            given if given == self.logs.traces.len() => Ok(self.weights.clone()),
            given => Err(Exit::Usage(format!(
                "--weights has {given} numbers for {} logs; give one for each",
                self.logs.traces.len()
            ))),
        }
    }

    /// For a file with some of all requests.
    fn question(&self, requests: u64, all: u64) -> Question {
        let model = match self.model {
            ModelName::Concurrent => Model::Concurrent,
            ModelName::Paper => Model::Paper,
        };
        Question {
            outstanding_milli: self.outstanding.map(|number| number * 1000),
            now: self.now.0,
            step: self.step.0,
            ..Question::new(model, (BUDGET * requests / all.max(1)).max(BUDGET_MIN))
        }
    }

    fn show(&self, classes: &Classes, answer: &Answer) -> Result<(), Exit> {
        let shown = answer.shown();
        if let Some(page) = &self.html {
            workload::write_text(page, &picture_report(classes, &shown, &answer.rest(self.now.0)).html())?;
        }
        let is_printed = self.json.as_deref().is_some_and(|file| file.as_os_str() == "-");
        if let Some(file) = &self.json {
            workload::write_output(file, &advice_json(classes, answer))?;
        }
        if !is_printed {
            let texts = shown.iter().map(|group| advice_text(classes, group)).chain(answer.rest(self.now.0));
            print(texts.collect::<Vec<_>>().join("\n\n"))?;
        }
        let Some(system) = self.system else { return Ok(()) };
        let texts = shown.iter().map(|group| system.of_group(classes, group)).collect::<Result<Vec<_>, _>>()?;
        let text = match texts.concat() {
            none if none.is_empty() => "# Nothing is to be gained: keep the layouts.\n".to_owned(),
            text => text,
        };
        match &self.script {
            Some(script) => print::write_new_file(script, &text, self.overwrite),
            None => print(text.trim_end()),
        }
    }
}

/// A file with the runs that use it and the advice for it.
struct Advised {
    name: String,
    runs: Vec<(Trace, u32)>,
    question: Question,
    advice: Advice,
}

impl Advised {
    /// Bytes that all runs move, each as often as its weight.
    fn moved(&self) -> u128 {
        self.advice.regions.iter().map(|region| region.moved).sum()
    }
}

/// Why there is no advice for a file.
fn no_advice(name: &str, error: &AdviceError) -> Exit {
    let name = shown(name);
    Exit::Failed(match error {
        AdviceError::NoSpace(NoSpace { class, needed, free }) => format!(
            "{name}: no layout fits the space of class {class:?}: each of its servers would hold {}, but {} are free; free \
             some space, or add servers",
            size(*needed),
            size(*free)
        ),
        error => format!("{name}: {error}"),
    })
}

/// A file's name in a line of text. Logs come from anybody, and what is printed may be run by an administrator: a name
/// with a line break must not become a command.
fn shown(name: &str) -> String {
    if name.is_empty() {
        return "(a file without a name)".to_owned();
    }
    let escape = |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.into() };
    name.chars().map(escape).collect()
}

/// Find region files without a file, and files whose regions are not as they should be
///
/// For a source of `vpfs mount --regions`, after a crash of the daemon or the host. What a crash leaves costs space
/// only, and --fix removes it, unless some map cannot be read. Exits with 1 if anything is left to be done.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  vpfs layout check /mnt/pfs --regions regions.toml --fix")]
pub(crate) struct Check {
    /// The directory that is mounted
    source: PathBuf,

    /// Where regions of files lie
    #[arg(long, value_name = "FILE")]
    regions: PathBuf,

    /// Fix what can be fixed; nobody may have it mounted, on any host
    #[arg(long)]
    fix: bool,
}

impl Check {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let regions = Regions::read(&self.regions)?;
        let report = vpfs_overlay::check(&self.source, &regions.classes, self.fix)
            .map_err(|error| Exit::Failed(format!("cannot check {}: {error}", self.source.display())))?;
        for (finding, is_fixed) in &report.findings {
            print(format!("{}{}", plain(&finding.to_string()), if *is_fixed { "; fixed" } else { "" }))?;
        }
        print(format!("{} files with regions, {} findings", report.maps, report.findings.len()))?;
        match report.findings.iter().filter(|(_, is_fixed)| !is_fixed).count() {
            0 => Ok(()),
            left if self.fix => Err(Exit::Failed(format!("{left} findings must be fixed by hand"))),
            left => Err(Exit::Failed(format!("{left} findings; --fix fixes what can be fixed"))),
        }
    }
}

/// Rewrite a file with a new layout: copy it, verify the copy, and rename it
///
/// The layout is that of new files in TARGET's directory, that of the empty file TARGET with --fill, or on OrangeFS
/// without a mounted client (--url) that of --strip. The new file gets its name only after both files were read again
/// and found equal. If the command is interrupted, run it again: it resumes. Owner, mode, times and extended attributes
/// are kept, and holes stay holes (with --url, neither of the latter two).
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs layout copy data.h5 /scratch/new-layout/            into a directory that has the layout\n  \
    vpfs layout copy data.h5 /scratch/new-layout/ --replace  and the new file becomes data.h5\n  \
    lfs setstripe -E 1G -S 1M -E eof -S 4M new.h5 && vpfs layout copy data.h5 new.h5 --fill\n  \
    vpfs layout copy /data.h5 /data.h5 --replace \\\n      \
        --url tcp://oss1:3334/orangefs --strip 36KiB,36KiB,148KiB,148KiB")]
struct CopyArgs {
    /// The file
    source: PathBuf,

    /// The new file, or a directory in which it gets SOURCE's name
    target: PathBuf,

    /// At the end, replace SOURCE by the new file in one step
    #[arg(long)]
    replace: bool,

    /// TARGET is an empty file that was created with the layout
    #[arg(long)]
    fill: bool,

    /// Discard an unfinished copy and start again
    #[arg(long)]
    restart: bool,

    /// Write zeros where SOURCE has holes, for file systems that do not count holes (OrangeFS with varstrip_dist)
    #[arg(long)]
    fill_holes: bool,

    /// Go on if the file system refuses owner, mode, times or extended attributes
    #[arg(long)]
    allow_loss: bool,

    /// Copy in this OrangeFS file system, without a mounted client, as the user who runs this command:
    /// tcp://HOST:PORT/NAME of any one server. SOURCE and TARGET are absolute paths in it. Nobody else may write to
    /// SOURCE meanwhile
    #[arg(long, value_name = "URL", requires = "strip", conflicts_with_all = ["fill", "fill_holes"])]
    url: Option<String>,

    /// The new file's strip on each server, in the order of the servers' configuration or with their addresses
    /// (tcp://oss1:3334=36KiB,...), 0B for none; or one for all
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', requires = "url")]
    strip: Vec<Strip>,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

impl CopyArgs {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let options = Options {
            replace: self.replace,
            fill: self.fill,
            restart: self.restart,
            fill_holes: self.fill_holes,
            allow_loss: self.allow_loss,
            ..Options::default()
        };
        let line = ProgressLine::start(self.quiet);
        let show = |progress| line.show(|| describe(progress));
        let copied = match &self.url {
            Some(url) => crate::cmd::runtime()?.block_on(self.in_orangefs(url, options, show)),
            None => Relayout::open(&self.source, &self.target, options).and_then(|copy| copy.run(show)).map_err(exit),
        };
        line.clear();
        let summary = copied?;
        summary.warnings.iter().for_each(|warning| eprintln!("vpfs: warning: {warning}"));
        print(conclusion(&summary))
    }

    async fn in_orangefs(&self, url: &str, options: Options, show: impl FnMut(Progress)) -> Result<Summary, Exit> {
        let (uid, gid) = user();
        let client = Client::connect(ClientOptions { uid, gids: vec![gid], ..ClientOptions::new(url) }).await;
        let client = client.map_err(|error| Exit::Failed(error.to_string()))?;
        let layout = Strip::layout(&self.strip, client.fs_config())?;
        let (source, target) = (absolute(&self.source)?, absolute(&self.target)?);
        let copy = OrangefsRelayout::open(client, source, target, layout, options).await.map_err(exit)?;
        copy.run(show).await.map_err(exit)
    }
}

/// A path in a file system that is not mounted.
fn absolute(path: &Path) -> Result<&str, Exit> {
    path.to_str().filter(|path| path.starts_with('/')).ok_or_else(|| {
        Exit::Usage(format!("with --url, {} must be an absolute path in that file system, in UTF-8", path.display()))
    })
}

fn user() -> (u32, u32) {
    std::fs::metadata("/proc/self").map_or((0, 0), |own| (own.uid(), own.gid()))
}

fn describe(Progress { verifying, done, all }: Progress) -> String {
    let percent = (u128::from(done) * 100).checked_div(u128::from(all)).unwrap_or(100);
    let action = if verifying { "comparing" } else { "copying" };
    format!("{action}: {percent} % of {}", Size(Bytes(all)))
}

fn conclusion(summary: &Summary) -> String {
    format!("{}: {} bytes, verified, sha256 {}", summary.destination.display(), summary.size, summary.sha256)
}

fn exit(error: RelayoutError) -> Exit {
    match error {
        RelayoutError::Differs { .. } | RelayoutError::NotConfirmed(_) => Exit::Corrupt(error.to_string()),
        error => Exit::Failed(error.to_string()),
    }
}

// What an administrator sets in OrangeFS: hints of a directory, which new files in it inherit.

/// The longest parameters that OrangeFS reads.
const PARAMETERS_MAX: usize = 1000;

/// Commands for the file, and for each region if files of their own for those gain enough: OrangeFS has one
/// distribution for a file.
fn commands(classes: &Classes, advised: &Advised) -> Result<String, Exit> {
    let advice = &advised.advice;
    let mut text = format!("\n# OrangeFS: hints for {}\n", shown(&advised.name));
    if !advice.is_worth_it() {
        return Ok(text + "# Nothing is to be gained: keep the layout.\n");
    }
    let whole = match advice.table.rows() {
        [_] => advice.clone(),
        _ => whole(classes, advised)?,
    };
    let (now, then) = whole.times();
    let split = advice.times().1;
    if whole.is_worth_it() {
        text += "# Nothing is rounded. Values end in a NUL byte, as OrangeFS needs it; so they are written in hexadecimal. Set them\n\
                 # on an empty directory of a mounted client, before files are created in it.\n";
        text += &region(classes, &advised.name, &whole.table.rows()[0])?;
    } else {
        text += "# One distribution for all of the file gains nothing.\n";
    }
    let best = if whole.is_worth_it() { then } else { now };
    if split.saturating_mul(100 + u128::from(advised.question.gain_percent)) > best.saturating_mul(100) {
        return Ok(text);
    }
    text += &format!(
        "\n# With a file of its own for each region, which the application must know, the predicted time is {} of that.\n",
        percent(split, best)
    );
    for (row, file) in advice.table.rows().iter().zip(advice.table.files(&advised.name)) {
        text += &region(classes, &file, row)?;
    }
    Ok(text)
}

/// The best for a file that cannot be split.
fn whole(classes: &Classes, advised: &Advised) -> Result<Advice, Exit> {
    let question = Question { chunk: u64::MAX, ..advised.question.clone() };
    advise(&classes.cluster, &advised.runs, &question).map_err(|error| no_advice(&advised.name, &error))
}

fn percent(time: u128, reference: u128) -> String {
    format!("{:.0} %", time as f64 / reference.max(1) as f64 * 100.0)
}

fn region(classes: &Classes, file: &str, row: &Row) -> Result<String, Exit> {
    let mut text = format!("\n# {}: {}\n", shown(file), stripes(classes, &row.stripes));
    let servers = servers(classes, row)?;
    let strips: Vec<String> = servers.iter().map(|(address, stripe)| format!("{address}={stripe}B")).collect();
    text += "# Without a mounted client, only for one file that exists:\n";
    text += &format!("# vpfs layout copy \"$FILE\" \"$NEW\" --url \"$URL\" --strip '{}'\n", strips.join(","));
    for (key, value) in hints(&servers)? {
        let digits: String = value.bytes().chain([0]).map(|byte| format!("{byte:02x}")).collect();
        text += &format!("# user.pvfs2.{key} = {value}\nsetfattr -n user.pvfs2.{key} -v 0x{digits} \"$DIRECTORY\"\n");
    }
    Ok(text)
}

/// The servers that hold part of a region, each with its stripe, in the order of a round.
fn servers<'a>(classes: &'a Classes, row: &Row) -> Result<Vec<(&'a str, u64)>, Exit> {
    let mut servers: Vec<(&str, u64)> = Vec::new();
    for ((class, addresses), stripe) in classes.cluster.classes().iter().zip(&classes.addresses).zip(&row.stripes) {
        if *stripe > 0 && addresses.is_empty() {
            let problem = format!("class {:?} has no addresses, which decide where each strip lies", class.name);
            return Err(Exit::Usage(format!(
                "{problem}; add addresses = [\"tcp://oss1:3334\", ...] as clients know them"
            )));
        }
        servers.extend(addresses.iter().map(|address| (address.as_str(), *stripe)).filter(|(_, stripe)| *stripe > 0));
    }
    Ok(servers)
}

fn hints(servers: &[(&str, u64)]) -> Result<Vec<(&'static str, String)>, Exit> {
    let strips: Vec<String> =
        servers.iter().enumerate().map(|(index, (_, stripe))| format!("{index}:{stripe}")).collect();
    let parameters = format!("strips:{}", strips.join(";"));
    if parameters.len() > PARAMETERS_MAX {
        let limit = format!("{} servers need {} bytes of parameters", servers.len(), parameters.len());
        return Err(Exit::Failed(format!(
            "{limit}, and OrangeFS reads {PARAMETERS_MAX}; use fewer servers of a class"
        )));
    }
    let list: Vec<&str> = servers.iter().map(|(address, _)| *address).collect();
    Ok(vec![
        ("dist_name", "varstrip_dist".into()),
        ("dist_params", parameters),
        // A list of servers: other layouts begin at a random one.
        ("layout", "00004".into()),
        ("server_list", format!("{:05} {}", list.len(), list.join(" "))),
    ])
}

/// Make a plain file of one that has regions
///
/// The file must not be open in a mount. It gets its new form in one step; if the command is interrupted, it is as
/// before.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  vpfs layout join /mnt/pfs/out/a.h5 --regions regions.toml")]
struct Join {
    /// The file, in the directory that is mounted, not in the mount
    file: PathBuf,

    /// Where regions of files lie
    #[arg(long, value_name = "FILE")]
    regions: PathBuf,
}

impl Join {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let regions = Regions::read(&self.regions)?;
        let file = self.file.display();
        let joined = vpfs_overlay::join(&self.file, &regions.classes, vpfs_testbed::relayout::copy_attributes);
        let size = joined.map_err(|error| Exit::Failed(format!("cannot join {file}: {error}")))?;
        print(format!("{file} is a plain file of {size} bytes"))
    }
}

const PICOS: f64 = 1e12;

/// A table of regions, and what the layout gains.
fn advice_text(classes: &Classes, group: &Group<'_>) -> String {
    let advised = group.first;
    let mut table = TextTable::new();
    table.load_style(NOTHING).set_header(["bytes", "requests", "mean size", "stripes", "now", "advised", "gain"]);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for region in &advised.advice.regions {
        table.add_row([
            format!("{} - {}", size(region.bytes.start), size(region.bytes.end)),
            region.requests.to_string(),
            size(region.mean_size),
            stripes(classes, &region.advised.stripes),
            rate(region, region.time_now),
            rate(region, region.advised.time),
            if region.is_kept { "as now".into() } else { gain(region.time_now, region.advised.time) },
        ]);
    }
    let (now, then) = advised.advice.times();
    let summary = match advised.advice.is_worth_it() {
        true => format!(
            "With these stripes, the predicted time of all requests is {} instead of {} \
             (throughput {}).",
            seconds(then),
            seconds(now),
            gain(now, then)
        ),
        false => "Nothing is to be gained: keep the layout.".into(),
    };
    let others = group.others().map_or_else(String::new, |others| format!("\n{others}"));
    format!("{}\n{table}\n\n{summary}{others}{}", shown(&advised.name), notes(&advised.advice.regions))
}

fn notes(regions: &[RegionAdvice]) -> String {
    let mut notes = String::new();
    if regions.iter().any(|region| !region.is_exact) {
        notes += "\nNot all stripes were compared for all requests; there may be slightly better ones.";
    }
    if regions.iter().any(|region| region.is_limited) {
        notes += "\nSpace on a class forbids stripes that would be faster.";
    }
    notes
}

/// `disk 32KiB, flash 160KiB`; a class that is not used has none.
fn stripes(classes: &Classes, stripes: &[u64]) -> String {
    let used = classes.cluster.classes().iter().zip(stripes).filter(|(_, stripe)| **stripe > 0);
    used.map(|(class, stripe)| format!("{} {}", class.name, exact(*stripe))).collect::<Vec<_>>().join(", ")
}

fn bytes_per_second(region: &RegionAdvice, time: u128) -> f64 {
    region.moved as f64 / (time.max(1) as f64 / PICOS)
}

fn rate(region: &RegionAdvice, time: u128) -> String {
    format!("{:.1} MB/s", bytes_per_second(region, time) / 1e6)
}

/// `15.6 s`, `480 ms`.
fn seconds(time: u128) -> String {
    match time as f64 / PICOS {
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds if seconds >= 1e-3 => format!("{:.0} ms", seconds * 1e3),
        seconds => format!("{:.0} us", seconds * 1e6),
    }
}

/// How much more throughput.
fn gain(now: u128, then: u128) -> String {
    format!("{:+.0} %", (now as f64 / then.max(1) as f64 - 1.0) * 100.0)
}

fn number(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// All files, with everything that is known, in the order of what they gain.
fn advice_json(classes: &Classes, answer: &Answer) -> Value {
    let region = |region: &RegionAdvice| {
        let stripes: serde_json::Map<String, Value> = (classes.cluster.classes().iter())
            .zip(&region.advised.stripes)
            .map(|(class, stripe)| (class.name.clone(), json!(stripe)))
            .collect();
        json!({
            "begin": region.bytes.start, "end": region.bytes.end, "requests": region.requests,
            "mean_size": region.mean_size, "stripes": stripes, "kept": region.is_kept,
            "exact": region.is_exact, "limited_by_space": region.is_limited,
            "bytes_per_second_now": bytes_per_second(region, region.time_now),
            "bytes_per_second_advised": bytes_per_second(region, region.advised.time),
        })
    };
    let file = |advised: &Advised| {
        let regions: Vec<Value> = advised.advice.regions.iter().map(region).collect();
        let files = advised.advice.table.files(&advised.name);
        let (moved, is_worth_it) = (number(advised.moved()), advised.advice.is_worth_it());
        json!({ "file": advised.name, "moved": moved, "worth_it": is_worth_it, "regions": regions, "files": files })
    };
    // Nothing is searched for these.
    let small = |small: &Small| json!({ "file": small.name, "moved": number(small.moved), "worth_it": false, "regions": [], "files": [] });
    answer.files.iter().map(file).chain(answer.small.iter().map(small)).collect()
}

const UNITS: [(&str, u32); 5] = [("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// In the largest unit that fits: `16 MiB` where that is exact, and `120.5 GiB` to one decimal otherwise.
fn size(bytes: u64) -> String {
    let Some((unit, bits)) = UNITS.into_iter().find(|(_, bits)| bytes >= 1 << bits) else {
        return format!("{bytes} B");
    };
    match bytes.is_multiple_of(1 << bits) {
        true => format!("{} {unit}", bytes >> bits),
        false => format!("{:.1} {unit}", bytes as f64 / (1_u64 << bits) as f64),
    }
}

/// A size that is set as it is printed, in the largest unit that makes it whole: `1152 KiB`.
fn exact(bytes: u64) -> String {
    let whole = UNITS.into_iter().find(|(_, bits)| bytes > 0 && bytes.is_multiple_of(1 << bits));
    whole.map_or_else(|| format!("{bytes} B"), |(unit, bits)| format!("{} {unit}", bytes >> bits))
}

/// The most files that are shown.
const SHOWN_MAX: usize = 20;

/// The most names of files that get the same stripes.
const NAMES_MAX: usize = 3;

/// The rest of the files is not shown as soon as it gains less than this together, in percent of what all gain: no
/// prediction is more accurate.
const REST_PERCENT: u128 = 10;

struct Answer {
    /// Those for which stripes were searched, what gains most time first.
    pub(super) files: Vec<Advised>,
    /// Those that one stripe of the layout now holds: they lie on one server, whatever the stripes are.
    pub(super) small: Vec<Small>,
    /// Whether the user named the file.
    is_named: bool,
}

/// A file that stripes make no difference to.
struct Small {
    pub(super) name: String,
    pub(super) moved: u128,
}

/// Files that get the same stripes, as those of each process usually do; what gains most time first.
struct Group<'a> {
    pub(super) first: &'a Advised,
    others: Vec<&'a Advised>,
    gained: u128,
}

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
fn picture_report(classes: &Classes, shown: &[Group<'_>], rest: &[String]) -> Report {
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
struct Strip {
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
    use std::fmt::Write as _;
    use std::fs;
    use std::time::Duration;

    use clap::Parser;
    use serde_json::Value;
    use vpfs_harl::{Access, Cluster, Model, Op, Question, RegionStripeTable, Request, Row, ServerClass, advise};

    use super::*;
    use crate::cmd::logs::tests::TWO;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        advise: Advise,
    }

    /// Runs the command on a log, and returns its JSON and page.
    fn advised(log: &(impl AsRef<[u8]> + ?Sized), arguments: &[&str]) -> Result<(Value, String), Exit> {
        let folder = tempfile::tempdir().expect("a directory");
        let files = ["run.csv", "classes.toml", "advice.json", "advice.html"].map(|name| folder.path().join(name));
        fs::write(&files[0], log).expect("a file");
        fs::write(&files[1], TWO).expect("a file");
        let [log, servers, json, html] = files.each_ref().map(|path| path.to_str().expect("a plain path"));
        let all = ["advise", log, "--servers", servers, "--json", json, "--html", html];
        Cli::try_parse_from([&all, arguments].concat()).expect("the arguments are right").advise.run()?;
        let json = serde_json::from_slice(&fs::read(json).expect("it was written")).expect("JSON");
        Ok((json, fs::read_to_string(html).expect("it was written")))
    }

    /// 512 KiB requests in a first file, as in the paper's experiment, and one small request in another.
    fn log() -> String {
        let mut log = String::from("rank,op,offset,size,time,file\n");
        for number in 0..64_u64 {
            writeln!(log, "{},r,{},524288,{number},/pfs/shared", number % 16, number * 37 % 64 * 524_288)
                .expect("text");
        }
        log + "0,w,0,4096,0,/pfs/small\n"
    }

    #[test]
    fn the_papers_stripes_are_found_by_the_papers_model() {
        let (json, page) = advised(&log(), &["--model", "paper", "--file", "/pfs/shared"]).unwrap();
        let region = &json[0]["regions"][0];
        assert_eq!((json[0]["file"].as_str(), json.as_array().map(Vec::len)), (Some("/pfs/shared"), Some(1)));
        assert_eq!((region["requests"].as_u64(), region["end"].as_u64()), (Some(64), Some(32 << 20)));
        assert_eq!(
            (&region["stripes"]["disk"], &region["stripes"]["flash"]),
            (&Value::from(32 << 10), &(160 << 10).into())
        );
        assert!(region["bytes_per_second_advised"].as_f64() > region["bytes_per_second_now"].as_f64());
        assert!(
            page.contains("<svg") && page.contains("disk 32 KiB, flash 160 KiB"),
            "the page has no picture or table"
        );
        let (all, _) = advised(&log(), &[]).unwrap();
        assert_eq!(all.as_array().map(Vec::len), Some(2), "each file has its own answer");
    }

    #[test]
    fn binary_logs_of_darshan_are_read() {
        let log: &[u8] = include_bytes!("../../../../../fuzz/corpus/darshan/two_ranks");
        let (json, _) = advised(log, &[]).unwrap();
        assert_eq!((&json[0]["file"], json.as_array().map(Vec::len)), (&"/scratch/shared.dat".into(), Some(1)));
        let requests = json[0]["regions"].as_array().unwrap().iter().map(|region| region["requests"].as_u64().unwrap());
        assert_eq!(requests.sum::<u64>(), 5);
        let Err(Exit::Failed(message)) = advised(&log[..590], &[]) else { panic!("it is cut off") };
        assert!(message.contains("run.csv: byte ") && message.contains("in this log of 590 bytes"), "{message}");
    }

    #[test]
    fn the_default_model_gives_classes_stripes_of_their_own() {
        let (json, _) = advised(&log(), &["--file", "/pfs/shared"]).unwrap();
        let stripes = &json[0]["regions"][0]["stripes"];
        assert_ne!(stripes["disk"], stripes["flash"], "classes differ");
        assert_eq!((&json[0]["worth_it"], &json[0]["regions"][0]["kept"]), (&true.into(), &false.into()));
    }

    #[test]
    fn wrong_arguments_and_logs_name_the_place() {
        let failed = |log: &str, arguments: &[&str]| match advised(log, arguments) {
            Err(Exit::Failed(message) | Exit::Usage(message)) => message,
            other => panic!("{other:?}"),
        };
        let broken = failed("rank,op,offset,size,time\n0,r,0,x,1\n", &[]);
        assert!(broken.contains("run.csv:2: size"), "{broken}");
        assert!(failed(&log(), &["--weights", "1,2"]).contains("2 numbers for 1 logs"));
        assert!(failed(&log(), &["--file", "/pfs/other"]).contains("no log has a request to \"/pfs/other\""));
        assert!(
            failed(&log(), &["--for", "orangefs", "--file", "/pfs/shared"]).contains("class \"disk\" has no addresses")
        );
        assert!(failed("rank,op,offset,size,time\n", &[]).contains("no request"));
        assert!(Cli::try_parse_from(["advise", "log", "--servers", "c", "--step", "0B"]).is_err());
    }

    fn classes(flash: &[&str]) -> Classes {
        let access = Access::new(std::time::Duration::ZERO, std::time::Duration::ZERO, 1_000_000_000).unwrap();
        let class =
            |name: &str, servers| ServerClass { name: name.into(), servers, read: access, write: access, free: None };
        Classes {
            cluster: Cluster::new(vec![class("disk", 2), class("flash", 1)], 1_000_000_000).unwrap(),
            addresses: vec![
                vec!["tcp://a:1".into(), "tcp://b:1".into()],
                flash.iter().map(|address| (*address).to_owned()).collect(),
            ],
        }
    }

    #[test]
    fn strips_are_numbered_as_the_servers_in_the_list() {
        let row = |stripes: [u64; 2]| Row { bytes: 0..1, stripes: stripes.to_vec() };
        let three = classes(&["tcp://c:1"]);
        let both = hints(&servers(&three, &row([36864, 151552])).unwrap()).unwrap();
        assert_eq!(both[1].1, "strips:0:36864;1:36864;2:151552");
        assert_eq!(both[3].1, "00003 tcp://a:1 tcp://b:1 tcp://c:1");
        let flash_only = hints(&servers(&three, &row([0, 65536])).unwrap()).unwrap();
        assert_eq!((flash_only[1].1.as_str(), flash_only[3].1.as_str()), ("strips:0:65536", "00001 tcp://c:1"));
        let Err(Exit::Usage(problem)) = servers(&classes(&[]), &row([4096, 4096])) else { panic!("no addresses") };
        assert!(problem.contains("class \"flash\" has no addresses"), "{problem}");
    }

    #[test]
    fn sizes_are_short_and_stripes_exact() {
        for (bytes, expected) in [
            (0, "0 B"),
            (2104, "2.1 KiB"),
            (36 << 10, "36 KiB"),
            (1152 << 10, "1.1 MiB"),
            (16 << 20, "16 MiB"),
            (142_344, "139.0 KiB"),
            (120 << 30, "120 GiB"),
            ((120 << 30) + 5, "120.0 GiB"),
            (65_842_315, "62.8 MiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
        let stripes = [0, 1000, 36 << 10, 1152 << 10, 16 << 20, 3 << 30].map(exact);
        assert_eq!(stripes, ["0 B", "1000 B", "36 KiB", "1152 KiB", "16 MiB", "3 GiB"]);
    }

    fn cluster() -> Cluster {
        let class = |name: &str, micros, rate| {
            let access = Access::new(Duration::from_micros(micros), Duration::from_micros(micros), rate).unwrap();
            ServerClass { name: name.into(), servers: 2, read: access, write: access, free: None }
        };
        Cluster::new(vec![class("disk", 5000, 100_000_000), class("flash", 50, 1_000_000_000)], 1_000_000_000).unwrap()
    }

    fn file(name: &str, requests: u64, size: u64) -> Advised {
        let request = |at| Request { rank: 0, op: Op::Read, offset: at * size, size, start: 0, end: 0 };
        let runs = vec![(Trace::new((0..requests).map(request).collect()).unwrap(), 1)];
        let question = Question::new(Model::Concurrent, 100_000);
        let advice = advise(&cluster(), &runs, &question).unwrap();
        Advised { name: name.into(), runs, question, advice }
    }

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

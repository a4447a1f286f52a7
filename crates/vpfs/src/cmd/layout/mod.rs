//! `vpfs layout`: how files are spread over servers that differ.

mod answer;
pub(super) mod logs;
mod system;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde_json::{Value, json};
use vpfs_config::units::{Size, parse_size};
use vpfs_core::Bytes;
use vpfs_harl::{Advice, AdviceError, BUDGET, Model, NoSpace, Question, RegionAdvice, Row, Trace, advise};
use vpfs_testbed::relayout::{Options, OrangefsRelayout, Progress, Relayout, RelayoutError, Summary};
use vpfs_testbed::{Client, ClientOptions};

use super::mount::Regions;
use super::workload::target;
use super::workload::target::ProgressLine;
use answer::{Answer, Group, Small, Strip};
use logs::{Classes, Logs, Runs};
use system::System;

use crate::exit::Exit;
use crate::print;
use crate::print::{plain, print};

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
pub(crate) struct Advise {
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
            target::write_text(page, &answer::picture_report(classes, &shown, &answer.rest(self.now.0)).html())?;
        }
        let is_printed = self.json.as_deref().is_some_and(|file| file.as_os_str() == "-");
        if let Some(file) = &self.json {
            target::write_output(file, &advice_json(classes, answer))?;
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
    /// Each with its weight.
    runs: Vec<(Trace, u32)>,
    /// What was asked about it.
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
pub(crate) struct CopyArgs {
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
            Some(url) => super::runtime()?.block_on(self.in_orangefs(url, options, show)),
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

/// The user and group that run this command.
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

/// Commands for one file.
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
pub(crate) struct Join {
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
    let mut table = Table::new();
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

/// Bytes per second.
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

/// An argument.
fn some_size(text: &str) -> Result<Bytes, String> {
    match parse_size(text) {
        Ok(size) if (1..=1 << 30).contains(&size.0) => Ok(size),
        Ok(_) => Err("give a size from 1B to 1GiB".into()),
        Err(error) => Err(error.to_string()),
    }
}

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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;

    use clap::Parser;
    use serde_json::Value;
    use vpfs_harl::{Access, Cluster, ServerClass};

    use super::logs::tests::TWO;
    use super::*;

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
}

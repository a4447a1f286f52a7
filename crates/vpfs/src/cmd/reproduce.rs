//! `vpfs reproduce`: the papers' figures, simulated and compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

use serde_json::{Value, json};
use vpfs_report::figures::{Figure, PAPERS};
use vpfs_report::{Report, Section};
use vpfs_sim::parallel;

use super::workload::{ProgressLine, write_output};
use crate::print::{Exit, print};

/// Repeat the papers' experiments in the simulator and compare the results with the papers
///
/// Runs the experiments of vPFS, vPFS+, Two-level and IOCO with the schedulers of the proxy, and those of HARL with its
/// layouts, in virtual time. Prints each conclusion of the papers as a relation of our values, and whether it holds.
///
/// Writes DIR/report.html (all conclusions), a page for each paper with its conclusions, values and charts
/// (DIR/vpfs.html, ...), DIR/report.txt, and for each figure its numbers (FIGURE.json) and each of its charts
/// (FIGURE-1.svg, FIGURE-1.csv, ...).
#[derive(clap::Args)]
pub(crate) struct Reproduce {
    /// Figures by name, see --list; "all" for all of them
    #[arg(value_name = "FIGURE", default_value = "all")]
    figures: Vec<String>,

    /// Where to write; created if it does not exist
    #[arg(short, long, value_name = "DIR", default_value = "vpfs-figures")]
    out: PathBuf,

    /// Write all conclusions and values to this file, each figure with version, commit, machine and time; "-" for
    /// standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// List the figures and exit
    #[arg(long)]
    list: bool,

    /// Show no progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

impl Reproduce {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        if self.list {
            return vpfs_report::figures::all()
                .try_for_each(|figure| print(format_args!("{:16} {}", figure.id, figure.title)));
        }
        let figures = self.selected()?;
        fs::create_dir_all(&self.out).map_err(|error| cannot_write(&self.out, &error))?;
        let line = ProgressLine::start(self.quiet);
        let begin = Instant::now();
        // Several at a time: at the end of each figure some processors would have nothing to do.
        let sections = parallel::map(&figures, |figure| -> Result<(Section, Value), Exit> {
            line.announce(format!("{} figures, began {}: {}", figures.len(), figure.id, figure.title));
            let begin = Instant::now();
            let section = figure.run().map_err(|error| Exit::Failed(format!("{}: {error}", figure.id)))?;
            let json = section.json(&made(figure, begin));
            self.write_section(figure, &section, &json)?;
            Ok((section, json))
        });
        let sections = sections.into_iter().collect::<Result<Vec<_>, _>>()?;
        line.clear();
        let all: Vec<(&Figure, &Section)> =
            figures.iter().copied().zip(sections.iter().map(|(section, _)| section)).collect();
        let report = self.write_pages(&all)?;
        if let Some(path) = &self.json {
            write_output(path, &json!(sections.iter().map(|(_, json)| json).collect::<Vec<_>>()))?;
        }
        if self.json.as_deref() == Some(Path::new("-")) {
            return Ok(());
        }
        let page = self.out.join("report.html");
        print(format_args!("{}\n{} ({:.0} s)", report.summary(), page.display(), begin.elapsed().as_secs_f64()))
    }

    /// The figures to run, in the order of the papers, each once.
    fn selected(&self) -> Result<Vec<&'static Figure>, Exit> {
        let is_all = |name: &String| name == "all";
        for name in self.figures.iter().filter(|name| !is_all(name)) {
            vpfs_report::figures::find(name).map_err(|error| Exit::Usage(error.to_string()))?;
        }
        let wanted = |figure: &&Figure| self.figures.iter().any(|name| is_all(name) || name == figure.id);
        Ok(vpfs_report::figures::all().filter(wanted).collect())
    }

    fn write_section(&self, figure: &Figure, section: &Section, json: &Value) -> Result<(), Exit> {
        self.write(&format!("{}.json", figure.id), &format!("{json:#}\n"))?;
        for (number, chart) in (1..).zip(section.charts()) {
            self.write(&format!("{}-{number}.svg", figure.id), &chart.svg())?;
            self.write(&format!("{}-{number}.csv", figure.id), &chart.csv())?;
        }
        Ok(())
    }

    /// A page for each paper, and one with the conclusions of all, which is returned.
    fn write_pages(&self, sections: &[(&Figure, &Section)]) -> Result<Report, Exit> {
        let mut all = vpfs_report::figures::report("The papers' conclusions, simulated by vpfs");
        let mut text = all.clone();
        for paper in PAPERS {
            let is_own = |id: &str| paper.figures.iter().any(|figure| figure.id == id);
            let own: Vec<&Section> = sections.iter().filter(|(one, _)| is_own(one.id)).map(|(_, own)| *own).collect();
            if own.is_empty() {
                continue;
            }
            let page = format!("{}.html", paper.id);
            let report = vpfs_report::figures::report(&format!("{}, simulated by vpfs", paper.title));
            let report = report.link("All papers", "report.html");
            let report = own.iter().fold(report, |report, &section| report.section(section.clone()));
            all = own.iter().fold(all, |all, section| all.section(section.outline()));
            text = own.iter().fold(text, |text, &section| text.section(section.clone()));
            all = all.link(format!("{}: {}", paper.title, report.tally()), page.clone());
            self.write(&page, &report.html())?;
        }
        self.write("report.txt", &text.text())?;
        self.write("report.html", &all.html())?;
        Ok(all)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Exit> {
        let path = self.out.join(name);
        fs::write(&path, text).map_err(|error| cannot_write(&path, &error))
    }
}

/// Of what, when, where and for how long a figure was made.
fn made(figure: &Figure, begin: Instant) -> Value {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let first = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.rsplit_once(':').map_or(line, |(_, value)| value).trim().to_owned()
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    json!({
        "figure": figure.id, "version": env!("CARGO_PKG_VERSION"), "commit": commit(),
        "processor": first("/proc/cpuinfo", "model name"), "processors": processors,
        "kernel": first("/proc/sys/kernel/osrelease", ""), "unix_seconds": unix, "seconds": begin.elapsed().as_secs_f64(),
    })
}

/// The commit of the source tree in which the program was built, if it still lies there.
fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let arguments = ["describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"];
    let git = Command::new("git").arg("-C").arg(program.parent()?).args(arguments).output().ok()?;
    let commit = String::from_utf8(git.stdout).ok()?;
    git.status.success().then(|| commit.trim().to_owned())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Exit {
    Exit::Failed(format!("cannot write {}: {error}; choose another directory with --out", path.display()))
}

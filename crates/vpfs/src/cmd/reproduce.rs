//! `vpfs reproduce`: the papers' figures, simulated and compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use vpfs_figures::Figure;
use vpfs_report::{Report, Section};
use vpfs_sim::parallel;

use super::workload::progress::ProgressLine;
use crate::exit::Exit;
use crate::print::print;

/// Repeat the papers' experiments in the simulator and compare the results with the papers
///
/// Runs the experiments of vPFS, vPFS+, Two-level and IOCO with the schedulers of the proxy, and those of HARL with its
/// layouts, in virtual time. Prints one row for each value in a paper: the paper's, ours, the tolerance, and the
/// computed verdict.
///
/// Writes DIR/report.html (one file with everything), DIR/report.txt, and for each figure its numbers (FIGURE.json) and
/// each of its charts (FIGURE-1.svg, FIGURE-1.csv, ...).
#[derive(clap::Args)]
pub(crate) struct Reproduce {
    /// Figures by name, see --list; "all" for all of them
    #[arg(value_name = "FIGURE", default_value = "all")]
    figures: Vec<String>,

    /// Where to write; created if it does not exist
    #[arg(short, long, value_name = "DIR", default_value = "vpfs-figures")]
    out: PathBuf,

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
            return vpfs_figures::all().try_for_each(|figure| print(format_args!("{:16} {}", figure.id, figure.title)));
        }
        let figures = self.selected()?;
        fs::create_dir_all(&self.out).map_err(|error| cannot_write(&self.out, &error))?;
        let line = ProgressLine::start(self.quiet);
        let begin = Instant::now();
        // Several at a time: at the end of each figure some processors would have nothing to do.
        let sections = parallel::map(&figures, |figure| -> Result<Section, Exit> {
            line.announce(format!("{} figures, began {}: {}", figures.len(), figure.id, figure.title));
            let section = figure.run().map_err(|error| Exit::Failed(format!("{}: {error}", figure.id)))?;
            self.write_section(figure, &section)?;
            Ok(section)
        });
        let sections = sections.into_iter().collect::<Result<Vec<_>, _>>()?;
        let report = sections.into_iter().fold(vpfs_figures::report(), Report::section);
        line.clear();
        self.write("report.txt", &report.text())?;
        let page = self.write("report.html", &report.html())?;
        print(format_args!("{}\n{} ({:.0} s)", report.summary(), page.display(), begin.elapsed().as_secs_f64()))
    }

    /// The figures to run, in the order of the papers, each once.
    fn selected(&self) -> Result<Vec<&'static Figure>, Exit> {
        let is_all = |name: &String| name == "all";
        for name in self.figures.iter().filter(|name| !is_all(name)) {
            vpfs_figures::find(name).map_err(|error| Exit::Usage(error.to_string()))?;
        }
        let wanted = |figure: &&Figure| self.figures.iter().any(|name| is_all(name) || name == figure.id);
        Ok(vpfs_figures::all().filter(wanted).collect())
    }

    fn write_section(&self, figure: &Figure, section: &Section) -> Result<(), Exit> {
        self.write(&format!("{}.json", figure.id), &section.json())?;
        for (number, chart) in (1..).zip(section.charts()) {
            self.write(&format!("{}-{number}.svg", figure.id), &chart.svg())?;
            self.write(&format!("{}-{number}.csv", figure.id), &chart.csv())?;
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, Exit> {
        let path = self.out.join(name);
        fs::write(&path, text).map_err(|error| cannot_write(&path, &error))?;
        Ok(path)
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Exit {
    Exit::Failed(format!("cannot write {}: {error}; choose another directory with --out", path.display()))
}

//! The papers' experiments, simulated and compared with the papers' results.
//!
//! A [`Figure`] runs one experiment and returns a section of the report: charts, tables and checks, each with the
//! paper's value, ours, a tolerance and a computed verdict. Hardware is described once for each testbed, in
//! [`testbed`]; nothing is tuned for one figure.
//!
//! ```no_run
//! let figure = vpfs_figures::find("vpfs-plus-5")?;
//! let section = figure.run()?;
//! for check in section.checks() {
//!     println!("{}", check.verdict());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod harl;
mod ioco;
mod scenario;
pub mod testbed;
mod two_level;
mod vpfs;
mod vpfs_plus;

use vpfs_report::{Report, Section};
use vpfs_sim::SimError;

/// One or more figures of a paper with results of one experiment.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// For command lines and file names: paper and number, such as `vpfs-5`.
    pub id: &'static str,
    /// The title, with the figure numbers of the paper.
    pub title: &'static str,
    run: fn() -> Result<Section, SimError>,
}

impl Figure {
    const fn new(id: &'static str, title: &'static str, run: fn() -> Result<Section, SimError>) -> Self {
        Self { id, title, run }
    }

    /// Runs the experiment, which takes from seconds to a minute. Equal runs give equal sections.
    ///
    /// # Errors
    /// If a checker of the simulator finds a violation, which is a bug of ours.
    pub fn run(&self) -> Result<Section, SimError> {
        (self.run)()
    }
}

/// A name that no figure has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown figure {name:?}; the figures are {}", all().map(|figure| figure.id).collect::<Vec<_>>().join(", "))]
pub struct UnknownFigure {
    /// The name requested.
    pub name: String,
}

/// All figures, paper by paper.
pub fn all() -> impl Iterator<Item = &'static Figure> {
    [vpfs::FIGURES, vpfs_plus::FIGURES, two_level::FIGURES, ioco::FIGURES, harl::FIGURES].into_iter().flatten()
}

/// The figure of this id.
///
/// # Errors
/// The name is unknown.
pub fn find(name: &str) -> Result<&'static Figure, UnknownFigure> {
    all().find(|figure| figure.id == name).ok_or_else(|| UnknownFigure { name: name.to_owned() })
}

/// A report without sections, with an introduction for its readers.
pub fn report() -> Report {
    Report::new("The papers' figures, simulated by vpfs")
        .introduction(
            "Each section repeats an experiment of a paper in the simulator, with the schedulers that the daemon \
             runs. Verdicts compare shapes and factors with the paper's, within a stated tolerance; they are computed.",
        )
        .introduction(
            "One description of each testbed's hardware is used for all figures of its papers. Values that the papers \
             do not state were taken from data sheets, and nothing was tuned for a single figure. Where our results \
             differ, the section gives the reason, if it is known.",
        )
}

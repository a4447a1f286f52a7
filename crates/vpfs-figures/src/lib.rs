//! The papers' experiments, simulated and compared with the papers' results.
//!
//! A [`Figure`] runs one experiment and returns a section of the report: charts, tables and checks, each with the
//! paper's value, ours, a tolerance and a computed verdict. Only rows whose value nothing was chosen for are counted
//! ([`vpfs_report::Kind`]). The scenario files say which hardware each figure has, and what was assumed.
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
             runs. A row is evidence, and counted, if the paper states its value and nothing in the model was chosen \
             for it. It agrees if ours, the median of five seeds, is within 25 % of what carries the claim, or within \
             the paper's own bound where it states one. Verdicts are computed.",
        )
        .introduction(
            "Rows are not counted if a parameter was chosen for them (calibrated), if ours follows from what was set \
             (input), if they follow from other rows or repeat one (derived), or if the paper states no number (ours \
             only).",
        )
        .introduction(
            "The hardware of a testbed is not the same in all figures of its papers: vPFS Fig. 6 has the servers' page \
             cache, Fig. 5 and 7 and vPFS+ have the bare disk of its profiling; where BTIO runs beside calls of 32 MB, \
             servers move data through buffers of 256 KiB, elsewhere a request is one access; IOCO and HARL have the servers \
             of one cluster, page cache included. Parameters that a paper does not print come \
             from data sheets or are assumed; the disk of vPFS, the null devices of its Table 2 and HARL's cost model \
             were chosen so that they give what rows marked as calibrated say. Each section ends with its assumptions and sources.",
        )
}

//! The papers' experiments, simulated and compared with the papers' results.
//!
//! A [`Figure`] runs one experiment and returns a section of the report: the paper's conclusions with computed
//! verdicts, its values next to ours, charts and tables. `conclusions.toml` and `values.toml` have what the papers say;
//! a figure only measures. The scenario files say which hardware each figure has, and what was assumed.
//!
//! ```no_run
//! let figure = vpfs_report::figures::find("vpfs-plus-5")?;
//! let section = figure.run()?;
//! for conclusion in section.conclusions() {
//!     println!("{}: {}", conclusion.says, conclusion.verdict());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod harl;
mod ioco;
mod papers;
mod scenario;
mod two_level;
mod vpfs;
mod vpfs_plus;

use papers::Values;
use vpfs_sim::SimError;

use crate::{Report, Section};

/// A paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// For names of files.
    pub id: &'static str,
    /// Its short name, with conference and year.
    pub title: &'static str,
    /// Its experiments.
    pub figures: &'static [Figure],
}

/// All papers.
pub const PAPERS: [Paper; 5] = [
    Paper { id: "vpfs", title: "vPFS (MSST 2012)", figures: vpfs::FIGURES },
    Paper { id: "vpfs-plus", title: "vPFS+ (MSST 2019)", figures: vpfs_plus::FIGURES },
    Paper { id: "two-level", title: "Two-level (Feedback Computing 2013)", figures: two_level::FIGURES },
    Paper { id: "ioco", title: "IOCO (SC 2011)", figures: ioco::FIGURES },
    Paper { id: "harl", title: "HARL (ICPP 2015)", figures: harl::FIGURES },
];

/// One or more figures of a paper with results of one experiment.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// For command lines and file names: paper and number, such as `vpfs-5`.
    pub id: &'static str,
    /// The title, with the figure numbers of the paper.
    pub title: &'static str,
    run: fn() -> Result<(Section, Values), SimError>,
}

impl Figure {
    const fn new(id: &'static str, title: &'static str, run: fn() -> Result<(Section, Values), SimError>) -> Self {
        Self { id, title, run }
    }

    /// Runs the experiment, which takes from seconds to a minute. Equal runs give equal sections.
    ///
    /// # Errors
    /// If a checker of the simulator finds a violation, which is a bug of ours.
    pub fn run(&self) -> Result<Section, SimError> {
        let (section, values) = (self.run)()?;
        papers::judged(self.id, section, &values)
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
    PAPERS.into_iter().flat_map(|paper| paper.figures)
}

/// The figure of this id.
///
/// # Errors
/// The name is unknown.
pub fn find(name: &str) -> Result<&'static Figure, UnknownFigure> {
    all().find(|figure| figure.id == name).ok_or_else(|| UnknownFigure { name: name.to_owned() })
}

/// A report without sections, with an introduction for its readers.
pub fn report(title: &str) -> Report {
    Report::new(title)
        .introduction(
            "Each section repeats an experiment of a paper in the simulator, with the schedulers that the daemon runs. A \
             conclusion of the paper is a relation of our values, with limits and their reason; the medians of five \
             seeds are judged. A test changes what a conclusion is \
             about (in order of arrival, halved weights, no synchronisation, L = 1, no coordination, equal stripes), \
             and it must then not hold. Verdicts are computed.",
        )
        .introduction(
            "Values come second. A row is evidence, and counted, if the paper states its value and nothing in the model \
             was chosen for it; ours, the median of five seeds, agrees within 25 % of what carries the claim, or within \
             the paper's own bound. Not counted are rows for which a parameter was chosen (calibrated), which follow from \
             what was set (input), or from other rows (derived).",
        )
        .introduction(
            "The hardware of a testbed is not the same in all figures of its papers, as what they say and measure does not \
             fit one model; the scenario file of each figure says which hardware it has, what was assumed, and why. Each \
             section ends with that.",
        )
}

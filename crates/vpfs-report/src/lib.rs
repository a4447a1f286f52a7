//! Charts, tables and verdicts in one self-contained page.
//!
//! A [`Report`] has sections of text, [`Plot`]s, [`Bars`], [`Table`]s, [`Conclusion`]s and [`Check`]s. It is rendered
//! as one self-contained HTML page (inline styles and SVG, no scripts), or as plain text for a terminal. Equal reports
//! give equal bytes: nothing here reads a clock, an environment or a font. [`figures`] has the papers' experiments.
//!
//! Charts are drawn by `plotters` through its SVG backend. It has the most users of all pure Rust chart crates; without
//! its `ttf` feature it estimates the width of text instead of loading fonts, and the reader's browser chooses the
//! font. The other crates considered bundle fonts or a JavaScript engine, or have no second axis.
//!
//! ```
//! use vpfs_report::{Axis, Bar, Bars, Check, Kind, Plot, Report, Section, Series};
//!
//! let shares = Plot::new("Shares over time", Axis::linear("time", "s"), Axis::linear("throughput", "MB/s"))
//!     .series(Series::line("app 1", [(0.0, 80.0), (1.0, 81.5), (2.0, 80.2)]))
//!     .series(Series::line("app 2", [(0.0, 40.1), (1.0, 39.8), (2.0, 40.0)]).with_markers())
//!     .reference_at(40.0, "target of app 2");
//! let times = Bars::new("Run time", Axis::linear("run time", "s"), ["alone", "shared"])
//!     .series("FIFO", [Bar::new(10.0), Bar { value: 33.0, error: Some((31.0, 35.0)) }]);
//!
//! let ratio = Check {
//!     figure: "Fig. 5a".into(),
//!     what: "ratio of throughputs".into(),
//!     unit: String::new(),
//!     kind: Kind::Evidence,
//!     paper: 2.0,
//!     ours: 2.01.into(),
//!     percent: 1.0,
//!     why: String::new(),
//! };
//! let report = Report::new("Sharing 2:1").introduction("Two applications with weights 2 and 1.").section(
//!     Section::new("Shares")
//!         .figure(shares, "Throughput of both applications.")
//!         .figure(times, "Mean of five runs, with the fastest and the slowest.")
//!         .check(ratio),
//! );
//! assert_eq!(report.tally().agree, 1);
//! assert!(report.html().starts_with("<!DOCTYPE html>"));
//! println!("{}", report.text());
//! ```

mod axis;
mod canvas;
mod chart;
mod check;
pub mod figures;
mod profile;
mod report;

pub use axis::{Axis, number};
pub use chart::{Bar, Bars, Chart, Plot, Series};
pub use check::{Check, Conclusion, Kind, Measured, Tally, Verdict};
pub use profile::profile_report;
pub use report::{Report, Section, Table, Tone};

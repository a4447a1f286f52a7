//! HARL: from a trace of requests to stripes for each region of a file and each class of server [HARL §III].
//!
//! Pure: no I/O but by a reader that it is given, no clock, no randomness. Sizes are bytes, times are picoseconds in
//! integers, so equal input gives equal advice. [`divide`] cuts a file into regions of similar requests, [`Pricing`]
//! predicts the time that requests take under given stripes, and [`search`] finds the stripes that take least.
//! [`advise`] does all of it, for several runs and limited space. [`adapt`] finds what comes closest to that in a file
//! system with rules of its own.

mod advise;
mod cluster;
mod cost;
mod log;
mod predictor;
mod regions;
mod rules;
mod search;
mod table;
mod trace;

pub use advise::{Advice, AdviceError, Candidates, NoSpace, RegionAdvice, advise, fit};
pub use cluster::{Access, Cluster, ClusterError, ServerClass};
pub use cost::{Group, Part, Pricing, Round, Time};
pub use log::{Columns, CsvLine, DarshanError, DarshanReader, Log, LogError, LogReader, Packing, TimeUnit, Unpacked};
pub use predictor::{Model, Question};
pub use regions::{CHUNK, Region, divide};
pub use rules::{Adapted, Component, Rules, adapt};
pub use search::{BUDGET, Choice, Demand, Found, Run, STEP, compare, grid, search};
pub use table::{Piece, RegionStripeTable, Row};
pub use trace::{Op, REQUEST_MAX, REQUESTS_MAX, Request, TIME_MAX, Trace, TraceError};

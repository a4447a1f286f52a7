//! HARL: from a trace of requests to stripes for each region of a file and each class of server [HARL §III].
//!
//! Pure: no I/O, no clock, no randomness. Sizes are bytes, times are picoseconds in integers, so equal input gives
//! equal advice. [`divide`] cuts a file into regions of similar requests, [`Pricing`] predicts the time that requests
//! take under given stripes, and [`search`] finds the stripes that take least. [`advise`] does all of it, for several
//! runs and limited space.

mod advise;
mod cluster;
mod cost;
mod log;
mod mix;
mod regions;
mod replay;
mod round;
mod search;
mod space;
mod table;
mod trace;

pub use advise::{Advice, AdviceError, GAIN_PERCENT, Model, Question, RegionAdvice, advise};
pub use cluster::{Access, Cluster, ClusterError, ServerClass};
pub use cost::{Group, Pricing, Time};
pub use log::{Log, LogError, LogReader};
pub use regions::{CHUNK, Region, divide};
pub use round::{Part, Round};
pub use search::{Choice, Demand, Found, Run, STEP, grid, search};
pub use space::{Candidates, NoSpace, fit};
pub use table::{Piece, RegionStripeTable, Row};
pub use trace::{Op, REQUEST_MAX, REQUESTS_MAX, Request, Trace, TraceError};

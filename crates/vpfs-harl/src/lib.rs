//! HARL: from a trace of requests to stripes for each region of a file and each class of server [HARL §III].
//!
//! Pure: no I/O, no clock, no randomness. Sizes are bytes, times are picoseconds in integers, so equal input gives
//! equal advice. [`divide`] cuts a file into regions of similar requests, [`Pricing`] predicts the time that requests
//! take under given stripes, and [`search`] finds the stripes that take least.

mod cluster;
mod cost;
mod regions;
mod round;
mod search;
mod trace;

pub use cluster::{Access, Cluster, ClusterError, ServerClass};
pub use cost::{Group, Pricing, Time};
pub use regions::{CHUNK, Region, divide};
pub use round::{Part, Round};
pub use search::{Choice, Demand, Found, Run, STEP, grid, search};
pub use trace::{Op, REQUEST_MAX, REQUESTS_MAX, Request, Trace, TraceError};

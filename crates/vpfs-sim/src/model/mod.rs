//! Pure models: storage that serves accesses, and applications that make them.
//!
//! Equal parameters and inputs give equal results. Embedded servers and `vpfs workload` use them in real time,
//! `vpfs-sim` in virtual time. Nothing here does I/O, reads a clock or starts a thread.

pub mod device;
mod latency;
pub mod plan;

pub use latency::{Latencies, Latency};

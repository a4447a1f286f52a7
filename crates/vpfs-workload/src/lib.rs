//! Workload generators: what applications do to a parallel file system, run and measured.
//!
//! - [`plan`]: pure, seeded generators of what each process does: IOR-like, BTIO-like, multi-md-test-like.
//! - [`pattern`]: file content that any reader can check.
//! - [`measure`]: throughput, latency, I/O and think time of a run.

pub mod measure;
mod node;
pub mod pattern;
pub mod plan;

//! Workload generators: what applications do to a parallel file system, run and measured.
//!
//! - [`vpfs_model::plan`]: pure, seeded generators of each process's steps: IOR-like, BTIO-like, multi-md-test-like,
//!   interactive.
//! - [`content`]: file content that any reader can verify.
//! - [`run`]: executes a plan with the client library, against embedded or real servers, directly or through proxies.
//! - [`measure`]: throughput, latency, I/O and think time of a run.
//! - [`table`]: these results in the formats customary in the field.

pub mod content;
pub mod measure;
pub mod run;
pub mod table;

//! One file or folder for each subcommand.

pub(crate) mod demo;
pub(crate) mod proxy;
pub(crate) mod serve;
pub(crate) mod workload;

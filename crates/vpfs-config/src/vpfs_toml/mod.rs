//! The keys of vpfs.toml, and the types that they become.

pub(crate) mod app_table;
pub(crate) mod apps;
pub(crate) mod clients;
pub(crate) mod config;
pub(crate) mod hosts;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod network;
pub(crate) mod scheduler;

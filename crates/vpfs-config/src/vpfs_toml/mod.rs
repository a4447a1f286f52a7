//! The keys of vpfs.toml, and the types that they become.

pub(crate) mod accounts;
pub(crate) mod app_table;
pub(crate) mod apps;
mod brackets;
pub(crate) mod clients;
pub(crate) mod config;
mod device_times;
pub(crate) mod history;
pub(crate) mod host_list;
mod host_name;
mod host_refusals;
mod hosts;
mod ignored;
pub(crate) mod keys;
mod limit_keys;
pub(crate) mod limits;
pub(crate) mod manual;
pub(crate) mod metrics;
pub(crate) mod network;
mod overlaps;
pub(crate) mod peers;
mod profile;
pub(crate) mod scheduler;
mod slot_costs;
pub(crate) mod trust;
pub(crate) mod web;

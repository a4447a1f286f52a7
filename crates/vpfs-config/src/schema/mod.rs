//! Reading TOML files by tables of what can be set. Nothing here knows the keys of any file.

pub(crate) mod file;
pub(crate) mod manual;
pub(crate) mod problem;
pub(crate) mod settings;
mod syntax;
pub(crate) mod table;
pub mod tunables;
pub mod units;

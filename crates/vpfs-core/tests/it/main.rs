//! The integration tests of vpfs-core, in one program: linking dozens takes longer than running them.

mod caps;
mod common;
mod differential;
mod every_policy;
mod groups;
mod hierarchy;
mod minima;
mod objects;
mod policy;
mod properties;
mod scenarios;
mod sharing;

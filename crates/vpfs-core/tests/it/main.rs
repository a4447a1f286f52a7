//! The integration tests of vpfs-core, in one program: linking dozens takes longer than running them.

mod caps;
mod common;
mod every_policy;
mod minima;
mod objects;
mod policy;
mod sfq;
mod shares;
mod sharing;

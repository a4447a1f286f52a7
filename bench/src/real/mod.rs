//! Measurements of several processes: `vpfs proxy` between clients and embedded servers, or those of a running OrangeFS
//! cluster.

pub(crate) mod cluster;
pub(crate) mod floods;
pub(crate) mod isolation;
pub(crate) mod local;
pub(crate) mod papers;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod proxies;
pub(crate) mod scratch;
mod target;

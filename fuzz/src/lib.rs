//! What the fuzz targets check, as plain functions: `cargo test` replays the corpus through them. Each file has what is
//! checked of one crate, whose tests include it.
//!
//! README.md tells how to run one. A crash becomes a file in `corpus/<target>/` together with its fix.

mod config;
mod fs_conf;
mod harl;
mod peer;
mod protocol;
mod scenario;

pub use config::{configuration, hosts};
pub use fs_conf::fs_conf;
pub use harl::{darshan, log, packed};
pub use peer::peer_frame;
pub use protocol::{bmi_header, nfs_session, reply, request, rewrite, rpc, session, transfer};
pub use scenario::scenario;

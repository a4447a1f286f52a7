//! What the fuzz targets check, as plain functions: `cargo test` replays the corpus through them.
//!
//! README.md tells how to run one. A crash becomes a file in `corpus/<target>/` together with its fix.

mod darshan;
mod files;
mod fs_conf;
mod hosts;
mod log;
mod nfs;
mod packed;
mod peer;
mod scenario;
pub mod session;
mod wire;

pub use darshan::darshan;
pub use files::configuration;
pub use fs_conf::fs_conf;
pub use hosts::hosts;
pub use log::log;
pub use nfs::rpc;
pub use packed::packed;
pub use peer::peer_frame;
pub use scenario::scenario;
pub use session::{nfs_session, session};
pub use wire::{bmi_header, reply, request, rewrite, transfer};

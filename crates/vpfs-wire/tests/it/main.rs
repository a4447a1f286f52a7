//! The integration tests of vpfs-wire, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod arbitrary_bytes;
mod common;
mod golden_frames;
mod nfs;
mod nfs4;
mod rewrite;
mod sequences;
mod transfer;
mod views;

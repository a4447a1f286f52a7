//! The integration tests of vpfs-protocol, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

#[path = "../../../../fuzz/src/protocol.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;
mod session {
    mod common;
    mod endings;
    mod exempt;
    mod hostile;
    mod limits;
    mod nfs;
    mod operations;
    mod overdue;
    mod rewriting;
    mod stalls;
    mod suspend;
    mod unread;
}
mod wire {
    mod golden;
    mod nfs;
    mod transfer;
}

//! Interposition of connections.

mod common;
mod endings;
mod exempt;
mod hostile;
mod incomplete;
mod limits;
mod nfs;
mod operations;
mod overdue;
mod refusals;
mod rewriting;
mod stalls;
mod suspend;
mod unread;

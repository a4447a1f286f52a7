//! Coordinators of several servers, on a network with faults in virtual time.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod bounds;
mod changes;
mod common;
mod contact;
mod faults;
mod hostile;
mod late;
mod tree;

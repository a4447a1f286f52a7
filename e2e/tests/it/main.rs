//! The built command, end to end, in one program: its tests wait for processes most of the time, so many run at once.

#![allow(
    clippy::print_stdout,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod commands;
mod embedded;
mod metrics;
mod mount;
mod network;
mod nfs;
mod orangefs;
mod packages;
mod simulation;
mod slurm;
mod why;

//! Measures storage as the papers do, and finds its depth D and slot costs L [vPFS+ §III-B].
//!
//! A [`Sweep`] says which accesses to measure; a [`Storage`] measures them: a [directory](RealStorage::in_directory), a block
//! device, or a device model in virtual time. [`vpfs_core::profile::fit`] makes D and L of the [`Measurements`], and
//! [`to_toml`] the fragment that a daemon's configuration takes over; [`report`] draws both models.
//!
//! Accesses run on one thread for each that is outstanding, through the standard library: the kernel sees the same queue as from
//! io_uring at these depths, and the io_uring crates (`io-uring`, `tokio-uring`, `rio`) need `unsafe` in the caller,
//! or are not kept up. `rustix` gives the flags and file system calls that the standard library does not have.
//!
//! What is never done: writing to anything but a file of our own, unless the device is named a second time, is in nobody's use
//! and is empty at both ends.

mod error;
mod load;
mod model;
mod output;
mod picture;
mod real;
mod sweep;

use std::time::Duration;

use vpfs_core::profile::Measurement;

pub use error::ProfileError;
pub use model::ModelStorage;
pub use output::{Record, records, to_toml};
pub use picture::report;
pub use real::{Options, RealStorage};
pub use sweep::{Measurements, Point, Progress, Sweep};

/// Something that can be measured.
pub trait Storage {
    /// Whether writes may be measured as well as reads.
    fn is_writable(&self) -> bool;

    /// Measures random accesses as `point` says, for about `time`.
    ///
    /// # Errors
    /// An access failed.
    fn measure(&mut self, point: Point, time: Duration) -> Result<Measurement, ProfileError>;
}

//! Measures storage as in the papers, and finds its depth D and slot costs L [vPFS+ §III-B].
//!
//! A [`Sweep`] defines which accesses to measure; a [`Storage`] measures them: a
//! [directory](RealStorage::in_directory), a block device, or a device model in virtual time.
//! [`fit`] derives D and L from the [`Measurements`]; [`to_toml`] writes the fragment that a
//! daemon's configuration includes.
//!
//! For `vpfs layout advise`, a [`ClassPlan`] times single accesses to a [`TimedStorage`], [`fit_class`] finds the
//! parameters of HARL's cost model, and [`class_toml`] writes them. A [`NetworkPath`] is such a storage too: what
//! [`answer_network`] sends, without storage.
//!
//! Each outstanding access has its own thread and uses the standard library: at these depths the kernel sees the same
//! queue as with io_uring, and the io_uring crates (`io-uring`, `tokio-uring`, `rio`) need `unsafe` in the caller or
//! are unmaintained. `rustix` provides the flags and file system calls that the standard library lacks.
//!
//! Nothing but a file of our own is ever written, except for a device that is named a second time, is not in use and is
//! empty at both ends.

mod class;
mod error;
mod fit;
mod load;
mod measure;
mod model;
mod network;
mod output;
mod real;
mod sweep;

use std::time::Duration;

pub use class::{
    AccessFit, ClassFit, ClassFitError, ClassLabels, ClassPlan, ClassProgress, Figure, Probe, Series, TimedStorage,
    Timing, class_summary, class_toml, fit_class, fit_network, network_summary, network_toml,
};
pub use error::ProfileError;
pub use fit::{FitError, Measurement, OpFit, SizeFit, StorageFit, fit};
pub use measure::measure;
pub use model::ModelStorage;
pub use network::{NetworkPath, answer_network};
pub use output::{Record, records, to_toml};
pub use real::{Options, RealStorage};
pub use sweep::{Measurements, Point, Progress, Sweep};

/// Storage that can be measured.
pub trait Storage {
    /// Whether writes may be measured as well as reads.
    fn is_writable(&self) -> bool;

    /// Measures the random accesses of `point` for about `time`.
    ///
    /// # Errors
    /// An access failed.
    fn measure(&mut self, point: Point, time: Duration) -> Result<Measurement, ProfileError>;
}

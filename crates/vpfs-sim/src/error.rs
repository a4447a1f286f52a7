//! Why a simulation cannot run, or must not be believed.

use std::time::Duration;

use vpfs_core::Time;

/// Why a simulation ended without results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The scenario contradicts itself.
    #[error("{0}")]
    Scenario(String),
    /// A rule that must hold under every policy was broken: a bug in what was simulated or in the simulator.
    #[error("seed {seed}: at {:.6} s: {broken}", .at.since(Time::ZERO).as_secs_f64())]
    Violation {
        /// The run can be repeated with it.
        seed: u64,
        /// Simulated time.
        at: Time,
        /// The rule, and by whom it was broken.
        broken: Violation,
    },
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Violation {
    /// More slots in use than the scheduler may give.
    #[error("server {server} uses {used} slots, its depth is {depth}")]
    Depth { server: u32, used: u32, depth: u32 },
    /// A request waited too long for its dispatch.
    #[error("a request of {app} waited {:.3} s at server {server}; the wait limit is {:.3} s", .waited.as_secs_f64(), .limit.as_secs_f64())]
    Starved { server: u32, app: String, waited: Duration, limit: Duration },
    /// Bytes were lost, or came twice.
    #[error("{app} asked for {asked} bytes, {served} were served and {underway} are under way")]
    Conservation { app: String, asked: u64, served: u64, underway: u64 },
    /// An event lies before the one that was handled last.
    #[error("time went back to {:.9} s", .to.since(Time::ZERO).as_secs_f64())]
    TimeWentBack { to: Time },
    /// Nothing can happen any more, but an application is not finished.
    #[error("{app} is not finished, but nothing is left to happen")]
    Stuck { app: String },
}

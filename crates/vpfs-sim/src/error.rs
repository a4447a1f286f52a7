//! Why a simulation cannot run, or its results cannot be trusted.

use std::time::Duration;

use vpfs_core::Time;

/// Why a simulation ended without results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum SimError {
    /// The scenario is inconsistent.
    #[error("{0}")]
    Scenario(String),
    /// A rule that must hold under every policy was broken: a bug in the simulated code or in the simulator.
    #[error("seed {seed}: at {:.6} s: {broken}", .at.since(Time::ZERO).as_secs_f64())]
    Violation { seed: u64, at: Time, broken: Violation },
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Violation {
    /// More slots in use than the depth.
    #[error("server {server} uses {used} slots, its depth is {depth}")]
    Depth { server: u32, used: u32, depth: u32 },
    /// A request waited too long for its dispatch.
    #[error("a request of {app} waited {:.3} s at server {server}; the wait limit is {:.3} s", .waited.as_secs_f64(), .limit.as_secs_f64())]
    Starved { server: u32, app: String, waited: Duration, limit: Duration },
    /// Bytes were lost or duplicated.
    #[error("{app} asked for {asked} bytes, {served} were served and {underway} are in progress")]
    Conservation { app: String, asked: u64, served: u64, underway: u64 },
    /// An event is earlier than the previous one.
    #[error("time moved backwards to {:.9} s", .to.since(Time::ZERO).as_secs_f64())]
    TimeWentBack { to: Time },
    /// No events are left, but an application has not finished.
    #[error("{app} has not finished, but no events are left")]
    Stuck { app: String },
}

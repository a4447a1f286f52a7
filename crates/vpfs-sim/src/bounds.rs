//! Limits on the size of a run: one digit too many in a scenario is an error, and does not use up all memory.

use std::time::Duration;

use crate::error::SimError;
use crate::policy::needs_peers;
use crate::scenario::{App, PolicySpec, Scenario, Workload};

/// Over all groups.
const SERVERS: u64 = 100_000;
/// Including copies; each takes a few hundred kilobytes for its latencies.
pub(crate) const APPS: u64 = 10_000;
/// Over all applications.
const PROCESSES: u64 = 1_000_000;
/// Each server has state for each application.
const PAIRS: u64 = 10_000_000;
/// Each server may have state for each application at each of its peers.
const HEARD: u64 = 50_000_000;
/// Numbers in all time series.
const SERIES: u64 = 20_000_000;
/// Requests in transit, queued or being served.
const UNDERWAY: u64 = 20_000_000;

/// Checks everything that is known before the simulation is built.
pub(crate) fn check(scenario: &Scenario, policy: &PolicySpec) -> Result<(), SimError> {
    let servers: u64 = scenario.servers.iter().map(|group| u64::from(group.count)).sum();
    let apps = scenario.apps.len() as u64;
    at_most(servers, SERVERS, "servers")?;
    at_most(apps, APPS, "applications")?;
    at_most(servers * apps, PAIRS, "applications times servers")?;
    if needs_peers(policy, scenario) {
        // One server of each group has as many peers again on the next level.
        let peers = servers.min(scenario.peers.settings.group_size as u64 + 1);
        at_most(servers * peers * apps, HEARD, "applications times servers times peers of each")?;
    }
    if scenario.duration.is_none() && scenario.apps.iter().all(|app| app.background) {
        return refuse("all applications are in the background, so the run would never end; add duration".into());
    }
    if scenario.duration.is_none()
        && let Some(app) = scenario.apps.iter().find(|app| keeps_up(app))
    {
        return refuse(format!("{} continues until the run ends, so the run would never end; add duration", app.name));
    }
    let intervals = scenario.duration.map_or(0, |duration| duration.as_nanos() / scenario.interval.as_nanos().max(1));
    check_intervals(u64::try_from(intervals).unwrap_or(u64::MAX), most_intervals(scenario))
}

/// Whether the run would wait for an application that never finishes.
fn keeps_up(app: &App) -> bool {
    let is_endless = matches!(&app.workload, Workload::Interactive(interactive) if interactive.time == Duration::MAX);
    is_endless && app.end.is_none() && !app.background
}

/// Checks the number of processes.
pub(crate) fn check_processes(processes: u64) -> Result<(), SimError> {
    at_most(processes, PROCESSES, "processes")
}

/// Checks the number of requests in progress.
pub(crate) fn check_underway(requests: u64) -> Result<(), SimError> {
    at_most(requests, UNDERWAY, "requests in progress at once")
}

/// Checks the length of the time series.
pub(crate) fn check_intervals(intervals: u64, most: u64) -> Result<(), SimError> {
    if intervals <= most {
        return Ok(());
    }
    refuse(format!(
        "its time series have {intervals} intervals, but the limit is {most}; make interval longer or the run shorter"
    ))
}

/// The maximum number of intervals in the time series of a scenario.
pub(crate) fn most_intervals(scenario: &Scenario) -> u64 {
    let servers: u64 = scenario.servers.iter().map(|group| u64::from(group.count)).sum();
    let apps = scenario.apps.len() as u64;
    let pairs = if scenario.by_server { servers * apps } else { 0 };
    // Series of applications, servers, each application at each server, and coordination.
    SERIES / (2 * apps + 3 * servers + 3 * pairs + 3)
}

fn at_most(value: u64, most: u64, what: &str) -> Result<(), SimError> {
    if value <= most {
        Ok(())
    } else {
        refuse(format!("there are {value} {what}; the limit of a simulation is {most}"))
    }
}

fn refuse<T>(problem: String) -> Result<T, SimError> {
    Err(SimError::Scenario(problem))
}

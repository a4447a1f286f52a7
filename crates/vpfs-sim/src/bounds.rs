//! What a scenario cannot have: servers that do not exist, a run that never ends, and more than fits memory: one digit
//! too many is an error.

use std::time::Duration;

use crate::layout::Placement;
use crate::model::plan::Phase;
use crate::results::SimError;
use crate::scenario::{App, PolicySpec, Role, Scenario, Workload, needs_peers};

const SERVERS: u64 = 100_000;
/// Including copies; each takes a few hundred kilobytes for its latencies.
pub(crate) const APPS: u64 = 10_000;
const PROCESSES: u64 = 1_000_000;
/// Each server has state for each application.
const PAIRS: u64 = 10_000_000;
/// Each server may have state for each application at each of its peers.
const HEARD: u64 = 50_000_000;
/// Numbers in all time series.
const SERIES: u64 = 20_000_000;
/// Requests in transit, queued or being served.
const UNDERWAY: u64 = 20_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// The number and name of the application that has it, if only one does.
    app: Option<(usize, String)>,
    /// The key of the file that is most likely wrong.
    pub(crate) key: &'static str,
    pub(crate) problem: String,
}

impl Misfit {
    pub(crate) fn app(&self) -> Option<usize> {
        self.app.as_ref().map(|(number, _)| *number)
    }
}

impl From<Misfit> for SimError {
    fn from(Misfit { app, problem, .. }: Misfit) -> Self {
        Self::Scenario(app.map_or(String::new(), |(_, name)| name + ": ") + &problem)
    }
}

pub(crate) fn check(scenario: &Scenario, policy: &PolicySpec) -> Result<(), Misfit> {
    check_parts(scenario, policy)?;
    check_end(scenario)
}

/// The same, except what depends on the end of the run.
pub(crate) fn check_parts(scenario: &Scenario, policy: &PolicySpec) -> Result<(), Misfit> {
    let servers: u64 = scenario.servers.iter().map(|group| u64::from(group.count)).sum();
    let apps = scenario.apps.len() as u64;
    at_most(servers, SERVERS, "servers", "servers")?;
    at_most(apps, APPS, "app", "applications")?;
    at_most(servers * apps, PAIRS, "app", "applications times servers")?;
    let data = with_role(scenario, |role| role != Role::Metadata);
    if data.is_empty() || with_role(scenario, |role| role != Role::Data).is_empty() {
        return refuse("servers", "there must be a server for data and one for metadata");
    }
    check_faults(scenario, servers)?;
    let mut processes = 0;
    for (number, app) in scenario.apps.iter().enumerate() {
        fit(app, &data).map_err(|(key, problem)| Misfit { app: Some((number, app.name.clone())), key, problem })?;
        processes += u64::from(app.workload.plan(0).processes());
    }
    at_most(processes, PROCESSES, "app", "processes")?;
    if needs_peers(policy, scenario) {
        // One server of each group has as many peers again on the next level.
        let peers = servers.min(scenario.peers.settings.group_size as u64 + 1);
        at_most(servers * peers * apps, HEARD, "app", "applications times servers times peers of each")?;
    }
    Ok(())
}

pub(crate) fn check_end(scenario: &Scenario) -> Result<(), Misfit> {
    if scenario.peers.random_restarts > 0 && scenario.duration.unwrap_or_default().is_zero() {
        return refuse("duration", "random restarts need the duration of the scenario");
    }
    if scenario.duration.is_none() && scenario.apps.iter().all(|app| app.background) {
        return refuse("duration", "all applications are in the background, so the run would never end; add duration");
    }
    if scenario.duration.is_none()
        && let Some((number, app)) = scenario.apps.iter().enumerate().find(|(_, app)| keeps_up(app))
    {
        let problem = "continues until the run ends, so the run would never end; add duration".into();
        return Err(Misfit { app: Some((number, app.name.clone())), key: "interactive", problem });
    }
    let intervals = scenario.duration.map_or(0, |duration| duration.as_nanos() / scenario.interval.as_nanos().max(1));
    check_intervals(u64::try_from(intervals).unwrap_or(u64::MAX), most_intervals(scenario))
}

pub(crate) fn with_role(scenario: &Scenario, fits: impl Fn(Role) -> bool) -> Vec<u32> {
    let roles = scenario.servers.iter().flat_map(|group| (0..group.count).map(|_| group.role));
    (0..).zip(roles).filter(|(_, role)| fits(*role)).map(|(number, _)| number).collect()
}

fn check_faults(scenario: &Scenario, servers: u64) -> Result<(), Misfit> {
    let network = &scenario.peers;
    let partitioned = network.partitions.iter().flat_map(|partition| &partition.servers).copied();
    let mut named = network.restarts.iter().map(|restart| restart.server).chain(partitioned);
    if let Some(server) = named.find(|&server| u64::from(server) >= servers) {
        return refuse("peers", format!("there is no server {server} to fail; numbers are below {servers}"));
    }
    Ok(())
}

pub(crate) fn fit(app: &App, data: &[u32]) -> Result<(Placement, Vec<Phase>), (&'static str, String)> {
    app.workload.validate().map_err(|error| ("name", error.to_string()))?;
    let placement = Placement::new(&app.layout, data);
    let placement = placement.map_err(|error| (error.key(&app.layout), error.to_string()))?;
    let all = app.workload.plan(0).phases();
    let chosen: Vec<Phase> =
        all.iter().copied().filter(|phase| app.phases.is_empty() || app.phases.contains(phase)).collect();
    if chosen.is_empty() {
        let names: Vec<String> = all.iter().map(Phase::to_string).collect();
        return Err(("phases", format!("its workload has none of these phases; it has {}", names.join(", "))));
    }
    Ok((placement, chosen))
}

fn keeps_up(app: &App) -> bool {
    let is_endless = matches!(&app.workload, Workload::Interactive(interactive) if interactive.time == Duration::MAX);
    is_endless && app.end.is_none() && !app.background
}

pub(crate) fn check_underway(requests: u64) -> Result<(), Misfit> {
    at_most(requests, UNDERWAY, "app", "requests in progress at once")
}

pub(crate) fn check_intervals(intervals: u64, most: u64) -> Result<(), Misfit> {
    if intervals <= most {
        return Ok(());
    }
    let remedy = "make interval longer or the run shorter";
    refuse("interval", format!("its time series have {intervals} intervals, but the limit is {most}; {remedy}"))
}

pub(crate) fn most_intervals(scenario: &Scenario) -> u64 {
    let servers: u64 = scenario.servers.iter().map(|group| u64::from(group.count)).sum();
    let apps = scenario.apps.len() as u64;
    let pairs = if scenario.by_server { servers * apps } else { 0 };
    // Series of applications, servers, each application at each server, and coordination.
    SERIES / (2 * apps + 3 * servers + 3 * pairs + 3)
}

fn at_most(value: u64, most: u64, key: &'static str, what: &str) -> Result<(), Misfit> {
    if value <= most {
        Ok(())
    } else {
        refuse(key, format!("there are {value} {what}; the limit of a simulation is {most}"))
    }
}

fn refuse<T>(key: &'static str, problem: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit { app: None, key, problem: problem.into() })
}

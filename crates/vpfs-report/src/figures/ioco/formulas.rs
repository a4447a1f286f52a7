//! [IOCO §3.2]: formulas (1) and (2) against simulated servers that need one unit of time for each request.
//!
//! In the analysis all applications wait before the first one is served; therefore an additional application keeps all
//! servers busy until the requests of the others have arrived.

use std::time::Duration;

use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable};
use vpfs_sim::model::device::{DeviceProfile, NullAioProfile};
use vpfs_sim::model::plan::{Phase, PioBench, PioPattern};
use vpfs_sim::{
    App, Layout, LinkProfile, PolicySpec, RequestTime, Scenario, ServerGroup, SimError, Simulation, parallel,
};

use crate::figures::papers::Values;
use crate::{Axis, Plot, Section, Series};

const APPS: [u32; 4] = [2, 4, 8, 16];
const SERVERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const SEEDS: u64 = 40;
/// The unit of time t, and when the applications arrive: while the additional application keeps the servers busy.
const UNIT: Duration = Duration::from_secs(1);
const ARRIVAL: Duration = Duration::from_millis(500);
const STRIP: u32 = 4 << 10;

/// Mean completion times for one number of applications and servers, in units.
struct Point {
    apps: u32,
    servers: u32,
    independent: f64,
    coordinated: f64,
}

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let points = points(&APPS, PolicyKind::Ioco)?;
    let section = Section::new("IOCO §3.2: formulas against simulation")
        .text(
            "If every server serves the applications in its own random order, nearly all of them wait for some server \
             that serves them last: the more servers there are, the closer the completion time is to the number of \
             applications. With the same order everywhere, the first one is done after one unit of time and the mean \
             is half the number of applications, regardless of the number of servers. So coordination can at most \
             halve the completion time.",
        )
        .figure(chart(&points), "Lines: formulas (1) and (2). Points: simulated, means over 40 seeds.");
    Ok((section, values(&points)))
}

fn points(apps: &[u32], coordinated: PolicyKind) -> Result<Vec<Point>, SimError> {
    let places: Vec<_> = apps.iter().flat_map(|&apps| SERVERS.map(|servers| (apps, servers))).collect();
    parallel::map(&places, |&(apps, servers)| Point::new(apps, servers, coordinated)).into_iter().collect()
}

impl Point {
    fn new(apps: u32, servers: u32, coordinated: PolicyKind) -> Result<Self, SimError> {
        let mean = |kind| {
            let sum: Result<f64, SimError> = (1..=SEEDS).map(|seed| completion(apps, servers, kind, seed)).sum();
            sum.map(|sum| sum / SEEDS as f64)
        };
        Ok(Self { apps, servers, independent: mean(PolicyKind::Fifo)?, coordinated: mean(coordinated)? })
    }
}

/// The mean completion time of one run, counted from the time when the servers become free.
fn completion(apps: u32, servers: u32, kind: PolicyKind, seed: u64) -> Result<f64, SimError> {
    let settings = Settings::new(kind, Depth::new(1).expect("not zero"), SlotCostTable::uniform());
    let policy = PolicySpec { request_time: RequestTime::Issue, ..PolicySpec::new("policy", settings) };
    let results = Simulation::new(&scenario(apps, servers, seed), &policy)?.run()?;
    let sum: f64 = results.apps[1..].iter().map(|app| app.read.mean_seconds).sum();
    Ok((sum / f64::from(apps) - ARRIVAL.as_secs_f64()) / UNIT.as_secs_f64())
}

fn scenario(apps: u32, servers: u32, seed: u64) -> Scenario {
    let plan = PioBench {
        request_bytes: STRIP * servers,
        requests: 1,
        pattern: PioPattern::Segmented,
        barrier: false,
        ..PioBench::paper(1)
    };
    let app = |number, start| App {
        start,
        phases: vec![Phase::Read],
        layout: Layout::striped(STRIP.into()),
        ..App::new(format!("app-{number}"), plan.clone())
    };
    let device = DeviceProfile::NullAio(NullAioProfile { per_access: UNIT, bytes_per_second: u64::MAX });
    Scenario {
        seed,
        jitter: Duration::from_millis(10),
        servers: vec![ServerGroup { link: LinkProfile::IDEAL, ..ServerGroup::new(servers, device) }],
        apps: [app(0, Duration::ZERO)].into_iter().chain((1..=apps).map(|number| app(number, ARRIVAL))).collect(),
        ..Scenario::default()
    }
}

fn chart(points: &[Point]) -> Plot {
    let y = Axis::linear("mean completion time", "t").include(0.0);
    let plot = Plot::new("Completion time by number of servers", Axis::log2("servers", ""), y);
    APPS.into_iter().fold(plot, |plot, apps| {
        let of = |value: fn(&Point) -> f64| {
            let points = points.iter().filter(move |point| point.apps == apps);
            points.map(move |point| (f64::from(point.servers), value(point))).collect::<Vec<_>>()
        };
        plot.series(Series::line(
            format!("(1), {apps} apps"),
            of(|point| independent_completion(point.apps, point.servers)),
        ))
        .series(Series::scatter(format!("original, {apps} apps"), of(|point| point.independent)))
        .series(Series::line(format!("(2), {apps} apps"), of(|point| coordinated_completion(point.apps))))
        .series(Series::scatter(format!("coordinated, {apps} apps"), of(|point| point.coordinated)))
    })
}

/// The largest difference of any point from each formula, in % (percentage points for the reduction).
fn values(points: &[Point]) -> Values {
    let largest = |error: &dyn Fn(&Point) -> f64| points.iter().map(error).map(f64::abs).fold(0.0, f64::max) * 100.0;
    let mut values = Values::default();
    let first = |point: &Point| point.independent / independent_completion(point.apps, point.servers) - 1.0;
    let second = |point: &Point| point.coordinated / coordinated_completion(point.apps) - 1.0;
    let reduction = |point: &Point| 1.0 - point.coordinated / point.independent;
    let third = |point: &Point| reduction(point) - relative_reduction(point.apps, point.servers);
    values.set("error 1", [largest(&first)]);
    values.set("error 2", [largest(&second)]);
    values.set("error 3", [largest(&third)]);
    values
}

/// Two applications; `fifo` coordinates nothing.
#[cfg(test)]
pub(crate) fn changed(_: &str) -> Result<Values, SimError> {
    Ok(values(&points(&APPS[..1], PolicyKind::Fifo)?))
}

/// Mean completion time, in units of the time that a server needs for its part of one application, where each of
/// `servers` servers (n in the paper) takes `apps` applications (m) in a random order of its own, formula (1):
/// m − Σ k^n / m^n for k from 1 to m − 1. O(apps · log servers).
fn independent_completion(apps: u32, servers: u32) -> f64 {
    let below = |k: u32| power(f64::from(k) / f64::from(apps), servers);
    f64::from(apps) - (1..apps).map(below).sum::<f64>()
}

/// Mean completion time where all servers take the applications in the same order, formula (2): (m + 1)/2, whatever the
/// number of servers.
fn coordinated_completion(apps: u32) -> f64 {
    (f64::from(apps) + 1.0) / 2.0
}

/// By how much coordination shortens the mean completion time, formula (3), as a part of that without it; approaches
/// (m − 1)/(2m) for many servers.
fn relative_reduction(apps: u32, servers: u32) -> f64 {
    let independent = independent_completion(apps, servers);
    (independent - coordinated_completion(apps)) / independent
}

/// `base` to the power of `exponent`, by squaring: `powi` may round differently on other machines, and equal runs give
/// equal bytes.
fn power(base: f64, exponent: u32) -> f64 {
    match exponent {
        0 => 1.0,
        _ => {
            let root = power(base * base, exponent / 2);
            if exponent % 2 == 1 { root * base } else { root }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    /// All combinations of the places that one application's parts can have.
    fn enumerated(apps: u32, servers: u32) -> f64 {
        let combinations = apps.pow(servers);
        let latest = |combination: u32| (0..servers).map(|server| combination / apps.pow(server) % apps + 1).max();
        (0..combinations).filter_map(latest).map(f64::from).sum::<f64>() / f64::from(combinations)
    }

    #[test]
    fn formula_1_is_the_mean_over_all_orders() {
        for (apps, servers) in [(1, 1), (1, 7), (2, 1), (2, 3), (3, 4), (5, 5), (8, 3), (10, 4)] {
            assert!(close(independent_completion(apps, servers), enumerated(apps, servers)), "{apps} {servers}");
        }
    }

    #[test]
    fn the_reduction_grows_from_nothing_with_one_server_up_to_its_limit() {
        for apps in 2..40 {
            assert!(close(relative_reduction(apps, 1), 0.0));
            let limit = (f64::from(apps) - 1.0) / (2.0 * f64::from(apps));
            assert!(close(relative_reduction(apps, 100_000), limit));
            for servers in 1..40 {
                let here = relative_reduction(apps, servers);
                assert!(here < relative_reduction(apps, servers + 1) && here < limit);
                assert!(servers == 1 || here < relative_reduction(apps + 1, servers));
            }
        }
    }
}

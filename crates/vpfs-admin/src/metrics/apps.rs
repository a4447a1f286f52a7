//! What each application does at each server.

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use vpfs_config::Charge;
use vpfs_node::{Activity, AppSnapshot, Histogram};
use vpfs_proxy::{ServerStatus, Status};

use super::family::{Family, Measured};
use super::histogram::buckets;

/// The application of the series of those that have none of their own, as a cluster may have thousands: no name has
/// parentheses.
const OTHERS: &str = "(other automatic)";

const OPS: [&str; 3] = ["read", "write", "metadata"];

/// An application's series at a server.
struct App<'a> {
    server: &'a str,
    app: &'a str,
    charge: Option<&'a Charge>,
    seen: &'a AppSnapshot,
}

impl<'a> App<'a> {
    /// All of its series have these. Labels without a value are left out, which Prometheus takes for the same.
    fn labels(&self, op: Option<&'a str>) -> Vec<(&'static str, &'a str)> {
        let charged =
            |value: fn(&'a Charge) -> &'a Option<String>| self.charge.and_then(|charge| value(charge).as_deref());
        let (account, user) = (charged(|charge| &charge.account), charged(|charge| &charge.user));
        let all =
            [("server", Some(self.server)), ("app", Some(self.app)), ("account", account), ("user", user), ("op", op)];
        all.into_iter().filter_map(|(label, value)| Some((label, value?))).collect()
    }
}

/// By application.
static BY_APP: [Measured<AppSnapshot>; 6] = [
    (Family::gauge("app_weight", None, "Weight of the application among those in the same share"), |app| {
        app.account.policy.weight.get().into()
    }),
    (Family::gauge("app_exempt", None, "1 if the application's requests pass at once"), |app| {
        f64::from(u8::from(app.account.policy.exempt))
    }),
    (
        Family::counter(
            "app_used",
            Some(Unit::Seconds),
            "Time of the storage that the application used; of all applications, the busy time of the server",
        ),
        |app| app.used.as_secs_f64(),
    ),
    (
        Family::counter(
            "app_entitled",
            Some(Unit::Seconds),
            "Time of the storage to which its weight entitled the application, among those that had requests",
        ),
        |app| app.entitled.as_secs_f64(),
    ),
    (
        Family::counter(
            "app_held",
            Some(Unit::Seconds),
            "Time that requests waited behind nobody: for a cap, or a pace while nothing was in the storage",
        ),
        |app| app.account.held.as_secs_f64(),
    ),
    (Family::counter("app_released_requests", None, "Requests whose clients kept the storage waiting"), |app| {
        app.account.released as f64
    }),
];

/// By application and kind of request.
static BY_OP: [Measured<Activity>; 5] = [
    (Family::counter("app_requests", None, "Requests that ended"), |work| work.requests as f64),
    (Family::counter("app_failed_requests", None, "Requests that ended in time-out or disconnection"), |work| {
        work.failed as f64
    }),
    (Family::counter("app_late_requests", None, "Requests that took longer than the promised latency"), |work| {
        work.late as f64
    }),
    (Family::gauge("app_queued_requests", None, "Requests that wait in vpfs"), |work| work.queued.into()),
    (Family::gauge("app_outstanding_requests", None, "Requests in the storage"), |work| work.outstanding.into()),
];

/// A metric, and its histogram.
type Times = (Family, fn(&Activity) -> &Histogram);

/// The data of requests; those for metadata have none.
static DATA: Family = Family::counter("app_data", Some(Unit::Bytes), "Data bytes that passed");

/// By application and kind of request.
static TIMES: [Times; 2] = [
    (times("app_wait", "Time of requests in vpfs, from arrival to dispatch"), |work| &work.waited),
    (times("app_storage", "Time of requests in the storage, from dispatch to the end"), |work| &work.served),
];

const fn times(name: &'static str, help: &'static str) -> Family {
    Family { name, unit: Some(Unit::Seconds), kind: MetricType::Histogram, help }
}

pub(super) fn encode(status: &Status, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    let apps: Vec<App<'_>> = status.servers.iter().flat_map(|server| apps(status, server)).collect();
    for (family, value) in &BY_APP {
        let mut metric = family.open(encoder)?;
        for app in &apps {
            family.put(&mut metric, &app.labels(None), value(app.seen))?;
        }
    }
    let works = || {
        apps.iter()
            .flat_map(|app| OPS.into_iter().zip(app.seen.account.activities()).map(move |(op, work)| (app, op, work)))
    };
    let of_op = BY_OP.iter().map(|(family, value)| (family, *value, &OPS[..]));
    let data: fn(&Activity) -> f64 = |work| work.bytes as f64;
    for (family, value, ops) in of_op.chain([(&DATA, data, &OPS[..2])]) {
        let mut metric = family.open(encoder)?;
        for (app, op, work) in works().filter(|(_, op, _)| ops.contains(op)) {
            family.put(&mut metric, &app.labels(Some(op)), value(work))?;
        }
    }
    for (family, histogram) in &TIMES {
        let mut metric = family.open(encoder)?;
        // Most applications do not do everything everywhere, and these have a dozen series each.
        for (app, op, work) in works().filter(|(_, _, work)| work.requests > 0) {
            let histogram = histogram(work);
            let (buckets, count) = buckets(histogram);
            let labels = app.labels(Some(op));
            let labels = &labels[..];
            let mut series = metric.encode_family(&labels)?;
            series.encode_histogram::<NoLabelSet>(histogram.sum.as_secs_f64(), count, &buckets, None)?;
        }
    }
    Ok(())
}

/// Those that have series of their own, and the sum of all others.
fn apps<'a>(status: &'a Status, server: &'a ServerStatus) -> Vec<App<'a>> {
    let own = server.snapshot.apps.iter().filter(|seen| !seen.is_other).filter_map(|seen| {
        let app = status.apps.get(seen.app.index())?;
        Some(App { server: &server.name, app: &app.name, charge: Some(&app.charge), seen })
    });
    let others = server.snapshot.others.iter();
    own.chain(others.map(|seen| App { server: &server.name, app: OTHERS, charge: None, seen })).collect()
}

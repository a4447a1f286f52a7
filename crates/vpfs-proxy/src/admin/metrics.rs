//! Metrics in the text formats of Prometheus. docs/guide/watching.md tells what to do with them.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use vpfs_config::Charge;
use vpfs_core::Time;
use vpfs_node::{Activity, AppSnapshot, Histogram};

use crate::{HolderReport, PeerReport, ServerStatus, Status};

/// What the one who asks understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0, which Prometheus asks for.
    OpenMetrics,
    /// Prometheus 0.0.4, which everybody understands.
    Prometheus,
}

impl Format {
    /// The format for what a client accepts, by its header of that name.
    pub(crate) fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// All metrics of a daemon, with the names of pushed sets and how long each still holds. O(servers × applications), a
/// millisecond for some dozens.
pub fn text(status: Status, sets: Vec<(String, Duration)>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Start(status.started)));
    let registry_of_vpfs = registry.sub_registry_with_prefix("vpfs");
    registry_of_vpfs.register_collector(Box::new(Daemon(Arc::new(status))));
    registry_of_vpfs.register_collector(Box::new(PushedSets(sets)));
    let mut text = String::new();
    let encoded = match format {
        Format::OpenMetrics => text::encode(&mut text, &registry),
        Format::Prometheus => prometheus_text::encode(&mut text, &registry),
    };
    encoded.expect("a String takes everything");
    text
}

/// By the name that each exporter has for it, by which Prometheus and its users see that counters began anew, also
/// where they are higher already than before.
#[derive(Debug)]
struct Start(Time);

impl Collector for Start {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let family = Family::gauge("process_start_time", Some(Unit::Seconds), "Start, since 1970; counters begin then");
        let since_1970 = self.0.since(Time::ZERO).as_secs_f64();
        family.put(&mut family.open(&mut encoder)?, &[], since_1970)
    }
}

/// Falls below its usual values when an owner that pushes periodically, such as the agent of Slurm, is gone.
static SET_LEFT: Family = Family::gauge(
    "pushed_set_left",
    Some(Unit::Seconds),
    "Time for which the pushed set holds unless its owner pushes it again",
);

#[derive(Debug)]
struct PushedSets(Vec<(String, Duration)>);

impl Collector for PushedSets {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut metric = SET_LEFT.open(&mut encoder)?;
        self.0.iter().try_for_each(|(set, left)| SET_LEFT.put(&mut metric, &[("set", set)], left.as_secs_f64()))
    }
}

#[derive(Debug)]
struct Daemon(Arc<Status>);

impl Collector for Daemon {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        encode_servers(&self.0, &mut encoder)?;
        encode_apps(&self.0, &mut encoder)
    }
}

static BUILD: Family = Family::gauge("build_info", None, "The version of vpfs");

static PROCESS: [Measured<Status>; 6] = [
    (Family::gauge("uptime", Some(Unit::Seconds), "Time since the start; counters begin then"), |status| {
        status.uptime.as_secs_f64()
    }),
    (Family::gauge("memory_held", Some(Unit::Bytes), "Bytes that connections hold"), |status| status.memory.now as f64),
    (Family::gauge("memory_limit", Some(Unit::Bytes), "limits.memory"), |status| status.memory.limit as f64),
    (Family::gauge("connections", None, "Connections of clients"), |status| status.connections.now as f64),
    (Family::gauge("connections_limit", None, "limits.connections"), |status| status.connections.limit as f64),
    (
        Family::gauge(
            "host_unstored",
            Some(Unit::Bytes),
            "Bytes of files that the host has in memory and on no disk yet",
        ),
        |status| status.unstored as f64,
    ),
];

static BY_SERVER: [Measured<ServerStatus, Option<f64>>; 6] = [
    (
        Family::counter(
            "server_busy",
            Some(Unit::Seconds),
            "Time of the storage that all applications used: its rate is the utilisation",
        ),
        |server| Some(server.snapshot.busy.as_secs_f64()),
    ),
    (Family::gauge("server_queued_requests", None, "Requests that wait in vpfs"), |server| {
        Some(server.snapshot.queued as f64)
    }),
    (Family::gauge("server_outstanding_requests", None, "Requests in the storage"), |server| {
        Some(server.snapshot.outstanding as f64)
    }),
    (Family::gauge("server_depth", None, "Depth that the policy has found"), |server| {
        server.snapshot.limits.depth.map(|depth| depth.get().into())
    }),
    (
        Family::gauge(
            "server_bulk_pace_bytes_per_second",
            None,
            "Rate of bulk, of which an access takes 64 KiB and its bytes, while others are protected; absent while they \
             are not",
        ),
        |server| server.snapshot.limits.pace.map(|pace| pace as f64),
    ),
    (
        Family::counter(
            "server_refused_connections",
            None,
            "Connections closed because of limits.connections_per_host",
        ),
        |server| Some(server.refused_connections as f64),
    ),
];

static BY_PEER: [Measured<PeerReport, Option<f64>>; 4] = [
    (Family::gauge("peer_connected", None, "1 while the proxy of this server is connected"), |peer| {
        Some(f64::from(u8::from(peer.connected)))
    }),
    (Family::gauge("peer_report_age", Some(Unit::Seconds), "Time since the latest report of the peer"), |peer| {
        peer.news_age_seconds
    }),
    (Family::counter("peer_dropped_reports", None, "Reports that newer ones replaced, or that did not fit"), |peer| {
        Some(peer.dropped as f64)
    }),
    (Family::gauge("peer_clock_offset", Some(Unit::Seconds), "How far the clock of the peer is ahead"), |peer| {
        peer.clock_ahead_seconds
    }),
];

static REPORTS: Family = Family::counter("peer_reports", None, "Reports about service");

static REPORT_BYTES: Family = Family::counter("peer_report", Some(Unit::Bytes), "Bytes of these reports");

static HOLDERS: Family = Family::gauge(
    "holder_connections",
    None,
    "Connections of a host (a user at the socket) that has at least half of what one may have at this port; others have \
     no series",
);

fn encode_servers(status: &Status, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    BUILD.put(&mut BUILD.open(encoder)?, &[("version", env!("CARGO_PKG_VERSION"))], 1.0)?;
    for (family, value) in &PROCESS {
        family.put(&mut family.open(encoder)?, &[], value(status))?;
    }
    let mut metric = HOLDERS.open(encoder)?;
    for HolderReport { port, holder, connections } in &status.holders {
        HOLDERS.put(&mut metric, &[("port", port), ("holder", holder)], connections.now as f64)?;
    }
    put_all(&BY_SERVER, encoder, &status.servers, ("server", |server| &server.name))?;
    encode_peers(&status.peers, encoder)
}

fn encode_peers(peers: &[PeerReport], encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    put_all(&BY_PEER, encoder, peers, ("peer", |peer| &peer.server))?;
    for (family, is_bytes) in [(&REPORTS, false), (&REPORT_BYTES, true)] {
        let mut metric = family.open(encoder)?;
        for peer in peers {
            for (direction, traffic) in [("sent", peer.sent), ("received", peer.received)] {
                let value = if is_bytes { traffic.bytes } else { traffic.messages };
                family.put(&mut metric, &[("peer", &peer.server), ("direction", direction)], value as f64)?;
            }
        }
    }
    Ok(())
}

/// The application of the series of those that have none of their own, as a cluster may have thousands: no name has
/// parentheses.
const OTHERS: &str = "(other automatic)";

const OPS: [&str; 3] = ["read", "write", "metadata"];

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

type Times = (Family, fn(&Activity) -> &Histogram);

/// The data of requests; those for metadata have none.
static DATA: Family = Family::counter("app_data", Some(Unit::Bytes), "Data bytes that passed");

static TIMES: [Times; 2] = [
    (times("app_wait", "Time of requests in vpfs, from arrival to dispatch"), |work| &work.waited),
    (times("app_storage", "Time of requests in the storage, from dispatch to the end"), |work| &work.served),
];

const fn times(name: &'static str, help: &'static str) -> Family {
    Family { name, unit: Some(Unit::Seconds), kind: MetricType::Histogram, help }
}

fn encode_apps(status: &Status, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
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

fn apps<'a>(status: &'a Status, server: &'a ServerStatus) -> Vec<App<'a>> {
    let own = server.snapshot.apps.iter().filter(|seen| !seen.is_other).filter_map(|seen| {
        let app = status.apps.get(seen.app.index())?;
        Some(App { server: &server.name, app: &app.name, charge: Some(&app.charge), seen })
    });
    let others = server.snapshot.others.iter();
    own.chain(others.map(|seen| App { server: &server.name, app: OTHERS, charge: None, seen })).collect()
}

type Labels<'a> = [(&'static str, &'a str)];

type Measured<S, V = f64> = (Family, fn(&S) -> V);

/// A metric without its values. Its name gets the prefix `vpfs_` and its unit, and a counter `_total`.
struct Family {
    name: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    help: &'static str,
}

impl Family {
    const fn counter(name: &'static str, unit: Option<Unit>, help: &'static str) -> Self {
        Self { name, unit, kind: MetricType::Counter, help }
    }

    const fn gauge(name: &'static str, unit: Option<Unit>, help: &'static str) -> Self {
        Self { name, unit, kind: MetricType::Gauge, help }
    }

    /// Head of the metric; its series follow at once.
    fn open<'a>(&'a self, encoder: &'a mut DescriptorEncoder<'_>) -> Result<MetricEncoder<'a>, std::fmt::Error> {
        encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), self.kind)
    }

    fn put(&self, encoder: &mut MetricEncoder<'_>, labels: &Labels<'_>, value: f64) -> std::fmt::Result {
        let mut series = encoder.encode_family(&labels)?;
        match self.kind {
            MetricType::Counter => series.encode_counter::<NoLabelSet, f64, f64>(&value, None),
            _ => series.encode_gauge(&value),
        }
    }
}

/// The series of each metric of `table`, one for each of `all` that has a value, with its name as `label`.
fn put_all<S>(
    table: &[Measured<S, Option<f64>>],
    encoder: &mut DescriptorEncoder<'_>,
    all: &[S],
    (label, name): (&'static str, fn(&S) -> &str),
) -> std::fmt::Result {
    for (family, value) in table {
        let mut metric = family.open(encoder)?;
        for one in all {
            if let Some(value) = value(one) {
                family.put(&mut metric, &[(label, name(one))], value)?;
            }
        }
    }
    Ok(())
}

/// The upper ends of buckets, as powers of two of microseconds: from 128 µs, which flash may take, to half a minute, by
/// factors of four.
const ENDS: [usize; 10] = [7, 9, 11, 13, 15, 17, 19, 21, 23, 25];

/// Upper ends in seconds with the counts of each bucket, and the count of all.
fn buckets(histogram: &Histogram) -> (Vec<(f64, u64)>, u64) {
    let mut buckets = Vec::with_capacity(ENDS.len() + 1);
    let mut start = 0;
    for end in ENDS {
        // Those of `counts[i]` took less than 2^(i + 1) µs.
        buckets.push(((1_u64 << end) as f64 / 1e6, histogram.counts[start..end].iter().sum()));
        start = end;
    }
    buckets.push((f64::INFINITY, histogram.counts[start..].iter().sum()));
    (buckets, histogram.counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use vpfs_config::Charge;

    use super::*;
    use crate::admin::testing::status;

    fn lines(status: Status, format: Format) -> Vec<String> {
        text(status, vec![("slurm".to_owned(), Duration::from_secs(270))], format).lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn assert_has(lines: &[String], expected: &[&str]) {
        for line in expected {
            assert!(lines.iter().any(|found| found == line), "no {line} in\n{}", lines.join("\n"));
        }
    }

    #[test]
    fn counters_gauges_and_histograms_say_what_the_snapshot_says() {
        let lines = lines(status(&["climate"]), Format::Prometheus);
        assert_has(
            &lines,
            &[
                "# TYPE vpfs_app_data_bytes_total counter",
                "process_start_time_seconds 1800000000.5",
                "vpfs_app_data_bytes_total{server=\"s1\",app=\"climate\",op=\"read\"} 3145728.0",
                "vpfs_app_requests_total{server=\"s2\",app=\"climate\",op=\"metadata\"} 0.0",
                "vpfs_app_entitled_seconds_total{server=\"s1\",app=\"climate\"} 30.0",
                "vpfs_app_exempt{server=\"s1\",app=\"climate\"} 0.0",
                "vpfs_app_used_seconds_total{server=\"s1\",app=\"climate\"} 20.0",
                "vpfs_app_queued_requests{server=\"s1\",app=\"climate\",op=\"read\"} 1.0",
                // Two waits from 1 to 2 ms.
                "vpfs_app_wait_seconds_bucket{server=\"s1\",app=\"climate\",op=\"read\",le=\"0.000512\"} 0",
                "vpfs_app_wait_seconds_bucket{server=\"s1\",app=\"climate\",op=\"read\",le=\"0.002048\"} 2",
                "vpfs_app_wait_seconds_bucket{server=\"s1\",app=\"climate\",op=\"read\",le=\"+Inf\"} 2",
                "vpfs_app_wait_seconds_sum{server=\"s1\",app=\"climate\",op=\"read\"} 3.0",
                "vpfs_server_busy_seconds_total{server=\"s1\"} 40.0",
                "vpfs_server_bulk_pace_bytes_per_second{server=\"s1\"} 250000000.0",
                "vpfs_server_refused_connections_total{server=\"s1\"} 3.0",
                "vpfs_holder_connections{port=\"metrics\",holder=\"10.0.0.9\"} 60.0",
                "vpfs_memory_limit_bytes 1073741824.0",
                "vpfs_host_unstored_bytes 3221225472.0",
                "vpfs_pushed_set_left_seconds{set=\"slurm\"} 270.0",
                "vpfs_peer_reports_total{peer=\"s3\",direction=\"received\"} 2.0",
            ],
        );
        let idle = |line: &&String| line.contains("wait_seconds") && line.contains("write");
        assert_eq!(lines.iter().find(idle), None, "an application that does not write has no histogram of writes");
    }

    #[test]
    fn openmetrics_ends_as_it_must() {
        let lines = lines(status(&["climate"]), Format::OpenMetrics);
        assert_has(&lines, &["# TYPE vpfs_app_data_bytes counter", "# UNIT vpfs_app_data_bytes bytes"]);
        assert_eq!(lines.last().map(String::as_str), Some("# EOF"));
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Prometheus);
    }

    #[test]
    fn a_hostile_name_stays_a_label() {
        let hostile = "a\"} 1\n# EOF\nvpfs_uptime_seconds 9\\";
        for format in [Format::OpenMetrics, Format::Prometheus] {
            let lines = lines(status(&[hostile]), format);
            let escaped = r#"app="a\"} 1\n# EOF\nvpfs_uptime_seconds 9\\""#;
            assert!(lines.iter().any(|line| line.contains(escaped)), "{}", lines.join("\n"));
            let uptime: Vec<_> = lines.iter().filter(|line| line.starts_with("vpfs_uptime_seconds ")).collect();
            assert_eq!(uptime, ["vpfs_uptime_seconds 60.0"]);
        }
    }

    #[test]
    fn others_are_one_series() {
        let mut status = status(&["climate", "uid:1", "uid:2"]);
        for server in &mut status.servers {
            let snapshot = &mut server.snapshot;
            snapshot.apps[1].is_other = true;
            snapshot.others = Some(snapshot.apps[1].clone());
        }
        let lines = lines(status, Format::Prometheus);
        let requests = "vpfs_app_requests_total{server=\"s1\",app=\"";
        let reads = lines.iter().filter(|line| line.starts_with(requests) && line.contains("op=\"read\""));
        let expected =
            ["climate", "uid:2", "(other automatic)"].map(|app| format!("{requests}{app}\",op=\"read\"}} 2.0"));
        assert_eq!(reads.cloned().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn series_of_a_job_say_whose_it_is() {
        let mut status = status(&["climate", "slurm:7"]);
        status.apps[1].charge = Charge { account: Some("physics".into()), user: Some("alice".into()) };
        let job = "server=\"s1\",app=\"slurm:7\",account=\"physics\",user=\"alice\"";
        let lines = lines(status, Format::OpenMetrics);
        let entitled = format!("vpfs_app_entitled_seconds_total{{{job}}} 30.0");
        let reads = format!("vpfs_app_requests_total{{{job},op=\"read\"}} 2");
        assert!(lines.contains(&entitled) && lines.iter().any(|line| line.starts_with(&reads)), "{lines:#?}");
        let is_bucket = |line: &String| line.starts_with("vpfs_app_wait_seconds_bucket") && line.contains(job);
        assert!(lines.iter().any(is_bucket), "{lines:#?}");
        assert!(lines.iter().all(|line| !line.contains("slurm:7") || line.contains(job) || line.contains("s2")));
    }

    #[test]
    fn each_time_is_counted_in_one_bucket() {
        let mut histogram = Histogram::default();
        // Below 128 µs, from there, the longest.
        (histogram.counts[6], histogram.counts[7], histogram.counts[31]) = (1, 2, 3);
        let (buckets, count) = buckets(&histogram);
        let filled: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!((filled, count), (vec![(0.000_128, 1), (0.000_512, 2), (f64::INFINITY, 3)], 6));
    }
}

//! Tables and charts of a comparison.

use std::time::Duration;

use vpfs_config::units::{Rate, Span};
use vpfs_model::Latency;
use vpfs_report::{Axis, Bar, Bars, Plot, Report, Section, Series, Table};
use vpfs_sim::{AppResults, Results, Scenario};

/// The baseline that results are compared with.
pub(super) struct Base<'a> {
    title: String,
    /// Each application and the length of its run.
    apps: Vec<(&'a AppResults, Duration)>,
    /// The results to compare.
    results: &'a [Results],
}

impl<'a> Base<'a> {
    /// Compares all policies with the first of them.
    pub(super) fn first(results: &'a [Results]) -> Option<Self> {
        let (first, results) = results.split_first()?;
        let apps = first.apps.iter().map(|app| (app, first.elapsed)).collect();
        Some(Self { title: first.policy.clone(), apps, results })
    }

    /// Compares all policies with each application alone: `alone` has a run for each application.
    pub(super) fn alone(alone: &'a [Results], results: &'a [Results]) -> Self {
        let apps = alone.iter().flat_map(|run| run.apps.iter().map(|app| (app, run.elapsed))).collect();
        Self { title: "each application alone".into(), apps, results }
    }
}

/// The whole report of a scenario's results, compared with `bases`.
pub(super) fn of(scenario: &Scenario, results: &[Results], bases: &[Base<'_>]) -> Report {
    let servers: u32 = scenario.servers.iter().map(|group| group.count).sum();
    let introduction = format!(
        "Servers: {servers}, applications: {}, seed: {}. Shares, Jain's index and unfairness are of bytes, in the time in which \
         all applications are there.",
        scenario.apps.len(),
        scenario.seed
    );
    let report = Report::new(scenario.name.clone()).introduction(introduction).section(totals(results));
    let report = bases.iter().fold(report, |report, base| report.section(comparison(base)));
    let report = report.section(run_times(results));
    results.iter().fold(report, |report, results| report.section(policy(results)))
}

/// One row for each policy.
fn totals(results: &[Results]) -> Section {
    let table = Table::new([
        "policy",
        "simulated",
        "throughput",
        "metadata/s",
        "Jain",
        "unfairness",
        "device in use",
        "busiest link",
        "sync messages",
    ]);
    let row = |results: &Results| {
        let (from, to) = results.common_time();
        let elapsed = results.elapsed.as_secs_f64().max(1e-9);
        let metadata: u64 = results.apps.iter().map(|app| app.metadata_requests).sum();
        let links = results.servers.iter().flat_map(|server| [server.inward_utilisation, server.outward_utilisation]);
        let busy: f64 = results.servers.iter().map(|server| server.device_utilisation).sum();
        [
            results.policy.clone(),
            span(results.elapsed),
            rate(results.throughput()),
            format!("{:.0}", metadata as f64 / elapsed),
            if has_moved(results) { format!("{:.3}", results.jain_between(from, to)) } else { "-".into() },
            if has_moved(results) { percent(results.unfairness_between(from, to)) } else { "-".into() },
            percent(busy / results.servers.len().max(1) as f64),
            percent(links.fold(0.0, f64::max)),
            results.coordination.as_ref().map_or("none".into(), |traffic| traffic.messages.to_string()),
        ]
    };
    Section::new("Policies").table(results.iter().fold(table, |table, results| table.row(row(results))))
}

/// Whether any application moved data, so that there are shares.
fn has_moved(results: &Results) -> bool {
    let (from, to) = results.common_time();
    results.bytes_between(from, to).iter().any(|&bytes| bytes > 0)
}

/// The effect of each policy on each application, relative to the base.
fn comparison(base: &Base<'_>) -> Section {
    let mut table = Table::new(["application", "policy", "throughput", "run time", "99th percentile of latency"]);
    for results in base.results {
        for (app, &(base, elapsed)) in results.apps.iter().zip(&base.apps) {
            let run_time = |app: &AppResults| app.run_time().map_or(0.0, |time| time.as_secs_f64());
            table = table.row([
                app.name.clone(),
                results.policy.clone(),
                factor(throughput(app, results.elapsed), throughput(base, elapsed)),
                factor(run_time(app), run_time(base)),
                factor(tail(app).as_secs_f64(), tail(base).as_secs_f64()),
            ]);
        }
    }
    Section::new(format!("Relative to {}", base.title)).table(table)
}

/// Run times and tail latencies of all applications under all policies.
fn run_times(results: &[Results]) -> Section {
    let Some(first) = results.first() else { return Section::new("Applications") };
    let names: Vec<&str> = first.apps.iter().map(|app| app.name.as_str()).collect();
    let bars = |title: &str, value: fn(&AppResults) -> f64| {
        let empty = Bars::new(title, Axis::linear(title.to_lowercase(), "s").include(0.0), names.iter().copied());
        results.iter().fold(empty, |bars, results| {
            bars.series(results.policy.clone(), results.apps.iter().map(|app| Bar::new(value(app))))
        })
    };
    let run_time = bars("Run time", |app| app.run_time().map_or(0.0, |time| time.as_secs_f64()));
    let latency = bars("Latency", |app| tail(app).as_secs_f64());
    Section::new("Applications")
        .figure(run_time, "From start to finish; zero for applications that did not finish.")
        .figure(latency, "99th percentile of the calls that it makes most.")
}

/// The section about one policy.
fn policy(results: &Results) -> Section {
    let (from, to) = results.common_time();
    let shares = results.shares_between(from, to);
    let mut table = Table::new(["application", "weight", "share", "throughput", "metadata/s", "run time", "I/O time"]);
    let mut latencies = Table::new(["application", "calls", "number", "mean", "median", "95 %", "99 %", "slowest"]);
    for (app, share) in results.apps.iter().zip(shares) {
        let metadata = app.metadata_requests as f64 / active(app, results.elapsed).as_secs_f64().max(1e-9);
        table = table.row([
            app.name.clone(),
            app.weight.to_string(),
            if has_moved(results) { percent(share) } else { "-".into() },
            rate(throughput(app, results.elapsed)),
            format!("{metadata:.0}"),
            app.run_time().map_or("not finished".into(), span),
            span(app.io_time),
        ]);
        for (calls, latency) in kinds(app) {
            latencies = latencies.row(latency_row(&app.name, calls, latency));
        }
    }
    Section::new(results.policy.clone())
        .table(table)
        .table(latencies)
        .figure(over_time(results), "Bytes served in each interval.")
        .figure(servers(results), "Fraction of the time in which each server's device is busy.")
}

fn latency_row(app: &str, calls: &str, latency: &Latency) -> [String; 8] {
    let time = |seconds: f64| span(Duration::from_secs_f64(seconds));
    [
        app.to_owned(),
        calls.to_owned(),
        latency.count.to_string(),
        time(latency.mean_seconds),
        time(latency.p50_seconds),
        time(latency.p95_seconds),
        time(latency.p99_seconds),
        time(latency.max_seconds),
    ]
}

fn over_time(results: &Results) -> Plot {
    let interval = results.interval.as_secs_f64();
    let axes = (Axis::linear("time", "s"), Axis::linear("throughput", "MB/s").include(0.0));
    let plot = Plot::new(format!("Throughput, {}", results.policy), axes.0, axes.1);
    results.apps.iter().fold(plot, |plot, app| {
        let points = app.bytes_series.iter().enumerate();
        let points = points.map(|(at, &bytes)| ((at + 1) as f64 * interval, bytes as f64 / interval / 1e6));
        plot.series(Series::line(app.name.clone(), points))
    })
}

fn servers(results: &Results) -> Plot {
    let axes = (Axis::linear("server", ""), Axis::linear("utilisation", "%").include(0.0).include(100.0));
    let points = results.servers.iter().enumerate();
    let points = points.map(|(server, results)| (server as f64, results.device_utilisation * 100.0));
    Plot::new(format!("Devices, {}", results.policy), axes.0, axes.1).series(Series::scatter("device", points))
}

/// The kinds of calls that an application makes.
fn kinds(app: &AppResults) -> impl Iterator<Item = (&'static str, &Latency)> {
    let all = [("read", &app.read), ("write", &app.write), ("metadata", &app.metadata)];
    all.into_iter().filter(|(_, latency)| latency.count > 0)
}

/// The 99th percentile of the calls that an application makes most.
fn tail(app: &AppResults) -> Duration {
    let most = kinds(app).map(|(_, latency)| latency).max_by_key(|latency| latency.count);
    most.map_or(Duration::ZERO, |latency| Duration::from_secs_f64(latency.p99_seconds))
}

/// How long an application was present.
fn active(app: &AppResults, elapsed: Duration) -> Duration {
    app.finish.unwrap_or(elapsed).saturating_sub(app.start)
}

fn throughput(app: &AppResults, elapsed: Duration) -> f64 {
    app.bytes() as f64 / active(app, elapsed).as_secs_f64().max(1e-9)
}

fn factor(value: f64, base: f64) -> String {
    if value > 0.0 && base > 0.0 { format!("× {:.2}", value / base) } else { "-".into() }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn span(time: Duration) -> String {
    format!("{:.2}", Span(time))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of a simulated cluster, rounded")]
fn rate(bytes_per_second: f64) -> String {
    format!("{:.1}", Rate(bytes_per_second.round() as u64))
}

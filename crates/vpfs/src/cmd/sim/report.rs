//! Tables and charts of a comparison.

use std::time::Duration;

use vpfs_config::units::{Rate, Span};
use vpfs_model::Latency;
use vpfs_report::{Axis, Bar, Bars, Plot, Report, Section, Series, Table};
use vpfs_sim::{AppResults, Results, Scenario, ServerResults};

/// The baseline that results are compared with.
pub(super) struct Base<'a> {
    title: String,
    /// Each application and its throughput.
    apps: Vec<(&'a AppResults, f64)>,
    /// The results to compare.
    results: &'a [Results],
}

impl<'a> Base<'a> {
    /// Compares all policies with the first of them.
    pub(super) fn first(results: &'a [Results]) -> Option<Self> {
        let (first, results) = results.split_first()?;
        Some(Self { title: first.policy.clone(), apps: rated(first).collect(), results })
    }

    /// Compares all policies with each application alone: `alone` has a run for each application.
    pub(super) fn alone(alone: &'a [Results], results: &'a [Results]) -> Self {
        Self { title: "each application alone".into(), apps: alone.iter().flat_map(rated).collect(), results }
    }
}

fn rated(results: &Results) -> impl Iterator<Item = (&AppResults, f64)> {
    results.apps.iter().map(|app| (app, throughput(app, results)))
}

/// The whole report of a scenario's results, compared with `bases`.
pub(super) fn of(scenario: &Scenario, results: &[Results], bases: &[Base<'_>]) -> Report {
    let servers: u32 = scenario.servers.iter().map(|group| group.count).sum();
    let introduction = format!(
        "Servers: {servers}, applications: {}, seed: {}. Shares, Jain's index and unfairness are of bytes, in the time in which \
         all applications are there; the latter two only if the storage is saturated, that is, if applications get less than \
         they ask for.",
        scenario.apps.len(),
        scenario.seed
    );
    let report = Report::new(scenario.name.clone()).introduction(introduction).section(totals(results));
    let compared = bases.iter().filter(|base| !base.results.is_empty());
    let report = compared.fold(report, |report, base| report.section(comparison(base)));
    let charts = charts(results);
    let report = if charts.charts().next().is_some() { report.section(charts) } else { report };
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
        let is_saturated = unsaturated(results).is_none();
        let elapsed = results.elapsed.as_secs_f64().max(1e-9);
        let metadata: u64 = results.apps.iter().map(|app| app.metadata_requests).sum();
        let links = results.servers.iter().flat_map(|server| [server.inward_utilisation, server.outward_utilisation]);
        let busy: f64 = results.servers.iter().map(|server| server.device_utilisation).sum();
        [
            results.policy.clone(),
            span(results.elapsed),
            rate(results.throughput()),
            format!("{:.0}", metadata as f64 / elapsed),
            if is_saturated { format!("{:.3}", results.jain_between(from, to)) } else { "-".into() },
            if is_saturated { percent(results.unfairness_between(from, to)) } else { "-".into() },
            percent(busy / results.servers.len().max(1) as f64),
            percent(links.fold(0.0, f64::max)),
            results.coordination.as_ref().map_or("none".into(), |traffic| traffic.messages.to_string()),
        ]
    };
    let section = Section::new("Policies").table(results.iter().fold(table, |table, results| table.row(row(results))));
    let reasons = results.iter().filter_map(|results| Some((&results.policy, unsaturated(results)?)));
    reasons.fold(section, |section, (policy, reason)| section.text(format!("No index for {policy}: {reason}.")))
}

/// Of a saturated storage the busiest part is in use for at least this part of the time, unless calls wait longer to be
/// dispatched than in it; and applications compute for at most the rest of theirs: runs have a beginning and an end.
const SATURATED: f64 = 0.9;

/// Why applications would not get more if others got less, so that their shares say nothing about the policy.
fn unsaturated(results: &Results) -> Option<String> {
    if results.apps.len() < 2 || !has_moved(results) {
        return Some("no two applications move data".into());
    }
    let busiest = |of: fn(&ServerResults) -> f64| results.servers.iter().map(of).fold(0.0, f64::max);
    let device = busiest(|server| server.device_utilisation);
    let link = busiest(|server| server.inward_utilisation.max(server.outward_utilisation));
    // A policy that holds requests back leaves the storage idle now and then.
    let is_held = results.apps.iter().any(|app| app.scheduler_time > app.storage_time);
    if device.max(link) < SATURATED && !is_held {
        let (device, link) = (percent(device), percent(link));
        return Some(format!("the busiest device is in use {device} of the time, the busiest link {link}"));
    }
    let computing = |app: &AppResults| app.think_time.as_secs_f64() / results.active(app).as_secs_f64().max(1e-9);
    let modest = results.apps.iter().find(|app| computing(app) > 1.0 - SATURATED)?;
    Some(format!("processes of {} make no calls {} of their time", modest.name, percent(computing(modest).min(1.0))))
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
        for (app, rate) in rated(results) {
            let Some((base, base_rate)) = base.apps.iter().find(|(base, _)| base.name == app.name) else { continue };
            let run_time = |app: &AppResults| app.run_time().map_or(0.0, |time| time.as_secs_f64());
            let latencies = KINDS
                .iter()
                .filter(|(_, of)| of(app).count > 0)
                .map(|(calls, of)| format!("{calls} {}", factor(of(app).p99_seconds, of(base).p99_seconds)));
            table = table.row([
                app.name.clone(),
                results.policy.clone(),
                factor(rate, *base_rate),
                factor(run_time(app), run_time(base)),
                latencies.collect::<Vec<_>>().join(", "),
            ]);
        }
    }
    Section::new(format!("Relative to {}", base.title)).table(table)
}

/// Run times and tail latencies of all applications under all policies, as far as there are any.
fn charts(results: &[Results]) -> Section {
    let section = Section::new("Applications");
    let run_time = bars("Run time", results, |app| app.run_time().map(|time| time.as_secs_f64()));
    let section = match run_time {
        Some(bars) => section.figure(bars, "From start to finish, of applications that finished."),
        None => section,
    };
    let latencies = KINDS.iter().filter_map(|&(calls, of)| {
        let tail = |app: &AppResults| (of(app).count > 0).then(|| of(app).p99_seconds);
        bars(&format!("Latency of {calls} calls"), results, tail)
    });
    latencies.fold(section, |section, bars| section.figure(bars, "99th percentile."))
}

/// A group of bars for each application that has a value under every policy.
fn bars(title: &str, results: &[Results], value: impl Fn(&AppResults) -> Option<f64>) -> Option<Bars> {
    let names = results.first()?.apps.iter().map(|app| app.name.as_str());
    let has_all = |name: &&str| results.iter().all(|results| results.app(name).and_then(&value).is_some());
    let names: Vec<&str> = names.filter(has_all).collect();
    let empty = Bars::new(title, Axis::linear(title.to_lowercase(), "s").include(0.0), names.iter().copied());
    let series = |bars: Bars, results: &Results| {
        let values = names.iter().filter_map(|name| value(results.app(name)?));
        bars.series(results.policy.clone(), values.map(Bar::new))
    };
    (!names.is_empty()).then(|| results.iter().fold(empty, series))
}

/// The section about one policy.
fn policy(results: &Results) -> Section {
    let (from, to) = results.common_time();
    let shares = results.shares_between(from, to);
    let mut table = Table::new(["application", "weight", "share", "throughput", "metadata/s"]);
    let mut times = Table::new([
        "application",
        "run time",
        "computing",
        "for each other",
        "in the scheduler",
        "in the storage",
        "in the network",
    ]);
    let mut latencies = Table::new(["application", "calls", "number", "mean", "median", "95 %", "99 %", "slowest"]);
    for (app, share) in results.apps.iter().zip(shares) {
        let metadata = app.metadata_requests as f64 / results.active(app).as_secs_f64().max(1e-9);
        table = table.row([
            app.name.clone(),
            app.weight.to_string(),
            if has_moved(results) { percent(share) } else { "-".into() },
            rate(throughput(app, results)),
            format!("{metadata:.0}"),
        ]);
        times = times.row(times_row(app, results.active(app)));
        for (calls, of) in KINDS.iter().filter(|(_, of)| of(app).count > 0) {
            latencies = latencies.row(latency_row(&app.name, calls, of(app)));
        }
    }
    let section = Section::new(results.policy.clone()).table(table).table(times).table(latencies);
    let section = match has_moved(results) {
        true => section.figure(over_time(results), "Bytes served in each interval."),
        false => section,
    };
    match results.servers.iter().any(|server| server.device_utilisation > 0.0) {
        true => section.figure(servers(results), "Fraction of the time in which each server's device is busy."),
        false => section,
    }
}

/// What the time of an application was spent on, as the mean of its processes.
fn times_row(app: &AppResults, active: Duration) -> [String; 7] {
    let network = app.io_time.saturating_sub(app.scheduler_time + app.storage_time);
    let others = active.saturating_sub(app.io_time + app.think_time);
    [
        app.name.clone(),
        app.run_time().map_or("not finished".into(), span),
        span(app.think_time.min(active)),
        span(others),
        span(app.scheduler_time),
        span(app.storage_time),
        span(network),
    ]
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

/// The kinds of calls.
type Kind = (&'static str, fn(&AppResults) -> &Latency);
const KINDS: [Kind; 3] = [("read", |app| &app.read), ("write", |app| &app.write), ("metadata", |app| &app.metadata)];

pub(super) fn throughput(app: &AppResults, results: &Results) -> f64 {
    app.bytes() as f64 / results.active(app).as_secs_f64().max(1e-9)
}

fn factor(value: f64, base: f64) -> String {
    if value > 0.0 && base > 0.0 { format!("× {:.2}", value / base) } else { "-".into() }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn span(time: Duration) -> String {
    if time.is_zero() { "-".into() } else { format!("{:.2}", Span(time)) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of a simulated cluster, rounded")]
pub(super) fn rate(bytes_per_second: f64) -> String {
    format!("{:.1}", Rate(bytes_per_second.round() as u64))
}

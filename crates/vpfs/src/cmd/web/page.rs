//! The page: tables and pictures of what the proxies said.

use std::time::Instant;

use vpfs_report::{Axis, Bar, Bars, Plot, Report, Section, Series, Table};

use super::samples::{Sample, Samples};
use crate::cmd::rows::{Row, time};

/// More lines in a picture cannot be told apart.
const LINES: usize = 8;

/// The page, complete in itself.
pub(super) fn html(samples: &Samples) -> String {
    let servers: Vec<&str> =
        samples.statuses.iter().flat_map(|status| &status.servers).map(|server| &*server.server).collect();
    let report = Report::new(format!("vpfs: {}", servers.join(", ")));
    let report = match samples.list.back() {
        None => report.introduction("The first five seconds are being measured."),
        Some(latest) => report
            .introduction(
                "The mean of the last five seconds, over all servers named above; pictures show up to an hour.",
            )
            .section(now(latest))
            .section(over_time(samples)),
    };
    report.section(storage(samples)).section(peers(samples)).section(events(samples)).html()
}

/// Who gets what now.
fn now(latest: &Sample) -> Section {
    let headings =
        ["application", "weight", "due", "got", "MB/s", "requests/s", "wait", "storage", "waiting now", "state"];
    let table = latest.rows.iter().fold(Table::new(headings), |table, row| {
        table.row([
            row.app.clone(),
            row.weight.to_string(),
            percent(row.due),
            percent(row.got),
            format!("{:.1}", row.bytes_per_second / 1e6),
            format!("{:.0}", row.requests_per_second),
            time(row.wait_seconds),
            time(row.storage_seconds),
            row.queued.to_string(),
            row.state.name().to_owned(),
        ])
    });
    let active = || latest.rows.iter().filter(|row| row.due + row.got > 0.0).take(LINES);
    let bars =
        Bars::new("Share of the storage's time", Axis::linear("share", "%"), active().map(|row| row.app.clone()))
            .series("due", active().map(|row| Bar::new((row.due * 100.0).round())))
            .series("got", active().map(|row| Bar::new((row.got * 100.0).round())));
    let caption = "Due: by weight, while it had requests. Got: by its requests in the storage.";
    Section::new("Applications now").table(table).figure(bars, caption)
}

/// Lines of the applications that moved most.
fn over_time(samples: &Samples) -> Section {
    let picture = |title: &str, axis: Axis, value: fn(&Row) -> Option<f64>| {
        let plot = Plot::new(title, Axis::linear("time before now", "min"), axis.include(0.0));
        let end = samples.list.back().map_or_else(Instant::now, |sample| sample.at);
        largest(samples).into_iter().fold(plot, |plot, app| {
            let points = samples.list.iter().filter_map(|sample| {
                let row = sample.rows.iter().find(|row| row.app == app)?;
                Some((-(end - sample.at).as_secs_f64() / 60.0, value(row)?))
            });
            plot.series(Series::line(app, points))
        })
    };
    Section::new("The last hour")
        .figure(picture("Throughput", Axis::linear("throughput", "MB/s"), |row| Some(row.bytes_per_second / 1e6)), "")
        .figure(
            picture("Wait in vpfs", Axis::linear("mean wait", "ms"), |row| Some(row.wait_seconds? * 1e3)),
            "For others that have a right to the storage, or for its own cap.",
        )
        .figure(
            picture("Time in the storage", Axis::linear("mean time", "ms"), |row| Some(row.storage_seconds? * 1e3)),
            "Longer than usual: the storage is slow, or others fill it.",
        )
}

/// The names of the applications that moved most, in the order of their names.
fn largest(samples: &Samples) -> Vec<&str> {
    let mut moved: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for row in samples.list.iter().flat_map(|sample| &sample.rows) {
        *moved.entry(&row.app).or_default() += row.bytes_per_second + row.requests_per_second;
    }
    let mut names: Vec<(&str, f64)> = moved.into_iter().collect();
    names.sort_by(|one, other| other.1.total_cmp(&one.1));
    names.truncate(LINES);
    names.sort_by_key(|(name, _)| *name);
    names.into_iter().map(|(name, _)| name).collect()
}

fn storage(samples: &Samples) -> Section {
    let headings = ["server", "policy", "waiting", "in the storage", "bound", "pace of bulk", "refused connections"];
    let table =
        samples.statuses.iter().flat_map(|status| &status.servers).fold(Table::new(headings), |table, server| {
            table.row([
                server.server.clone(),
                server.policy.clone(),
                server.queued.to_string(),
                server.outstanding.to_string(),
                server.window_seconds.map_or_else(String::new, |seconds| format!("{:.1} ms", seconds * 1e3)),
                server.pace.map_or_else(String::new, percent),
                server.refused_connections.to_string(),
            ])
        });
    Section::new("Servers").table(table)
}

fn peers(samples: &Samples) -> Section {
    let section = Section::new("Peers");
    if samples.peers.is_empty() {
        return section.text("No process of this host has peers.");
    }
    let table = samples.peers.iter().fold(Table::new(["server", "state", "latest report"]), |table, peer| {
        let age = peer.news_age_seconds.map_or_else(|| "none yet".to_owned(), |age| format!("{age:.1} s ago"));
        table.row([peer.server.clone(), (if peer.connected { "up" } else { "absent" }).to_owned(), age])
    });
    section.table(table)
}

fn events(samples: &Samples) -> Section {
    let table = samples.events.iter().fold(Table::new(["time", "level", "what happened"]), |table, event| {
        let fields: String = event.fields.iter().map(|field| format!(" {}={}", field.name, field.value)).collect();
        table.row([event.time.clone(), event.level.clone(), format!("{}{fields}", event.message)])
    });
    Section::new("Events").table(table)
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cmd::rows::tests::status;

    #[test]
    fn the_page_has_what_top_has_and_escapes_it() {
        let (mut samples, start) = (Samples::default(), Instant::now());
        for round in 1..4 {
            let mut status = status("s1", 10 * round);
            status.servers[0].apps[0].app = "<b>climate</b>".to_owned();
            samples.add(start + Duration::from_secs(10) * round, vec![status]);
        }
        assert_eq!(samples.list.len(), 2, "a rate needs two looks");
        let html = html(&samples);
        assert!(
            html.contains("<td>&lt;b&gt;climate&lt;/b&gt;</td><td>2</td><td>50 %</td><td>50 %</td><td>1.0</td>"),
            "{html}"
        );
        assert!(!html.contains("<b>climate") && !html.contains("<script"));
    }

    #[test]
    fn an_hour_is_kept() {
        let (mut samples, start) = (Samples::default(), Instant::now());
        (0..1000).for_each(|round| samples.add(start + Duration::from_secs(5) * round, vec![status("s1", 1 + round)]));
        assert_eq!(samples.list.len(), 721);
    }
}

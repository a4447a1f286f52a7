//! The page: tables and pictures of what the proxies said.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use vpfs_admin::api::Work;
use vpfs_report::{Axis, Bar, Bars, Plot, Report, Section, Series, Table, Tone};

use super::samples::Samples;
use crate::cmd::rows::{Glance, Row};
use crate::cmd::verdict::Level;
use crate::cmd::why::Matrix;
use crate::print::{clock_time, mean_time, percent, plain};

/// More lines in a picture cannot be told apart.
const LINES: usize = 8;

/// The page, complete in itself.
pub(super) fn html(samples: &Samples) -> String {
    let servers: Vec<&str> =
        samples.statuses.iter().flat_map(|status| &status.servers).map(|server| &*server.server).collect();
    let report = Report::new(format!("vpfs: {}", servers.join(", ")));
    let report = match samples.list.back() {
        None => report.introduction("The first five seconds are being measured."),
        Some(latest) => {
            let verdict = &samples.glance.verdict;
            let seconds = latest.seconds;
            report
                .headline(tone(verdict.level), verdict.text())
                .introduction(format!("At {} UTC, over the {seconds:.0} s before.", clock_time(latest.at)))
                .section(now(&samples.glance))
                .section(waits(&samples.matrix))
        }
    };
    report.section(over_time(samples)).section(storage(samples)).section(peers(samples)).section(events(samples)).html()
}

const fn tone(level: Level) -> Tone {
    match level {
        Level::Good => Tone::Good,
        Level::Slowed => Tone::Fair,
        Level::Below => Tone::Bad,
    }
}

/// Who gets what now.
fn now(glance: &Glance) -> Section {
    let headings = ["application", "note", "weight", "MB/s", "ops/s", "used", "entitled", "wait", "storage", "why"];
    let cells = |row: &Row, why: String| {
        let [wait, storage] = [row.wait_seconds, row.storage_seconds].map(mean_time);
        [
            row.app.clone(),
            sign(row).to_owned(),
            row.weight.map_or_else(String::new, |weight| weight.to_string()),
            format!("{:.1}", row.bytes_per_second / 1e6),
            format!("{:.0}", row.requests_per_second),
            percent(row.used),
            row.entitled(),
            wait,
            storage,
            why,
        ]
    };
    let Glance { total, apps, .. } = glance;
    let table = apps.iter().fold(Table::new(headings), |table, row| table.row(cells(row, row.why())));
    let active = || apps.iter().filter(|row| row.used + row.entitled > 0.0).take(LINES);
    let bars =
        Bars::new("Share of the storage's time", Axis::linear("share", "%"), active().map(|row| row.app.clone()))
            .series("used", active().map(|row| Bar::new((row.used * 100.0).round())))
            .series("entitled", active().map(|row| Bar::new((row.entitled * 100.0).round())));
    Section::new("Applications now").table(table.row(cells(total, String::new()))).figure(
        bars,
        "Used: the part of the storage's time that it used; the total is the utilisation. Entitled: what its weight gives \
         it among those that ask now. Wait: in vpfs, storage: in the storage, means for each request.",
    )
}

fn sign(row: &Row) -> &'static str {
    match row.sign() {
        '!' => "! below",
        '~' => "~ slowed",
        _ => "",
    }
}

/// Who waits for whom now.
fn waits(matrix: &Matrix) -> Section {
    let section = Section::new("Who waits for whom");
    if matrix.rows.is_empty() {
        return section.text("No application has requests.");
    }
    let table = matrix.rows.iter().fold(Table::new(matrix.header.clone()), |table, row| table.row(row.clone()));
    section.table(table).text(
        "Of the time of a row's requests: the part in which they waited, in vpfs or in the storage, behind the \
         application of the column; were held by rules alone (a cap, a pace); were in storage that is slower than at \
         best; waited for a processor of the proxy's host; and were in the storage as at best. vpfs why says the same of one application in words.",
    )
}

/// Sums and lines of the applications that moved most.
fn over_time(samples: &Samples) -> Section {
    let sums = sums(samples);
    let picture = |title: &str, axis: Axis, value: fn(&Work, f64) -> Option<f64>| {
        let plot = Plot::new(title, Axis::linear("time before now", "min"), axis.include(0.0));
        let end = samples.list.back().map_or(0, |moment| moment.at);
        largest(&sums).into_iter().fold(plot, |plot, app| {
            let points = samples.list.iter().filter_map(|moment| {
                let did = moment.did.get(app).copied().unwrap_or_default();
                Some((-(end.saturating_sub(moment.at) as f64) / 60.0, value(&did, moment.seconds)?))
            });
            plot.series(Series::line(plain(app), points))
        })
    };
    Section::new("The last hour")
        .table(hour(&sums))
        .figure(
            picture("Throughput", Axis::linear("throughput", "MB/s"), |did, seconds| {
                (seconds > 0.0).then(|| did.bytes as f64 / 1e6 / seconds)
            }),
            "",
        )
        .figure(
            picture("Wait in vpfs", Axis::linear("mean wait", "ms"), |did, _| Some(did.mean(did.wait_seconds)? * 1e3)),
            "For others that have a right to the storage, or for its own cap.",
        )
        .figure(
            picture("Time in the storage", Axis::linear("mean time", "ms"), |did, _| {
                Some(did.mean(did.storage_seconds)? * 1e3)
            }),
            "Longer than usual: the storage is slow, or others fill it.",
        )
}

/// The same as numbers, over all of that time.
fn hour(sums: &BTreeMap<&str, Work>) -> Table {
    let table = Table::new(["application", "moved [MB]", "requests", "mean wait", "mean time in the storage"]);
    sums.iter().fold(table, |table, (app, sum)| {
        table.row([
            plain(app),
            format!("{:.1}", sum.bytes as f64 / 1e6),
            sum.requests.to_string(),
            mean_time(sum.mean(sum.wait_seconds)),
            mean_time(sum.mean(sum.storage_seconds)),
        ])
    })
}

fn sums(samples: &Samples) -> BTreeMap<&str, Work> {
    let mut sums = BTreeMap::<&str, Work>::new();
    let all = samples.list.iter().flat_map(|moment| &moment.did);
    all.for_each(|(app, did)| sums.entry(app).or_default().add(did));
    sums
}

/// The names of the applications that moved most, in the order of their names.
fn largest<'a>(sums: &BTreeMap<&'a str, Work>) -> Vec<&'a str> {
    let mut names: Vec<&str> = sums.keys().copied().collect();
    names.sort_by_key(|name| Reverse(sums[name].bytes + sums[name].requests));
    names.truncate(LINES);
    names.sort_unstable();
    names
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::rows::tests::status;
    use crate::cmd::why::bare_cells;

    #[test]
    fn the_page_has_what_top_has_and_escapes_it() {
        let mut samples = Samples::default();
        for round in 1..4 {
            let mut status = status("s1", 10 * round);
            status.servers[0].apps[0].app = "<b>climate</b>".to_owned();
            samples.add(u64::from(10 * round), vec![status]);
        }
        assert_eq!(samples.list.len(), 2, "a rate needs two looks");
        let html = html(&samples);
        let first =
            "<p class=\"headline good\">OK: The storage is in use (50%). No application waits long for another. ";
        assert!(html.contains(first) && html.contains("At 1970-01-01 00:00:30 UTC, over the 10 s before."), "{html}");
        let html = bare_cells(&html);
        let climate =
            "<td>&lt;b&gt;climate&lt;/b&gt;</td><td></td><td>2</td><td>1.0</td><td>1</td><td>50%</td><td>100%</td>";
        let total = "<td>total</td><td></td><td></td><td>1.0</td><td>1</td><td>50%</td><td>100%</td>";
        assert!(html.contains(climate) && html.contains(total), "{html}");
        // Twenty requests in twenty seconds, which the storage served as at best for all that is known.
        let hour = "<td>&lt;b&gt;climate&lt;/b&gt;</td><td>21.0</td><td>20</td><td>500ms</td><td>250ms</td>";
        let waits = "<td>&lt;b&gt;climate&lt;/b&gt;</td><td>0%</td><td>0%</td><td>0%</td><td>0%</td><td>100%</td>";
        assert!(html.contains(hour) && html.contains(waits), "{html}");
        assert!(!html.contains("<b>climate") && !html.contains("<script"));
    }
}
